"""Any user may choose any job name: what others did under it is no evidence of a job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_cases import NOW, corunner, snapshot
from finished import finished_job
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.history_db.records import Job, Log, Profile
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.record import Situation, decide
from sluice.prediction.applications import learn_applications
from sluice.prediction.hindsight import hindsight_of
from sluice.prediction.jobs import submission_of
from sluice.prediction.train import TrainedModel, bundle_of, fit, fit_quickly, past_of
from sluice.slurm.pending_records import known_of

CONFIG = core.default_config()
START = NOW - 400 * 86400
HOUR = 3600
BOB, LIAR = 1001, 2000
OTHERS = (1002, 1003, 1004, 1005)

WRITES = Profile(
    "owc",
    0.95,
    {"owc": 1.0},
    {
        "chunk_bytes": 65536.0, "nprocs": 256.0, "write_bytes": 1e12, "rate": 5e9,
        "io_share": 0.6, "bytes_per_flush": 65536.0, "creates_per_mib": 1.0,
        "unflushed_bytes": 0.0, "runtime_seconds": 1800.0,
    },
    0.5,
)  # fmt: skip
QUIET = Profile("none", 0.95, {"none": 1.0}, {"write_bytes": 0.0, "io_share": 0.0}, 0.5)
SILENT = Profile("unknown", 0.0, {}, {}, 1.0)


def runs(uid, profile=WRITES, count=6, *, since=0, **changes):
    """So many runs of the program that this user made, an hour after each other."""
    return [
        finished_job(
            profile,
            number=uid * 1000 + since + i,
            uid=uid,
            name=f"solver_{i}",
            start=START + (since + i) * HOUR,
            **changes,
        )
        for i in range(count)
    ]


def known_program():
    """Runs of those whose program it is: Bob's and other users'."""
    return [job for uid in (BOB, *OTHERS) for job in runs(uid)]


def learned(jobs, silent=()):
    return bundle_of(fit_quickly(jobs, silent=silent))


def the_job_of(uid):
    return submission_of(runs(uid, count=1)[0])


def told_by(bundle, uid):
    """What is predicted of a user's job; how sure that is, the whole site's record decides."""
    return {**bundle.predict(the_job_of(uid)).profile.to_dict(), "confidence": None}


def alongside(bundle, *uids):
    """What is decided on Bob's job while each of these users runs a job of the same name.

    They are in the snapshot as sluiced would put them there.
    """
    running = []
    for number, uid in enumerate(uids, start=1):
        record = decide(Situation(bundle, snapshot()), CONFIG, the_job_of(uid), NOW)
        known = known_of(record).prediction
        if known is not None and known.klass != "none":
            running.append(corunner(number, known.profile, klass=known.klass))
    return decide(Situation(bundle, snapshot(*running)), CONFIG, the_job_of(BOB), NOW).decision


def test_jobs_that_are_only_called_like_a_program_keep_nobody_waiting():
    bundle = learned(known_program())
    alone = alongside(bundle)
    assert alongside(bundle, *[LIAR] * 20).to_dict() == alone.to_dict()
    alongside_true_runs = alongside(bundle, *OTHERS)
    assert alongside_true_runs.alternatives[0].slowdown > 1.2 * alone.alternatives[0].slowdown


def test_a_first_run_ends_the_abstaining_when_it_bears_the_name_out():
    """That is what others' evidence is good for: a user alone needs three runs."""
    once = learned([*known_program(), *runs(LIAR, count=1)])
    found = once.predict(the_job_of(LIAR))
    assert (found.evidence, found.profile.pattern) == ("confirmed", "owc")
    assert found.profile.confidence >= CONFIG.policy.min_confidence
    alone = learned(runs(LIAR, count=1)).predict(the_job_of(LIAR))
    assert alone.profile.confidence < CONFIG.policy.min_confidence


@pytest.mark.parametrize("traces", ["log", "silence"])
def test_the_first_job_that_writes_nothing_ends_a_lie(traces):
    true_run = runs(LIAR, count=1)
    lie = runs(LIAR, QUIET if traces == "log" else SILENT, count=1, since=9, logs=())
    bundle = (
        learned([*known_program(), *true_run, *lie])
        if traces == "log"
        else learned([*known_program(), *true_run], lie)
    )
    assert bundle.predict(the_job_of(LIAR)).profile.confidence < CONFIG.policy.min_confidence
    assert alongside(bundle, LIAR).to_dict() == alongside(bundle).to_dict()


