"""Claims 7 and 8: contextual EI against EI^alpha, EI and EIpu."""

from pathlib import Path

import pandas as pd

from analysis.claims.condition import FAILS, Condition
from analysis.claims.decide import Claim, Finding, Missing
from analysis.claims.evidence import Evidence, mean, need, too_short_for
from analysis.coverage import left_aside, sparse
from analysis.endings import RULE
from analysis.hypervolume import Hypervolumes, hypervolumes
from analysis.methods import EI, EIPU, ordered
from analysis.scope import plural
from analysis.selection import at_horizon, horizon, of_families
from analysis.traces import Traces
from datasets.errors import BadInput
from datasets.files import write_atomically

MARGIN = 0.02  # of the hypervolume: 2 % of EI's time at no loss
INNER = (0.1, 0.7)  # lambdas that are not extreme, fixed beforehand
FEWEST = 3  # members of a family, EI included
ALIKE = 1  # families whose sizes differ by no more are compared either way; the study's have 9 and 8 members


def families_of(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the methods present of EI^alpha (``alpha``), and of CEI with EI, which is its lambda = 0 (``lam``).

    Those with too few runs are left out (`coverage.sparse`).
    """
    runs = runs[~runs["method"].isin(sparse(runs))]
    return {
        "alpha": ordered(runs[runs["alpha"].notna()]),
        "lam": [EI, *ordered(runs[runs["lam"].notna()])],
    }


def volumes(equal: Traces) -> Hypervolumes:
    """Return the hypervolumes of the two families, in which no other method's runs take part.

    `equal`: runs of equal length. Raises BadInput where no problem and seed has runs of both that can be compared.
    """
    families = families_of(equal.runs)
    counted = {method for methods in families.values() for method in methods}
    return hypervolumes(equal.select(equal.runs["method"].isin(counted).to_numpy()), families)


def write_volumes(traces: Traces, out_dir: Path) -> list[Path]:
    """Write hypervolumes.csv, those of claim 7 per problem; nothing where the records hold none."""
    try:
        found = volumes(at_horizon(traces, horizon(traces))[0]).per_problem.reset_index()
    except BadInput:
        return []
    path = out_dir / "hypervolumes.csv"
    write_atomically(path, found.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())
    return [path]


def claim_7(evidence: Evidence) -> Finding:
    """Hypervolumes of the two families' trade-offs, problem by problem."""
    runs = evidence.equal.runs
    families = families_of(runs)
    few = [name for name, methods in families.items() if len(methods) < FEWEST]
    if few or EI not in families["alpha"]:
        raise Missing(f"needs ei and two values or more of alpha and of lambda; there are {', '.join(ordered(runs))}")
    found = volumes(evidence.equal)
    values = found.per_problem.assign(seed=0).set_index("seed", append=True)
    shares = found.per_problem.mean()
    also = (
        f"hypervolumes {shares['lam']:.3f} ({len(families['lam'])} methods) and {shares['alpha']:.3f} "
        f"({len(families['alpha'])} methods); CEI's is larger on {(values['lam'] > values['alpha']).mean():.0%} of the "
        "problems"
    )
    left = f"; left out {plural(found.flat, 'pair')} in which no method gains on the initial design, and "
    left += f"{found.incomplete:,} without a successful run of every method"
    left += left_aside(sparse(of_families(evidence.equal, "alpha", "lam").runs), clause=True)
    gap = Condition(
        "hypervolume of CEI minus that of EI^alpha", mean(values["lam"] - values["alpha"]), -MARGIN, digits=3
    )
    more = len(families["lam"]) - len(families["alpha"])
    why = f"the larger family reaches more by its size alone: {len(families['lam'])} methods of CEI, EI among them, "
    why += f"against {len(families['alpha'])} of EI^alpha"
    barred = [*evidence.barred(found.cells), *([why] if more < -ALIKE and gap.word == FAILS else [])]
    doubts = [why] if more > ALIKE else []
    return Finding([gap], evidence.over(found.cells) + left, barred=barred, doubts=doubts, also=also)


def claim_8(evidence: Evidence) -> Finding:
    """Mean rank of CEI, over its inner lambdas, against both rivals at every budget."""
    runs = evidence.traces.runs
    few = sparse(runs)
    inner = [method for method in ordered(runs[runs["lam"].between(*INNER)]) if method not in few]
    if not inner or not {EI, EIPU} <= set(runs["method"]) - set(few):
        raise Missing(f"needs ei, eipu and cei with lambda in {INNER[0]} to {INNER[1]}; got {', '.join(ordered(runs))}")
    ranked = evidence.ranked([EI, EIPU, *inner])
    if not ranked.counting.any():
        need(ranked, tuple(ranked.multiples))
    conditions = []
    for multiple in ranked.multiples[ranked.counting]:
        at = ranked.at(multiple)
        for rival, name in ((EI, "EI"), (EIPU, "EIpu")):
            gap = mean(at[inner].mean(axis=1) - at[rival])
            conditions.append(Condition(f"rank of CEI minus {name}'s at {multiple:.0%}", gap, at_most=0.0, digits=2))
    lacking = ranked.multiples[~ranked.counting].tolist()
    doubts = [too_short_for(lacking)] if lacking else []
    return Finding(conditions, evidence.over_ranks(ranked), barred=evidence.barred(ranked.cells_used), doubts=doubts)


CLAIMS = (
    Claim(7, "CEI's trade-offs are on par with or better than EI^alpha's", "in words",
          "mean over problems of the difference of two hypervolumes of (cost, error), means over seeds: of CEI over "
          "lambda and of EI^alpha over alpha, EI in both; reference: EI's total cost and the initial design's error; "
          "the interval resamples problems with their means over seeds, not the seeds",
          f"the difference is above -{MARGIN} (2 % of EI's time at no loss); as a larger family reaches more by its "
          f"size, CEI is not said to be ahead with over {ALIKE} method more, nor behind with over {ALIKE} fewer",
          claim_7),
    Claim(8, "CEI outranks EI and EIpu at every budget, extreme lambda aside, and beats EI even at large budgets",
          "in words", "mean rank among EI, EIpu and CEI with lambda in 0.1 to 0.7: CEI's, averaged over lambda, minus "
          "EI's and minus EIpu's, at budgets of 50, 100, 200, 500, 1000 and 2000 % of the minimal one: " + RULE,
          "all twelve differences are below 0", claim_8),
)  # fmt: skip
