"""`make demo`: a real Slurm controller says what it thinks of a mixed workload.

Real Darshan logs are ingested with their accounting, models are trained and
published, a private Slurm is brought up with the plugin loaded, and jobs are
submitted through sbatch and srun. Then Sluice explains itself. In the second half
(demo_enforce.py) jobs write to two throttled storage targets, in observe and in
enforce. As root it ends with the loop (tests/loop): programs with co-runners, what Sluice learns of
them, and what is so; and with bursts that take turns (demo_turns.py). Everything lives in one
temporary directory and is taken down at the end, also after a failure; `--keep` leaves the
directory for a look, `--svg FILE` saves the table of decisions as a picture, `--png FILE` says
where the second half's goes, and that of turns goes next to it.

The logs come from programs that ran for seconds on two cores, so the thresholds
below which Sluice leaves a job alone are scaled down with them; a site keeps the
defaults.
"""

import argparse
import atexit
import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import demo_enforce
import demo_turns
from counted import count_what_logs_claim
from measured_programs import MeasurementError
from private_slurm import PrivateSlurm, PrivateSlurmError
from rich.console import Console
from rich.text import Text
from storage_targets import StorageTargetsError
from target_kinds import LABELS

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "data" / "darshan"
BIN = Path(sys.executable).parent
TIMEOUT = 60.0  # seconds for any one step
LOOP = ROOT / "tests" / "loop" / "loop.py"
LOOP_TIMEOUT = 900.0  # seconds
OTHERS = ("META", "READ", "NONE")
ENOUGH = 16 << 20  # bytes: most test programs wrote less, and that says little
LOADED = 0.6  # seconds after which the plugin has seen a new file

CONFIG = """\
Mode=observe
Bundle={place}/model.bundle
Snapshot={place}/cluster.snapshot
Socket={place}/plugin.sock
History={place}/history.db
OffFile={place}/off
FollowInterval=300

# Two halves of one file system, slow enough for one of these programs to fill it.
Lane=sl0 Targets=4 Bandwidth=100M
Lane=sl1 Targets=4 Bandwidth=100M

# The programs behind the logs ran for seconds, some of them twice: what counts as
# significant and as certain is scaled with them.
MinIoShare=0.001
MinSaving=0.002
MinConfidence=0.6
# Other jobs would use the nodes of one that waits.
WaitPrice=0
"""

# command and what it shows; names are those of the accounting.
WORKLOAD = (
    ("sbatch", "ior_aw", ("-N2", "-n8", "-t1"), "streams; nothing else writes yet"),
    ("sbatch", "pat_owc", ("-N4", "-n16"), "creates many files next to the stream"),
    ("srun", "ior_ws", ("-N1", "-n4"), "flushes every chunk, submitted by srun"),
    ("sbatch", "lammps_owc", ("-N1", "-n2", "--array=0-1"), "a real program, as an array"),
    ("sbatch", "pat_meta", ("-N1", "-n2"), "opens and stats files"),
    ("sbatch", "ior_read", ("-N1", "-n4"), "reads: what that does was never measured"),
    ("srun", "ior_aw", ("-N1", "-n1", "--immediate=10"), "a user waits at a terminal"),
    ("sbatch", "brand_new_code", ("-N1", "-n4"), "never seen before"),
)
ADVISED = ("sbatch", "pat_ws", ("-N1", "-n2"), "submitted after the switch to advise")


class DemoError(Exception):
    """A step failed; the text carries what it printed."""


FAILURES = (
    *(DemoError, MeasurementError, PrivateSlurmError, StorageTargetsError),
    *(OSError, subprocess.SubprocessError, AssertionError),
)


def say(text: str) -> None:
    Console(highlight=False).print(f"\n[bold]{text}[/bold]")


