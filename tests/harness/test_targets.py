"""What a config file names is code: only what this project ships, or what the command line vouches for, is run."""

import hashlib
from pathlib import Path

import pytest
import yaml

from datasets.errors import BadInput
from harness.config import CONFIGS, check_external_configs, check_targets, given_on_command_line, no_secrets
from harness.records import code_of


def test_every_shipped_config_is_allowed() -> None:
    for path in CONFIGS.rglob("*.yaml"):
        check_targets(yaml.safe_load(path.read_text()), ())


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "datasets.files.os.system",  # through a module of ours
        "datasets.files.write_atomically",  # ours, but it writes
        "harness.execution.clusters.SlurmJobs",  # ours, but it starts jobs
        "harness.acquisitions.Protocol",
        "harness.surrogates.gp.np.load",
        "sklearn.datasets.fetch_openml",
        "${oc.env:HOME}",
        "harness.acquisitions.ei",
        "",
        7,
        ["os.system"],
    ],
)
def test_other_targets_are_refused_wherever_they_stand(target: object) -> None:
    for config in ({"_target_": target}, {"a": [{"b": {"_target_": target, "x": 1}}]}):
        with pytest.raises(BadInput, match="none of this project's components: it would run as code"):
            check_targets(config, ["my.pkg"])


def test_what_is_allowed() -> None:
    check_targets({"_target_": "harness.acquisitions.cost_rules.Power"}, ())
    check_targets({"_target_": "my.pkg.Rule", "inner": {"_target_": "my.pkg.sub.Other"}}, ["my.pkg"])
    with pytest.raises(BadInput, match=r"my\.pkgs\.Rule"):
        check_targets({"_target_": "my.pkgs.Rule"}, ["my.pkg"])


def test_a_pipelines_module_is_code_too() -> None:
    check_targets({"_target_": "pipelines.build", "name": "clean"}, ())
    check_targets({"_target_": "pipelines.build", "name": "my.pkg.recipe"}, ["my"])
    with pytest.raises(BadInput, match=r"pipeline my\.pkg\.recipe: .* add allow_targets=\[my\]"):
        check_targets({"mine": {"_target_": "pipelines.build", "name": "my.pkg.recipe"}}, ["other"])


def test_the_source_of_foreign_code_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "__init__.py").write_text("")
    (tmp_path / "foreign" / "rules.py").write_text("class Rule:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    rule = {"_target_": "foreign.rules.Rule", "inner": [{"_target_": "foreign.rules.Rule.made"}]}
    sha = hashlib.sha256(b"class Rule:\n    pass\n").hexdigest()
    assert code_of(rule, {"_target_": "nowhere.Rule"}) == {"foreign.rules.Rule": sha, "foreign.rules.Rule.made": sha}
    beside = {"_target_": "harness.acquisitions.Mine"}  # added among the project's own
    assert list(code_of(beside)) == ["harness.acquisitions.Mine"]
    for path in CONFIGS.rglob("*.yaml"):
        components = {k: v for k, v in (yaml.safe_load(path.read_text()) or {}).items() if k != "finish"}
        assert path.parent.name == "executor" or code_of(components) == {}, path  # neither is part of a spec


def test_only_the_command_line_allows() -> None:
    assert given_on_command_line(["+acq=ei", "allow_targets=[my.pkg,other]"]) == ["my.pkg", "other"]
    assert given_on_command_line(["+acq=ei"]) == []
    for bad in ("allow_targets=my", "allow_targets=[1]", "allow_targets=['*']", "allow_targets=[a..b]"):
        with pytest.raises(BadInput, match="allow_targets must be a list of packages"):
            given_on_command_line([bad])


STRANGE = {
    "study/a.yaml": "# @package _global_\nhydra:\n  callbacks:\n    x:\n      run: 1\n",
    "study/b.yaml": "# @package hydra.callbacks\nx: 1\n",
    "study/c.yaml": "# @package _global_\nallow_targets: [os]\n",
    "study/d.yaml": "# @package _global_\nexecutor:\n  address: tcp://192.0.2.1:1\n",
    "study/e.yaml": "defaults:\n  - override /hydra/launcher: x\n",
    "study/f.yaml": "defaults:\n  - acq@hydra.callbacks.x: y\n",
    "executor/g.yaml": "_target_: harness.execution.slurm\nparameters:\n  slurm_setup: [touch /tmp/x]\n",
    "hydra/callbacks/h.yaml": "x: 1\n",
    "acq/i.yaml": "name: i\nrule:\n  _target_: os.system\n  command: 'true'\n",
    "acq/j.yaml": "!!python/object/apply:os.system ['true']\n",
    "acq/k.yaml": "name: ${oc.env:HOME}\n",
    "acq/l.yaml": "a: [",
    "acq/m.yaml": "[" * 3000,
}


@pytest.mark.parametrize("name", STRANGE)
def test_config_files_of_strangers(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(STRANGE[name])
    for place in (f"file://{tmp_path}", str(tmp_path)):
        with pytest.raises(BadInput) as error:
            check_external_configs(["+acq=ei", f"hydra.searchpath=[{place}]"])
        assert "\n" not in str(error.value)
        assert Path(name).name in str(error.value) or "_target_" in str(error.value)


def test_harmless_config_files_and_an_executor_of_a_trusted_package_pass(tmp_path: Path) -> None:
    for name, text in {
        "acq/mine.yaml": "name: mine\nrule:\n  _target_: mine.Rule\n",
        "study/mine.yaml": "# @package _global_\nstudy:\n  methods:\n    - { acq: ei }\nseeds: [0]\n",
        "executor/mine.yaml": "_target_: mine.pool\nsize: 3\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    check_external_configs([f"hydra.searchpath=[file://{tmp_path}]", "allow_targets=[mine]"])
    with pytest.raises(BadInput, match=r"mine\.Rule"):
        check_external_configs([f"hydra.searchpath=[file://{tmp_path}]"])


@pytest.mark.parametrize("argument", ["-cd=x", "--config-dir", "--config-n=a", "-cp", "--experimental-rerun=x.pickle"])
def test_other_ways_to_bring_config_files(argument: str) -> None:
    with pytest.raises(BadInput, match=r"is not allowed; config files of your own: hydra\.searchpath"):
        check_external_configs([argument])


@pytest.mark.parametrize("place", ["pkg://evil.conf", "file:///nowhere/at/all", "http://example.org/conf"])
def test_other_places(place: str) -> None:
    with pytest.raises(BadInput, match=r"hydra\.searchpath"):
        check_external_configs([f"hydra.searchpath=[{place}]"])


def test_no_secrets_in_records() -> None:
    no_secrets({"evaluator": {"tables": None, "n": 3, "api_key": None}})
    for bad in ({"api_key": "x"}, {"password": 1}, {"inner": {"access_token": "x"}}, {"at": "tcp://me:pw@host:1"}):
        with pytest.raises(BadInput, match="looks like a secret"):
            no_secrets({"evaluator": bad})
