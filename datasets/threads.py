"""One BLAS/OpenMP thread per process: parallelism in this project is across processes."""

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