def sluice(place: Path, *words: str | Path, capture: bool = False) -> str:
    """Run a `sluice` command on the demo's configuration, as a user would."""
    command = [str(BIN / "sluice"), *map(str, words)]
    shown = " ".join(command[1:]).replace(str(place), "$DEMO").replace(f"{ROOT}/", "")
    if not capture:
        print(f"$ sluice {shown}", flush=True)
    done = subprocess.run(
        command,
        check=False,
        text=True,
        timeout=TIMEOUT,
        env=os.environ
        | {"SLUICE_CONF": str(place / "sluice.conf"), "SLURM_CONF": str(place / "etc/slurm.conf")},
        stdout=subprocess.PIPE if capture else None,
    )
    if done.returncode != 0:
        raise DemoError(f"`sluice {shown}` ended with {done.returncode}")
    return done.stdout or ""


@contextlib.contextmanager
def daemon(slurm: PrivateSlurm) -> Iterator[None]:
    """Run sluiced alongside the cluster."""
    with (slurm.directory / "log" / "sluiced.log").open("w") as log:
        process = subprocess.Popen(
            [BIN / "sluiced", "--config", slurm.directory / "sluice.conf"],
            env=slurm.client_environment(),
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT)


def select_logs(place: Path) -> Path:
    """Copy the logs of runs that wrote 16 MiB or more, and of those that did something else."""
    chosen = place / "darshan"
    chosen.mkdir()
    with (LOGS / "index.csv").open() as index:
        for row in csv.DictReader(index):
            written = int(row["expected_write_bytes"] or 0)
            if written >= ENOUGH or row["pattern"] in OTHERS or row["app"] == "lammps":
                shutil.copy(LOGS / row["file"], chosen)
    return chosen


