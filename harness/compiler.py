"""The compiler of the inner loops: numba, set up so that every x86-64-v3 processor runs the same machine code.

numba compiles for the processor that it finds, and what it finds decides how sums are associated: the last digits of a
trace would depend on the machine. So the target is fixed, before numba is imported: x86-64-v3 (AVX2 and FMA, every
server since 2015), without Intel's vector mathematics, which numba would use where it happens to be installed. An older
processor, or one that is no x86, keeps its own target. NUMBA_CPU_NAME and NUMBA_CPU_FEATURES win over ours if they are
set, and so does a process that has compiled something before: records say what they were computed with (`target`).

Compiled functions are declared with `njit` of `harness.compile_cache`, which keeps them, never with numba's own.
"""

import hashlib
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

TARGET = "x86-64-v3"
FEATURES = (
    "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,"
    "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave,-avx512f"
)
_NAME, _FEATURES, _SVML = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_DISABLE_INTEL_SVML"
_NEEDED = {  # what x86-64-v3 has beyond the first x86-64, as Linux calls it
    *("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"),
    *("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
}
_USUAL = {"OPT": 3, "LOOP_VECTORIZE": 1, "SLP_VECTORIZE": 0, "BOUNDSCHECK": None}  # other settings change the code too


def has_target(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Say whether this processor is an x86-64-v3, as Linux describes it; elsewhere than on Linux the answer is no."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return False
    return set(flags.partition(":")[2].split()) >= _NEEDED


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

from numba import types  # noqa: E402  # from here on numba compiles for the target
from numba.core import cgutils  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = ["FEATURES", "TARGET", "cgutils", "has_target", "intrinsic", "numba_config", "target", "types"]


@cache
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
