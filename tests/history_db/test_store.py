"""The history in SQLite: what it keeps, and what it says when it cannot."""

import os
import random
import shutil
import sqlite3
import struct
import subprocess
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from history_rows import a_job, a_log, a_profile
from hypothesis import given
from hypothesis import strategies as st

from sluice.history_db import connection
from sluice.history_db.errors import (
    BusyHistoryError,
    DamagedHistoryError,
    ForeignFileError,
    FullDiskError,
    HistoryError,
    MissingHistoryError,
    NewerHistoryError,
    OldHistoryError,
    ReadOnlyHistoryError,
)
from sluice.history_db.migrations import MIGRATIONS
from sluice.history_db.records import (
    NUMBERS,
    Application,
    Bundle,
    Decision,
    LogKey,
    Selection,
    Snapshot,
)
from sluice.history_db.sql import Base, restore
from sluice.history_db.store import Store
from sluice.policies import core

RELEASED = Path(__file__).parents[1] / "data" / "history" / "history-0.1.0.db"
LARGEST = (1 << 64) - 1


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


def a_decision(**changes) -> Decision:
    values = {
        "boot": LARGEST,
        "number": 1,
        "now": 1000,
        "cluster": "c1",
        "uid": 1000,
        "job_id": None,
        "joined_by": None,
        "record": b"\0\1",
        "bundle": LARGEST - 1,
        "snapshot": 5,
    }
    return Decision(**{**values, **changes})


def test_its_numbers_are_the_fields_of_a_profile_in_c():
    assert tuple(field.name for field in core.PROFILE_FIELDS) == NUMBERS


def test_a_log_comes_back_as_it_went_in(store):
    assert store.runs.add_logs([(a_log(), a_profile(), b"abcd")]) == [True]
    (run,) = store.runs.runs()
    assert (run.log, run.profile, run.features, run.job) == (a_log(), a_profile(), b"abcd", None)


def test_the_same_log_under_another_name_is_one_log(store):
    store.runs.add_logs([(a_log(), a_profile(), b"")])
    assert store.runs.add_logs([(a_log(path="/elsewhere"), a_profile(), b"")]) == [False]
    assert store.counts().logs == 1


def test_a_file_is_known_until_it_changes(store):
    store.runs.add_logs([(a_log(), a_profile(), b""), (a_log(2, reason="damaged"), None, b"")])
    same, changed = LogKey("/logs/1.darshan", 10, 1), LogKey("/logs/1.darshan", 10, 2)
    bad = LogKey("/logs/2.darshan", 10, 1)
    assert store.runs.known_files([same, changed, bad]) == {same: None, bad: "damaged"}


def test_a_repaired_log_leaves_quarantine(store):
    store.runs.add_logs([(a_log(1, reason="damaged"), None, b"")])
    store.runs.add_logs([(a_log(2, path="/logs/1.darshan"), a_profile(), b"")])
    assert store.runs.quarantined() == []
    assert store.counts().logs == 1


def test_a_log_belongs_to_the_job_of_its_id_user_and_time(store):
    store.runs.add_logs([(a_log(), a_profile(), b"")])
    store.jobs.upsert_jobs(
        [a_job(uid=1000), a_job(cluster="c2", uid=2000), a_job(submit=1, start=5, end=10)]
    )
    assert store.jobs.link_logs() == 1
    (run,) = store.runs.runs()
    assert run.job is not None
    assert (run.job.cluster, run.job.uid) == ("c1", 1000)
    assert [item.log_id for item in store.runs.runs_of_job(7, "c1")] == [run.log_id]
    assert store.runs.runs_of_job(7, "c2") == []


@pytest.mark.parametrize(
    "job",
    [a_job(uid=1001), a_job(job_id=8), a_job(start=5000, end=6000), a_job(start=10, end=900)],
    ids=["other user", "other id", "later", "earlier"],
)
def test_a_log_does_not_belong_to(store, job):
    store.runs.add_logs([(a_log(), a_profile(), b"")])
    store.jobs.upsert_jobs([job])
    assert store.jobs.link_logs() == 0


