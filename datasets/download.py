"""Raw files: the places where they may lie, the origins that they come from, and downloads into the cache (`fetch`).

Places are the folder that DATASETS_HOME names, then this project's cache. What is downloaded is verified before it is
written to the cache. Download clients are imported only when needed.
"""

import hashlib
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from datasets.catalogue import Entry, File, Origin, Source
from datasets.errors import BROKEN_ARCHIVE, BadInput
from datasets.files import cache_folder, file_sha256, write_atomically
from datasets.formats import read_arff


@dataclass(frozen=True)
class Found:
    """A source whose files are all at hand: `place` is "home" or "cache"."""

    source: Source
    place: str
    paths: Sequence[Path]

    def verify(self) -> None:
        """Raise BadInput unless the files have their checksums."""
        for file, path in zip(self.source.files, self.paths, strict=True):
            beside = _checksum_file(path)
            known = beside.read_text(encoding="ascii").strip() if beside.is_file() else "missing .sha256 file"
            _check(file_sha256(path), file, path, known)


def home() -> Path | None:
    """Return the folder that DATASETS_HOME names, None if it is not set.

    Raises BadInput if it is set to what is no folder.
    """
    value = os.environ.get("DATASETS_HOME")
    if not value:
        return None
    if not Path(value).is_dir():
        raise BadInput(f"DATASETS_HOME={value} is not a folder; unset it, or name the folder of the raw files")
    return Path(value)


def places() -> dict[str, Path]:
    """Return the folders to look in, in order."""
    named = home()
    return ({"home": named} if named else {}) | {"cache": cache_folder()}


def find(entry: Entry, among: Mapping[str, Path] | None = None) -> Found | None:
    """Return the first source, place by place, whose files all exist; they are not verified yet."""
    for place, folder in (places() if among is None else among).items():
        for source in entry.sources:
            paths = source.paths(folder)
            if all(path.is_file() for path in paths):
                return Found(source, place, paths)
    return None


def remedy(entry: Entry, download: str) -> str:
    """Return what to do about files that are at no place: `download`, or where to put those that have no origin."""
    if any(source.origin for source in entry.sources):
        return download
    files = [" and ".join(map(str, source.paths(home() or cache_folder()))) for source in entry.sources]
    return f"there is nowhere to download it from: put it there as {', or as '.join(files)}"


def _checksum_file(path: Path) -> Path:
    """Return where the checksum lies of a file whose bytes only its download knew."""
    return path.with_name(path.name + ".sha256")


def _check(actual: str, file: File, where: object, known: str) -> None:
    """Raise BadInput unless a checksum is that of `file`, or, where the record has none, the one `known` otherwise."""
    expected = file.sha256 or known
    if actual not in (expected, file.twin):
        raise BadInput(f"wrong checksum: expected {expected[:12]}, got {actual[:12]}: {where}")


# Origins. UCI repacks its archives now and then, so that no checksum of an archive holds: files are verified.

_SITES = {
    "uci": "https://archive.ics.uci.edu/static/public",
    "libsvm": "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets",
    "openml": "https://www.openml.org/api/v1/xml",
}
_LARGEST = 500_000_000  # bytes of one archive's members together, unpacked: none of the data sets comes near


def _retrieve(site: str, path: str, folder: Path, checksum: str | None = None) -> Path:
    """Download a file; ``DATASETS_MIRROR`` replaces the address of `site` by ``$DATASETS_MIRROR/<site>``."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    mirror = os.environ.get("DATASETS_MIRROR")
    base = f"{mirror.rstrip('/')}/{site}" if mirror else _SITES.get(site, "")
    url = path if path.startswith(("http://", "https://")) else f"{base}/{path}"
    bar = pooch.HTTPDownloader(progressbar=sys.stderr.isatty())
    return Path(pooch.retrieve(url, checksum, path=folder, downloader=bar))


@dataclass(frozen=True)
class Uci(Origin):
    """An archive of the UCI repository: a zip file whose members are found by their content."""

    number: int
    slug: str

    def __str__(self) -> str:
        return f"UCI {self.number}"

    def download(self, files: Sequence[File], folder: Path) -> list[bytes]:
        """Return the members of the archive that have the checksums of `files`."""
        archive = _retrieve("uci", f"{self.number}/{self.slug}.zip", folder)
        return [member(archive, file) for file in files]


@dataclass(frozen=True)
class Libsvm(Origin):
    """One plain file of the LIBSVM data page, `path` below its base address."""

    path: str

    def __str__(self) -> str:
        return f"LIBSVM {self.path}"

    def download(self, files: Sequence[File], folder: Path) -> list[bytes]:
        """Return the file."""
        return [_retrieve("libsvm", self.path, folder).read_bytes()]


@dataclass(frozen=True)
class OpenML(Origin):
    """A data set of OpenML; rows and columns (target included) it must have."""

    number: int
    rows: int
    columns: int
    target: str

    def __str__(self) -> str:
        return f"OpenML {self.number}"

    def download(self, files: Sequence[File], folder: Path) -> list[bytes]:
        """Return the table as comma separated text, if its checksum, shape and target are as they should be."""
        described = ElementTree.parse(_retrieve("openml", f"data/{self.number}", folder)).getroot()
        url, md5 = (described.findtext(f"{{*}}{name}") for name in ("url", "md5_checksum"))
        if not (url and md5):
            raise BadInput("OpenML's description names no file and checksum")
        frame = read_arff(_retrieve("", url, folder, f"md5:{md5}"))
        if frame.shape != (self.rows, self.columns) or self.target not in frame.columns:
            expected = (self.rows, self.columns)
            raise BadInput(f"its shape is {frame.shape}, expected {expected} with target {self.target!r}")
        return [frame.to_csv(index=False, lineterminator="\n").encode()]


@dataclass(frozen=True)
class Kaggle(Origin):
    """Files of a Kaggle data set, through its own client (the optional extra ``kaggle``).

    packed: a pattern for the loose files that make up the one file without a checksum, a zip, where Kaggle
        unpacked it; "" if there is none.
    """

    handle: str
    packed: str = ""

    def __str__(self) -> str:
        return f"Kaggle {self.handle}"

    def download(self, files: Sequence[File], folder: Path) -> list[bytes]:
        """Return the files by name, else packed."""
        try:
            import kagglehub
        except ImportError:
            raise ImportError("needs Kaggle's client: pip install -c constraints.txt -e '.[kaggle]'") from None
        root = Path(kagglehub.dataset_download(self.handle))
        held = {path.name: path for path in sorted(root.rglob("*"), reverse=True) if path.is_file()}
        contents = []
        for file in files:
            loose = sorted(root.rglob(self.packed)) if self.packed and not file.sha256 else []
            if file.name not in held and not loose:
                raise BadInput(f"Kaggle's download has no file {file.name}, nor the files that it would pack")
            contents.append(held[file.name].read_bytes() if file.name in held else _packed(loose))
        return contents


def _packed(loose: Sequence[Path]) -> bytes:
    """Return a zip whose bytes depend on the names and contents of the files in it only."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in loose:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
    return buffer.getvalue()


