"""Standard output whose reader leaves early, as `| head` does: a command then ends without a word, with code 1."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Exit with code 1 where nobody reads standard output any more; another broken pipe is raised as it is."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        if not _unread(sys.stdout.fileno()):  # a worker's pipe, say: not for whoever reads us to end
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be flushed
        raise SystemExit(1) from None


def _unread(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, 0)  # errors are told of without asking
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
