"""How the executors close."""

from concurrent.futures import Executor
from types import TracebackType


class HastyExecutor(Executor):
    """An executor that after an exception, Ctrl-C among them, closes without waiting for what is running."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; wait only after success."""
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)
