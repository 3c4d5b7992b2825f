"""Progress of long work: a bar on a terminal, a line every half minute elsewhere; numbers and times in words."""

import sys
import time
from types import TracebackType

_EVERY_S = 30.0


def plural(n: int, noun: str, many: str = "") -> str:
    """Return a number with its noun: 1 run, 1,200 runs; many: the noun of other numbers than 1 that takes no mere s."""
    return f"{n:,} {noun if n == 1 else many or noun + 's'}"


def duration(seconds: float) -> str:
    """Return seconds as people read them: 42 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Progress:
    """Counts finished units of work and says how many are left and for how long.

    The time left is the caller's estimate where it has one, else by the rate since the first units were done, one by
    each of the `at_once` that are worked on together: what came before that is also starting up. Until then, it is not
    said.
    """

    def __init__(self, total: int, unit: str, label: str = "", at_once: int = 1) -> None:
        self.total, self.unit, self.label = total, unit, label
        self.done = 0
        self._first, self._last = (max(1, at_once), time.monotonic()), time.monotonic()
        self._bar = self._make_bar() if sys.stderr.isatty() else None

    def _make_bar(self):  # type: ignore[no-untyped-def]  # rich is imported only where it shows
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        bar = RichProgress(*columns, console=Console(stderr=True))
        self._task = bar.add_task(self.label or self.unit, total=self.total, left="")
        return bar

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, left_s: float | None = None, note: str = "") -> None:
        """Count one more finished unit."""
        self.done += 1
        now = time.monotonic()
        left = self._left(now) if left_s is None else f"{duration(left_s)} left"
        if self._bar is not None:
            self._bar.update(self._task, advance=1, left=f"{left} {note}".strip())
        elif now - self._last >= _EVERY_S or self.done == self.total:
            self._last = now
            text = f"{self.label} {self.done}/{self.total} {self.unit}{', ' * bool(left)}{left} {note}".strip()
            print(text, file=sys.stderr, flush=True)

    def _left(self, now: float) -> str:
        count, since = self._first
        if self.done <= count:
            self._first = count, now
            return "0 s left" if self.done == self.total else ""
        return f"{duration((now - since) / (self.done - count) * (self.total - self.done))} left"
