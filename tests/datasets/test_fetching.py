"""Downloads, from a local server in place of the sites."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
import types
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import ROOT, needs_home

from datasets.catalogue import Entry, File, Kaggle, Libsvm, OpenML, Origin, Source, Uci
from datasets.download import fetch, find
from datasets.errors import BadInput
from datasets.formats import read_csv
from datasets.loading import load
from datasets.sets.openml import openml_copy

RAW = Path(os.environ.get("DATASETS_HOME", "/nonexistent"))  # before the fixtures unset it
TABLE = b"a,t\n1,0.5\n2,1.5\n3,2.5\n"
Answer = bytes | Callable[[BaseHTTPRequestHandler], None]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def packed(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
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


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("DATASETS_MIRROR", made.url)
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no data folder."""
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DATASETS_HOME", raising=False)
    return tmp_path / "cache"


def entry(origin: Origin | None, *more: Source, data: bytes = TABLE, twin: str = "") -> Entry:
    file = File("toy/toy.csv", sha(data), twin)
    source = Source((file,), lambda files: read_csv(files[0]), rows=3, sha256="", origin=origin)
    return Entry("toy", "Toy", "regression", "t", 1, 0, "none", (source, *more))


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def fails(record: Entry, message: str, cache: Path) -> None:
    """Fetching fails with that one line and leaves nothing at all behind."""
    with pytest.raises(BadInput, match=message) as caught:
        fetch(record)
    assert "\n" not in str(caught.value)
    assert files_below(cache) == []
    assert list(cache.iterdir()) == []


def use(monkeypatch: pytest.MonkeyPatch, record: Entry) -> None:
    monkeypatch.setattr("datasets.catalogue.entries", lambda: {record.name: record})


def test_a_good_download_lands_in_the_cache_and_is_not_repeated(site, cached, monkeypatch):
    site.answers["/libsvm/binary/toy"] = TABLE
    use(monkeypatch, entry(Libsvm("binary/toy")))
    first = load("toy")
    assert first.X["a"].tolist() == [1, 2, 3]
    assert first.y.tolist() == [0.5, 1.5, 2.5]
    assert files_below(cached) == ["toy/toy.csv"]
    assert load("toy").sha256 == first.sha256
    assert fetch(entry(Libsvm("binary/toy"))).place == "cache"
    assert site.asked == ["/libsvm/binary/toy"]


def test_a_data_folder_comes_before_the_cache_and_the_cache_before_the_site(site, cached, tmp_path, monkeypatch):
    record = entry(Libsvm("toy"))
    for folder in (cached / "toy", tmp_path / "home/toy"):
        folder.mkdir(parents=True)
        (folder / "toy.csv").write_bytes(TABLE)
    assert find(record).place == "cache"
    monkeypatch.setenv("DATASETS_HOME", str(tmp_path / "home"))
    assert find(record).place == "home"
    use(monkeypatch, record)
    load("toy")
    assert site.asked == []


def test_a_wrong_checksum_in_the_data_folder_is_refused_not_replaced(site, cached, tmp_path, monkeypatch):
    site.answers["/libsvm/toy"] = TABLE
    (tmp_path / "home/toy").mkdir(parents=True)
    wrong = tmp_path / "home/toy/toy.csv"
    wrong.write_bytes(TABLE + b"4,4\n")
    monkeypatch.setenv("DATASETS_HOME", str(tmp_path / "home"))
    use(monkeypatch, entry(Libsvm("toy")))
    with pytest.raises(BadInput) as caught:
        load("toy")
    expected, actual = sha(TABLE)[:12], sha(TABLE + b"4,4\n")[:12]
    assert str(caught.value) == f"data set toy: wrong checksum: expected {expected}, got {actual}: {wrong}"
    assert site.asked == []


def test_a_data_folder_that_is_none_is_told(monkeypatch):
    monkeypatch.setenv("DATASETS_HOME", "/no/such/folder")
    with pytest.raises(BadInput, match="DATASETS_HOME=/no/such/folder is not a folder"):
        find(entry(Libsvm("toy")))


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


def test_a_truncated_download_leaves_nothing(site, cached):
    def truncated(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(TABLE)))
        request.end_headers()
        request.wfile.write(TABLE[:10])

    site.answers["/libsvm/toy"] = truncated
    fails(entry(Libsvm("toy")), "not downloaded .LIBSVM toy: ", cached)


