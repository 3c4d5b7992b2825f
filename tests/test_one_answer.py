"""What a run records is the same on every processor: by what the code calls here, by golden studies in `golden`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
_OTHERS = (
    "harness/surrogates/likelihood.py",  # the reference of the tests
    "harness/surrogates/gpyopt.py",  # another library
    "harness/training.py",  # live trainings are measured, not calculated
)
_LEARNED = "emulator regressors replay transfer"
FILES = [
    path
    for pattern in ("harness/surrogates/*.py", "harness/acquisitions/*.py", "harness/cost_models/*.py", "harness/*.py")
    for path in sorted(ROOT.glob(pattern))
    if path.relative_to(ROOT).as_posix() not in _OTHERS
] + [ROOT / "tabular_cache" / f"{name}.py" for name in _LEARNED.split()]
# NumPy's own: by the processor's instructions (NumPy dispatches), or by BLAS and LAPACK
_NAMES = """exp exp2 expm1 log log1p log2 log10 power float_power cbrt tanh sinh cosh sin cos tan arctan arcsin arccos
arcsinh arccosh arctanh logspace geomspace argpartition"""
DISPATCHED = frozenset(_NAMES.split())
BLAS = {"dot", "matmul", "vdot", "inner", "tensordot", "einsum", "linalg", "cov", "corrcoef", "polyfit"}


def hanging(tree: ast.Module) -> Iterator[str]:
    """Yield what in a module gives other digits on another processor, with its line."""
    compiled = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(mark) for mark in node.decorator_list)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield f"{node.lineno}: a matrix product by BLAS"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np":
            if (node.attr in BLAS and node.attr != "linalg") or (node.attr in DISPATCHED and id(node) not in compiled):
                yield f"{node.lineno}: np.{node.attr}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np.linalg."):
            if node.attr != "LinAlgError":
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("scipy.linalg", "scipy.optimize")):
            yield f"{node.lineno}: {node.module}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("np.argsort", "njit")):
            settings = {word.arg: ast.unparse(word.value) for word in node.keywords}
            if ast.unparse(node.func) == "np.argsort" and settings.get("kind") != "'stable'":
                yield f"{node.lineno}: the order of equal numbers is the processor's: kind='stable'"
            if {"fastmath", "parallel"} & settings.keys():
                yield f"{node.lineno}: sums in an order that the compiler chooses"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_recorded_hangs_on_a_librarys_choice_of_kernel(path: Path) -> None:
    assert list(hanging(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "a @ b", "a @= b", "np.exp(a)", "np.linalg.solve(a, b)", "np.argsort(a)", "np.dot(a, b)",
        "from scipy.linalg import solve", "@njit(fastmath=True)\ndef f(x):\n    return x",
        "@njit\ndef f(x):\n    return np.dot(x, x)",
    ],
)  # fmt: skip
def test_what_would_hang_on_it_is_found(line: str) -> None:
    assert len(list(hanging(ast.parse(line)))) == 1


def test_what_does_not_is_let_pass() -> None:
    compiled, plain = "@njit\ndef f(x):\n    return np.exp(x)\n", "np.sqrt(a)\nnp.argsort(a, kind='stable')\n"
    assert list(hanging(ast.parse(compiled + plain + "raise np.linalg.LinAlgError"))) == []


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "tanh"])
def test_elementary_functions_are_numpys_to_rounding(name: str) -> None:
    from harness import normal

    x = np.random.default_rng(0).uniform(0.01, 20.0, (7, 11))
    x[0, :3] = 0.0, 1e-300, 700.0
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(getattr(normal, name)(x.T), getattr(np, name)(x.T), rtol=4e-16)
    assert getattr(normal, name)(np.array(0.5)) == pytest.approx(getattr(np, name)(0.5), rel=4e-16)


def test_log_sum_exp_and_quadrature_are_scipys_and_numpys() -> None:
    from scipy.special import logsumexp

    from harness import normal

    x = np.random.default_rng(0).normal(0.0, 300.0, (5, 6))
    x[1], x[2, 0] = -np.inf, np.inf
    for axis in (None, 0, 1):
        np.testing.assert_allclose(normal.logsumexp(x, axis), logsumexp(x, axis), rtol=1e-15)
    for n in (1, 2, 5, 9, 40, 100):
        nodes, weights = np.polynomial.hermite_e.hermegauss(n)
        found = normal.gauss_hermite(n)
        np.testing.assert_allclose(found[0], nodes, atol=1e-14 * max(1.0, np.abs(nodes).max()))
        np.testing.assert_allclose(found[1], weights / weights.sum(), rtol=1e-11)


@pytest.mark.parametrize(("k", "m", "n"), [(5, 3, 9), (40, 17, 33), (0, 2, 3)])
def test_matrices_are_numpys_wherever_a_number_stands(k: int, m: int, n: int) -> None:
    from harness.surrogates.likelihood import factor, inverse_factor, product, solve_lower, transposed_product

    rng = np.random.default_rng(k)
    A, B = rng.normal(size=(k, m)), rng.normal(size=(k, n))
    found, size = transposed_product(A, B), np.abs(A).T @ np.abs(B)
    assert (np.abs(found - A.T @ B) <= 2e-16 * (k + 1) * size).all()
    np.testing.assert_array_equal(product(np.asfortranarray(A.T), B[:, ::-1])[:, ::-1], found)
    np.testing.assert_array_equal(transposed_product(A[:, -1:], B[:, 1:]), found[-1:, 1:])
    S = found[:, :m] @ found[:, :m].T + np.eye(m)
    L = factor(S)
    assert L is not None
    np.testing.assert_allclose(L, np.linalg.cholesky(S), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(inverse_factor(L) @ L, np.eye(m), atol=1e-9)
    for columns in (2 * m, 2):  # of the larger matrix the columns are taken in turn
        wide = rng.normal(size=(m, columns))
        np.testing.assert_array_equal(product(L, wide, triangular=True), product(L, wide))
    np.testing.assert_allclose(L @ solve_lower(L, S), S, rtol=1e-9, atol=1e-9)
    assert factor(S - 1e9 * np.eye(m)) is None and factor(np.full((m, m), np.nan)) is None
