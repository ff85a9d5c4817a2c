"""A small site with everything that a page can show, and the server of its pages.

    python tests/lab/served_site.py DIRECTORY [PORT]

serves it on loopback, to be looked at; the token is TOKEN.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import core_cases
from history_rows import a_job, a_log, a_profile

from sluice.history_db import records
from sluice.history_db.store import Store
from sluice.policies import core
from sluice.policies.bundle import Bundle
from sluice.policies.record import Record, Situation, decide
from sluice.policies.review import packed
from sluice.policies.snapshot import Snapshot, pack_snapshot
from sluice.prediction.publication import standing_reviews
from sluice.serve import pages
from sluice.serve.access import Door
from sluice.serve.app import create_app
from sluice.serve.server import bind, serve
from sluice.serve.site import Site
from sluice.slurm.record_receiver import decision_of
from sluice.slurm.status import SnapshotLock, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flask import Flask

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"
"""What somebody may call a job."""
TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of nothing but tests
OTHER_TOKEN = TOKEN[::-1]
ANN, BOB = "daemon", "bin"
"""Users whom every Debian has."""
ANNS, BOBS = 1, 2
LANES = "Lane=sl0 Targets=4 Bandwidth=1G\nLane=sl1 Targets=4 Bandwidth=1G\n"
CLUSTER = "lab"


def a_report(now: int) -> records.StoredReport:
    """Return a report with what can stand in one."""
    who = {
        "caption": "Delays",
        "titles": ["user", "program", "node-hours"],
        "rows": [[BOB, HOSTILE, "299"], [ANN, "ensemble", "1.5"]],
    }
    return records.StoredReport(
        now,
        now - 30 * 86400,
        "Stay in observe",
        [
            {"heading": "Verdict", "sentences": ["Stay in observe, because:"], "tables": []},
            {"heading": "What Sluice did", "sentences": [f"For {HOSTILE}."], "tables": [who]},
        ],
        {"since": now - 30 * 86400, "until": now, "verdict": {"advice": "stay"}},
    )


class ServedSite:
    """A configuration, a history, a bundle, a snapshot and a status of sluiced."""

    def __init__(self, folder: Path, *, mode: str = "enforce", is_private: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.history = folder, folder / "history.db"
        self.conf = folder / "sluice.conf"
        self.conf.write_text(
            f"Mode={mode}\n{LANES}History={self.history}\nBundle={folder}/model.bundle\n"
            f"Snapshot={folder}/snapshot\nSocket={folder}/plugin.sock\nOffFile={folder}/off\n"
        )
        self.tokens = folder / "tokens"
        self.tokens.write_text(f"{ANN} {TOKEN}\n{BOB} {OTHER_TOKEN}  # another user\n")
        self.tokens.chmod(0o600)
        self.now = int(time.time())
        self.policy = LANES
        """Settings of the bundle."""
        self._numbers = 0
        self._lock = SnapshotLock()
        self._lock.move(folder / "snapshot")
        self.tell_privacy(is_private=is_private)
        with Store(self.history, create=True) as store:
            self._train(store)
        self.publish_snapshot()

    def close(self) -> None:
        self._lock.close()

    def tell_privacy(self, *, is_private: bool, operators: Sequence[int] = (0,)) -> None:
        """Leave word of the controller, as sluiced does."""
        word = "private" if is_private else "open"
        listed = ",".join(map(str, operators))
        status = Status(facts={"privacy": f"{word}:{listed}", "cluster": CLUSTER})
        status.write(self.folder / "snapshot")

    def _train(self, store: Store) -> None:
        """Let a model know a program of each user, with the runs behind it."""
        applications, entries = [], []
        for number, (uid, name, profile) in enumerate(
            (
                (ANNS, "ensemble", core_cases.FLUSHING),
                (BOBS, HOSTILE, core_cases.STREAMING),
            ),
            1,
        ):
            store.jobs.upsert_jobs(
                a_job(
                    cluster=CLUSTER,
                    job_id=100 * number + i,
                    uid=uid,
                    name=name,
                    submit=self.now - 86400 * i,
                    start=self.now - 86400 * i,
                    end=self.now - 86400 * i + 3600,
                    state="COMPLETED",
                    nodes=4,
                )
                for i in range(1, 9)
            )
            store.runs.add_logs(
                [
                    (
                        a_log(
                            100 * number + i,
                            uid=uid,
                            jobid=100 * number + i,
                            start=self.now - 86400 * i,
                            end=self.now - 86400 * i + 3600,
                            exe=f"/apps/{name}",
                            path=f"/logs/{number}/{name[:8]}_{i}.darshan",
                        ),
                        a_profile(pattern=profile["pattern"], numbers={"write_bytes": 1e12}),
                        b"",
                    )
                    for i in range(1, 9)
                ]
            )
            like = core_cases.submission(uid=uid, name=name)
            entries.append(core_cases.application(profile, like=like, number=number))
            applications.append(
                records.Application(
                    evidence="user_name",
                    key=core.application_key(like, "user_name"),
                    label=f"{name} of user {uid}",
                    runs=8,
                    logs=tuple(store.runs.run_ids(uid=uid)),
                    id=number,
                )
            )
        store.jobs.link_logs()
        later = {"answered": 0.8, "accuracy_answered": 0.95, "brier": 0.041}
        metrics = {"jobs": 16, "since": self.now - 9 * 86400, "until": self.now - 3600}
        model = store.models.add_model(
            b"", metrics | {"later_jobs": later}, applications, created=self.now
        )
        store.models.add_model(b"", metrics | {"later_jobs": later}, [], created=self.now)
        self._entries, self._model = entries, model
        self.publish(store)
        store.administration.add_report(a_report(self.now))

    def publish(self, store: Store) -> bytes:
        """Publish a bundle with the reviews that stand, as sluice-learn does."""
        ruled = standing_reviews(store)
        standing = packed(ruled, self.now, store.runs.runs_of_program)
        content = core_cases.bundle_bytes(*self._entries, conf=self.policy, reviews=standing)
        path = self.folder / "model.bundle"
        path.write_bytes(content)
        path.chmod(0o640)
        self.bundle = Bundle.parse(content)
        store.models.add_bundle(
            records.Bundle(self.bundle.checksum, self._model, str(path), self.now, content)
        )
        return content

    def publish_snapshot(
        self,
        corunners: Sequence[Mapping[str, Any]] = (),
        holders: Sequence[Mapping[str, Any]] = (),
        lane_speeds: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        content = pack_snapshot(
            state={"sequence": 1, "taken": self.now, "running": len(corunners), "pending": 3},
            corunners=corunners,
            holders=holders,
            lane_speeds=lane_speeds,
        )
        path = self.folder / "snapshot"
        path.write_bytes(content)
        path.chmod(0o640)

    def decide(self, job_id: int, *corunners: dict[str, Any], **submission: Any) -> Record:
        """Decide on a job of a user's, and let the history know job and decision."""
        self._numbers += 1
        submission = {"uid": ANNS, "name": "ensemble"} | submission
        content = pack_snapshot(
            state={"sequence": 1, "taken": self.now, "running": len(corunners)},
            corunners=corunners,
        )
        snapshot = Snapshot.parse(content)
        record = decide(
            Situation(self.bundle, snapshot),
            core.read_config(self.conf),
            core_cases.submission(**submission),
            self.now,
            boot=7,
            number=self._numbers,
            totals=(1_000_000, 1_000_000),
            cluster=CLUSTER,
        )
        job = a_job(
            cluster=CLUSTER,
            job_id=job_id,
            submit=self.now,
            start=None,
            end=None,
            state="PENDING",
            uid=submission["uid"],
            name=submission["name"],
            nodes=4,
            source="sluiced",
        )
        with Store(self.history) as store:
            store.decisions.add_snapshot(records.Snapshot(snapshot.checksum, 1, self.now, content))
            store.decisions.insert_decisions(
                [replace(decision_of(record), job_id=job_id, joined_by="key")]
            )
            store.jobs.upsert_jobs([job])
        return record

    def make_busy(self) -> None:
        """Let jobs of both users run and wait."""
        for job_id, uid, name in ((501, BOBS, HOSTILE), (502, ANNS, "ensemble")):
            self.decide(job_id, uid=uid, name=name)
        with Store(self.history) as store:
            store.jobs.upsert_jobs(
                a_job(cluster=CLUSTER, job_id=one, submit=self.now, start=self.now, end=None)
                for one in (501, 502)
            )
        for job_id in range(601, 609):
            self.decide(job_id, *self.running)
        self.decide(701, *self.running, uid=BOBS, name=HOSTILE)
        self.publish_busy()

    @property
    def running(self) -> list[dict[str, Any]]:
        """The co-runners of the busy site."""
        streaming = {**core_cases.STREAMING, "rate": 4e8, "metadata_rate": 12.0}
        flushing = {**core_cases.FLUSHING, "rate": 1e8, "metadata_rate": 900.0}
        return [
            core_cases.corunner(501, streaming, lane_mask=1),
            core_cases.corunner(502, flushing, lane_mask=2),
        ]

    def publish_busy(self) -> None:
        """Publish who runs and waits."""
        holders = [
            {"job_id": 501, "klass": "stream", "lane_mask": 1, "waited": 0},
            {"job_id": 601, "klass": "flush", "lane_mask": 2, "waited": 240},
            {"job_id": 701, "klass": "stream", "lane_mask": 1, "waited": 610},
        ]
        self.publish_snapshot(self.running, holders, {"sl1": 0.55})

    def site(self) -> Site:
        return Site(self.conf, None)

    def app(self, *, user_header: str | None = None, operators: Sequence[str] = (ANN,)) -> Flask:
        """Return the application, without a server in front."""
        door = Door(user_header=user_header, tokens=self.tokens, operators=frozenset(operators))
        ask = partial(pages.answer, self.site())
        return create_app(ask, door, version="0", is_secure=False)


def main() -> None:
    site = ServedSite(Path(sys.argv[1]))
    site.make_busy()
    listen = f"127.0.0.1:{(sys.argv[2:] or ['8642'])[0]}"
    print(f"http://{listen}/ with token {TOKEN}; process {os.getpid()}")
    serve(site.app(), bind(listen))


if __name__ == "__main__":
    main()
