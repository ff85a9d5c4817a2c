"""A job of the user who runs the tests, and whose logs arrive."""

import os

from sluice.history_db.records import Job

START, END = 1_700_000_000, 1_700_000_100

ME = os.geteuid()

JOB = Job(
    cluster="c",
    job_id=7,
    submit=START - 50,
    restarts=0,
    name="made",
    user="me",
    uid=ME,
    account="a",
    partition="p",
    qos="q",
    nodes=1,
    tasks=1,
    cpus=1,
    time_limit=60,
    start=START - 10,
    end=END + 10,
    state="COMPLETED",
    exit_code="0:0",
    submit_line=None,
    script_signature=None,
    source="sacct",
)
