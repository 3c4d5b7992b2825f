"""The errors that are the user's to mend: one clear line, exit code 2."""

import zipfile
import zlib

BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""What reading a damaged archive raises; RuntimeError: one that is encrypted, or packed in an unknown way."""


class BadInput(ValueError):
    """Something the user gave is wrong; the message says what it was and what is allowed."""