def test_a_job_is_completed_but_never_forgotten(store):
    assert store.jobs.upsert_jobs([a_job(name="run", state="RUNNING", end=None)]) == (1, 0)
    assert store.jobs.upsert_jobs([a_job(state="COMPLETED", end=1200)]) == (0, 1)
    assert store.jobs.upsert_jobs([a_job(state="COMPLETED", end=1200)]) == (0, 0)
    job = store.jobs.job(7)
    assert (job.name, job.state, job.end) == ("run", "COMPLETED", 1200)


def test_a_job_of_an_unnamed_cluster_is_the_one_that_is_known(store):
    """sacct without the column Cluster, after sluiced has seen the job, or before."""
    assert store.jobs.upsert_jobs([a_job(cluster="c", state="RUNNING", end=None)]) == (1, 0)
    assert store.jobs.upsert_jobs([a_job(cluster="", state="COMPLETED", end=1200)]) == (0, 1)
    (job,) = store.jobs.jobs_with_id(a_job().job_id)
    assert (job.cluster, job.state) == ("c", "COMPLETED")
    assert store.jobs.upsert_jobs([a_job(cluster="", submit=7)]) == (1, 0)
    assert store.jobs.upsert_jobs([a_job(cluster="c", submit=7)]) == (0, 1)
    assert {job.cluster for job in store.jobs.jobs_with_id(a_job().job_id)} == {"c"}


def test_a_job_of_an_unnamed_cluster_is_nobodys_where_two_have_its_number(store):
    store.jobs.upsert_jobs([a_job(cluster="c"), a_job(cluster="d")])
    assert store.jobs.upsert_jobs([a_job(cluster="", name="x")]) == (1, 0)
    assert sorted(job.cluster for job in store.jobs.jobs_with_id(a_job().job_id)) == ["", "c", "d"]
    assert store.jobs.upsert_jobs([a_job(cluster="", name="y")]) == (0, 1)


def test_a_script_signature_uses_all_64_bits(store):
    store.jobs.upsert_jobs([a_job(script_signature=LARGEST)])
    store.jobs.upsert_jobs([a_job(script_signature=LARGEST)])
    assert store.jobs.job(7).script_signature == LARGEST


@pytest.mark.parametrize("first", ["sacct", "sluiced"])
def test_a_requeued_job_is_one_also_where_sacct_does_not_count_restarts(store, first):
    told = {
        "sacct": a_job(submit=950, state="COMPLETED"),
        "sluiced": a_job(submit=950, restarts=1, source="sluiced"),
    }
    store.jobs.upsert_jobs([a_job(state="REQUEUED"), told.pop(first)])
    assert store.jobs.upsert_jobs(told.values()) == (0, 1)
    assert store.jobs.upsert_jobs([a_job(submit=950), a_job(submit=950, restarts=1)]) == (0, 0)
    latest, earlier = store.jobs.jobs_with_id(7)
    assert (latest.submit, latest.restarts, latest.state) == (950, 1, "COMPLETED")
    assert (earlier.submit, earlier.restarts, earlier.state) == (900, 0, "REQUEUED")


def test_reused_job_ids_are_told_apart_by_their_submission(store):
    store.jobs.upsert_jobs([a_job(submit=1), a_job(submit=500)])
    assert [job.submit for job in store.jobs.jobs_with_id(7)] == [500, 1]
    assert store.jobs.job(7, "elsewhere") is None


def test_a_decision_is_kept_once_and_joined_later(store):
    assert store.decisions.insert_decisions([a_decision(), a_decision(), a_decision(number=2)]) == 2
    assert store.decisions.insert_decisions([a_decision()]) == 0
    assert store.decisions.unjoined_decisions()[0] == a_decision()
    store.decisions.join_decisions([(LARGEST, 1, 77, "mark"), (LARGEST, 2, None, "tie")])
    assert store.decisions.unjoined_decisions() == []
    assert store.decisions.decisions_for_job(77) == [a_decision(job_id=77, joined_by="mark")]
    assert store.decisions.decision(LARGEST, 2).joined_by == "tie"
    assert len(store.decisions.decisions_of_user(1000, since=0, until=2000)) == 2
    assert len(store.decisions.latest_decisions(1)) == 1


