"""The errors that are the user's to mend: one clear line, exit code 2."""

from datasets.errors import BadInput

__all__ = ["BadInput"]
