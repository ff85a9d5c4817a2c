"""Real controllers hand over what waits in the plugin, and its counters, to those that follow."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import made_model
import pytest
from plugin_harness import PluginFiles, drain, install
from private_slurm import PrivateSlurm
from sluiced import Sluiced, wait_for

from sluice.policies.record import Record

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a Slurm of its own"),
]

JOBS = 9


@pytest.fixture(scope="module")
def slurm(guarded_slurm, files: PluginFiles) -> Iterator[PrivateSlurm]:
    install(files.bundle, made_model.bundle())
    install(files.snapshot, made_model.snapshot())
    files.configure()
    with guarded_slurm("handover", nodes=1) as slurm:
        yield slurm


def restart(slurm: PrivateSlurm) -> None:
    slurm.restart_controller()


def crash(slurm: PrivateSlurm) -> None:
    time.sleep(0.5)  # what is younger than a few milliseconds is not saved yet
    slurm.kill_controller()
    slurm.start_controller()


@pytest.mark.parametrize("end", [restart, PrivateSlurm.reconfigure, crash])
def test_records_and_counters_go_on_with_the_next_controller(
    slurm: PrivateSlurm, files: PluginFiles, end: Callable[[PrivateSlurm], None]
) -> None:
    loaded = files.wait_until_loaded("bundle")
    drain(files.socket)
    for _ in range(JOBS):
        slurm.submit("--hold", "--wrap=true")
    end(slurm)
    files.wait_for(lambda seen: seen["submissions"] == loaded["submissions"] + JOBS)
    slurm.submit("--hold", "--wrap=true")
    files.wait_for(lambda seen: seen["ring"]["used"] == JOBS + 1)
    seen = files.stats()
    assert seen["decided"] == loaded["decided"] + JOBS + 1
    assert (seen["ring"]["lost"], seen["spool"]["error"]) == (0, "")
    assert seen["counting_since"] == loaded["counting_since"]
    records = [Record.parse(content) for content in drain(files.socket)]
    assert len({(record.boot, record.number) for record in records}) == JOBS + 1
    slurm.run("scancel", "--state=PENDING", "--quiet")


@pytest.mark.parametrize("end", [restart, PrivateSlurm.reconfigure])
def test_a_stream_of_submissions_goes_on_through_controllers(
    slurm: PrivateSlurm, files: PluginFiles, bulk_submit: Path, end: Callable[[PrivateSlurm], None]
) -> None:
    """Each job that Slurm has was seen and decided on, and each decision is handed over."""
    seen = files.wait_until_loaded("bundle")
    drain(files.socket)
    streaming = True

    def stream() -> None:
        while streaming:
            slurm.run(bulk_submit, "10", check=False)  # a restart refuses some

    streams = [threading.Thread(target=stream) for _ in range(2)]
    for thread in streams:
        thread.start()
    for _ in range(3):
        time.sleep(0.5)  # of submissions
        end(slurm)
    streaming = False
    for thread in streams:
        thread.join()
    jobs = slurm.run("squeue", "--noheader", "--format=%i").stdout.split()
    after = files.wait_for(
        lambda seen: (
            seen["pid"] == slurm.controller_pid()
            and [Path(seen["spool"]["path"])] == [*files.directory.glob("plugin.sock.spool.*")]
        )
    )
    submitted = after["submissions"] - seen["submissions"]
    assert (after["ring"]["lost"], after["ring"]["dropped"]) == (0, 0)
    assert len(jobs) <= submitted == after["decided"] - seen["decided"]
    assert submitted == len({content[8:24] for content in drain(files.socket)})
    slurm.run("scancel", "--state=PENDING", "--quiet")


def test_the_history_gets_every_record_once(slurm: PrivateSlurm, files: PluginFiles) -> None:
    """Also those that sluiced had fetched, but not acknowledged, when slurmctld ended."""
    sluiced = Sluiced(slurm, files).start()
    try:
        sluiced.wait_for_snapshots()
        slurm.submit("--hold", "--wrap=true")
        wait_for(lambda: len(sluiced.decisions()) == 1)
        sluiced.stop(signal.SIGKILL)
        for _ in range(JOBS):
            slurm.submit("--hold", "--wrap=true")
        slurm.restart_controller()
        files.wait_until_loaded("bundle")  # without one nothing is decided, so there is no record
        slurm.submit("--hold", "--wrap=true")
        sluiced.start()
        wait_for(lambda: len(sluiced.decisions()) >= JOBS + 2)
        sluiced.wait_for_snapshots()
        assert len(sluiced.decisions()) == JOBS + 2
    finally:
        sluiced.stop()
        slurm.run("scancel", "--state=PENDING", "--quiet")


def test_a_second_controller_leaves_the_socket_to_the_first_and_takes_it_afterwards(
    slurm: PrivateSlurm, files: PluginFiles, guarded_slurm
) -> None:
    """Two clusters whose sluice.conf names one socket."""
    first = files.wait_until_loaded("bundle")
    with guarded_slurm("stranger", nodes=1) as other:
        log = other.directory / "log" / "slurmctld.log"
        wait_for(lambda: "give each its own Socket" in log.read_text())
        other.submit("--hold", "--wrap=true")
        slurm.submit("--hold", "--wrap=true")
        assert files.stats()["boot"] == first["boot"]
        slurm.kill_controller()
        files.wait_for(lambda seen: seen["boot"] != first["boot"])
    slurm.start_controller()
    files.wait_for(lambda seen: seen["bundle"]["loaded"])
    slurm.run("scancel", "--state=PENDING", "--quiet")
