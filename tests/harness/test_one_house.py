"""One trace and one bundle, by the plugin and by the replay: the same decisions, byte for byte."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import made_model
import pytest
from plugin_harness import Harness, build, drain, install
from submission_trace import PLENTY, decision_line, replay_submissions
from test_plugin import KINDS
from watched_core import Watched

from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record
from sluice.policies.snapshot import Snapshot
from sluice.sim.storage.mean_field import storage_for
from sluice.sim.trace.lublin import generate
from sluice.sim.trace.machine import one_pool
from sluice.sim.trace.profiles import drawn_profiles
from sluice.sim.trace.repairs import make_replayable

CONF = """\
MinConfidence=0.4
ModeOf=off Accounts=project3
ModeOf=off Partitions=debug
Include=salloc,cron
Lane=sl0 Targets=4 Bandwidth=1G
Lane=sl1 Targets=4 Bandwidth=1G
"""


Job = dict[str, str | int]


def trace(start: int) -> list[Job]:
    """Every kind of job and three hundred different ones, around the snapshot's age limit.

    Each comes twice in its second, as from a loop that counts its jobs.
    """
    jobs = [made_model.KNOWN_JOB | kind for kind in KINDS.values()]
    jobs += [made_model.job(i, known=i % 3 > 0) for i in range(300)]
    jobs += [job | {"name": "é-" * 60} for job in jobs[:1]]
    return [
        {"time": start + i // 4, **each}
        for i, job in enumerate(jobs)
        for each in (job, next_of(job))
    ]


def next_of(job: Job) -> Job:
    """What a loop submits after this job: another number in its name and in an option."""
    name = re.sub(r"[0-9]+", "777", str(job["name"]))
    command, _, rest = str(job["submit_line"]).partition(" ")
    return job | {"name": name, "submit_line": f"{command} --comment=777 {rest}"}


@pytest.fixture(params=["observe", "enforce"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(build(), tmp_path)
    files = harness.files
    install(files.bundle, made_model.bundle(applications=150))
    install(files.snapshot, made_model.snapshot(corunners=12))
    files.configure(Mode=request.param)
    install(files.config, files.config.read_bytes() + CONF.encode())
    with harness:
        files.wait_until_loaded("config", "bundle", "snapshot")
        yield harness


def test_plugin_and_replay_decide_alike_to_the_last_bit(harness: Harness) -> None:
    files = harness.files
    snapshot = Snapshot.load(files.snapshot, os.geteuid())
    jobs = trace(snapshot.state.taken)
    assert len({str(job["name"]) for job in jobs}) > len(jobs) / 2
    for lane in ("all", "sl0", "sl1"):
        for token in ("stream", "flush", "meta"):
            harness.set_total(f"{lane}_{token}", PLENTY[0])
    for job in jobs:
        harness.submit(**job)
    by_plugin = [Record.parse(content) for content in drain(files.socket)]
    by_replay = list(
        replay_submissions(
            jobs,
            bundle=Bundle.load(files.bundle, os.geteuid()),
            snapshot=snapshot,
            config=core.read_config(files.config),
        )
    )
    assert len(by_plugin) == len(by_replay) == len(jobs)
    assert [decision_line(r) for r in by_plugin] == [decision_line(r) for r in by_replay]
    assert [r.decision.bytes for r in by_plugin] == [r.decision.bytes for r in by_replay]
    assert [r.submission.bytes for r in by_plugin] == [r.submission.bytes for r in by_replay]
    reasons = {record.decision.reason for record in by_plugin}
    evidence = {record.prediction.evidence for record in by_plugin}
    assert len(reasons) >= 8, reasons
    assert {"user_name", "none"} <= evidence
    assert files.stats()["repeated"] >= len(jobs) // 2


REPLAYED = 4
"""Moments of a replay that the plugin is put into; each takes a new snapshot."""


def test_plugin_and_replay_of_policies_decide_alike(tmp_path: Path) -> None:
    """What Sluice decided in a replay of a whole trace, the plugin decides in the same cluster."""
    site, storage = one_pool(64), storage_for(64, targets=8)
    replayable = make_replayable(generate(300, slots=64, load=0.9, seed=5), site)
    profiles = drawn_profiles(replayable.workload, heavy=0.7, seed=5)
    watched = Watched(
        replayable, site, profiles=profiles, storage=storage, policy="sluice-auto", max_delay=86400
    )
    busiest = sorted(watched.decided, key=lambda decided: -len(decided.corunners))
    harness = Harness(build(), tmp_path)
    files = harness.files
    install(files.bundle, watched.core.site.bundle)
    install(files.snapshot, busiest[0].snapshot())
    files.configure(Mode="enforce")
    settings = watched.core.site.config.removeprefix("Mode=enforce\n")
    install(files.config, files.config.read_bytes() + settings.encode())
    with harness:
        files.wait_until_loaded("config", "bundle", "snapshot")
        for i, decided in enumerate(busiest[: REPLAYED * 10 : 10]):
            snapshot = decided.snapshot(sequence=i + 2)
            install(files.snapshot, snapshot)
            checksum = Snapshot.parse(snapshot).checksum
            files.wait_for(lambda seen, own=checksum: seen["snapshot"]["checksum"] == f"{own:016x}")
            harness.submit(time=decided.time, **decided.request)
            (record,) = map(Record.parse, drain(files.socket))
            assert record.decision.bytes == decided.decision
            record.struct.submission.lot = 0  # a replay of policies holds nobody out
            assert record.submission.bytes == decided.submission