def test_a_liar_changes_nothing_that_is_predicted_of_others():
    honest = learned(known_program())
    misled = learned([*known_program(), *runs(LIAR, QUIET, count=500, since=100)])
    assert told_by(misled, BOB) == told_by(honest, BOB)
    new = learned(
        [*known_program(), *runs(LIAR, QUIET, count=500, since=100), *runs(3000, count=1)]
    ).predict(the_job_of(3000))
    assert (new.evidence, new.profile.pattern) == ("confirmed", "owc")


def alone_at_the_site(uid, jobs, silent):
    """Learn of one user's runs alone, with what the site's show of predictions as a whole."""
    hindsight = hindsight_of(jobs)
    table = learn_applications(
        [job for job in jobs if job.uid == uid],
        hindsight=hindsight,
        silent=[job for job in silent if job.uid == uid],
    )
    return bundle_of(TrainedModel(table, {"hindsight": hindsight.plain()}))


_PATTERNS = {name: replace(WRITES, pattern=name, shares={name: 1.0}) for name in ("owc", "ws")}
_RUN = st.tuples(
    st.sampled_from([BOB, LIAR, *OTHERS[:2]]),
    st.sampled_from(["owc", "ws", "none", "silent"]),
    st.floats(3, 15),  # powers of ten of bytes
    st.sampled_from(["solver", "other"]),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(_RUN, min_size=1, max_size=40), st.sampled_from([BOB, LIAR]))
def test_what_a_job_counts_as_is_what_the_users_own_runs_did(rows, uid):
    """Others that ran something under its name can say how sure that is, and no more."""
    jobs, silent = [], []
    for number, (owner, what, power, name) in enumerate(rows, start=1):
        profile = {"none": QUIET, "silent": SILENT, **_PATTERNS}[what]
        if what in _PATTERNS:
            profile = replace(profile, numbers=profile.numbers | {"write_bytes": 10**power})
        start = START + number * HOUR
        job = finished_job(profile, number=number, uid=owner, name=name, start=start)
        (silent if what == "silent" else jobs).append(job)
    bundle = learned(jobs, silent)
    own = alone_at_the_site(uid, jobs, silent)
    job = the_job_of(uid)
    found = bundle.predict(job)
    if core.counts(found):
        assert told_by(bundle, uid) == told_by(own, uid)
        assert core.class_of(found.profile, CONFIG.policy) == found.klass
    else:
        assert found.klass == "none"
        assert known_of(decide(Situation(bundle, snapshot()), CONFIG, job, NOW)).prediction is None


# Jobs without a trace, from the history


def accounted(job_id, uid, start, name="solver", **changes):
    return Job(
        "c", job_id, start, 0, name, None, uid, "phys", "main", None, 2, 8, 8, 60,
        start, start + 600, "COMPLETED", "0:0", None, None, "sluiced", **changes,
    )  # fmt: skip


def logged(job):
    return Log(
        job.job_id.to_bytes(16, "big"), f"/l/{job.job_id}", 1, 1, None, job.job_id, job.uid,
        "/apps/solver", job.start, job.end, 8, partial=False, format="3.41",
    )  # fmt: skip


def test_jobs_without_log_or_bytes_are_found_where_others_of_user_and_name_have_logs(tmp_path):
    with_log = [accounted(1, BOB, START), accounted(2, LIAR, START), accounted(9, BOB, NOW - HOUR)]
    silent = [accounted(3, LIAR, START + HOUR), accounted(4, LIAR, START + HOUR, write_bytes=9)]
    others = [
        accounted(5, LIAR, START + HOUR, write_bytes=1 << 40),  # it writes, nobody saw how
        accounted(6, LIAR, START + HOUR, name="quiet"),  # a program that never leaves one
        accounted(7, LIAR, NOW),  # whose log may still come
    ]
    with Store(tmp_path / "history.db", create=True) as store:
        store.jobs.upsert_jobs([*with_log, *silent, *others])
        store.runs.add_logs([(logged(job), WRITES, b"") for job in with_log])
        store.jobs.link_logs()
        past = past_of(store)
        entries = fit(past.jobs, past.silent).table
    assert sorted(job.start for job in past.silent) == [START + HOUR] * 2
    assert len(past.jobs) == 3
    agreement = {
        entry.application.label: entry.agreement
        for entry in entries
        if entry.application.evidence == "user_name"
    }
    assert agreement[f"solver of user {BOB}"] == 1.0
    assert 0.2 < agreement[f"solver of user {LIAR}"] < 0.5
