"""sluice-probe touches nothing but its own, leaves nothing, and fills nothing."""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from probe_program import build, probe, read_report

from sluice.interference.calibrate.protocol import TIE, Trace


def failed(program: Path, *words: str | Path, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [program, *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )
    assert done.stdout == ""
    return done


@pytest.mark.parametrize("pattern", ["owc", "ws", "aw", "read", "metadata", "owc+ws+aw+read"])
def test_it_leaves_a_directory_as_it_was(program, tmp_path, pattern):
    precious = tmp_path / "owc.0.0"
    precious.write_text("precious")
    words = ("--pattern", pattern, "--chunk", "64K", "--duration", "0.2", "--processes", "4")
    probe(program, *words, tmp_path)
    assert list(tmp_path.iterdir()) == [precious]
    assert precious.read_text() == "precious"


def test_it_removes_more_files_than_a_directory_shows_at_once(program, tmp_path):
    words = ("--pattern", "owc", "--sync", "none", "--chunk", "1K", "--volume", "5000K")
    assert probe(program, *words, tmp_path).total["operations"] == 5000
    assert list(tmp_path.iterdir()) == []


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)
SELDOM_SENT = (signal.SIGPROF, signal.SIGVTALRM, signal.SIGIO, signal.SIGPWR, signal.SIGRTMAX)
ENDLESS = ("--pattern", "ws+aw", "--duration", "60", "--processes", "4", "--file-size", "8M")


