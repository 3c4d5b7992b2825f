"""What a config file names is code: only classes of known packages, or of those on the command line, are run."""

import hashlib
from pathlib import Path

import pytest
import yaml

from harness.config import CONFIGS, check_external_configs, check_targets, given_on_command_line, located
from harness.errors import BadInput
from harness.records import code_of
from harness.sealed import RECORDED_AS


def test_every_shipped_config_is_allowed() -> None:
    for path in CONFIGS.rglob("*.yaml"):
        check_targets(yaml.safe_load(path.read_text()), ())


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "datasets.files.os.system",  # through a module of ours
        "datasets.files.write_atomically",  # ours, but a function
        "harness.acquisitions.Protocol",
        "harness.surrogates.gp.np.load",
        "sklearn.datasets.fetch_openml",
        "${oc.env:HOME}",
        "harness.acquisitions.ei",
        "harness.nowhere.Rule",
        "",
        ["os.system"],
    ],
)
def test_other_targets_are_refused_wherever_they_stand(target: object) -> None:
    for config in ({"_target_": target}, {"a": [{"b": {"_target_": target, "x": 1}}]}):
        with pytest.raises(BadInput, match="none of this project's components: it would run as code"):
            check_targets(config, ["my.pkg"])


def test_classes_of_known_packages_and_of_those_vouched_for_are_allowed() -> None:
    for target in ("harness.acquisitions.cost_rules.Power", "sklearn.neighbors.KNeighborsRegressor"):
        check_targets({"_target_": target}, ())
    check_targets({"_target_": "my.pkg.Rule", "inner": {"_target_": "my.pkg.sub.Other"}}, ["my.pkg"])
    with pytest.raises(BadInput, match=r"my\.pkgs\.Rule"):
        check_targets({"_target_": "my.pkgs.Rule"}, ["my.pkg"])
    check_targets({"_target_": "pipelines.build", "name": "my.pkg.recipe"}, ["my"])
    for name in ("my.pkg.recipe", "${name}"):
        with pytest.raises(BadInput, match=r"pipeline .*: its module would run as code; .* add 'allow_targets="):
            check_targets({"mine": {"_target_": "pipelines.build", "name": name}}, ["other"])


def test_only_the_command_line_allows() -> None:
    assert given_on_command_line(["+acq=ei", "allow_targets=[my.pkg,other]"]) == ["my.pkg", "other"]
    assert given_on_command_line(["+acq=ei"]) == []
    for bad in ("allow_targets=my", "allow_targets=['*']"):
        with pytest.raises(BadInput, match="allow_targets must be a list of packages"):
            given_on_command_line([bad])


def test_the_source_of_foreign_code_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "__init__.py").write_text("")
    (tmp_path / "foreign" / "rules.py").write_text("class Rule:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    rule = {"_target_": "foreign.rules.Rule", "inner": [{"_target_": "foreign.rules.Rule.made"}]}
    sha = hashlib.sha256(b"class Rule:\n    pass\n").hexdigest()
    assert code_of(rule, {"_target_": "nowhere.Rule"}) == {"foreign.rules.Rule": sha, "foreign.rules.Rule.made": sha}
    assert list(code_of({"_target_": "harness.acquisitions.Mine"})) == ["harness.acquisitions.Mine"]


@pytest.mark.parametrize("name", RECORDED_AS)
def test_every_class_that_records_name_is_where_they_look_for_it(name: str) -> None:
    try:
        found = located(name)
    except (ImportError, AttributeError) as error:
        pytest.fail(
            f"harness.sealed.RECORDED_AS: {name} cannot be loaded ({error}). If it was moved or renamed, write its new "
            "name on the left of that line and leave the right as it is: records keep their hashes. If it is gone, "
            "take the line out"
        )
    assert callable(found)


MISNAMED = {  # what config files from outside may do is tried in tests/chaos/hostile.py
    "acq/nameless.yaml": "rule:\n  _target_: harness.acquisitions.cost_rules.Ignore\n",
    "acq/cei.yaml": "name: own\nrule:\n  _target_: harness.acquisitions.cost_rules.Ignore\n",
    "acq/mycei.yaml": "name: cei\nrule:\n  _target_: harness.acquisitions.cost_rules.Ignore\n",
}


@pytest.mark.parametrize("name", MISNAMED)
def test_misnamed_config_files_from_outside(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(MISNAMED[name])
    with pytest.raises(BadInput, match=rf"^[^\n]*({Path(name).name}|_target_)[^\n]*$"):
        check_external_configs(["+acq=ei", f"hydra.searchpath=[file://{tmp_path}]"])


def test_harmless_config_files_and_an_executor_of_a_trusted_package_pass(tmp_path: Path) -> None:
    for name, text in {
        "acq/mine.yaml": "name: mine\nrule:\n  _target_: mine.Rule\n",
        "study/mine.yaml": "# @package _global_\nstudy:\n  methods:\n    - { acq: ei }\nseeds: [0]\n",
        "executor/mine.yaml": "_target_: mine.pool\nsize: 3\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    check_external_configs([f"hydra.searchpath=[file://{tmp_path}]", "allow_targets=[mine]"])
    with pytest.raises(BadInput, match=r"acq/mine\.yaml: _target_ mine\.Rule .* add 'allow_targets=\[mine\]'"):
        check_external_configs([f"hydra.searchpath=[file://{tmp_path}]"])
    with pytest.raises(BadInput, match=r"_target_ mine\.Rule .* add 'allow_targets=\[other,mine\]'"):
        check_external_configs([f"hydra.searchpath=[file://{tmp_path}]", "allow_targets=[other]"])


@pytest.mark.parametrize(
    "argument",
    ["-cd=x", "--config-n=a", "--experimental-rerun=x.pickle", "hydra.searchpath=[pkg://evil.conf]",
     "hydra.searchpath=[file:///nowhere/at/all]", "hydra.searchpath=[http://example.org/conf]"],
)  # fmt: skip
def test_other_ways_to_bring_config_files(argument: str) -> None:
    with pytest.raises(BadInput, match=r"hydra\.searchpath"):
        check_external_configs([argument])