def test_without_a_time_the_decisions_on_some_jobs_are_searched_among_the_latest(
    store, monkeypatch
):
    store.decisions.insert_decisions(
        a_decision(number=n, now=1000 + n, uid=n % 2) for n in range(10)
    )
    monkeypatch.setattr("sluice.history_db.tables.decisions.SEARCHED", 4)
    odd = Selection(uids=(1,))
    assert [row.number for row in store.decisions.latest_decisions(10, odd)] == [9, 7]
    everywhen = replace(odd, since=1)
    assert [row.number for row in store.decisions.latest_decisions(10, everywhen)] == [
        9,
        7,
        5,
        3,
        1,
    ]
    assert len(store.decisions.latest_decisions(10)) == 10


def test_snapshots_stay_as_long_as_a_decision_refers_to_them(store):
    store.decisions.insert_decisions([a_decision(snapshot=LARGEST)])
    for checksum in (LARGEST, 6):
        store.decisions.add_snapshot(Snapshot(checksum, 1, 100, b"bytes"))
    store.upkeep.prune(before=200)
    assert store.decisions.snapshot(LARGEST) == Snapshot(LARGEST, 1, 100, b"bytes")
    assert store.decisions.snapshot(6) is None


def nearly_equal_snapshots(count: int) -> list[Snapshot]:
    """Each has another time and one more element than the one before."""
    elements = [random.Random(i).randbytes(232) for i in range(100)]
    return [
        Snapshot(i + 1, i, 100 + i, struct.pack("<Q", i) + b"".join(elements[: 50 + i]))
        for i in range(count)
    ]


def test_snapshots_that_are_nearly_equal_take_little_room(store):
    snapshots = nearly_equal_snapshots(20)
    for snapshot in snapshots:
        store.decisions.add_snapshot(snapshot)
    assert [store.decisions.snapshot(one.checksum) for one in snapshots] == snapshots
    with closing(sqlite3.connect(store.path)) as db:
        ((stored,),) = db.execute("SELECT sum(length(content)) FROM snapshots")
    assert stored < sum(len(one.content) for one in snapshots) / 4


def test_a_base_stays_as_long_as_something_is_made_of_it(store):
    snapshots = nearly_equal_snapshots(3)
    for snapshot in snapshots:
        store.decisions.add_snapshot(snapshot)
    store.decisions.insert_decisions([a_decision(snapshot=2, now=1000)])
    store.upkeep.prune(before=500)
    assert store.decisions.snapshot(2) == snapshots[1]
    assert store.decisions.snapshot(3) is None
    store.decisions.add_snapshot(snapshots[2])
    store.upkeep.prune(before=2000)
    assert [store.decisions.snapshot(i) for i in (1, 2, 3)] == [None] * 3
    store.decisions.add_snapshot(snapshots[1])  # what it was compared with is gone
    assert store.decisions.snapshot(2) == snapshots[1]


@given(st.lists(st.binary(min_size=8, max_size=64)), st.data())
def test_a_delta_restores_what_it_was_made_of(elements, data):
    base = b"".join(elements)
    kept = data.draw(st.lists(st.sampled_from([*elements, b"x" * 40, b"y"]), max_size=20))
    content = b"".join(kept)
    assert restore(base, Base(base).delta(content)) == content


@given(st.binary(max_size=60))
def test_a_damaged_delta_is_refused_or_restores_something(delta):
    with suppress(ValueError):
        assert isinstance(restore(b"base" * 20, delta), bytes)


