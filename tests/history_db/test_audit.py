"""The audit: rows are added, and nothing else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sluice.history_db.records import AuditEntry, Bundle
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.prediction.publication import tell_publication
from sluice.slurm.audit import Auditor

CLUSTER = "c"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "history.db"


def entry(subject: str, after: str, **members) -> AuditEntry:
    given = {"at": 1000, "uid": 7, "cluster": CLUSTER, "before": "", "reason": "so"} | members
    return AuditEntry(subject=subject, after=after, **given)


def test_entries_come_back_in_their_order_and_the_latest_counts(path):
    rows = [entry("Mode", "advise"), entry("Mode", "enforce", at=900), entry("x", "1", uid=None)]
    with Store(path, create=True) as store:
        store.administration.add_audit(rows)
        store.administration.add_audit([entry("Mode", "off", cluster="other")])
        assert store.administration.audit()[:3] == rows
        assert [one.after for one in store.administration.audit(since=950)] == [
            "advise",
            "1",
            "off",
        ]
        assert store.administration.audited(CLUSTER) == {"Mode": "enforce", "x": "1"}


@pytest.mark.parametrize("statement", ["DELETE FROM audit", "UPDATE audit SET uid = 0"])
def test_nobody_changes_or_deletes_what_was_written(path, statement):
    with Store(path, create=True) as store:
        store.administration.add_audit([entry("Mode", "enforce")])
    with sqlite3.connect(path) as db:
        with pytest.raises(sqlite3.IntegrityError, match="stay as they are"):
            db.execute(statement)
        assert db.execute("SELECT count(*) FROM audit").fetchone() == (1,)


def test_pruning_keeps_the_audit(path):
    with Store(path, create=True) as store:
        store.administration.add_audit([entry("Mode", "enforce")])
        store.upkeep.prune(before=10**10, application=str)
        assert store.administration.audit()


def settings(tmp_path: Path, text: str) -> core.Config:
    off = tmp_path / "off"
    return core.parse_config("sluice.conf", f"OffFile={off}\n{text}".encode())


def told(store: Store, since: int = 0) -> list[tuple[str, str, str]]:
    return [
        (one.subject, one.before, one.after)
        for one in store.administration.audit()
        if one.subject != "OffFile" and one.at >= since
    ]


def test_sluiced_tells_what_changed_in_the_settings_also_while_it_was_down(path, tmp_path):
    conf = tmp_path / "sluice.conf"
    conf.touch()
    with Store(path, create=True) as store:
        first = settings(tmp_path, "Mode=advise\n")
        auditor = Auditor(conf)
        for now in (100, 200):
            auditor.tell(store, CLUSTER, first, now)
        assert told(store) == [("Mode", "observe", "advise")]
        auditor.tell(store, CLUSTER, settings(tmp_path, "Mode=enforce\nMaxDelay=60\n"), 300)
        assert told(store, 300) == [("Mode", "advise", "enforce"), ("MaxDelay", "1800", "60")]
        later = settings(tmp_path, "Mode=enforce\nModeOf=advise Accounts=a Lanes=sl0\n")
        Auditor(conf).tell(store, CLUSTER, later, 400)
        assert told(store, 400) == [
            ("ModeOf", "", "advise Accounts=a Lanes=sl0"),
            ("MaxDelay", "60", "1800"),
        ]
        Auditor(conf).tell(store, CLUSTER, later, 500)
        assert not told(store, 500)
        assert {one.uid for one in store.administration.audit()} == {conf.stat().st_uid}


def test_sluiced_tells_of_a_switch_that_no_command_told_of(path, tmp_path):
    conf = tmp_path / "sluice.conf"
    config = settings(tmp_path, "")
    off = Path(config.off_file)
    with Store(path, create=True) as store:
        auditor = Auditor(conf)
        auditor.tell(store, CLUSTER, config, 100)
        auditor.tell(store, CLUSTER, config, 150)
        off.write_text("the file system is ill\n")
        auditor.tell(store, CLUSTER, config, 200)
        assert not told(store)  # its command may still say so
        auditor.tell(store, CLUSTER, config, 211)
        [found] = [one for one in store.administration.audit() if one.subject == "switch"]
        assert (found.at, found.before, found.after) == (200, "on", "off")
        assert (found.uid, found.reason) == (off.stat().st_uid, "the file system is ill")
        off.unlink()
        auditor.tell(store, CLUSTER, config, 300)
        auditor.tell(store, CLUSTER, config, 320)
        assert told(store, 300) == [("switch", "off", "on")]
        assert store.administration.audit()[-1].uid is None


def test_a_publication_is_told_with_the_bundle_that_it_replaced(path):
    def bundle(model: int) -> Bundle:
        return Bundle(checksum=model, model=model, path="/b", published_at=100 + model, content=b"")

    with Store(path, create=True) as store:
        tell_publication(store, None, bundle(1), uid=7, reason="first")
        tell_publication(store, bundle(1), bundle(1), uid=7, reason="the same")
        tell_publication(store, bundle(1), bundle(2), uid=0, reason="")
        assert [
            (one.subject, one.before, one.after, one.uid) for one in store.administration.audit()
        ] == [
            ("/b", "", "model 1, 0000000000000001", 7),
            ("/b", "model 1, 0000000000000001", "model 2, 0000000000000002", 0),
        ]
