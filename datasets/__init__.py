"""The data sets of the study: `load(name)` finds, verifies and parses one, `split(name)` divides its rows.

Importing this package is light: pandas and the download clients are imported by the calls that need them. It limits
the numerical libraries of the process to one thread, so every package of this project imports it first.
"""

import os
import sys

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def pin_blas() -> None:
    """Limit the numerical libraries of this process, and of those it starts, to one thread.

    The small matrices of a Gaussian process run many times slower with two threads than with one, and a
    training's cost is only comparable when it had exactly one thread.
    """
    for variable in _VARIABLES:
        os.environ[variable] = "1"
    if "numpy" in sys.modules:  # too late for the environment: tell the loaded libraries
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)


pin_blas()  # before numpy is imported anywhere

from datasets.catalogue import Dataset, names  # noqa: E402
from datasets.files import resolve_folders  # noqa: E402
from datasets.loading import Split, load, split  # noqa: E402

resolve_folders()

__all__ = ["Dataset", "Split", "load", "names", "pin_blas", "split"]
