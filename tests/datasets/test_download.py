"""Downloads, from a local server in place of the sites."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import threading
import types
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from raw_data import ROOT, needs_home

from datasets import load
from datasets.catalogue import Entry, File, Origin, Source, entry_of
from datasets.download import Kaggle, Libsvm, OpenML, Uci, fetch, find
from datasets.errors import BadInput
from datasets.formats import read_csv
from datasets.sets.others import openml_table

RAW = Path(os.environ.get("DATASETS_HOME", "/nonexistent"))  # before the fixtures unset it
TABLE = b"a,t\n1,0.5\n2,1.5\n3,2.5\n"
Answer = bytes | Callable[[BaseHTTPRequestHandler], None]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def packed(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


class Site:
    """A server that answers paths with bytes, or with a function on the request, and counts requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                answer = site.answers.get(self.path)
                if callable(answer):
                    answer(self)
                    return
                self.send_response(200 if answer is not None else 404)
                self.send_header("Content-Length", str(len(answer or b"")))
                self.end_headers()
                self.wfile.write(answer or b"")

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def site(server: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    server.answers, server.asked = {}, []
    monkeypatch.setenv("DATASETS_MIRROR", server.url)
    return server


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no data folder."""
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DATASETS_HOME", raising=False)
    return tmp_path / "cache"


def entry(origin: Origin | None, *more: Source, twin: str = "") -> Entry:
    source = Source("toy", [File("toy.csv", sha(TABLE), twin)], read_csv, rows=3, origin=origin)
    return Entry("toy", "Toy", "t", 1, 0, "none", [source, *more])


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != ".lock")


def fails(record: Entry, message: str, cache: Path) -> None:
    """Fetching fails with that one line and leaves nothing behind."""
    with pytest.raises(BadInput, match=message) as caught:
        fetch(record)
    assert "\n" not in str(caught.value)
    assert files_below(cache) == []


def use(monkeypatch: pytest.MonkeyPatch, record: Entry) -> None:
    monkeypatch.setattr("datasets.catalogue.entries", lambda: {record.name: record})


def test_a_good_download_lands_in_the_cache_and_is_not_repeated(site, cached, monkeypatch):
    site.answers["/libsvm/binary/toy"] = TABLE
    use(monkeypatch, entry(Libsvm("binary/toy")))
    first = load("toy")
    assert (first.X["a"].tolist(), first.y.tolist()) == ([1, 2, 3], [0.5, 1.5, 2.5])
    assert files_below(cached) == ["toy/toy.csv"]
    assert load("toy").sha256 == first.sha256
    assert fetch(entry(Libsvm("binary/toy"))).place == "cache"
    assert site.asked == ["/libsvm/binary/toy"]


def test_a_data_folder_comes_first_and_a_wrong_file_there_is_refused_not_replaced(site, cached, tmp_path, monkeypatch):
    record = entry(Libsvm("toy"))
    for folder in (cached / "toy", tmp_path / "home/toy"):
        folder.mkdir(parents=True)
        (folder / "toy.csv").write_bytes(TABLE)
    assert find(record).place == "cache"
    monkeypatch.setenv("DATASETS_HOME", str(tmp_path / "home"))
    assert find(record).place == "home"
    use(monkeypatch, record)
    load("toy")
    wrong = tmp_path / "home/toy/toy.csv"
    wrong.write_bytes(TABLE + b"4,4\n")
    with pytest.raises(BadInput) as caught:
        load("toy")
    expected, actual = sha(TABLE)[:12], sha(TABLE + b"4,4\n")[:12]
    assert str(caught.value) == f"data set toy: wrong checksum: expected {expected}, got {actual}: {wrong}"
    assert site.asked == []


def test_a_damaged_file_in_the_cache_is_refused_by_load_and_replaced_by_fetch(site, cached, monkeypatch):
    site.answers["/libsvm/toy"] = TABLE
    record = entry(Libsvm("toy"))
    path = fetch(record).paths[0]
    path.write_bytes(b"junk")
    use(monkeypatch, record)
    with pytest.raises(BadInput, match=r"wrong checksum.*to replace it: python -m datasets fetch toy$"):
        load("toy")
    fetch(record)
    assert path.read_bytes() == TABLE


def test_the_other_line_ends_are_accepted_where_the_record_says_so(site, cached, monkeypatch):
    crlf = TABLE.replace(b"\n", b"\r\n")
    site.answers["/libsvm/toy"] = crlf
    fails(entry(Libsvm("toy")), "wrong checksum", cached)
    use(monkeypatch, entry(Libsvm("toy"), twin=sha(crlf)))
    assert load("toy").y.tolist() == [0.5, 1.5, 2.5]


@pytest.mark.parametrize("stated", [True, False])
def test_a_truncated_download_leaves_nothing(site, cached, stated):
    def truncated(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        if stated:
            request.send_header("Content-Length", str(len(TABLE)))
        request.end_headers()
        request.wfile.write(TABLE[:10])

    site.answers["/libsvm/toy"] = truncated
    fails(entry(Libsvm("toy")), "not downloaded .LIBSVM toy: " + ("" if stated else "wrong checksum"), cached)


def test_a_wrong_file_and_a_missing_one_leave_nothing_and_every_reason_is_given(site, cached):
    other = Source("toy", [File("other.csv", sha(TABLE))], read_csv, rows=3, origin=Libsvm("other"))
    record = entry(Libsvm("first"), other)
    site.answers["/libsvm/first"] = b"<html>we have moved</html>"
    fails(record, rf"LIBSVM first: wrong checksum: expected {sha(TABLE)[:12]}.*; LIBSVM other: .*404", cached)
    site.answers["/libsvm/other"] = TABLE
    assert fetch(record).paths == [cached / "toy/other.csv"]
    assert find(record).source is other


def test_a_refused_connection_says_what_was_looked_at_and_what_to_do(cached, monkeypatch):
    monkeypatch.setenv("DATASETS_MIRROR", "http://127.0.0.1:9")
    message = (
        r"^data set toy: not found in DATASETS_HOME \(not set\) nor in the cache \(.*/cache\), and not "
        r"downloaded \(UCI 7: .*refused.*\); to try again: python -m datasets fetch toy$"
    )
    fails(entry(Uci(7, "toy")), message, cached)


def test_without_download_or_origin_an_absent_set_is_only_reported(site, cached, monkeypatch):
    use(monkeypatch, entry(Libsvm("toy")))
    with pytest.raises(BadInput, match=r"toy: absent from .*cache; to get it: python -m datasets fetch toy"):
        load("toy", download=False)
    fails(entry(None), "nowhere to download it from: put it there as .*/cache/toy/toy.csv$", cached)
    assert site.asked == []


def test_an_archives_files_are_found_by_content_wherever_they_lie_and_nothing_else_is_written(site, cached, tmp_path):
    for members in (
        {"readme": b"hello", "deep/folder/other name.data": TABLE},
        {"readme": b"hello", "inner.zip": packed({"x/toy.csv": TABLE})},
        {"../evil": b"1", "../../evil": b"2", f"{tmp_path}/evil": b"3", "a/../../toy.csv": TABLE},
    ):
        site.answers["/uci/7/toy+set.zip"] = packed(members)
        path = fetch(entry(Uci(7, "toy+set"))).paths[0]
        assert path.read_bytes() == TABLE
        assert files_below(tmp_path) == ["cache/toy/toy.csv"]
        path.unlink()


def test_an_archive_without_the_right_content_or_of_absurd_size_is_refused(site, cached, monkeypatch):
    site.answers["/uci/7/toy.zip"] = packed({"toy.csv": TABLE + b"\n"})
    fails(entry(Uci(7, "toy")), r"no toy.csv with checksum \w{12}; it holds toy.csv", cached)
    monkeypatch.setattr("datasets.download._LARGEST", 10)
    fails(entry(Uci(7, "toy")), "refused", cached)


def test_an_archive_with_a_flipped_byte_is_one_line_wherever_that_lies(site, cached):
    whole = packed({"toy.csv": TABLE + bytes(range(40))})
    for at in range(0, len(whole), 9):
        site.answers["/uci/7/toy.zip"] = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        fails(entry(Uci(7, "toy")), "data set toy: not found in", cached)


def test_folders_that_are_none_are_reported(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(BadInput, match="cannot write to the cache folder"):
        fetch(entry(Libsvm("toy")))
    monkeypatch.setenv("DATASETS_HOME", "/no/such/folder")
    with pytest.raises(BadInput, match="DATASETS_HOME=/no/such/folder is not a folder"):
        find(entry(Libsvm("toy")))


ARFF = b"@relation toy\n@attribute a numeric\n@attribute t numeric\n@data\n1,0.1\n2,0.30000000000000004\n3,2\n"


def describe(site: Site, md5: str) -> None:
    """Have the site answer as OpenML does."""
    fields = f"<oml:url>{site.url}/toy.arff</oml:url><oml:md5_checksum>{md5}</oml:md5_checksum>"
    whole = f'<oml:data_set_description xmlns:oml="http://openml.org/openml">{fields}</oml:data_set_description>'
    site.answers |= {"/openml/data/7": whole.encode(), "/toy.arff": ARFF}


def toy(rows: int = 3, target: str = "t") -> Entry:
    return Entry("toy", "Toy", "t", 1, 0, "none", [openml_table("toy", OpenML(7, rows, columns=2, target=target))])


def test_openmls_table_is_kept_with_its_checksum_and_accepted_by_shape_and_target(site, cached, monkeypatch):
    describe(site, hashlib.md5(ARFF).hexdigest())
    fails(toy(rows=4), r"OpenML 7: its shape is \(3, 2\), expected \(4, 2\)", cached)
    fails(toy(target="u"), "with target 'u'", cached)
    use(monkeypatch, toy())
    assert load("toy").y.tolist() == [0.1, 0.30000000000000004, 2.0]
    assert files_below(cached) == ["toy/openml.csv", "toy/openml.csv.sha256"]
    asked = len(site.asked)
    assert load("toy").note == "OpenML's own file, accepted by its shape and target"
    assert len(site.asked) == asked

    (cached / "toy/openml.csv").write_text("a,t\n1,2\n3,4\n5,6\n")
    with pytest.raises(BadInput, match="wrong checksum"):
        load("toy")
    (cached / "toy/openml.csv.sha256").unlink()
    with pytest.raises(BadInput, match="expected missing"):
        load("toy")


def test_an_openml_file_that_is_not_what_openml_says_is_refused(site, cached):
    describe(site, "0" * 32)
    fails(toy(), "OpenML 7: .*hash of downloaded file", cached)
    site.answers["/openml/data/7"] = b"<html><p>sorry"
    fails(toy(), "OpenML 7: ", cached)


@pytest.fixture
def kaggle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kaggle's client, replaced by one that has everything in a folder already."""
    folder = tmp_path / "kaggle"
    folder.mkdir()
    client = types.ModuleType("kagglehub")
    client.dataset_download = lambda handle: str(folder)
    monkeypatch.setitem(sys.modules, "kagglehub", client)
    return folder


def test_kaggles_files_are_taken_by_name_and_verified(kaggle, cached, monkeypatch):
    (kaggle / "versions").mkdir()
    (kaggle / "versions/toy.csv").write_bytes(b"junk")
    fails(entry(Kaggle("who/what")), "Kaggle who/what: wrong checksum", cached)
    (kaggle / "versions/toy.csv").write_bytes(TABLE)
    (path,) = fetch(entry(Kaggle("who/what"))).paths
    assert path.read_bytes() == TABLE
    path.unlink()
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    fails(entry(Kaggle("who/what")), r"pip install -c constraints.txt -e '.\[kaggle\]'", cached)


def test_loose_files_of_an_unpacked_archive_are_packed_again(kaggle, cached):
    origin = Kaggle("who/what", packed="pictures/**/*.png")
    source = Source("toy", [File("pictures.zip", "")], read_csv, 3, origin=origin)
    record = Entry("toy", "Toy", "t", 1, 0, "none", [source])
    fails(record, "no file pictures.zip, nor the files that it would pack", cached)
    (kaggle / "pictures/sub").mkdir(parents=True)
    for name in ("b.png", "a.png"):
        (kaggle / "pictures/sub" / name).write_bytes(name.encode())
    path = fetch(record).paths[0]
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"a.png": b"a.png", "b.png": b"b.png"}
    first = path.read_bytes()
    path.unlink()
    assert fetch(record).paths[0].read_bytes() == first


