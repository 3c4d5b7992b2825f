"""Which packages an installation carries: all of them from a checkout (`pip install -e`), in a wheel `harness` alone.

A wheel with all would bring a top-level package `datasets` into environments where another one of that name lives.
"""

import sys

from setuptools import find_packages, setup

CHECKOUT = ["datasets*", "pipelines*", "harness*", "tabular_cache*", "analysis*", "configs*"]
editable = "bdist_wheel" not in sys.argv

setup(
    packages=find_packages(include=CHECKOUT if editable else ["harness*"]),
    # what `finish:` of a data set's file names: harness itself knows nothing of the packages after it
    entry_points={"harness.finish": ["best = analysis.best:finish"]} if editable else {},
)
