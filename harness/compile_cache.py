"""Compiled functions: one target for every machine, and one place where each is kept, so that it is compiled once.

harness/README.md says what users see of it. numba compiles for the processor that it finds, which decides how sums are
associated: the last digits of a trace would depend on the machine. So the target is fixed, before numba is imported.

Functions are declared with `njit` from here, never with numba's own, and kept in

    harness/__pycache__/compiled-<digest>/<function>-<digest of signature and source>.bin

The sources in the folder's digest are found by looking: the modules that take `njit` from here, and those that they
take constants from. A file also depends on the content of the function's own module, so that functions outside this
package can be kept here too. Each file appears whole, under a name of its own; numba's own index files lose entries
when several processes compile, or name the code of another signature.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import pickle
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

# The target.

TARGET = "x86-64-v3"
FEATURES = (
    "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,"
    "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave,-avx512f"
)
_NAME, _FEATURES, _SVML = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DISABLE_INTEL_SVML"
_USUAL = {"OPT": 3, "LOOP_VECTORIZE": 1, "SLP_VECTORIZE": 0, "BOUNDSCHECK": None}  # other settings change the code too


def has_target() -> bool:
    """Say whether this processor has all of FEATURES, as LLVM finds it."""
    from llvmlite import binding

    try:
        found = binding.get_host_cpu_features()
    except RuntimeError:  # a system where LLVM cannot tell
        return False
    return all(found.get(name[1:], False) for name in FEATURES.split(",") if name.startswith("+"))


def _set_up() -> None:
    """Choose the target of this process and of those that it starts."""
    if "numba" in sys.modules and _has_compiled():  # workers, on the same study, compile for the same
        os.environ[_NAME], os.environ[_FEATURES] = _effective()
        os.environ[_SVML] = str(int(not numba_config().USING_SVML))
        return
    os.environ.setdefault(_SVML, "1")
    if not (os.environ.get(_NAME) or os.environ.get(_FEATURES)) and has_target():
        os.environ.update({_NAME: TARGET, _FEATURES: FEATURES})
    if "numba" in sys.modules:
        numba_config().reload_config()


def _has_compiled() -> bool:
    """Say whether numba, imported before us, can no longer be set up: LLVM is configured when first used."""
    from numba.core.registry import cpu_target

    return "_toplevel_target_context" in vars(cpu_target) or bool(numba_config().USING_SVML)


def numba_config() -> Any:  # its settings are made when it is imported, and so unknown to type checkers
    """Return the settings of numba."""
    from numba import config

    return config


def _effective() -> tuple[str, str]:
    """Return name and features of the processor that numba compiles for."""
    from llvmlite import binding
    from numba.core.codegen import get_host_cpu_features

    config = numba_config()
    name = binding.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME
    return str(name), str(get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES)


_set_up()

import llvmlite  # noqa: E402  # from here on numba compiles for the target
import numba  # noqa: E402
import numpy as np  # noqa: E402
import platformdirs  # noqa: E402
from numba import njit as _njit  # noqa: E402
from numba import types  # noqa: E402
from numba.core import cgutils, event  # noqa: E402
from numba.core.caching import CompileResultCacheImpl, FunctionCache  # noqa: E402
from numba.core.serialize import dumps  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = ["FEATURES", "TARGET", "cgutils", "compiled", "has_target", "intrinsic", "njit", "numba_config", "spent_s",
           "target", "types"]  # fmt: skip


@functools.cache
def target() -> str:
    """Return what this process compiles for: TARGET; elsewhere the processor's name, and what else makes a difference.

    Features are given by a part of their digest, since a virtual machine may hide some of a processor's.
    """
    config = numba_config()
    if config.DISABLE_JIT:
        return "interpreted"
    name, features = _effective()
    if (name, features) != (TARGET, FEATURES):
        ordered = ",".join(sorted(features.split(",")))
        name = f"{name}-{hashlib.sha256(ordered.encode()).hexdigest()[:8]}"
    more = [f"{key.lower()}={value}" for key, usual in _USUAL.items() if (value := _setting(key)) != usual]
    return "+".join([name, *(["svml"] if config.USING_SVML else []), *more])


def _setting(key: str) -> Any:
    value = getattr(numba_config(), key)
    if getattr(value, "is_opt_max", False):
        return "max"
    return int(value) if isinstance(value, int) else value


# Where compiled functions are kept.

HERE = Path(__file__).absolute().parent
FORMAT = 1  # of the files; raise it when they are written otherwise
KEPT = 3  # folders of other digests, the last used: branches are changed to and fro
NOTICE = "compiling, once on this machine, about a minute"
_PREFIX, _LOCK, _REPORTED = "compiled-", "lock", "reported"
_REPORTED_S = 600.0  # seconds in which the notice is not repeated, whichever process gave it
_PATIENCE_S = 300.0  # for another process that is compiling a function
_BYTES = 1 << 30  # of the lock's file, which need not exist
_USES = re.compile(r"^from harness\.compile_cache import (\([^)]*)?.*\b(njit|intrinsic)\b", re.MULTILINE)
_TAKES = re.compile(r"^from harness\.([\w.]+) import (\([^)]*\)|.*)$", re.MULTILINE)
_CONSTANT = re.compile(r"\b_?[A-Z][A-Z0-9_]+\b")


def sources(root: Path = HERE) -> list[Path]:
    """Return the files that compiled functions in the package at `root` are made of, sorted."""
    texts = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    waiting, found = [path for path, text in texts.items() if _USES.search(text)], set[Path]()
    while waiting:
        path = waiting.pop()
        found.add(path)
        for module, names in _TAKES.findall(texts[path]):
            other = root / f"{module.replace('.', '/')}.py"
            if other in texts and other not in found and _CONSTANT.search(names):
                waiting.append(other)
    return sorted(found)


def digest(root: Path, made_for: str) -> str:
    """Return what names the folder of functions compiled of the package at `root` for the target `made_for`."""
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)
    whole = hashlib.sha256(repr((FORMAT, versions, made_for)).encode())
    for path in sources(root):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return whole.hexdigest()[:16]


class Folder:
    """The folder of one digest, made when it is first needed; `parent` holds those of others too."""

    def __init__(self, parent: Path, digest: str) -> None:
        self.path = parent / f"{_PREFIX}{digest}"
        self._lock: IO[bytes] | None = None

    def open(self) -> None:
        """Make sure that the folder is there, and note that it is used; raises OSError if it cannot be made."""
        made = not self.path.is_dir()
        if made or self._lock is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / _LOCK).open("a+b")
            os.utime(self._lock.fileno())
        if made:
            prune(self.path)

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until no other process compiles the function of this file; it then waits for us, if it wants it.

        The lock is of one byte of one file: `filelock` would leave a file behind for every function.
        """
        assert self._lock is not None
        byte = int(hashlib.sha256(name.encode()).hexdigest(), 16) % _BYTES
        gives_up = time.monotonic() + _PATIENCE_S
        with contextlib.suppress(OSError):  # a file system without locks
            while time.monotonic() < gives_up:
                with contextlib.suppress(BlockingIOError, PermissionError):
                    fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
                    break
                time.sleep(0.02)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, byte)

    def announce(self) -> None:
        """Say that something is being compiled, unless this or another process said so just now."""
        mark = self.path / _REPORTED
        with contextlib.suppress(OSError):
            if mark.exists() and time.time() - mark.stat().st_mtime < _REPORTED_S:
                return
            mark.touch()
        print(NOTICE, file=sys.stderr, flush=True)