@needs_home
def test_a_fetch_killed_midway_leaves_nothing_that_counts(site, cached):
    content = (RAW / "libsvm_a1a/a1a").read_bytes()
    midway, over = threading.Event(), threading.Event()

    def slow(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[: len(content) // 2])
        request.wfile.flush()
        midway.set()
        over.wait(20)

    site.answers["/libsvm/binary/a1a"] = slow
    command = [sys.executable, "-m", "datasets", "fetch", "a1a"]
    process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stderr=subprocess.DEVNULL)
    assert midway.wait(30)
    process.send_signal(signal.SIGKILL)
    assert process.wait(20) != 0
    over.set()
    assert files_below(cached) == []
    site.answers["/libsvm/binary/a1a"] = content
    assert fetch(entry_of("a1a")).paths[0].read_bytes() == content
    assert files_below(cached) == ["libsvm_a1a/a1a"]


@needs_home
def test_real_sets_download_to_the_same_values_as_the_reference_copy(site, cached, kaggle):
    lines = (RAW / "libsvm_splice/splice.txt").read_bytes().splitlines(keepends=True)
    archive = packed({path.name: path.read_bytes() for path in (RAW / "statlog_landsat_satellite").iterdir()})
    site.answers |= {
        "/libsvm/binary/splice": b"".join(lines[:1000]),
        "/libsvm/binary/w1a": (RAW / "libsvm_w1a/w1a.txt").read_bytes().replace(b"\r\n", b"\n"),  # as LIBSVM has it
        "/uci/146/statlog+landsat+satellite.zip": archive,
        "/uci/228/sms+spam+collection.zip": packed({"x": (RAW / "sms_spam/SMSSpamCollection").read_bytes()}),
    }
    for name in ("splice", "w1a", "satimage_code"):
        assert load(name).sha256 == entry_of(name).sources[0].sha256
    spam = load("spam")  # the stand-in of Kaggle's client has no such file, so UCI's copy is the fallback
    assert (len(spam.y), spam.y.sum(), "UCI" in spam.note) == (5574, 747, True)
    assert spam.sha256 == entry_of("spam").sources[1].sha256 != entry_of("spam").sources[0].sha256
