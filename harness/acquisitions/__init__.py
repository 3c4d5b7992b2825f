"""Acquisitions: a utility (what a point is worth) combined with a cost rule (what its cost does to that)."""
