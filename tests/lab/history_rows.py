"""Rows of a history, valid as they are: tests say only what matters to them."""

from sluice.history_db.records import Job, Log, Profile


def a_log(number: int = 1, **changes) -> Log:
    values = {
        "digest": number.to_bytes(16, "big"),
        "path": f"/logs/{number}.darshan",
        "size": 10,
        "mtime_ns": 1,
        "reason": None,
        "jobid": 7,
        "uid": 1000,
        "exe": "/apps/a",
        "start": 1000,
        "end": 1100,
        "nprocs": 4,
        "partial": False,
        "format": "3.41",
    }
    return Log(**{**values, **changes})


def a_profile(**changes) -> Profile:
    values = {
        "pattern": "owc",
        "confidence": 0.9,
        "shares": {"owc": 1.0},
        "numbers": {"chunk_bytes": 4096.0, "nprocs": 4.0},
        "log_sd": 0.5,
    }
    return Profile(**{**values, **changes})


def a_job(**changes) -> Job:
    values = dict.fromkeys(Job.__slots__)
    values |= {
        "cluster": "c1",
        "job_id": 7,
        "submit": 900,
        "restarts": 0,
        "start": 990,
        "end": 1200,
        "source": "sacct",
        "array_task": -1,
    }
    return Job(**{**values, **changes})