def submit(slurm: PrivateSlurm, job: tuple[str, str, tuple[str, ...], str]) -> int:
    """Submit one job of the workload and return its id."""
    command, name, options, why = job
    print(f"$ {command} -J {name} {' '.join(options)}   # {why}", flush=True)
    if command == "sbatch":
        return slurm.submit("-J", name, *options, "--wrap", "sleep 100")
    before = newest_job(slurm, name)
    # srun would wait for the end: let it, in the background, and ask for the job's id. It outlives
    # a controller that is gone, and has a process of its own.
    srun = subprocess.Popen(
        ["srun", "-J", name, *options, "sleep", "100"],
        env=slurm.client_environment(),
        cwd=slurm.directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    atexit.register(end_group, srun.pid)
    wait_for(lambda: newest_job(slurm, name) > before, f"srun of {name}")
    return newest_job(slurm, name)


def end_group(leader: int) -> None:
    """End a process and those that it started; it may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def newest_job(slurm: PrivateSlurm, name: str) -> int:
    """Return the highest job id of that name; 0 when there is none."""
    return max(
        map(int, slurm.run("squeue", "-h", "-n", name, "-o", "%A").stdout.split()), default=0
    )


def wait_for(condition, what):
    """Ask until condition returns something true; that is returned."""
    deadline = time.monotonic() + TIMEOUT
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise DemoError(f"waited {TIMEOUT:.0f} s for {what}")
        time.sleep(0.1)
    return answer


def decided(place: Path) -> dict[int, dict]:
    """Decisions that sluiced has stored and joined, by job id."""
    rows = json.loads(sluice(place, "decisions", "--json", capture=True))["decisions"]
    return {row["job_id"]: row for row in rows if row["job_id"]}


def settle(slurm: PrivateSlurm, job: int) -> None:
    """Wait until sluiced knows the job and the plugin knows what sluiced knows."""
    place = slurm.directory
    snapshot = place / "cluster.snapshot"
    wait_for(lambda: job in decided(place), f"the decision on job {job}")
    with contextlib.suppress(PrivateSlurmError):
        slurm.wait_for_job(job, "RUNNING", timeout=10)
    seen = snapshot.stat().st_mtime_ns
    for _ in range(2):  # the first may have been taken before the job ran
        wait_for(lambda: snapshot.stat().st_mtime_ns != seen, "a new snapshot")  # noqa: B023
        seen = snapshot.stat().st_mtime_ns
    time.sleep(LOADED)


def run(place: Path, svg: Path | None) -> None:
    config = place / "sluice.conf"
    config.write_text(CONFIG.format(place=place))

    say("1. Learn: Darshan logs and accounting into the history, models out of it")
    sluice(place, "history", "ingest", select_logs(place), "--sacct", LOGS / "sacct-parsable2.txt")
    count_what_logs_claim(place / "history.db")
    sluice(place, "model", "train")
    sluice(place, "model", "publish")

    say("2. A real slurmctld with Sluice as its job_submit plugin, in observe")
    slurm = PrivateSlurm(
        place,
        nodes=12,
        plugin_dir=ROOT / "build" / "plugins",
        settings={"JobSubmitPlugins": "sluice"},
        environment={"SLUICE_CONF": str(config)},
    )
    with slurm, daemon(slurm):
        print(slurm.run("sinfo").stdout, end="")
        wait_for((place / "cluster.snapshot").exists, "the first snapshot")
        time.sleep(LOADED)

        say("3. A mixed workload")
        jobs = []
        for job in WORKLOAD:
            jobs.append(submit(slurm, job))
            settle(slurm, jobs[-1])

        say("4. The same controller, switched to advise without a restart")
        config.write_text(config.read_text().replace("Mode=observe", "Mode=advise\nAdminComment=1"))
        time.sleep(LOADED)
        jobs.append(submit(slurm, ADVISED))
        settle(slurm, jobs[-1])
        print("AdminComment:", slurm.job(jobs[-1]).get("AdminComment", "(none)"))

        say("5. What Sluice thinks of each job")
        sluice(place, "decisions")
        if svg:
            save_picture(place, svg)

        say("6. The whole story of one of them")
        sluice(place, "why", str(jobs[1]))
        say("7. And of one it knows nothing about")
        sluice(place, "why", str(jobs[-2]))
        say("8. Is everything well?")
        sluice(place, "doctor")


def show_loop(place: Path) -> None:
    """Run the short form of the loop."""
    say("12. Real programs with co-runners: what Sluice learns of them, and what is so")
    print("Each eight times among others, then alone: about five minutes …", flush=True)
    words = [sys.executable, LOOP, place, "--seconds", "0", "--quiet"]
    subprocess.run(words, check=False, timeout=LOOP_TIMEOUT)


def save_picture(place: Path, svg: Path) -> None:
    """Save the table of decisions as the README shows it."""
    table = sluice(place, "decisions", capture=True)
    columns = max(map(len, table.splitlines()))
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(Text(table.rstrip()), no_wrap=True)
    picture = console.export_svg(title="sluice decisions")
    # the fonts of the machine that shows it will do: no picture should fetch anything
    svg.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the demo's directory in place")
    parser.add_argument("--svg", type=Path, help="save the table of decisions as a picture")
    parser.add_argument(
        "--png",
        type=Path,
        default=ROOT / "build" / "enforce.png",
        help="where to save the picture of what enforce gains",
    )
    parser.add_argument(
        "--kind", choices=tuple(LABELS), help="of storage targets; default: the first that works"
    )
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="sluice-demo-"))
    place.chmod(0o755)  # munged wants to be reachable
    begin = time.monotonic()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("demo: terminated")
    )  # not without cleaning up
    try:
        run(place, arguments.svg)
        kinds = [arguments.kind] if arguments.kind else tuple(LABELS)
        demo_enforce.show(place / "enforce", arguments.png, say, kinds=kinds)
        if os.geteuid() == 0:  # its jobs are those of several users
            show_loop(place / "loop")
            demo_turns.show(place / "turns", arguments.png.with_name("turns.png"), say)
    except FAILURES as error:
        print(f"demo: {error}\ndemo: logs are in {place}", file=sys.stderr)
        return 1
    if arguments.keep:
        print(f"\nKept: {place} (SLUICE_CONF={place}/sluice.conf {BIN}/sluice decisions)")
    else:
        shutil.rmtree(place, ignore_errors=True)
    say(
        f"Done in {time.monotonic() - begin:.0f} s; Slurm and targets are down and nothing is left."
    )
    print(
        "Look further:\n"
        "  make demo KEEP=1              keep the history, then ask it\n"
        "  .venv/bin/sluice --help       all commands\n"
        "  docs/guide/how-it-works.md  the path of a job\n"
        "  docs/guide/enforce.md       what enforce does, and what it gains\n"
        "  docs/guide/operating.md     slurm.conf and sluice.conf of a real site, line by line"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
