"""The feature pipelines: `build(name)` makes one, `prepare(dataset, name)` gives what XGBoost trains on.

The study's recipes are the functions of `pipelines.recipes`. Another one is a module of this package with a function
``build()``, or a module of another package, named by its dotted name (and one YAML for the command line). Importing
this package is light: scikit-learn and pandas are imported by the calls that need them.
"""

import importlib
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any


def _refuse_foreign_datasets() -> None:
    """Say in one line that `datasets` is another project's package (Hugging Face has one), if it is."""
    spec = importlib.util.find_spec("datasets")
    found = str(spec and spec.origin)
    if Path(found).with_name("catalogue.py").is_file():
        return
    own = Path(__file__).resolve().parents[1]
    line = f"the package `datasets` is {found}, not that of this project: start from {own}, or uninstall the other one"
    if sys.argv[:1] == ["-m"]:  # `python -m` imports the package of a command
        print(f"error: {line}", file=sys.stderr)
        raise SystemExit(2)
    raise ImportError(line)


_refuse_foreign_datasets()

from datasets.errors import BadInput, user_errors  # noqa: E402 - the package limits BLAS to one thread

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from datasets.catalogue import Dataset
    from pipelines.prepared import Prepared

CALLERS = {Path(__file__).resolve().with_name(f"{name}.py") for name in ("__init__", "prepared")}  # of recipes

__all__ = ["BadInput", "Prepared", "all_names", "build", "names", "prepare"]


@cache
def names() -> tuple[str, ...]:
    """Return the names of the study's pipelines, those in `pipelines.recipes`, in its order."""
    text = Path(__file__).with_name("recipes.py").read_text(encoding="utf-8")
    return tuple(re.findall(r"^def ([a-z]\w*)\(\) -> Pipeline:$", text, re.MULTILINE))


@cache
def all_names() -> tuple[str, ...]:
    """Return the names of all pipelines here: the study's, then those that are run only where they are named."""
    modules = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    return (*names(), *(p.stem for p in modules if re.search(r"^def build\(", p.read_text(encoding="utf-8"), re.M)))


def module_name(name: str) -> str:
    """Return the module of the pipeline `name`: one of `all_names()`, or itself if it is a dotted module name.

    Raises BadInput for any other name.
    """
    if name in all_names():
        return f"{__name__}.{'recipes' if name in names() else name}"
    if "." in name and all(part.isidentifier() for part in name.split(".")):
        return name
    raise BadInput(f"unknown pipeline {name!r}; known are: {', '.join(all_names())}; or package.module of your own")


def build(name: str) -> "Pipeline":
    """Return the pipeline `name`, unfitted; ``fit(X, y)`` takes a DataFrame and an array of targets.

    Real targets mean regression, integer codes 0..K-1 classification.

    Raises BadInput for an unknown name, or a module of the user's own that cannot be imported, or whose `build` is
    absent, fails or gives anything else.
    """
    module = module_name(name)
    with user_errors(f"pipeline {name!r}", CALLERS):
        recipe = getattr(importlib.import_module(module), name if name in names() else "build", None)
        if not callable(recipe):
            raise BadInput(f"module {module} has no function build()")
        made = recipe()
        from sklearn.pipeline import Pipeline

        if not isinstance(made, Pipeline):
            raise BadInput(f"build() must return a Pipeline of scikit-learn, got {type(made).__name__}")
    return made


def prepare(dataset: "str | Dataset", pipeline: str, split_seed: int = 0, cache: bool = True) -> "Prepared":
    """Return the matrices and labels XGBoost sees; see `pipelines.prepared.prepare`."""
    from pipelines import prepared

    return prepared.prepare(dataset, pipeline, split_seed, cache)


def __getattr__(name: str) -> Any:
    if name == "Prepared":
        from pipelines.prepared import Prepared

        return Prepared
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
