"""Reads Slurm's accounting as a trace: what sacct printed, its JSON, and the history.

Tasks of an array are jobs of their own there; begin times, dependencies and licences are not
in it, so a replay submits each job at its submission.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.history_db.errors import HistoryError
from sluice.history_db.records import Job
from sluice.history_db.sacct import BrokenLine, SacctError, parse_sacct
from sluice.sim.errors import TraceError
from sluice.sim.trace.jobs import BadLine, JobEnd, Trace, codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

OUTCOMES = {
    "COMPLETED": JobEnd.COMPLETED,
    "CANCELLED": JobEnd.CANCELLED,
    "TIMEOUT": JobEnd.TIMEOUT,
    "DEADLINE": JobEnd.TIMEOUT,
    "FAILED": JobEnd.FAILED,
    "NODE_FAIL": JobEnd.FAILED,
    "BOOT_FAIL": JobEnd.FAILED,
    "OUT_OF_MEMORY": JobEnd.FAILED,
    "PREEMPTED": JobEnd.FAILED,
}
"""By Slurm's name of the state; others are unknown, like jobs that run or wait."""
SHARED = 0.9
"""Jobs that took less of the processors of their nodes shared these with others."""


def trace_of_jobs(
    name: str,
    jobs: Sequence[Job],
    *,
    bad_lines: Sequence[BadLine] = (),
    slot: str | None = None,
    cluster: str | None = None,
) -> Trace:
    """Make a trace of accounting records.

    slot: what is counted, `node` or `processor`; None: processors where jobs shared nodes.
    cluster: whose jobs; None: of the only one.
    """
    if not jobs:
        raise TraceError(f"{name}: no job in it")
    jobs = _of_cluster(name, jobs, cluster)
    slot = slot or ("processor" if _shared_nodes(jobs) else "node")
    start, end = (_column([getattr(job, what) for job in jobs]) for what in ("start", "end"))
    users, user_names = codes(job.user or (str(job.uid) if job.uid else None) for job in jobs)
    accounts, account_names = codes(job.account for job in jobs)
    partitions, partition_names = codes(job.partition for job in jobs)
    size = "nodes" if slot == "node" else "cpus"
    return Trace(
        name=name,
        slot=slot,
        job_id=np.array([job.job_id for job in jobs], np.int64),
        submit=_column([job.submit or None for job in jobs]),
        start=start,
        runtime=end - start,
        limit=_column([job.time_limit for job in jobs]) * 60,
        slots=np.array([getattr(job, size) or -1 for job in jobs], np.int64),
        outcome=np.array([OUTCOMES.get(job.state or "", JobEnd.UNKNOWN) for job in jobs], np.int8),
        user=users,
        users=user_names,
        account=accounts,
        accounts=account_names,
        partition=partitions,
        partitions=partition_names,
        bad_lines=tuple(bad_lines),
        bad_line_count=len(bad_lines),
    )


def _of_cluster(name: str, jobs: Sequence[Job], cluster: str | None) -> Sequence[Job]:
    clusters = sorted({job.cluster for job in jobs})
    if cluster is None and len(clusters) == 1:
        return jobs
    if cluster not in clusters:
        raise TraceError(
            f"{name}: its jobs are of the clusters {', '.join(clusters)}; choose one by --cluster"
        )
    return [job for job in jobs if job.cluster == cluster]


def _shared_nodes(jobs: Sequence[Job]) -> bool:
    """Whether jobs left processors of their nodes to others; unknown counts as no.

    A node of a partition has as many as any job took of one.
    """
    ran = [job for job in jobs if job.start is not None and job.end is not None]
    if not all(job.nodes and job.cpus for job in ran):
        return False
    of_node = np.array([(job.cpus or 0) / (job.nodes or 1) for job in ran])
    node_seconds = [(job.nodes or 0) * ((job.end or 0) - (job.start or 0)) for job in ran]
    partition = np.unique([job.partition or "" for job in ran], return_inverse=True)[1]
    most = np.zeros(len(ran) + 1)
    np.maximum.at(most, partition, of_node)
    return bool(of_node @ node_seconds < SHARED * (most[partition] @ node_seconds))


def _column(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def read_sacct(
    name: str, text: str, *, slot: str | None = None, cluster: str | None = None
) -> Trace:
    """Read what `sacct --parsable2` printed, in this machine's time zone."""
    jobs: list[Job] = []
    bad: list[BadLine] = []
    try:
        for one in parse_sacct(text.splitlines(), name=name):
            if isinstance(one, BrokenLine):
                bad.append(BadLine(one.number, one.reason))
            else:
                jobs.append(one)
    except (SacctError, HistoryError) as error:
        raise TraceError(str(error)) from error
    return trace_of_jobs(name, jobs, bad_lines=bad, slot=slot, cluster=cluster)


def read_sacct_json(
    name: str, text: bytes, *, slot: str | None = None, cluster: str | None = None
) -> Trace:
    """Read what `sacct --json` printed, of any version since 21.08."""
    try:
        document = json.loads(text)
        rows = document["jobs"]
        if not isinstance(rows, list):
            raise TypeError("`jobs` is no list")  # noqa: TRY301 - one handler
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceError(f"{name}: not what `sacct --json` prints ({error!r:.80})") from error
    jobs: list[Job] = []
    bad: list[BadLine] = []
    for number, row in enumerate(rows, start=1):
        try:
            jobs.append(_job(row))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            bad.append(BadLine(number, f"job {number} of the list: {error!r:.80}"))
    return trace_of_jobs(name, jobs, bad_lines=bad, slot=slot, cluster=cluster)


def _job(row: dict[str, Any]) -> Job:
    times = row["time"]
    allocated = {one["type"]: one["count"] for one in row.get("tres", {}).get("allocated", [])}
    nodes = allocated.get("node") or _number(row.get("allocation_nodes"))
    state = row["state"]["current"]
    return Job(
        cluster=row.get("cluster") or "",
        job_id=int(row["job_id"]),
        submit=_number(times["submission"]) or 0,
        restarts=_number(row.get("restart_cnt")) or 0,
        name=row.get("name"),
        user=row.get("user") or None,
        uid=None,
        account=row.get("account") or None,
        partition=row.get("partition") or None,
        qos=row.get("qos") or None,
        nodes=nodes or None,
        tasks=None,
        cpus=allocated.get("cpu") or _number(row.get("required", {}).get("CPUs")) or None,
        time_limit=_number(times.get("limit")),
        start=_number(times.get("start")) or None,
        end=_number(times.get("end")) or None,
        state=state if isinstance(state, str) else state[0],
        exit_code=None,
        submit_line=row.get("submit_line"),
        script_signature=None,
        source="sacct",
    )


def _number(value: Any) -> int | None:
    """Return a number; from 23.02 on it comes as {"set": true, "infinite": false, "number": 5}."""
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value["number"]
    return None if value is None else int(value)
