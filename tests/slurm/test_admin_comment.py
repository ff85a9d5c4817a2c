"""A site with a tool that keeps its figures in admin comments, as Princeton's jobstats does.

It writes `JS1:…` into the accounting when a job has ended, and later looks for empty comments
of jobs that it missed.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import made_model
import pytest
from accounted_slurm import AccountedSlurm
from plugin_harness import PluginFiles, install
from sluiced import Sluiced, wait_for

from sluice.policies import core

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.acceptance,  # a database comes up for it
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmdbd and MariaDB run as root here"),
]

KNOWN = ("--job-name=checkpoint_7", "--wrap=true")
FIGURES = "js1:h4siaaaaaaaaa"  # sacctmgr of 22.05 makes all letters small


@pytest.fixture(scope="module")
def slurm(
    lab_directory: Path, plugin_directory: Path, files: PluginFiles
) -> Iterator[AccountedSlurm]:
    configure(files)
    install(files.bundle, made_model.bundle())
    install(files.snapshot, made_model.snapshot())
    with AccountedSlurm(
        lab_directory / "commented",
        plugin_dir=plugin_directory,
        settings={"JobSubmitPlugins": "sluice"},
        environment={"SLUICE_CONF": str(files.config)},
    ) as slurm:
        yield slurm


def configure(files: PluginFiles, *words: str) -> None:
    """In advise, without a word of ours about AdminComment."""
    files.configure(Mode="advise")
    own = files.config.read_text().replace("AdminComment=1\n", "") + "".join(words)
    install(files.config, own.encode())


def become(files: PluginFiles, *words: str) -> None:
    configure(files, *words)
    checksum = f"{core.crc64(files.config.read_bytes()):016x}"
    files.wait_for(lambda seen: seen["config"]["checksum"] == checksum)


def comments(slurm: AccountedSlurm) -> dict[int, str]:
    """Of the jobs that have ended, as the accounting has them."""
    rows = slurm.run(
        "sacct", "-nPX", "--state=CD", "--starttime=now-1hours", "--endtime=now",
        "--format=jobid,admincomment",
    ).stdout  # fmt: skip
    return {int(job): text for job, text in (row.split("|", 1) for row in rows.splitlines())}


def write(slurm: AccountedSlurm, *jobs: int) -> None:
    for job in jobs:
        slurm.run(
            "sacctmgr", "-i", "update", "job", "where", f"jobid={job}", "set",
            f"AdminComment={FIGURES}",
        )  # fmt: skip


def finished(slurm: AccountedSlurm, count: int) -> list[int]:
    jobs = [slurm.submit(*KNOWN) for _ in range(count)]
    wait_for(lambda: set(jobs) <= comments(slurm).keys())
    return jobs


def wait_until_told(slurm: AccountedSlurm, files: PluginFiles, level: str, words: str) -> None:
    """Wait for the doctor: sacct may list a job a second after its end."""

    def is_told() -> bool:
        findings = Sluiced(slurm, files).findings()
        [found] = [row for row in findings if row["topic"] == "admin comment"]
        return found["level"] == level and words in found["text"] + (found["remedy"] or "")

    wait_for(is_told)


def test_by_default_the_comments_are_that_tools_own(
    slurm: AccountedSlurm, files: PluginFiles
) -> None:
    become(files)
    files.wait_until_loaded("bundle", "snapshot")
    before = files.stats()["decided"]
    jobs = finished(slurm, 4)
    assert files.stats()["decided"] == before + 4
    write(slurm, *jobs[:2])  # the tool missed the end of the others
    missed = [job for job, text in comments(slurm).items() if not text]
    assert missed == jobs[2:]
    write(slurm, *missed)
    assert comments(slurm) == dict.fromkeys(jobs, FIGURES)
    wait_until_told(slurm, files, "OK", "another tool writes them (js1:")


def test_the_doctor_says_where_both_would_write(slurm: AccountedSlurm, files: PluginFiles) -> None:
    write(slurm, *finished(slurm, 1))
    become(files, "AdminComment=1\n")
    wait_until_told(slurm, files, "WARN", "set AdminComment=0")


def test_a_job_knows_of_its_turns_without_a_comment(
    slurm: AccountedSlurm, files: PluginFiles, tmp_path: Path
) -> None:
    become(files, "TurnsPort=6822\n", "Turns=all\n")
    told = tmp_path / "told"
    slurm.submit(f"--wrap=echo $SLUICE_TURNS_DECIDED >{told}")
    wait_for(lambda: told.exists() and told.read_text())
    assert told.read_text() == "yes\n"
    assert "sluice(" not in slurm.run("squeue", "-ha", "-tall", "-Oadmin_comment").stdout
