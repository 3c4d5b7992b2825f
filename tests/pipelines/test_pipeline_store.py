import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data
from pipeline_frames import dataset_of, mixed_frame, targets

from datasets.loading import load
from pipelines import prepare, prepared
from pipelines import prepared as store
from pipelines.prepared import Prepared

FRAME = mixed_frame(600)
REAL = dataset_of(FRAME, targets(FRAME))
NUMBERS = pd.DataFrame({f"x{j}": np.random.default_rng(j).normal(size=600) for j in range(3)})


SMALL = dataset_of(NUMBERS, REAL.y)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prepared"


def assert_same(a: Prepared, b: Prepared) -> None:
    assert type(a.X_train) is type(b.X_train)
    assert prepared.content_hash([a.X_train, a.X_valid, a.X_test, a.y_train, a.y_valid, a.y_test]) == b.data_hash
    plain = [f.name for f in dataclasses.fields(Prepared) if f.name[:2] not in ("X_", "y_")]
    assert [getattr(a, name) for name in plain] == [getattr(b, name) for name in plain]


@pytest.mark.parametrize("name", ["clean", "onehot", "clean_plus_pca"])
def test_the_cache_gives_back_what_was_put_in(name: str, own_cache: Path) -> None:
    data = dataset_of(NUMBERS, targets(FRAME))
    first = prepare(data, name)
    stamp = {path: path.stat().st_mtime_ns for path in own_cache.iterdir()}
    assert len(stamp) == 1
    assert_same(prepare(data, name), first)  # fit_seconds too: those of the first time
    assert {path: path.stat().st_mtime_ns for path in own_cache.iterdir()} == stamp


def test_without_cache_nothing_is_written_or_read(own_cache: Path) -> None:
    prepare(REAL, "clean", cache=False)
    assert not own_cache.exists()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "garbage": lambda content: b"not an archive" * 100,
    "flipped": lambda content: content[:3000] + bytes([content[3000] ^ 1]) + content[3001:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_computed_again(damage: str, own_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = prepare(SMALL, "quadratic")
    (path,) = own_cache.iterdir()
    intact = path.stat().st_size
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    again = prepare(SMALL, "quadratic")
    assert again.data_hash == first.data_hash
    assert "is damaged" in caplog.text
    assert abs(path.stat().st_size - intact) < 100
    assert_same(prepare(SMALL, "quadratic"), again)


def test_a_file_of_another_key_is_not_taken(own_cache: Path) -> None:
    a, b = prepare(REAL, "clean"), prepare(REAL, "onehot")
    keys = [store.cache_key("synthetic", REAL.sha256, "", name, 0) for name in ("clean", "onehot")]
    (own_cache / f"{keys[0]}.npz").replace(own_cache / f"{keys[1]}.npz")
    assert store.read_cached(keys[0]) is None
    assert store.read_cached(keys[1]) is None
    assert prepare(REAL, "onehot").data_hash == b.data_hash != a.data_hash


def test_a_failed_write_leaves_nothing_behind_and_costs_only_the_cache(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(store.np, "savez", full_disk)
    assert prepare(REAL, "clean").data_hash == prepare(REAL, "clean", cache=False).data_hash
    assert "is not kept in the cache (no space left on device)" in caplog.text
    assert list(own_cache.iterdir()) == []


def test_the_key_covers_all_that_goes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    base = ("abalone", "0" * 64, "", "clean", 0)
    others = [("wine", *base[1:]), (base[0], "1" * 64, *base[2:]), (*base[:2], "partial", *base[3:]),
              (*base[:3], "onehot", 0), (*base[:4], 1)]  # fmt: skip
    keys = [store.cache_key(*base), *(store.cache_key(*other) for other in others)]
    monkeypatch.setattr(store, "_versions", lambda: {"numpy": "0"})
    keys.append(store.cache_key(*base))
    monkeypatch.setattr(store, "_sources", lambda recipe: "other code")
    keys.append(store.cache_key(*base))
    assert len(set(keys)) == 8


def test_the_source_of_a_recipe_from_elsewhere_is_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "outside_recipe.py"
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for text in ("A = 1\n", "A = 2\n"):
        module.write_text(text)
        store._sources.cache_clear()
        found.append(store._sources("outside_recipe"))
    assert found[0] != found[1]


@needs_data
def test_by_name_and_by_data_set_are_the_same_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    by_data = prepare(load("phoneme"), "pca_small")

    def unread(*_: object) -> None:
        raise AssertionError("a stored problem must not read the raw data")

    monkeypatch.setattr(prepared, "load", unread)
    assert_same(prepare("phoneme", "pca_small"), by_data)