def prune(path: Path) -> list[Path]:
    """Remove the folders beside `path`, but for the KEPT last used; return those removed.

    A process that still uses one of them compiles again what it needs next.
    """
    others = [other for other in path.parent.glob(f"{_PREFIX}*") if other != path and (other / _LOCK).is_file()]
    old = sorted(others, key=lambda folder: (folder / _LOCK).stat().st_mtime, reverse=True)[KEPT:]
    for other in old:
        shutil.rmtree(other, ignore_errors=True)
    return old


@functools.cache
def folder() -> Folder:
    """Return the folder of this process's compiled functions."""
    beside = HERE / "__pycache__"
    if named := getattr(numba.config, "CACHE_DIR", ""):
        parent = Path(named)
    elif os.access(beside if beside.is_dir() else HERE, os.W_OK):
        parent = beside
    else:
        own = os.environ.get("COST_AWARE_BO_CACHE") or platformdirs.user_cache_dir("cost-aware-bo", appauthor=False)
        parent = Path(own).absolute() / "compiled"
    return Folder(parent, digest(HERE, target()))


class _Place:
    """What numba asks of a place for the code of one function; its file is the stamp, by content and not by date."""

    def __init__(self, file: str) -> None:
        self._py_file = file  # numba's warnings name it

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Place | None":
        return cls(py_file) if Path(py_file).is_file() else None

    def ensure_cache_path(self) -> None:
        """Do nothing: the folder is made when it is needed."""

    def get_cache_path(self) -> str:
        return str(folder().path)

    def get_source_stamp(self) -> str:
        return hashlib.sha256(Path(self._py_file).read_bytes()).hexdigest()

    def get_disambiguator(self) -> str:
        return ""


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar[list[Any]] = [_Place, *CompileResultCacheImpl._locator_classes]  # type: ignore[misc]


