"""How far utilities are from independent truths: the parity errors, each with what is allowed."""

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

TESTS = Path(__file__).resolve().parents[1]
GAPS = (-8.0, -2.0, -0.3, 0.0, 0.5, 2.0, 5.9, 6.1, 12.0, 30.0, 60.0, 300.0)


def table(console: Console) -> None:
    """Print every parity error; those against BoTorch go by its kept values."""
    sys.path[:0] = [str(TESTS), str(TESTS / "parity")]
    import lookahead_truth as truth

    rows: list[tuple[str, str, str, Callable[[], float]]] = [
        (
            "kg",
            f"2^15 quasi-random observations, noise {noise:g}",
            "2e-4",
            lambda noise=noise: truth.kg_by_quasi_monte_carlo(noise),
        )
        for noise in (1e-6, 0.01, 0.5)
    ]
    rows += [
        ("kg", "log EI, noiseless and observed points only", "1e-4", truth.kg_noiseless_observed_only_is_ei),
        (
            "mes",
            "its formula to 60 digits, f* up to 8 sd above, relative",
            "1e-12",
            lambda: max(map(truth.mes_term_by_formula, GAPS)),
        ),
        (
            "mes",
            "numerical integration, relative",
            "1e-9",
            lambda: max(map(truth.mes_term_by_integration, (-3.0, -1.0, 0.0, 0.7, 2.5))),
        ),
        (
            "gibbon",
            "its formula to 60 digits, relative",
            "1e-12",
            lambda: max(map(truth.gibbon_term_by_formula, (-5.0, -0.5, 2.0, 24.9, 25.1, 60.0))),
        ),
        ("pbgi", "EI(x; g) = lambda c, relative", "1e-10", truth.pbgi_residual),
        ("es", "brute-force entropy on a line, nats", "0.03", truth.es_on_a_line),
        ("es", "the same, as a run uses it, nats", "0.08", truth.es_at_its_defaults),
        ("mcms", "log EI, one evaluation left", "0", truth.mcms_with_one_evaluation_left_is_ei),
        (
            "bmsei",
            "its recursion on a fine grid, known costs, relative",
            "0.02",
            lambda: truth.bmsei_by_its_recursion(False, outcomes=24, costs=16),
        ),
        (
            "bmsei",
            "its recursion on a fine grid, uncertain costs, relative",
            "0.02",
            lambda: truth.bmsei_by_its_recursion(True, outcomes=24, costs=16),
        ),
        (
            "bmsei",
            "the same, as a run uses it, relative",
            "0.055",
            lambda: max(map(truth.bmsei_by_its_recursion, (False, True))),
        ),
    ]
    rows += [
        (
            "bmsei",
            f"mcms, both two evaluations ahead, noise {noise:g}, relative",
            allowed,
            lambda noise=noise: truth.mcms_and_bmsei_of_two_steps(noise),
        )
        for noise, allowed in ((1e-6, "0.015"), (0.05, "0.015"), (0.5, "0.04"))
    ]
    for cost in ([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 1.0, 3.0], [2.0, 1.5, 0.5, 1.0]):
        said = f"full enumeration, 4 candidates of {', '.join(f'{c:g}' for c in cost)} s, 3 s left, relative"
        rows.append(("mcms", said, "0.015", lambda cost=cost: truth.mcms_by_enumeration(cost)))
    out = Table("utility", "against", "allowed", "found")
    for name, said, allowed, measure in rows:
        found = measure()
        out.add_row(name, said, allowed, f"{found:.1e}", style="" if found <= float(allowed) else "bold red")
    console.print(out)
    _botorch()


def _botorch() -> None:
    import test_parity_lookahead as parity

    for measure in (
        parity.test_the_posteriors_are_the_same,
        parity.test_exact_kg_agrees_with_fantasies,
        parity.test_gibbon_is_botorchs_lower_bound,
        parity.test_mes_is_botorchs_noisy_one_where_there_is_hardly_any_noise,
    ):
        measure()  # prints its deviation, and raises where that is more than is allowed
