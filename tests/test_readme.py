"""The README's ask-and-tell example, run as it stands."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from harness.optimizer import Optimizer
from harness.space import XGBOOST_SPACE

ROOT = Path(__file__).resolve().parents[1]


def example() -> str:
    section = (ROOT / "README.md").read_text().split("## Ask and tell\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]


def test_the_example_tunes_with_its_own_acquisition() -> None:
    seen: list[dict[str, float]] = []

    def train(**x: float) -> tuple[float, float]:
        """A made-up training, best at many rounds and a learning rate of 0.1; rounds and depth cost."""
        seen.append(x)
        error = abs(np.log10(x["learning_rate"]) + 1) + 1 / np.sqrt(x["n_estimators"])
        return error, 0.001 * x["n_estimators"] * x["max_depth"]

    names: dict[str, Any] = {"train": train}
    exec(compile(example(), "README.md", "exec"), names)
    assert len(seen) == 30 and all(set(x) == set(XGBOOST_SPACE.names) for x in seen)
    cost = np.array([0.001 * x["n_estimators"] * x["max_depth"] for x in seen])
    points = XGBOOST_SPACE.from_unit(XGBOOST_SPACE.sobol(1000, seed=0))
    median = np.median(0.001 * points[:, 0] * points[:, 6])
    assert isinstance(names["optimizer"], Optimizer)
    assert np.median(cost[15:]) <= 2.5 * median, "the custom rule decides"
    errors = [abs(np.log10(x["learning_rate"]) + 1) + 1 / np.sqrt(x["n_estimators"]) for x in seen]
    assert min(errors[5:]) < min(errors[:5])


def test_the_example_is_short() -> None:
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= 12


def test_the_settings_are_all_reported() -> None:
    text, config = (ROOT / "configs" / "README.md").read_text(), (ROOT / "configs" / "config.yaml").read_text()
    keys = set(re.findall(r"^(?:  - )?([a-z_]+):", config, re.MULTILINE))
    for key in keys - {"defaults", "hydra", "finish", "setting_needs"}:
        assert f"{key}=" in text or f"{key}.n_jobs=" in text, key
    for group in ("utility", "study", "setting"):
        for path in (ROOT / "configs" / group).glob("*.yaml"):
            assert f"`{path.stem}`" in text or path.stem == "ei_gpyopt", f"{group}={path.stem}"


def test_prose_is_narrow_and_the_page_that_docstrings_cite_is_there() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
    for name in ("README.md", "analysis/STUDY.md"):
        prose = re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)
        assert not [line for line in prose.splitlines() if len(line) > 120 and not line.startswith(("|", "!"))], name
    sections = set(re.findall(r"^## (.+)$", (ROOT / "analysis/STUDY.md").read_text(), re.MULTILINE))
    cited = {
        section
        for package in ("harness", "analysis")
        for path in (ROOT / package).rglob("*.py")
        for section in re.findall(r'STUDY: "([^"]+)"', path.read_text())
    }
    assert cited and cited <= sections


def shell_lines(text: str) -> list[str]:
    """The lines of fenced blocks without a language, and of indented blocks that begin with a program."""
    found: list[str] = []
    fence, indented = "", list[str]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("```"):
            fence = "" if fence else line.removeprefix("```") or "sh"
        elif fence == "sh":
            found.append(line)
        elif not fence and line.startswith("    "):
            indented.append(line)
        elif indented:
            found += indented if indented[0].lstrip().startswith(("make ", "python ", "pip ")) else []
            indented = []
    return [line.strip() for line in found if line.strip()]


def test_every_line_of_a_shell_block_is_one_command() -> None:
    starts, found = ("make", "python ", "pip ", "source ", ".venv/bin/", "dask ", "#", "PYTHONHASHSEED=0 python "), 0
    for path in (p for p in ROOT.rglob("*.md") if ".venv" not in p.parts):
        for line in shell_lines(path.read_text()):
            found += 1
            assert line.startswith(starts), f"{path.relative_to(ROOT)}: {line}"
            command = re.split(r"\s#\s?", line)[0]
            assert len(re.findall(r"\bpython -m\b|\bpip install\b", command)) < 2, f"{path.relative_to(ROOT)}: {line}"
    assert found > 30


def test_commands_quote_what_a_shell_would_read() -> None:
    """`name=[a]` without quotes is a file name's pattern, and in some shells an error where no file has that name."""
    assert not quoted("python -m harness dataset=[wind] lam=1") and quoted("python -m harness 'dataset=[wind]' lam=1")
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = set(folders) - {".venv", "tests", "__pycache__"}  # caches, which other processes write to
        for path in (Path(folder, name) for name in names if name.endswith((".md", ".yaml", ".py"))):
            commands = re.findall(r"python -m (?:harness|analysis|tabular_cache)\b[^`\n]*", path.read_text())
            found += [(path.name, command) for command in commands]
    assert len(found) > 100 and not [each for each in found if not quoted(each[1])]


def quoted(command: str) -> bool:
    return not re.search(r"""(?<![\w'".])[\w.]+=\[""", command)