def test_a_download_cut_short_without_a_stated_length_leaves_nothing(site, cached):
    def silent(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(TABLE[:10])

    site.answers["/libsvm/toy"] = silent
    fails(entry(Libsvm("toy")), "wrong checksum", cached)


def test_a_wrong_file_and_a_missing_one_leave_nothing(site, cached):
    fails(entry(Libsvm("toy")), "404", cached)
    site.answers["/libsvm/toy"] = b"<html>we have moved</html>"
    fails(entry(Libsvm("toy")), f"wrong checksum: expected {sha(TABLE)[:12]}", cached)


def test_a_refused_connection_says_what_was_looked_at_and_what_to_do(cached, monkeypatch):
    monkeypatch.setenv("DATASETS_MIRROR", "http://127.0.0.1:9")
    message = (
        r"^data set toy: not found in DATASETS_HOME \(not set\) nor in the cache \(.*/cache\), and not "
        r"downloaded \(UCI 7: .*refused.*\); to try again: python -m datasets fetch toy$"
    )
    fails(entry(Uci(7, "toy")), message, cached)


def test_without_download_an_absent_set_is_only_reported(site, cached, monkeypatch):
    use(monkeypatch, entry(Libsvm("toy")))
    with pytest.raises(BadInput, match=r"toy: absent from .*cache; to get it: python -m datasets fetch toy"):
        load("toy", download=False)
    assert site.asked == []


def test_an_archives_files_are_found_by_content_in_folders_and_nested_archives(site, cached):
    for archive in (
        packed({"readme": b"hello", "deep/folder/other name.data": TABLE}),
        packed({"readme": b"hello", "inner.zip": packed({"x/toy.csv": TABLE})}),
    ):
        site.answers["/uci/7/toy+set.zip"] = archive
        path = fetch(entry(Uci(7, "toy+set"))).paths[0]
        assert path.read_bytes() == TABLE
        path.unlink()


def test_an_archive_without_the_right_content_is_refused(site, cached):
    site.answers["/uci/7/toy.zip"] = packed({"toy.csv": TABLE + b"\n"})
    fails(entry(Uci(7, "toy")), r"no toy.csv with checksum \w{12}; it holds toy.csv", cached)
    site.answers["/uci/7/toy.zip"] = packed({"toy.csv": TABLE})[:-30]
    fails(entry(Uci(7, "toy")), "not a zip file", cached)


def test_an_archive_with_a_flipped_byte_is_one_line_wherever_that_lies(site, cached):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toy.csv", TABLE + bytes(range(256)))
    whole = buffer.getvalue()
    for at in range(0, len(whole), 4):
        site.answers["/uci/7/toy.zip"] = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        with pytest.raises(BadInput, match="data set toy: not found in"):
            fetch(entry(Uci(7, "toy")))


def test_an_archive_cannot_write_outside_its_folder(site, cached, tmp_path):
    outside = {"../evil": b"1", "../../evil": b"2", f"{tmp_path}/evil": b"3", "a/../../toy.csv": TABLE}
    site.answers["/uci/7/toy.zip"] = packed(outside)
    assert fetch(entry(Uci(7, "toy"))).paths == (cached / "toy/toy.csv",)
    assert files_below(tmp_path) == ["cache/toy/toy.csv"]


def test_an_archive_member_of_absurd_size_is_refused(site, cached, monkeypatch):
    monkeypatch.setattr("datasets.download._LARGEST", 10)
    site.answers["/uci/7/toy.zip"] = packed({"toy.csv": TABLE})
    fails(entry(Uci(7, "toy")), "refused", cached)


def test_the_next_source_is_tried_and_every_reason_is_given(site, cached):
    other = Source(
        (File("toy/other.csv", sha(TABLE)),),
        lambda files: read_csv(files[0]),
        rows=3,
        sha256="",
        origin=Libsvm("other"),
    )
    record = entry(Libsvm("first"), other)
    fails(record, r"LIBSVM first: .*404.*; LIBSVM other: .*404", cached)
    site.answers["/libsvm/other"] = TABLE
    assert fetch(record).paths == (cached / "toy/other.csv",)
    assert find(record).source is other


def test_a_file_without_an_origin_is_only_looked_for(site, cached, tmp_path, monkeypatch):
    record = entry(None)
    with pytest.raises(BadInput, match="not found"):
        fetch(record)
    (tmp_path / "home/toy").mkdir(parents=True)
    (tmp_path / "home/toy/toy.csv").write_bytes(TABLE)
    monkeypatch.setenv("DATASETS_HOME", str(tmp_path / "home"))
    use(monkeypatch, record)
    assert len(load("toy").y) == 3


def test_a_cache_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COST_AWARE_BO_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(BadInput, match="cannot be made"):
        fetch(entry(Libsvm("toy")))


DESCRIPTION = """<oml:data_set_description xmlns:oml="http://openml.org/openml">
<oml:id>7</oml:id><oml:name>toy</oml:name><oml:version>1</oml:version>
<oml:description>toy</oml:description><oml:format>ARFF</oml:format><oml:licence>x</oml:licence>
<oml:url>{url}/toy.arff</oml:url><oml:file_id>7</oml:file_id>
<oml:default_target_attribute>t</oml:default_target_attribute>
<oml:status>active</oml:status><oml:md5_checksum>{md5}</oml:md5_checksum>
</oml:data_set_description>"""
FEATURES = """<oml:data_features xmlns:oml="http://openml.org/openml">
<oml:feature><oml:index>0</oml:index><oml:name>a</oml:name><oml:data_type>numeric</oml:data_type>
<oml:is_target>false</oml:is_target><oml:is_ignore>false</oml:is_ignore>
<oml:is_row_identifier>false</oml:is_row_identifier>
<oml:number_of_missing_values>0</oml:number_of_missing_values></oml:feature>
<oml:feature><oml:index>1</oml:index><oml:name>t</oml:name><oml:data_type>numeric</oml:data_type>
<oml:is_target>true</oml:is_target><oml:is_ignore>false</oml:is_ignore>
<oml:is_row_identifier>false</oml:is_row_identifier>
<oml:number_of_missing_values>0</oml:number_of_missing_values></oml:feature>
</oml:data_features>"""
ARFF = b"@relation toy\n@attribute a numeric\n@attribute t numeric\n@data\n1,0.1\n2,0.30000000000000004\n3,2\n"


def test_openmls_table_is_kept_with_its_checksum_and_accepted_by_shape_and_target(site, cached, monkeypatch):
    import openml

    before = openml.config.server, openml.config._root_cache_directory
    md5 = hashlib.md5(ARFF).hexdigest()
    site.answers["/openml/data/7"] = DESCRIPTION.format(url=site.url, md5=md5).encode()
    site.answers["/openml/data/features/7"] = FEATURES.encode()
    site.answers["/toy.arff"] = ARFF

    def toy(rows: int, target: str) -> Entry:
        source = openml_copy("toy", OpenML(7, rows=rows, columns=2, target=target))
        return Entry("toy", "Toy", "regression", "t", 1, 0, "none", (source,))

    fails(toy(4, "t"), r"OpenML 7: its shape is \(3, 2\), expected \(4, 2\)", cached)
    fails(toy(3, "u"), "with target 'u'", cached)
    use(monkeypatch, toy(3, "t"))
    assert load("toy").y.tolist() == [0.1, 0.30000000000000004, 2.0]
    assert files_below(cached) == ["toy/openml.csv", "toy/openml.csv.sha256"]
    asked = len(site.asked)
    assert load("toy").note == "OpenML's own file, accepted by its shape and target"
    assert len(site.asked) == asked
    assert (openml.config.server, openml.config._root_cache_directory) == before

    (cached / "toy/openml.csv").write_text("a,t\n1,2\n3,4\n5,6\n")
    with pytest.raises(BadInput, match="wrong checksum"):
        load("toy")
    (cached / "toy/openml.csv.sha256").unlink()
    with pytest.raises(BadInput, match="expected missing"):
        load("toy")


def test_an_openml_file_that_is_not_what_openml_says_is_refused(site, cached):
    site.answers["/openml/data/7"] = DESCRIPTION.format(url=site.url, md5="0" * 32).encode()
    site.answers["/openml/data/features/7"] = FEATURES.encode()
    site.answers["/toy.arff"] = ARFF
    source = openml_copy("toy", OpenML(7, rows=3, columns=2, target="t"))
    fails(Entry("toy", "Toy", "regression", "t", 1, 0, "none", (source,)), "(?i)OpenML 7: .*checksum", cached)


@pytest.fixture
def kaggle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kaggle's client, replaced by one that has everything in a folder already."""
    folder = tmp_path / "kaggle"
    folder.mkdir()
    client = types.ModuleType("kagglehub")
    client.dataset_download = lambda handle: str(folder) if handle == "who/what" else None
    monkeypatch.setitem(sys.modules, "kagglehub", client)
    return folder


def test_kaggles_files_are_taken_by_name_and_verified(kaggle, cached):
    (kaggle / "versions").mkdir()
    (kaggle / "versions/toy.csv").write_bytes(b"junk")
    fails(entry(Kaggle("who/what")), "Kaggle who/what: wrong checksum", cached)
    (kaggle / "versions/toy.csv").write_bytes(TABLE)
    assert fetch(entry(Kaggle("who/what"))).paths[0].read_bytes() == TABLE


def test_loose_files_of_an_unpacked_archive_are_packed_again(kaggle, cached):
    origin = Kaggle("who/what", packed="pictures/**/*.png")
    files = (File("toy/pictures.zip", ""),)
    source = Source(files, lambda files: read_csv(files[0]), 3, "", origin)
    record = Entry("toy", "Toy", "regression", "t", 1, 0, "none", (source,))
    fails(record, "neither 0-pictures.zip nor the files in it", cached)
    (kaggle / "pictures/sub").mkdir(parents=True)
    for name in ("b.png", "a.png"):
        (kaggle / "pictures/sub" / name).write_bytes(name.encode())
    path = fetch(record).paths[0]
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "a.png": b"a.png",
            "b.png": b"b.png",
        }
    first = path.read_bytes()
    path.unlink()
    assert fetch(record).paths[0].read_bytes() == first


