"""The job script of the guide to staging, in a real Slurm, word for word but for its program."""

import os
import re
import signal
from pathlib import Path

import pytest
from drainer import differences, program, wait_for

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs a Slurm of its own"),
]

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/staging.md"
WRITES = """mkdir "$LOCAL/run"
for i in 1 2 3; do head -c 2000000 /dev/urandom > "$LOCAL/run/ck.$i"; done
ln -s ck.3 "$LOCAL/run/latest"
cp -a "$LOCAL" "$TMPDIR/expected"
"""


def script(program_lines: str) -> str:
    text = GUIDE.read_text()
    found = re.search(r"## In a job script, [^\n]*\n\n```\n(.*?)```", text, re.DOTALL)
    assert found
    assert found[1].count('./program --output "$LOCAL"\n') == 1
    return "#!/bin/bash\n" + found[1].replace('./program --output "$LOCAL"\n', program_lines)


@pytest.fixture
def place(lab_directory, request):
    made = lab_directory / request.node.name
    for name in ("local", "scratch"):
        (made / name).mkdir(parents=True)
    return made


def submit(plain, place: Path, program_lines: str, *options: str) -> int:
    file = place / "job.sh"
    file.write_text(script(program_lines))
    done = plain.run(
        *("sbatch", "--parsable", f"--output={place}/said", *options, file),
        environment={
            "PATH": f"{program().parent}:{os.environ['PATH']}",
            "TMPDIR": str(place / "local"),
            "SCRATCH": str(place / "scratch"),
        },
    )
    return int(done.stdout)


def said(place: Path) -> str:
    return (place / "said").read_text()


def test_a_job_that_ends_has_its_files_where_they_belong(plain, place):
    job = submit(plain, place, WRITES)
    after = place / "after"
    body = f"ls {place}/scratch/{job}/run > {after}"
    waits = plain.submit(f"--dependency=afterok:{job}", f"--wrap={body}")
    plain.wait_for_job(job, "COMPLETED", "FAILED", timeout=120)
    assert plain.job(job)["ExitCode"] == "0:0", said(place)
    assert differences(place / "local" / "expected", place / "scratch" / str(job)) == []
    assert [path.name for path in (place / "local").iterdir()] == ["expected"]
    plain.wait_for_job(waits, "COMPLETED", timeout=120)
    assert after.read_text().split() == ["ck.1", "ck.2", "ck.3", "latest"]


def test_a_programs_failure_stays_the_jobs(plain, place):
    job = submit(plain, place, WRITES + "(exit 3)\n")
    plain.wait_for_job(job, "COMPLETED", "FAILED", timeout=120)
    assert plain.job(job)["ExitCode"] == "3:0", said(place)
    assert differences(place / "local" / "expected", place / "scratch" / str(job)) == []


def test_a_drainer_that_is_killed_is_started_again(plain, place):
    job = submit(plain, place, WRITES + "kill -9 $!\n")
    plain.wait_for_job(job, "COMPLETED", "FAILED", timeout=120)
    assert plain.job(job)["ExitCode"] == "0:0", said(place)
    assert differences(place / "local" / "expected", place / "scratch" / str(job)) == []


def test_what_a_cancelled_job_leaves_is_drained_by_the_command_of_the_guide(plain, place):
    job = submit(plain, place, WRITES + "kill -STOP $!\ntouch $TMPDIR/written\nsleep 600\n")
    wait_for((place / "local" / "written").exists)
    plain.run("scancel", "--signal=KILL", "--full", str(job))
    plain.wait_for_job(job, "CANCELLED", "FAILED", timeout=120)
    (local,) = (place / "local").glob(f"{job}.??????")
    command = re.search(r"```\n(sluice-drain --from LOCAL .*?)\n```", GUIDE.read_text())
    assert command
    places = {
        "LOCAL": local,
        "STAGED_TO": place / "scratch" / str(job),
        "JOURNAL": f"{local}.journal",
    }
    words = [str(places.get(word, word)) for word in command[1].split()]
    wait_for(lambda: not holds(local))
    plain.run(program().parent / words[0], *words[1:])
    assert differences(place / "local" / "expected", place / "scratch" / str(job)) == []


def holds(local: Path) -> bool:
    """Whether a drainer of this directory still runs, which Slurm is about to kill."""
    found = [path for path in Path("/proc").glob("[0-9]*/cmdline") if named(path, local)]
    for path in found:
        os.kill(int(path.parent.name), signal.SIGCONT)
    return bool(found)


def named(path: Path, local: Path) -> bool:
    try:
        return f"--from\0{local}\0".encode() in path.read_bytes()
    except OSError:
        return False
