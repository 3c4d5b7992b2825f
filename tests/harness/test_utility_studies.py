"""Studies whose lists name utilities: every pair in them is one that can run, and its records say which it was."""

from dataclasses import replace
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from study_cases import grid

from harness.acquisitions.rollouts import BudgetedMultiStepEI
from harness.config import CONFIGS
from harness.errors import BadInput
from harness.grid import Method, Study, make_optimizer, make_spec
from harness.settings import study_methods

PLACE = {"name": "wine"}, {"name": "clean"}


def methods(entries: list[dict[str, object]]) -> list[Method]:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return study_methods(entries, [])


def study(listed: list[Method], tau: float | None = None) -> Study:
    return replace(grid(Path()), methods=listed, iterations=20, tau=tau)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tau"), [("utilities", None), ("deadlines", 10.0)])
def test_every_pair_of_the_shipped_studies_can_run(name: str, tau: float | None) -> None:
    entries = OmegaConf.to_container(OmegaConf.load(CONFIGS / "study" / f"{name}.yaml"))["methods"]  # type: ignore
    listed = methods(entries)
    named = {path.stem for path in Path(CONFIGS / "utility").glob("*.yaml")}
    studied = {m.utility[0] for m in listed if m.utility}
    assert {"ei", "kg", "es", "pes", "mes", "gibbon", "pbgi", "pbgi_d", "mcms", "bmsei"} <= studied <= named
    whole = study(listed, tau)
    for method in listed:
        make_optimizer(whole.parts(method), method.rule, whole.settings())


def test_a_methods_own_utility_is_in_its_spec_and_others_have_the_runs() -> None:
    listed = methods([{"acq": "cei", "lam": [0.1, 0.3], "utility": ["bmsei", "kg"]}, {"acq": "ei"}])
    whole = study(listed)
    found = [make_spec(whole, *PLACE, method, "data") for method in listed]
    pairs = [(utility, f"cei(lam={lam})") for lam in (0.1, 0.3) for utility in ("bmsei", "kg")]
    assert [(s["utility"], s["method"]) for s in found] == [*pairs, ("ei", "ei")]
    assert isinstance(instantiate(found[0]["components"]["utility"]), BudgetedMultiStepEI)
    assert found[-1]["components"]["utility"] == whole.components["utility"]


def test_an_unknown_utility_in_a_list_is_reported() -> None:
    with pytest.raises(BadInput, match="unknown utility 'nope'; allowed: bmsei, ei"):
        methods([{"acq": "ei", "utility": "nope"}])
    with pytest.raises(BadInput, match="may have lam, alpha, utility"):
        methods([{"acq": "ei", "surrogate": "gp"}])
