"""The claims of the paper, each with its number, ours with its interval, and a verdict by a rule fixed beforehand.

STUDY, "Claims to test", lists them. The rules below were written before any result was looked at, and no rule is
changed because of one. A claim is a few conditions on estimates with 95 % intervals: it *holds* when every interval
lies inside its condition, *does not hold* when one lies wholly outside, and is *undecided* otherwise, or when the
records do not contain what it needs.
"""

from analysis.claims.decide import Verdict
from analysis.claims.evaluate import evaluate

__all__ = ["Verdict", "evaluate"]
