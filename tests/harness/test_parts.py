"""Components that belong to a method: what a study's list says of them, and what its specs and names do."""

import re
from pathlib import Path

import pytest

from harness.config import composed
from harness.errors import BadInput
from harness.grid import Study, all_specs
from harness.sealed import spec_hash
from harness.settings import read_study

ONE = ("dataset=[phoneme]", "pipeline=[clean]", "seeds=[0]")


def study(tmp_path: Path, *methods: str, more: tuple[str, ...] = ()) -> Study:
    """The study of a list of methods, each a line of YAML."""
    (tmp_path / "study").mkdir(exist_ok=True)
    lines = "".join(f"  - {method}\n" for method in methods)
    (tmp_path / "study" / "listed.yaml").write_text(f"name: listed\nmethods:\n{lines}")
    overrides = (f"hydra.searchpath=[file://{tmp_path}]", "study=listed", *ONE, *more)
    with composed("config", overrides) as (cfg, choices):
        return read_study(cfg, choices, overrides)


def test_a_methods_parts_are_its_own_and_show_in_its_name(tmp_path: Path) -> None:
    listed = study(
        tmp_path,
        "{ acq: ei }",
        "{ acq: ei, parts: { curves: prefixes } }",
        "{ acq: informed }",
        "{ acq: informed, parts: { curves: null, surrogate: gp } }",
    )
    labels = ["ei", "ei(curves=prefixes)", "informed", "informed(curves=none,surrogate=gp)"]
    assert [method.label for method in listed.methods] == labels
    assert [method.acq for method in listed.methods] == labels  # families of their own
    parts = [listed.parts(method) for method in listed.methods]
    assert "curves" not in parts[0] and parts[1]["curves"]["_target_"] == "harness.curves.LearningCurves"
    assert parts[2]["surrogate"]["_target_"].endswith("PriorGaussianProcess") and "design" in parts[2]
    assert "curves" not in parts[3] and parts[3]["surrogate"]["_target_"].endswith("gp.GaussianProcess")
    specs = list(all_specs(listed))
    assert "own" not in specs[0] and specs[1]["own"] == {"curves": "prefixes"}
    assert {spec["surrogate"] for spec in specs} == {"gp"}  # what the study chose, as analyses select
    assert {"surrogate_data", "design_data", "cost_model_data"} <= specs[2].keys()
    assert "surrogate_data" not in specs[3] and len({spec_hash(spec) for spec in specs}) == 4


def test_a_list_in_an_entry_is_as_many_methods(tmp_path: Path) -> None:
    listed = study(tmp_path, "{ acq: [ei, cei], lam: [0.3], utility: [ei, kg] }", "{ optimizer: [asha, hyperband] }")
    labels = ["ei", "ei", "cei(lam=0.3)", "cei(lam=0.3)", "asha", "hyperband"]
    assert [method.label for method in listed.methods] == labels


def test_what_a_study_chooses_for_all_shows_in_the_surrogates_name(tmp_path: Path) -> None:
    (spec,) = all_specs(study(tmp_path, "{ acq: ei }", more=("curves=prefixes", "stopping=price")))
    assert spec["surrogate"] == "gp+prefixes+price" and "own" not in spec


def test_equal_specs_are_one(tmp_path: Path) -> None:
    """A utility by its name, and the study's own by default."""
    twice = study(tmp_path, "{ acq: ei, utility: [ei, logei] }", "{ acq: ei }")
    assert len(twice.methods) == 3 and [spec["utility"] for spec in all_specs(twice)] == ["ei", "logei"]


def test_fronts_are_not_followed_where_a_training_shows_other_points(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"learning curves, which ei.* has, take those off the offer"):
        study(tmp_path, "{ acq: ei, parts: { curves: prefixes } }", more=("fronts=true",))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("{ acq: ei, parts: { utility: kg } }", "parts of a study's method are of surrogate, cost_model, design,"),
        ("{ acq: ei, parts: { curves: null } }", "a study's method ei brings no curves that could be left out"),
        ("{ acq: ei, parts: { curves: round } }", "unknown curves 'round'"),
        ("{ acq: [ei, eipu], lam: 0.9 }", "lam is set, but none of acq=[ei, eipu] has such a parameter"),
        ("{ acq: [ei, cei], lam: 0.1, alpha: 3 }", "alpha is set, but none of acq=[ei, cei] has such a parameter"),
    ],
)
def test_wrong_parts_are_named(tmp_path: Path, method: str, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        study(tmp_path, method)


def test_a_component_set_beside_a_methods_own_is_refused() -> None:
    overrides = ("+acq=informed", "surrogate=rf", *ONE)
    with composed("config", overrides) as (cfg, choices), pytest.raises(BadInput, match="brings its own: leave one"):
        read_study(cfg, choices, overrides)
