"""Which packages an installation carries: all of them from a checkout (`pip install -e`), in a wheel `harness` alone.

A wheel with all would bring a top-level package `datasets` into environments where another one of that name lives.
"""

import shutil
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

CHECKOUT = ["datasets*", "pipelines*", "harness*", "tabular_cache*", "analysis*", "configs*"]
# Folders of configs that `CostAwareSampler` takes names from.
NAMED = ("acq", "utility", "cost_model", "surrogate", "curves")
editable = "bdist_wheel" not in sys.argv


class WithConfigs(build_py):
    """Puts a copy of these folders into the wheel's `harness`, where `harness.interop.components` finds it."""

    def run(self) -> None:
        """Build the packages, then copy."""
        super().run()
        for folder in () if editable else NAMED:
            target = Path(self.build_lib, "harness", "_configs", folder)
            shutil.copytree(Path("configs", folder), target, ignore=shutil.ignore_patterns("__*"), dirs_exist_ok=True)


setup(
    cmdclass={"build_py": WithConfigs},
    packages=find_packages(include=CHECKOUT if editable else ["harness*"]),
    # what `finish:` of a data set's file names: harness itself knows nothing of the packages after it
    entry_points={"harness.finish": ["best = analysis.best:finish"]} if editable else {},
)
