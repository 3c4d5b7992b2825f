"""Compiled functions: the same bytes from a process that compiles them and from one that loads them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CALL = """
import hashlib
import numpy as np
from harness.acquisitions.kg import log_expected_gain
from harness.compile_cache import compiled
from harness.surrogates.forest import RandomForest
from harness.surrogates.kernels import matern

rng = np.random.default_rng(0)
X, y = rng.random((40, 7)), rng.random(40)
covariance = matern(X, X, np.full(7, 2.0), 1.0)
found = [covariance, log_expected_gain(-y, covariance, -y, covariance[0]), *RandomForest(trees=3).fit(X, y).mean_sd(X)]
print(hashlib.sha256(b"".join(np.ascontiguousarray(values).tobytes() for values in found)).hexdigest(), compiled())
"""


@pytest.mark.slow
def test_compiling_and_loading_give_the_same_bytes(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    said = [
        subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    first, second = (re.fullmatch(r"([0-9a-f]{64}) (\d+)\n", line) for line in said)
    assert first and second and first[1] == second[1]
    assert int(first[2]) > 2 and int(second[2]) == 0