def test_without_kaggles_client_the_extra_is_named(cached, monkeypatch):
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    fails(entry(Kaggle("who/what")), r"pip install -c constraints.txt -e '.\[kaggle\]'", cached)


@needs_home
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_fetch_killed_midway_leaves_nothing_that_counts(site, cached, number):
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
    time.sleep(0.2)
    process.send_signal(number)
    assert process.wait(20) != 0
    over.set()
    left = list(cached.iterdir())
    assert all(path.name.endswith(".part") for path in left)
    assert left == [] or number == signal.SIGKILL  # what cannot be caught is cleared by the next fetch
    site.answers["/libsvm/binary/a1a"] = content
    assert subprocess.run(command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.DEVNULL).returncode == 0
    assert [path.name for path in cached.iterdir()] == ["libsvm_a1a"]
    assert (cached / "libsvm_a1a/a1a").read_bytes() == content


@needs_home
@pytest.mark.parametrize(
    "name", ["abalone", "satimage_code", "a3a", "splice", "w1a", "sonar", "ionosphere", "australian"]
)
def test_real_sets_download_to_the_same_values_as_the_reference_copy(site, cached, name):
    from datasets.catalogue import entry_of

    if name == "splice":
        lines = (RAW / "libsvm_splice/splice.txt").read_bytes().splitlines(keepends=True)
        site.answers["/libsvm/binary/splice"] = b"".join(lines[:1000])
    elif name == "a3a":
        site.answers["/libsvm/binary/a3a"] = (RAW / "libsvm_a3a/a3a.txt").read_bytes()
    elif name == "w1a":  # LIBSVM's own file has the other line ends
        site.answers["/libsvm/binary/w1a"] = (RAW / "libsvm_w1a/w1a.txt").read_bytes().replace(b"\r\n", b"\n")
    else:
        folder = RAW / {"satimage_code": "statlog_landsat_satellite"}.get(name, name)
        number = {
            "abalone": "1/abalone", "satimage_code": "146/statlog+landsat+satellite", "ionosphere": "52/ionosphere",
            "sonar": "151/connectionist+bench+sonar+mines+vs+rocks",
            "australian": "143/statlog+australian+credit+approval",
        }[name]  # fmt: skip
        site.answers[f"/uci/{number}.zip"] = packed({p.name: p.read_bytes() for p in folder.iterdir()})
    assert load(name).sha256 == entry_of(name).sources[0].sha256
    assert len(site.asked) == 1


@needs_home
def test_letters_from_kaggle_and_spam_from_its_fallback(site, cached, kaggle, monkeypatch):
    from datasets.catalogue import entry_of

    folder = RAW / "handwritten_letters"
    letters = entry_of("letters")
    client = sys.modules["kagglehub"]
    monkeypatch.setattr(client, "dataset_download", lambda handle: str(kaggle))
    (kaggle / "letters2.csv").write_bytes((folder / "letters2.csv").read_bytes())
    (kaggle / "letters2.zip").write_bytes((folder / "letters2_png.zip").read_bytes())
    data = load("letters")
    assert data.sha256 == letters.sources[0].sha256
    assert (cached / "handwritten_letters/letters2.zip").is_file()

    site.answers["/uci/228/sms+spam+collection.zip"] = packed(
        {"SMSSpamCollection": (RAW / "sms_spam/SMSSpamCollection").read_bytes()}
    )
    spam = load("spam")  # the stand-in client has no such file, so UCI's copy is the fallback
    assert len(spam.y) == 5574
    assert spam.y.sum() == 747
    assert spam.sha256 == entry_of("spam").sources[1].sha256 != entry_of("spam").sources[0].sha256
    assert "UCI" in spam.note