class _Files:
    """The code of one function: a file per signature and target, sealed by its SHA-256."""

    def __init__(self, name: str, stamp: str) -> None:
        self._name, self._stamp = re.sub(r"[^\w.]+", "_", name), stamp

    def path(self, key: Any) -> Path:
        """Return where the code lies that numba knows by `key`: signature, target, byte code."""
        named = hashlib.sha256(repr((self._stamp, key)).encode()).hexdigest()[:16]
        return folder().path / f"{self._name}-{named}.bin"

    def load(self, key: Any) -> Any:
        """Return the compiled function, None where there is none, or only a damaged file."""
        try:
            content = self.path(key).read_bytes()
        except OSError:
            return None
        seal, packed = content[:32], content[32:]
        return pickle.loads(packed) if hashlib.sha256(packed).digest() == seal else None

    def save(self, key: Any, data: Any) -> None:
        """Keep a compiled function; where that is impossible, it is compiled again by the next process."""
        packed = dumps(data)
        try:
            with tempfile.TemporaryDirectory(dir=folder().path, prefix=".") as unfinished:
                file = Path(unfinished) / "code"
                file.write_bytes(hashlib.sha256(packed).digest() + packed)
                file.replace(self.path(key))
        except OSError as error:
            _complain(str(error.strerror))


def _usable() -> bool:
    """Open the folder; say so, once, where nothing can be written."""
    try:
        folder().open()
    except OSError as error:
        if not folder().path.is_dir():
            _complain(str(error.strerror))
        return False
    return True


@functools.cache
def _complain(why: str) -> None:
    print(f"compiled functions cannot be kept in {folder().path}: {why}", file=sys.stderr)


class CompileCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, kept in `folder()`; NUMBA_CACHE_LOCATOR_CLASSES puts numba's own in its place."""

    _impl_class = _Impl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        self._compiling: dict[Any, contextlib.ExitStack] = {}
        self._files: _Files | None = None
        if isinstance(self._impl.locator, _Place):
            name = f"{py_func.__module__}.{py_func.__qualname__}"
            self._cache_file: Any = _Files(name, self._impl.locator.get_source_stamp())
            self._files = self._cache_file

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is kept; None if nothing is, and then the function is ours to compile."""
        with _clock.running():
            usable = self._files is not None and _usable()
            found = super().load_overload(sig, target_context)
            if found is not None or self._files is None:
                return found
            if usable:
                key = self._index_key(sig, target_context.codegen())
                with contextlib.ExitStack() as lock:
                    lock.enter_context(folder().alone(self._files.path(key).name))
                    if (found := super().load_overload(sig, target_context)) is not None:  # by whom we waited for
                        return found
                    self._compiling[sig] = lock.pop_all()
            folder().announce()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, and let those go on who wait for it."""
        with _clock.running(), self._compiling.pop(sig, contextlib.ExitStack()):
            super().save_overload(sig, data)


class _Clock(event.Listener):  # type: ignore[misc]
    """Counts the seconds in which functions are compiled, loaded or stored, and the functions compiled, per thread.

    numba tells it of every compilation, of functions declared elsewhere too.
    """

    def __init__(self) -> None:
        self._own = threading.local()

    def state(self) -> Any:
        if not hasattr(self._own, "spent_s"):
            self._own.spent_s, self._own.compiled, self._own.depth, self._own.began = 0.0, 0, 0, 0.0
        return self._own

    def on_start(self, event: Any) -> None:
        """Begin to compile, perhaps what another function, being compiled, has inside it."""
        state = self.state()
        if not state.depth:
            state.began = time.perf_counter()
        state.depth += 1

    def on_end(self, event: Any) -> None:
        """Have compiled, or failed to."""
        state = self.state()
        state.depth -= 1
        state.compiled += event is not None
        if not state.depth:
            state.spent_s += time.perf_counter() - state.began

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.on_start(None)
        try:
            yield
        finally:
            self.on_end(None)


_clock = _Clock()
event.register("numba:compile", _clock)


def spent_s() -> float:
    """Return the seconds that this thread has spent so far with compiling functions, or loading what is kept."""
    return float(_clock.state().spent_s)


def clock_s() -> float:
    """Return the time in seconds, by a clock that stands still while this thread compiles or loads functions."""
    return time.perf_counter() - spent_s()


def compiled() -> int:
    """Return how many functions (counted once per signature) this thread has compiled so far."""
    return int(_clock.state().compiled)


def njit(function: Callable[..., Any] | None = None, *, cache: bool = False, **options: Any) -> Any:
    """Compile `function` as `numba.njit` does, with the same options; `cache=True` keeps it by this project's rule."""
    if function is None:
        return lambda declared: njit(declared, cache=cache, **options)
    made = _njit(**options)(function)
    if cache and not numba_config().DISABLE_JIT:
        made._cache = CompileCache(function)  # where `numba.njit(cache=True)` puts its own
    return made
