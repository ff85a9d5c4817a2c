"""One trace and one bundle, by the plugin and by the replay: the same decisions, byte for byte."""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_model
import numpy as np
import pytest
from plugin_harness import Harness, build, drain, install
from submission_trace import PLENTY, decision_line, replay_submissions
from test_plugin import KINDS
from watched_core import Watched

from sluice.policies import core
from sluice.policies._core import ffi
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record, Situation, decide, replay_place
from sluice.policies.snapshot import Snapshot, pack_snapshot
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


def test_plugin_and_simulator_choose_the_same_block(tmp_path: Path) -> None:
    """Of jobs alongside others that run and wait, on targets that are not equally full."""
    site = one_pool(64)
    storage = storage_for(64, lanes=1, targets=16, servers=4, sharing="jobs")
    storage = replace(storage, placement="chance")
    replayable = make_replayable(generate(300, slots=64, load=1.2, seed=5), site)
    profiles = drawn_profiles(replayable.workload, heavy=0.7, seed=5)
    watched = Watched(replayable, site, profiles=profiles, storage=storage, policy="placement")
    placed = [one for one in watched.decided if one.block[1]]
    assert max(len(one.placed) for one in placed) >= 3
    assert len({one.block for one in placed}) > 8
    busiest = sorted(placed, key=lambda one: -len(one.placed) - len(one.corunners))
    harness = Harness(build(), tmp_path)
    files = harness.files
    install(files.bundle, watched.core.site.bundle)
    install(files.snapshot, busiest[0].snapshot())
    files.configure(Mode="enforce")
    settings = watched.core.site.config.removeprefix("Mode=enforce\n")
    install(files.config, files.config.read_bytes() + settings.encode())
    with harness:
        files.wait_until_loaded("config", "bundle", "snapshot")
        for i, decided in enumerate(busiest[: REPLAYED * 5 : 5]):
            snapshot = Snapshot.parse(decided.snapshot(sequence=i + 2))
            install(files.snapshot, decided.snapshot(sequence=i + 2))
            own = f"{snapshot.checksum:016x}"
            files.wait_for(lambda seen, own=own: seen["snapshot"]["checksum"] == own)
            harness.submit(time=decided.time, **decided.request)
            (record,) = map(Record.parse, drain(files.socket))
            situation = Situation(watched.bundle, snapshot)
            assert replay_place(record, situation, watched.config) == record.place.bytes
            assert record.decision.bytes == decided.decision
            # The plugin has not placed all those before.
            record.struct.place.turn, record.struct.place.since_count = decided.turn, 0
            content = replay_place(record, situation, watched.config)
            record.struct.place = place_of(content)
            block = record.place.job.block
            assert (block.first, block.count) == decided.block


def place_of(content: bytes) -> Any:
    place = ffi.new("struct sluice_place *")
    ffi.buffer(place)[:] = content
    return place[0]


TARGETS: tuple[dict[str, Any], ...] = (
    {"lane": 0, "target": 1, "used": 95.0, "capacity": 100.0},
    {"lane": 0, "target": 6, "missing": 0.5},
    {"lane": 0, "target": 12, "is_closed": 1},
)
"""One is full, one is slow, and one is down."""


def test_a_full_and_a_missing_target_are_left_out_everywhere(tmp_path: Path) -> None:
    """By the plugin and by what replays its records, from the same bytes."""
    conf = "Lane=sl0 Targets=16 Bandwidth=16G Place=blocks\n"
    spread = {"spread": {"rate": 0.1, "targets": 0.1}}
    writer = made_model.profile(np.random.default_rng(1), "aw") | made_model.HEAVY | spread
    known = {made_model.STREAM_JOB: writer | {"targets": 4.0, "rate": 2.0**30}}
    content = made_model.bundle_of_names(known, conf, created=made_model.CREATED)
    snapshot = pack_snapshot(
        state={"sequence": 1, "taken": int(time.time())},
        placed=[{"lane": 0, "block": {"first": 8, "count": 4}, "duty": 0.01, "nodes": 1.0}],
        targets=TARGETS,
    )
    harness = Harness(build(), tmp_path)
    files = harness.files
    install(files.bundle, content)
    install(files.snapshot, snapshot)
    files.configure(Mode="enforce")
    install(files.config, files.config.read_bytes() + conf.encode())
    now = Snapshot.parse(snapshot).state.taken + 1
    job = {
        "uid": 1000,
        "name": made_model.STREAM_JOB,
        "nodes": 4,
        "io_dir": 1,
        "script": "#!/bin/sh\n",
    }
    with harness:
        files.wait_until_loaded("config", "bundle", "snapshot")
        harness.set_total("sl0_stream", PLENTY[0])
        for _ in range(4):
            harness.submit(time=now, **job)
        by_plugin = [Record.parse(one) for one in drain(files.socket)]
    situation = Situation(Bundle.parse(content), Snapshot.parse(snapshot))
    config = core.read_config(files.config)
    since: list[Any] = []
    for turn, record in enumerate(by_plugin):
        again = decide(
            situation, config, core.submission_of(job), now, totals=PLENTY, turn=turn, since=since
        )
        assert again.place.bytes == record.place.bytes
        since.append(record.place.job)
    blocks = [record.place.job.block.first for record in by_plugin]
    assert blocks[0] == 8  # the job that waits there costs less than the slow target
    assert set(blocks) == {4, 8}
