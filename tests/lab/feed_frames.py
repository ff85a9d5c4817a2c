"""Frames as sluice-feed writes them, for tests and benchmarks that play its part."""

from __future__ import annotations

from typing import Any

from sluice.slurm import queue

JOB = {
    "job_id": 12,
    "array_id": 0,
    "component": queue.NO_VAL,
    "restarts": 0,
    "uid": 1000,
    "nodes": 2,
    "tasks": 8,
    "cpus": 16,
    "time_limit": 5,
    "status": 0,
    "submit": 1795251076,
    "eligible": 1795251077,
    "start": 1795251079,
    "end": 1795251379,
    "state": b"RUNNING",
    "account": b"",
    "partition": b"main",
    "qos": b"normal",
    "licenses": b"tool:2,sl0_stream",
    "task_ids": b"",
    "notes": b"",
    "name": b"lammps",
}
"""A job as Slurm tells it."""


def frame(kind: int, payload: bytes = b"") -> bytes:
    return queue.HEAD.pack(len(payload), kind) + payload


def hello(protocol: int = queue.PROTOCOL) -> bytes:
    return frame(queue.HELLO, queue.HELLO_HEAD.pack(protocol, 0))


def end() -> bytes:
    return frame(queue.END)


def text(value: bytes) -> bytes:
    return queue.NUMBER.pack(len(value)) + value


def job_payload(**members: Any) -> bytes:
    values = list((JOB | members).values())
    texts = values[14:]
    return b"".join(
        (
            queue.JOB_HEAD.pack(*values[:14], *map(len, texts)),
            *texts,
        )
    )


def job(**members: Any) -> bytes:
    return frame(queue.JOB, job_payload(**members))


def gone(*job_ids: int) -> bytes:
    return frame(queue.GONE, b"".join(map(queue.NUMBER.pack, job_ids)))


def priorities(priorities: dict[int, int]) -> bytes:
    pairs = (queue.PRIORITY.pack(*pair) for pair in priorities.items())
    return frame(queue.PRIORITIES, b"".join(pairs))


def reason(why: bytes, *job_ids: int) -> bytes:
    return frame(queue.REASON, text(why) + b"".join(map(queue.NUMBER.pack, job_ids)))


def license_of(name: bytes, total: int, used: int = 0, reserved: int = 0) -> bytes:
    return frame(queue.LICENSE, queue.LICENSE_HEAD.pack(total, used, reserved) + text(name))


def reservation(name: bytes, licenses: bytes, *, end: int = 0, nodes: int = 0) -> bytes:
    head = queue.RESERVATION_HEAD.pack(0, end, 0, nodes)
    return frame(queue.RESERVATION, head + text(name) + text(licenses))


def room(name: bytes, nodes: int, cpus: int, *, is_unlimited: bool = False) -> bytes:
    return frame(queue.ROOM, queue.ROOM_HEAD.pack(nodes, cpus, is_unlimited) + text(name))


def error(what: bytes) -> bytes:
    return frame(queue.ERROR, queue.NUMBER.pack(1) + text(what))


def outcome(job_id: int, why: bytes = b"") -> bytes:
    return frame(queue.CHANGE, queue.OUTCOME_HEAD.pack(job_id, 1 if why else 0) + text(why))
