"""The ledger tells jobs apart, also when slurmctld counts their numbers again."""

import pytest
from core_cases import NOW
from hypothesis import given
from hypothesis import strategies as st
from waiting_jobs import job

from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import Record, decide
from sluice.slurm.pending_records import Ledger, known_of
from sluice.slurm.queue import Changes
from sluice.slurm.record_receiver import decision_of
from sluice.slurm.records import QueuedJob

BEFORE, AFTER = 0xB0, 0xA0  # two lives of slurmctld


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "history.db", create=True) as store:
        yield store


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("lab", started=NOW - 100)


def record_of(boot: int, now: int = NOW, **members: str) -> Record:
    submission = core.submission({"uid": 1000} | members)
    return decide(None, core.default_config(), submission, now, boot=boot, number=1, cluster="lab")


def take_record(ledger: Ledger, store: Store, name: str, boot: int, now: int = NOW) -> Record:
    record = record_of(boot, now, name=name)
    store.decisions.insert_decisions([decision_of(record)])
    ledger.add(record)
    return record


def update(ledger: Ledger, store: Store, *changed: QueuedJob, now: int = NOW) -> None:
    ledger.take(Changes(list(changed), []))
    ledger.look_up(store, now)
    ledger.join(now)
    ledger.write(store)


def jobs_of(store: Store) -> dict[int, int | None]:
    """Map the boots of the records to the jobs they were joined with."""
    rows = store.decisions.decisions_of_user(1000, since=NOW - 10, until=NOW + 10)
    return {row.boot: row.job_id for row in rows}


def test_a_number_used_again_within_the_second_is_another_job(ledger, store):
    take_record(ledger, store, "before", BEFORE)
    update(ledger, store, job(7, name="before", licenses=""))
    take_record(ledger, store, "after", AFTER)
    again = job(7, name="after", licenses="")
    update(ledger, store, again)
    assert jobs_of(store) == {BEFORE: 7, AFTER: 7}
    assert ledger.submission(again).name == "after"


def test_a_job_renamed_after_a_restart_stays_the_same(ledger, store):
    take_record(ledger, store, "before", BEFORE)
    update(ledger, store, job(7, name="before", licenses=""))
    take_record(ledger, store, "rejected", AFTER)
    renamed = job(7, name="renamed", licenses="")
    update(ledger, store, renamed)
    assert jobs_of(store) == {BEFORE: 7, AFTER: None}
    assert ledger.submission(renamed).name == "before"


@pytest.mark.parametrize("is_early", [True, False])
def test_a_record_that_the_history_has_too_is_taken_once(ledger, store, is_early):
    """It may arrive before the history is read, or after that."""
    record = record_of(BEFORE, name="run")
    store.decisions.insert_decisions([decision_of(record)])
    if is_early:
        ledger.add(record)
    update(ledger, store, job(7, name="run", licenses=""))
    if not is_early:
        ledger.add(record)
    update(ledger, store, job(8, name="run", licenses=""))
    assert (ledger.joined, jobs_of(store)) == (1, {BEFORE: 7})


@given(texts=st.fixed_dictionaries(dict.fromkeys(("name", "account", "partition"), st.text())))
def test_what_is_kept_of_a_record_is_what_was_submitted(texts):
    record = record_of(2**64 - 1, **texts)
    known = known_of(record)
    assert known.submission.bytes == record.submission.bytes
    assert (known.key, known.now) == (record.key, record.now)
