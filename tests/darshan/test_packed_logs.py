"""Files that are packed, and logs of Darshan 1 and 2, which are packed as a whole."""

import bz2
import gzip
import lzma

import pytest
from made_logs import MadeLog, appended

from sluice.history_db.store import Store
from sluice.ingest.ingest import ingest
from sluice.ingest.workers import Failure, read_profiles

ZSTD, LZ4 = bytes.fromhex("28b52ffd2058"), bytes.fromhex("04224d186440")


def reason_of(path, content):
    path.write_bytes(content)
    (result,) = read_profiles([path])
    assert isinstance(result, Failure)
    return result.reason


@pytest.fixture
def whole(tmp_path):
    log = MadeLog()
    appended(log)
    return log.write(tmp_path / "whole.darshan").read_bytes()


@pytest.mark.parametrize(
    ("pack", "name", "remedy"),
    [
        (gzip.compress, "gzip", "gunzip"),
        (bz2.compress, "bzip2", "bunzip2"),
        (lzma.compress, "xz", "unxz"),
        (lambda content: ZSTD + content, "zstd", "unzstd"),
        (lambda content: LZ4 + content, "lz4", "unlz4"),
        (lambda content: gzip.compress(content)[:30], "gzip", "gunzip"),
        (lambda content: b"\x1f\x8b" + content, "gzip", "gunzip"),
    ],
    ids=["gzip", "bzip2", "xz", "zstd", "lz4", "cut", "damaged"],
)
def test_a_packed_log_is_named_with_the_remedy(tmp_path, whole, pack, name, remedy):
    said = reason_of(tmp_path / "a.darshan.gz", pack(whole))
    assert said == f"compressed by {name}; unpack it ({remedy}) and name the result"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("version", ["1.24", "2.00", "2.06"])
def test_logs_of_darshan_1_and_2_are_named_with_the_remedy(tmp_path, pack, version):
    old = version.encode() + bytes(4) + (6567223).to_bytes(8, "little") + bytes(1000)
    said = reason_of(tmp_path / "a.darshan.gz", pack(old))
    assert said.startswith(
        f"a log of Darshan {version}, which Darshan 3 neither reads nor converts"
    )
    assert "darshan-parser" in said


def test_packed_logs_in_a_directory_are_named_too(tmp_path, whole):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.darshan.gz").write_bytes(gzip.compress(whole))
    (tmp_path / "logs" / "notes.gz").write_bytes(gzip.compress(b"notes"))
    with Store(tmp_path / "history.db", create=True) as store:
        summary = ingest(store, [tmp_path / "logs"])
    assert [failure.path.name for failure in summary.quarantined] == ["a.darshan.gz"]
    assert summary.other_files == 1