def test_decisions_that_are_alike_take_little_room(store):
    rng = random.Random(1)
    body = rng.randbytes(1500)
    decisions = [a_decision(number=i, record=body + rng.randbytes(20)) for i in range(1, 200)]
    store.decisions.insert_decisions(decisions[:150])
    with Store(store.path) as later:  # goes on with what is there
        later.decisions.insert_decisions(decisions[150:])
    stored = sorted(store.decisions.latest_decisions(1000), key=lambda row: row.number)
    assert [row.record for row in stored] == [row.record for row in decisions]
    with closing(sqlite3.connect(store.path)) as db:
        sizes = [n for (n,) in db.execute("SELECT length(record) FROM decisions ORDER BY number")]
    assert max(sizes[30:]) < 100


def test_a_dictionary_that_was_not_stored_is_not_used(store):
    decisions = [a_decision(number=i, record=bytes(2000)) for i in range(1, 40)]
    with pytest.raises(ZeroDivisionError):
        store.decisions.insert_decisions(one if one.number < 30 else 1 / 0 for one in decisions)
    store.decisions.insert_decisions(decisions)
    assert {row.record for row in store.decisions.latest_decisions(100)} == {bytes(2000)}
    store.upkeep.prune(before=1 << 40)
    store.decisions.insert_decisions(decisions)
    assert len(store.decisions.latest_decisions(100)) == 39


def test_a_base_that_somebody_else_has_forgotten_is_kept_anew(store):
    record = random.Random(2).randbytes(2000)
    store.decisions.insert_decisions([a_decision(number=i, record=record) for i in (1, 2)])
    with Store(store.path) as other:
        other.decisions.insert_decisions([a_decision(number=3, record=record[::-1], uid=9)] * 2)
        other.decisions.insert_decisions([a_decision(number=4, record=record[::-1], uid=9)])
        other.upkeep.prune(before=1 << 40)
    store.decisions.insert_decisions([a_decision(number=5, record=record)])
    assert [row.record for row in store.decisions.latest_decisions(9)] == [record]


def test_a_bundle_that_decisions_were_made_with_outlasts_later_ones(store):
    for number in (1, 2, 3):
        store.models.add_bundle(
            Bundle(number, None, "here", number, random.Random(number).randbytes(500))
        )
    store.decisions.insert_decisions([a_decision(bundle=1)])
    store.models.prune_models(1)
    assert [one.checksum for one in store.models.publications()] == [1, 3]
    store.upkeep.prune(before=1 << 40)
    store.models.prune_models(1)
    assert [one.checksum for one in store.models.publications()] == [3]


def test_lost_records_are_counted(store):
    store.decisions.add_loss(100, 7)
    store.decisions.add_loss(200, 5)
    assert (store.decisions.losses(since=0), store.decisions.losses(since=150)) == (12, 5)


def test_an_application_lists_the_runs_behind_it(store):
    store.runs.add_logs([(a_log(1), a_profile(), b""), (a_log(2, start=2000), a_profile(), b"")])
    first = store.models.reserve_applications(2)
    assert store.models.reserve_applications(1) == first + 2
    application = Application("user_name", LARGEST, "run of 1000", 2, (1, 2), first)
    model = store.models.add_model(b"npz", {"jobs": 2}, [application], created=5)
    assert store.models.applications(model) == [application]
    assert [run.log_id for run in store.models.runs_behind(first)] == [2, 1]
    assert store.models.runs_behind(first + 1) == []


def test_bundles_that_decisions_refer_to_are_kept(store):
    for i in range(5):
        model = store.models.add_model(b"", {}, [], created=i)
        store.models.add_bundle(Bundle(LARGEST - i, model, "/b", i, b"content"))
    store.decisions.insert_decisions([a_decision(bundle=LARGEST)])
    store.models.prune_models(keep=2)
    kept = [bundle.checksum for bundle in store.models.publications()]
    assert kept == [LARGEST, LARGEST - 3, LARGEST - 4]
    assert [model.id for model in store.models.trainings()] == [1, 4, 5]


