"""The data sets of the study: `load(name)` finds, verifies and parses one, `split(name)` divides its rows.

Importing this package is light: pandas and the download clients are imported by the calls that need them.
"""

from datasets.threads import pin_blas

pin_blas()  # before numpy is imported anywhere

from datasets.catalogue import Dataset, names  # noqa: E402
from datasets.loading import load  # noqa: E402
from datasets.digest import resolve_folders  # noqa: E402
from datasets.splitting import Split, split  # noqa: E402

resolve_folders()

__all__ = ["Dataset", "Split", "load", "names", "split"]
