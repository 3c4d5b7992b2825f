"""Downloads through the sites' own clients, which are imported only here and only when needed."""

import contextlib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from datasets.catalogue import File
from datasets.digest import file_sha256
from datasets.errors import BadInput
from datasets.origins import Kaggle, OpenML, base_url
from datasets.places import sidecar


def openml_table(origin: OpenML, path: Path, folder: Path) -> None:
    """Write OpenML's table as a comma separated file, if its shape and target are as they should be."""
    import openml
    import pandas

    try:
        with _openml_settings(folder / "openml"):
            table = openml.datasets.get_dataset(
                origin.number, download_data=True, download_qualities=False, download_features_meta_data=True
            )
            frame = table.get_data()[0]
    except openml.exceptions.PyOpenMLError as error:
        raise OSError(str(error)) from None
    if not isinstance(frame, pandas.DataFrame):
        raise BadInput(f"OpenML's client gave a {type(frame).__name__}, not a table")
    if frame.shape != (origin.rows, origin.columns) or origin.target not in frame.columns:
        expected = (origin.rows, origin.columns)
        raise BadInput(f"its shape is {frame.shape}, expected {expected} with target {origin.target!r}")
    frame.to_csv(path, index=False, lineterminator="\n")
    _record(path)


@contextlib.contextmanager
def _openml_settings(folder: Path) -> Iterator[None]:
    """Let OpenML's client use our address, a folder of our own and two tries; its settings are global."""
    import openml

    config = openml.config
    server, root = config.server, config._root_cache_directory
    policy, tries = config.retry_policy, config.connection_n_retries
    try:
        config.server = base_url("openml")
        config.set_root_cache_directory(str(folder))
        config.set_retry_policy("human", 2)
        yield
    finally:
        config.server = server
        config.set_root_cache_directory(str(root))
        config.set_retry_policy(policy, tries)


def kaggle_files(origin: Kaggle, files: Sequence[File], paths: Sequence[Path]) -> None:
    """Copy the wanted files from what Kaggle's client downloads: by name, else packed (verified later)."""
    try:
        import kagglehub
    except ImportError:
        raise ImportError("needs Kaggle's client: pip install -c constraints.txt -e '.[kaggle]'") from None
    root = Path(kagglehub.dataset_download(origin.handle))
    held = sorted(path for path in root.rglob("*") if path.is_file())
    for file, path in zip(files, paths, strict=True):
        name = Path(file.path).name
        named = [other for other in held if other.name == name]
        if named:
            path.write_bytes(named[0].read_bytes())
        elif not file.sha256 and origin.packed:
            _pack(sorted(root.rglob(origin.packed)), path)
        else:
            raise BadInput(f"Kaggle's download has no file {name}")
        if not file.sha256:
            _record(path)


def _pack(loose: Sequence[Path], path: Path) -> None:
    """Put files into a zip whose bytes depend on their names and contents only."""
    if not loose:
        raise BadInput(f"Kaggle's download has neither {path.name} nor the files in it")
    with zipfile.ZipFile(path, "w") as archive:
        for file in loose:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())


def _record(path: Path) -> None:
    """Write down the checksum of a file whose bytes could not be known beforehand."""
    sidecar(path).write_text(file_sha256(path) + "\n", encoding="ascii")