def test_the_first_bytes_of_a_bundle_are_read_alone(store):
    store.models.add_bundle(Bundle(LARGEST, None, "/b", 1, bytes(range(256)) * 64))
    assert store.models.bundle_head(LARGEST, 300) == bytes(range(256)) + bytes(range(44))
    assert store.models.bundle_head(LARGEST, 1 << 20) == bytes(range(256)) * 64
    assert store.models.bundle_head(LARGEST - 1, 300) == b""


def test_a_failed_step_leaves_nothing_behind(store):
    with pytest.raises(HistoryError):
        store.runs.add_logs([(a_log(1), a_profile(), b""), (a_log(2, path=None), a_profile(), b"")])
    assert store.counts().logs == 0


def a_next_step(db):
    db.execute("ALTER TABLE logs ADD COLUMN of_tomorrow INTEGER")


def content_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every table's rows and the schema; not when migrations were applied."""
    with closing(sqlite3.connect(path)) as db:
        schema = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
        tables = [name for kind, name, _ in schema if kind == "table" and name != "migrations"]
        rows = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608 - the schema's names
        applied = db.execute("SELECT name FROM migrations").fetchall()
    return {**rows, "schema": schema, "migrations": applied}


def test_a_database_of_this_release_is_brought_up_to_date(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    shutil.copy(RELEASED, path)
    before = content_of(path)
    monkeypatch.setattr(connection, "MIGRATIONS", (*MIGRATIONS, a_next_step))
    with pytest.raises(OldHistoryError, match="from an older Sluice"):
        Store(path, read_only=True)
    with Store(path) as store:
        counts = store.counts()
        assert counts.logs == 3
        assert counts.quarantined == 1
        assert counts.jobs == 3
        assert counts.decisions == 1
        assert {run.profile.pattern for run in store.runs.runs()} == {"owc", "ws", "aw"}
        assert store.models.latest_model() is not None
        assert store.models.runs_behind(store.models.applications(1)[0].id)
        (published,) = store.models.publications()
        assert store.models.bundle(published.checksum).content
    after = content_of(path)
    assert after["migrations"] == [("a_next_step",), *before["migrations"]]
    assert [(*row, None) for row in before["logs"]] == after["logs"]
    assert before["jobs"] == after["jobs"]


def test_the_stored_database_of_this_release_has_the_schema_of_a_new_one(tmp_path):
    """What was released is never edited: a change comes as the next step."""
    path = tmp_path / "new.db"
    Store(path, create=True).close()
    assert content_of(RELEASED)["schema"] == content_of(path)["schema"]


# What can go wrong


def test_a_missing_history_says_how_to_make_one(tmp_path):
    with pytest.raises(MissingHistoryError, match="sluice history ingest"):
        Store(tmp_path / "none.db")


def test_a_name_of_any_bytes_is_fine(tmp_path):
    path = tmp_path / os.fsdecode(b"h?#%41\n\xff.db")
    Store(path, create=True).close()
    Store(path, read_only=True).close()
    assert path.is_file()


def test_a_history_that_was_moved_away_is_noticed(tmp_path):
    path = tmp_path / "h.db"
    with Store(path, create=True) as store:
        assert store.is_in_place()
        path.rename(tmp_path / "elsewhere.db")
        assert not store.is_in_place()
        with Store(path, create=True):
            assert not store.is_in_place()


def test_a_text_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, and long enough to be taken for one by its size" * 20)
    with pytest.raises(ForeignFileError, match="--history"):
        Store(path, create=True)
    assert path.read_text().startswith("not a database")


def test_a_database_of_others_is_refused(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    with pytest.raises(ForeignFileError, match="not a history of Sluice"):
        Store(path, create=True)


def test_a_newer_history_is_refused(tmp_path):
    path = tmp_path / "history.db"
    Store(path, create=True).close()
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO migrations VALUES ('m999_future', 0)")
    with pytest.raises(NewerHistoryError, match="m999_future"):
        Store(path)


def test_a_damaged_history_is_named(tmp_path):
    path = tmp_path / "history.db"
    with Store(path, create=True) as store:
        store.runs.add_logs([(a_log(i), a_profile(), bytes(500)) for i in range(200)])
    content = bytearray(path.read_bytes())
    content[8192:40960] = b"\xff" * (40960 - 8192)
    path.write_bytes(content)
    with pytest.raises(DamagedHistoryError, match="restore a copy"), Store(path) as store:
        list(store.runs.runs())


def test_a_writer_is_waited_for_only_so_long(tmp_path):
    path = tmp_path / "history.db"
    with Store(path, create=True, busy_seconds=0.05) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyHistoryError, match="another process"):
            store.runs.add_logs([(a_log(), a_profile(), b"")])
        other.execute("ROLLBACK")
        other.close()
        store.runs.add_logs([(a_log(), a_profile(), b"")])


def test_readers_do_not_wait_for_a_writer(tmp_path):
    path = tmp_path / "history.db"
    with Store(path, create=True) as store:
        store.runs.add_logs([(a_log(), a_profile(), b"")])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with Store(path, read_only=True, busy_seconds=0) as reader:
            assert reader.counts().logs == 1
        other.close()


def test_a_read_only_history_cannot_be_written(tmp_path):
    path = tmp_path / "history.db"
    Store(path, create=True).close()
    with Store(path, read_only=True) as store, pytest.raises(ReadOnlyHistoryError):
        store.runs.add_logs([(a_log(), a_profile(), b"")])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_costs_only_the_step_that_did_not_fit(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        with Store(disk / "history.db", create=True) as store:
            store.runs.add_logs([(a_log(1), a_profile(), b"")])
            with pytest.raises(FullDiskError, match="free some space"):
                store.runs.add_logs([(a_log(i), a_profile(), bytes(9000)) for i in range(2, 200)])
            assert store.counts().logs == 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Jobs that are requeued


def test_a_requeue_leaves_no_row_of_the_moment_in_between(store):
    first = a_job(submit=100, start=110, end=200, state="REQUEUED", restarts=0)
    between = a_job(submit=200, start=None, end=None, state="COMPLETING", restarts=1)
    again = a_job(submit=230, start=240, end=None, state="RUNNING", restarts=1)
    for job in (first, between, again, between):
        store.jobs.upsert_jobs([job])
    assert [(job.submit, job.state) for job in store.jobs.all_jobs()] == [
        (100, "REQUEUED"),
        (230, "RUNNING"),
    ]


def test_a_job_of_another_cluster_with_the_same_number_waits_on(store):
    waiting = a_job(cluster="a", submit=100, start=None, end=None, state="PENDING")
    store.jobs.upsert_jobs([waiting, a_job(cluster="b", submit=200)])
    assert len(store.jobs.all_jobs()) == 2


def test_bundles_that_differ_by_little_are_kept_as_what_differs(store):
    contents = [bytearray(random.Random(1).randbytes(1 << 16)) for _ in range(6)]
    for i, content in enumerate(contents):
        content[8 * i : 8 * i + 8] = b"changed!"
        store.models.add_bundle(Bundle(LARGEST - i, None, "/b", i, bytes(content)))
    assert [store.models.bundle(LARGEST - i).content for i in range(6)] == contents
    assert store.models.latest_bundle().checksum == LARGEST - 5
    assert store.models.bundle_head(LARGEST - 3, 64) == contents[3][:64]
    with closing(sqlite3.connect(store.path)) as db:
        sizes = sorted(row[0] for row in db.execute("SELECT length(content) FROM bundles"))
    assert (sizes[-1], sizes[-2] < 1 << 10) == (1 << 16, True)


def test_a_bundle_that_others_are_made_of_outlives_them(store):
    content = random.Random(1).randbytes(1 << 16)
    for i in range(6):
        store.models.add_bundle(Bundle(10 + i, None, "/b", i, content + bytes([i] * 8)))
    store.models.prune_models(keep=2)
    assert [bundle.checksum for bundle in store.models.publications()] == [10, 14, 15]
    assert store.models.bundle(15).content == content + bytes([5] * 8)
