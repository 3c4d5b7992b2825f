"""The feature pipelines: `build(name)` makes one, `prepare(dataset, name)` gives what XGBoost trains on.

A recipe is a module of this package with a line ``PLACE = <place in the study's list>`` and a ``build()``;
the scan below finds it, so a new pipeline is one Python file (and one YAML for the command line). A recipe
of another package is named by its dotted module name. Importing this package is light: scikit-learn and
pandas are imported by the calls that need them.
"""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.errors import BadInput
from datasets.threads import pin_blas
from pipelines.mistakes import told

pin_blas()  # before numpy is imported anywhere

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from datasets import Dataset
    from pipelines.prepared import Prepared

__all__ = ["BadInput", "Prepared", "build", "names", "prepare", "recipes"]


@cache
def names() -> tuple[str, ...]:
    """Return the names of the study's pipelines, those with a line `PLACE = n`, in its order."""
    places = {}
    for path in Path(__file__).parent.glob("*.py"):
        if match := re.search(r"^PLACE = (\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[path.stem] = int(match[1])
    return tuple(sorted(places, key=lambda name: (places[name], name)))


@cache
def recipes() -> tuple[str, ...]:
    """Return the names of all pipelines here: the study's, then those that are run only where they are named."""
    here = sorted(p for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("_"))
    built = [p.stem for p in here if re.search(r"^def build\(", p.read_text(encoding="utf-8"), re.MULTILINE)]
    return (*names(), *(name for name in built if name not in names()))


def module_name(name: str) -> str:
    """Return the module of the pipeline `name`: one of `recipes()`, or itself if it is a dotted module name.

    Raises BadInput for any other name.
    """
    if name in recipes():
        return f"{__name__}.{name}"
    if "." in name and all(part.isidentifier() for part in name.split(".")):
        return name
    raise BadInput(f"unknown pipeline {name!r}; known are: {', '.join(recipes())}; or package.module of your own")


def build(name: str) -> "Pipeline":
    """Return the pipeline `name`, unfitted; ``fit(X, y)`` takes a DataFrame and an array of targets.

    Real targets mean regression, integer codes 0..K-1 classification.

    Raises BadInput for an unknown name, or a module of one's own that cannot be imported, or whose `build` is absent,
    fails or gives anything else.
    """
    module = module_name(name)
    with told(f"pipeline {name!r}"):
        recipe = importlib.import_module(module)
    if not callable(getattr(recipe, "build", None)):
        raise BadInput(f"pipeline {name!r}: module {module} has no function build()")
    with told(f"pipeline {name!r}"):
        made = recipe.build()
    from sklearn.pipeline import Pipeline

    if not isinstance(made, Pipeline):
        raise BadInput(f"pipeline {name!r}: build() must return a Pipeline of scikit-learn, got {type(made).__name__}")
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
