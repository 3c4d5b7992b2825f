"""The errors that are the user's to mend: one clear line, exit code 2."""


class BadInput(ValueError):
    """Something the user gave is wrong; the message says what it was and what is allowed."""