def member(archive: Path, file: File) -> bytes:
    """Return the member of the archive that has the file's checksum.

    Members are known by their content: their names, which may hold any path, are used nowhere.
    """
    with zipfile.ZipFile(archive) as opened:
        for data in _members(opened):
            if hashlib.sha256(data).hexdigest() in (file.sha256, file.twin):
                return data
        held = ", ".join(opened.namelist()[:8]) or "nothing"
    raise BadInput(f"the archive has no {file.name} with checksum {file.sha256[:12]}; it holds {held}")


def _members(archive: zipfile.ZipFile, nested: bool = True) -> Iterator[bytes]:
    """Yield the content of each member, and of the members of archives within the archive."""
    unpacked = 0
    for info in archive.infolist():
        unpacked += info.file_size  # zipfile unpacks no more than a member declares
        if unpacked > _LARGEST:
            raise BadInput(f"archive member {info.filename} unpacks to {unpacked} bytes in all: refused")
        data = archive.read(info)
        yield data
        if nested and info.filename.lower().endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(data)) as inner:
                yield from _members(inner, nested=False)


def fetch(entry: Entry) -> Found:
    """Return the data set's files in the cache, downloaded unless they lie there undamaged.

    The sources are tried in order. Files are verified before they are written, so an interrupted or wrong download
    leaves nothing in the cache. Raises BadInput if no source can be had; it says why for each.
    """
    from filelock import FileLock

    folder, reasons = cache_folder(), []
    lock = FileLock(folder / ".lock")  # of several processes that need a data set one downloads it
    try:
        folder.mkdir(parents=True, exist_ok=True)
        alone = lock.acquire()
    except OSError as error:
        raise BadInput(f"cannot write to the cache folder {folder}: {error.strerror}") from None
    with alone:
        present = find(entry, {"cache": folder})
        try:
            if present:
                present.verify()
                return present
        except BadInput:
            pass  # damaged: to be replaced
        for source in entry.sources:
            try:
                if source.origin:
                    return _fetch_source(source, source.origin, folder)
            except (OSError, ValueError, ImportError, SyntaxError, *BROKEN_ARCHIVE) as error:  # requests' are OSErrors
                text = " ".join(str(error).split())
                reasons.append(f"{source.origin}: {text if len(text) <= 300 else text[:297] + '...'}")
    looked = f"DATASETS_HOME ({home() or 'not set'})"
    again = f"not downloaded ({'; '.join(reasons)}); to try again: python -m datasets fetch {entry.name}"
    raise BadInput(
        f"data set {entry.name}: not found in {looked} nor in the cache ({folder}), and {remedy(entry, again)}"
    )


def _fetch_source(source: Source, origin: Origin, folder: Path) -> Found:
    """Download, verify, write; each checksum that is not in the record before its file."""
    with tempfile.TemporaryDirectory() as temporary:
        contents = origin.download(source.files, Path(temporary))
    sums = [hashlib.sha256(content).hexdigest() for content in contents]
    for file, found in zip(source.files, sums, strict=True):
        _check(found, file, file.name, found)
    paths = source.paths(folder)
    for file, path, content, found in zip(source.files, paths, contents, sums, strict=True):
        if not file.sha256:
            write_atomically(_checksum_file(path), f"{found}\n".encode())
        write_atomically(path, content)
    return Found(source, "cache", paths)