def begun(place: Path, *command: str | Path) -> subprocess.Popen[bytes]:
    """A program that ends with an endless probe in this directory; the probe writes."""
    process = subprocess.Popen([*command, *ENDLESS, place], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not list(place.glob("*/aw.*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("number", [*ENDING, *SELDOM_SENT])
def test_a_signal_stops_it_and_leaves_nothing(program, tmp_path, number):
    """Unless it is to ignore it, which the tests may be, too."""
    process = begun(tmp_path, "env", "--default-signal", program)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert output == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_it_was_started_to_ignore_does_nothing(program, tmp_path, number):
    """As by nohup, or by a shell's background; also where `sluice site calibrate` starts it."""
    ignore = f"--ignore-signal={number.name.removeprefix('SIG')}"
    process = begun(tmp_path, "env", ignore, *TIE, str(os.getpid()), program)
    process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    process.send_signal(signal.SIGUSR2)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGUSR2
    assert list(tmp_path.iterdir()) == []


def test_it_ends_also_where_the_end_of_children_is_ignored(program, tmp_path):
    words = ("--pattern", "ws", "--chunk", "4K", "--volume", "4K", tmp_path)
    ignoring = ("env", "--ignore-signal=CHLD")
    assert probe(program, *words, prefix=ignoring).total["operations"] == 1


def test_children_of_the_shell_that_it_replaced_are_not_its_own(program, tmp_path):
    """One that ends, and fails, while the probe's own work on."""
    words = ("--pattern", "ws", "--chunk", "4K", "--volume", "40K", "--processes", "2")
    rests = ("--on", "0.01", "--off", "0.1", tmp_path)
    shell = ("sh", "-c", 'false & exec "$@"', "sh")
    assert probe(program, *words, *rests, prefix=shell).total["bytes"] == 80 << 10


def test_sigusr1_ends_it_in_good_order(program, tmp_path):
    words = ("--pattern", "ws+aw", "--duration", "60", "--file-size", "8M", "--processes", "2")
    process = subprocess.Popen([program, *words, tmp_path], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("*/aw.*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)  # past the start
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert read_report(output).total["operations"] > 0
    assert list(tmp_path.iterdir()) == []


def test_sigusr1_ends_it_also_before_its_start(program, tmp_path):
    words = ("--pattern", "ws", "--duration", "60", "--start", f"{time.time() + 3600:.0f}")
    process = subprocess.Popen([program, *words, tmp_path], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("*/ws.*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert Trace.parse(output).between(0, 1e12) == 0


def test_it_cleans_up_when_nobody_reads_its_report(program, tmp_path):
    words = ("--pattern", "ws", "--chunk", "4K", "--volume", "4K", tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([program, *words], check=False, stdout=writer, timeout=60)
    os.close(writer)
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_a_signal_ends_is_told_of(program, tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    words = ("--pattern", "aw", "--volume", "2M", tmp_path)
    done = failed(program, *words, preexec_fn=limit)
    assert done.returncode == 1
    assert done.stderr == (
        "sluice-probe: a process was ended by a signal: File size limit exceeded\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_its_processes_die_with_it(program, tmp_path):
    words = ("--pattern", "ws", "--chunk", "4K", "--duration", "60", "--processes", "2")
    process = subprocess.Popen([program, *words, tmp_path], stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 30
    while len(children.read_text().split()) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    pids = children.read_text().split()
    process.kill()
    process.wait()
    while any(Path("/proc", pid).exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(Path("/proc", pid, "fd").exists() for pid in pids)


def test_a_volume_that_does_not_fit_is_refused_before_it_begins(program, tmp_path):
    done = failed(program, "--pattern", "aw", "--volume", "200T", tmp_path)
    assert done.returncode == 3
    assert "less than 10 % of the file system would be left free" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_stops_rather_than_fill_a_file_system(program, tmp_path):
    """100 % is to be left free, so the first chunk is already too much; each process says so."""
    words = ("--pattern", "owc", "--duration", "5", "--processes", "2", "--leave", "100")
    done = failed(program, *words, tmp_path)
    assert done.returncode == 3
    assert all(line.startswith("sluice-probe: ") for line in done.stderr.splitlines())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.acceptance
def test_a_volume_that_takes_longer_than_there_are_slices_is_an_error(program, tmp_path):
    """It cannot be foreseen, and a report of a part would pass for one of the whole."""
    words = ("--pattern", "ws", "--chunk", "4K", "--volume", "1G", "--slice", "0.001")
    rests = ("--on", "0.001", "--off", "1", tmp_path)
    done = subprocess.run(
        [program, *words, *rests], check=False, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "--slice: too short for this --volume" in done.stderr
    assert list(tmp_path.iterdir()) == []


def on_tmpfs(place: Path, size: str) -> tuple[str | Path, ...]:
    """What runs a command with an empty tmpfs there, and then lists the files left in it."""
    script = (
        'place=$1; mount -t tmpfs -o "size=$0" tmpfs "$place" && shift && "$@"; code=$?; '
        'find "$place" -type f; exit $code'
    )
    enter = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, size, place)
    if subprocess.run([*enter, "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs in a namespace of its own")
    return enter


@pytest.mark.parametrize(
    ("length", "directories"), [(("--duration", "5"), 1), (("--volume", "8M"), 2)]
)
def test_all_processes_together_leave_what_is_to_be_left(program, tmp_path, length, directories):
    """There is room for the chunk of each, but not for those of all; nothing is begun."""
    words = ("--pattern", "owc", "--chunk", "8M", *length, "--processes", "4")
    enter, *inside = on_tmpfs(tmp_path, "32M")
    places = [tmp_path] * directories
    done = failed(Path(enter), *inside, program, *words, "--leave", "40", "--keep", *places)
    assert done.returncode == 3


@pytest.mark.parametrize("length", [("owc", "--volume", "8M"), ("ws", "--duration", "1")])
def test_what_fits_is_written_to_the_end(program, tmp_path, length):
    words = ("--pattern", *length, "--chunk", "8M", "--processes", "2", "--leave", "40", tmp_path)
    report = probe(program, *words, prefix=on_tmpfs(tmp_path, "32M"))
    assert report.total["bytes"] >= 16 << 20


def test_a_file_system_that_does_not_tell_its_size_is_written_to(program, tmp_path):
    words = ("--pattern", "owc", "--chunk", "4K", "--volume", "64K", tmp_path)
    assert probe(program, *words, prefix=on_tmpfs(tmp_path, "0")).total["operations"] == 16


def test_a_file_system_that_is_full_without_telling_ends_all_processes(program, tmp_path):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    full = ("strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=ENOSPC:when=3+")
    words = ("--pattern", "owc", "--chunk", "4K", "--duration", "60", "--processes", "3")
    enter, *inside = on_tmpfs(tmp_path, "0")
    done = failed(Path(enter), *inside, *full, program, *words, tmp_path)
    assert done.returncode == 1
    assert "fsync: No space left on device" in done.stderr


def test_a_report_longer_than_files_may_be_is_an_error(program, tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    place = tmp_path / "place"
    place.mkdir()
    words = [program, "--pattern", "metadata", "--duration", "0.1", place]
    with (tmp_path / "report").open("w") as report:
        done = subprocess.run(
            words,
            check=False,
            stdout=report,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            preexec_fn=limit,
        )
    assert done.returncode == 1
    assert done.stderr == "sluice-probe: report: write: File too large\n"
    assert list(place.iterdir()) == []


def test_a_failed_write_ends_all_processes(program, tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    words = ("--pattern", "aw", "--volume", "2M", "--processes", "3", tmp_path)
    done = failed(program, *words, preexec_fn=limit)
    assert done.returncode == 1
    assert "write: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_an_error_and_the_others_stay_clean(program, tmp_path):
    done = failed(program, "--pattern", "ws", "--volume", "1M", tmp_path, tmp_path / "missing")
    assert done.returncode == 1
    assert "missing: make a directory in it: No such file or directory" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_is_an_error(program, tmp_path):
    words = ("--pattern", "ws", "--chunk", "4K", "--duration", "0.2", tmp_path)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [program, *map(str, words)],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == "sluice-probe: report: write: No space left on device\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--volume", "1M", "."], "--pattern: missing"),
        (["--pattern", "xyz", "--volume", "1M", "."], "--pattern: not owc, ws"),
        (["--pattern", "owc+", "--volume", "1M", "."], "--pattern: not owc, ws"),
        (["--pattern", "+".join(["aw"] * 17), "--volume", "1M", "."], "too many parts"),
        (["--pattern", "aw", "."], "--duration: missing"),
        (["--pattern", "metadata", "--volume", "1M", "."], "metadata operations move no bytes"),
        (["--pattern", "aw", "--volume", "1M"], "DIRECTORY: missing"),
        (["--pattern", "aw", "--volume", "1500K", "."], "--volume: no multiple of the chunk"),
        (["--pattern", "aw", "--volume", "-1M", "."], "--volume: not a number of bytes"),
        (["--pattern", "aw", "--volume", "1MB", "."], "--volume: not a number of bytes"),
        (["--pattern", "aw", "--volume", "99999999999T", "."], "--volume: not a number of bytes"),
        (["--pattern", "aw", "--volume", "1M", "--processes", "0", "."], "--processes: not a"),
        (["--pattern", "aw", "--duration", "nan", "."], "--duration: not a number"),
        (["--pattern", "aw", "--duration", "1", "--off", "1", "."], "--on: missing"),
        (["--pattern", "aw", "--duration", "1", "--slice", "0", "."], "--slice: shorter"),
        (["--pattern", "aw", "--duration", "1e6", "."], "--slice: too short"),
        (["--pattern", "aw", "--volume", "1M", "--sync", "often", "."], "--sync: not each"),
        (["--pattern", "owc", "--volume", "1M", "--shared", "."], "--shared: owc and metadata"),
        (["--pattern", "owc", "--volume", "1M", "--files", "2", "."], "--files: owc and metadata"),
        (["--pattern", "aw", "--volume", "1M", "--from", ".", "."], "--from: only for"),
        (["--pattern", "aw", "--chunk", "1000", "--volume", "1000", "--direct", "."], "--direct"),
        (["--pattern", "aw", "--volume", "1M", "--leave", "101", "."], "--leave: not a number"),
    ],
)
def test_wrong_usage_is_told_from_failed_io(program, words, reason):
    done = failed(program, *words)
    assert done.returncode == 2
    assert reason in done.stderr


# -- sanitizers ---------------------------------------------------------------------

EVERYTHING = [
    ("--pattern", "owc+ws+aw+read+metadata", "--processes", "5"),
    ("--pattern", "ws+aw+read", "--processes", "3", "--shared", "--sync", "close"),
    ("--pattern", "aw+read", "--processes", "2", "--files", "3", "--direct"),
    ("--pattern", "owc", "--on", "0.05", "--off", "0.05", "--keep"),
]


@pytest.mark.parametrize("words", EVERYTHING, ids=" ".join)
def test_it_is_clean_under_sanitizers(tmp_path, words):
    """A finding of AddressSanitizer or UBSan ends the process with another exit code."""
    program = build("asan", "SANITIZE=address,undefined")
    length = ("--chunk", "64K", "--duration", "0.3", "--file-size", "1M")
    assert probe(program, *words, *length, tmp_path).total["operations"] > 0


def test_it_is_clean_under_valgrind(program, tmp_path):
    words = (*EVERYTHING[0], "--chunk", "64K", "--duration", "0.3", "--file-size", "1M", tmp_path)
    valgrind = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=no"]
    report = probe(program, *words, prefix=(*valgrind, "--trace-children=yes"))
    assert report.total["operations"] > 0


def test_it_needs_no_root(program):
    if os.geteuid() != 0:
        pytest.skip("we are not root anyway")
    with tempfile.TemporaryDirectory(prefix="sluice-probe-") as place:
        Path(place).chmod(0o777)
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        words = ("--pattern", "owc", "--chunk", "4K", "--volume", "8K", place)
        open_to_all = shutil.copy(program, Path(place) / "program")
        assert probe(Path(open_to_all), *words, prefix=user).total["operations"] == 2
