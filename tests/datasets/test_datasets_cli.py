import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import ENVIRONMENT
from raw_data import needs_data, needs_home

from datasets.__main__ import main
from datasets.catalogue import entries


@pytest.fixture
def nothing_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DATASETS_MIRROR", "http://127.0.0.1:9")
    monkeypatch.delenv("DATASETS_HOME", raising=False)
    return tmp_path


def test_the_list_has_every_set_and_says_what_is_absent(nothing_at_hand, capsys):
    assert main(["list"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "task", "rows", "columns", "classes", "mark", "origin", "where"]
    assert [line.split()[0] for line in lines] == sorted(entries())
    assert all(line.endswith("absent") for line in lines)
    hiva = next(line for line in lines if line.startswith("hiva"))
    assert hiva.split() == ["hiva", "binary", "3076", "1617", "2", "partial", "OpenML", "1039", "absent"]


@needs_data
def test_list_and_check_of_sets_at_hand(capsys):
    assert main(["list", "wine"]) == 0
    assert "home: " in (line := capsys.readouterr().out.splitlines()[1]) or "cache: " in line
    assert main(["check", "wine", "bach"]) == 0
    wine, bach = capsys.readouterr().out.splitlines()
    assert wine == f"wine: OK, 6497 x 11, sha256 {entries()['wine'].sources[0].sha256[:12]}"
    assert bach.startswith("bach: OK, 5665 x 16, 69 classes, ")
    assert bach.endswith("(identity uncertain)")


def test_check_and_fetch_fail_with_a_reason(nothing_at_hand, monkeypatch, capsys):
    assert main(["fetch", "wine"]) == 2
    assert "wine: FAILED, not found in DATASETS_HOME (not set)" in capsys.readouterr().out
    assert main(["check", "wine"]) == 2
    assert "wine: FAILED, absent from " in capsys.readouterr().out
    folder = nothing_at_hand / "home/openml_287_wine_quality"
    folder.mkdir(parents=True)
    for colour in ("red", "white"):
        (folder / f"winequality-{colour}.csv").write_text("a;quality\n1;2\n")
    monkeypatch.setenv("DATASETS_HOME", str(nothing_at_hand / "home"))
    assert main(["check", "wine"]) == 2
    assert "wine: FAILED, wrong checksum: expected 4a402cf041b0, got " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "check", "fetch"])
def test_an_unknown_name_gets_one_line_and_exit_code_2(command, capsys):
    assert main([command, "wine", "nonesuch"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("error: unknown data set 'nonesuch'; known are: a1a, ")


RELATIVE = """
import os, subprocess, sys
import datasets
os.chdir(sys.argv[1])
from datasets.download import find
from datasets.catalogue import entry_of
show = "from datasets.download import cache_folder, home; print(home(), cache_folder().parent)"
print(find(entry_of("phoneme")).place, datasets.load("phoneme", download=False).name, sep="\\n", flush=True)
subprocess.run([sys.executable, "-c", show], check=True)
"""


@needs_home
def test_relative_folders_are_meant_from_where_they_were_given(tmp_path):
    """A process that goes elsewhere, and one that is started there, still look in them."""
    given, elsewhere = tmp_path / "given", tmp_path / "elsewhere"
    given.mkdir()
    elsewhere.mkdir()
    (given / "raw").symlink_to(Path(os.environ["DATASETS_HOME"]).resolve())
    environment = ENVIRONMENT | {"DATASETS_HOME": "raw", "COST_AWARE_BO_CACHE": "made/cache"}
    command = [sys.executable, "-c", RELATIVE, str(elsewhere)]
    done = subprocess.run(command, cwd=given, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["home", "phoneme", f"{given / 'raw'} {given / 'made'}"]
