"""The command line: what every command keeps to."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from core_cases import bundle_bytes

from sluice.cli import common
from sluice.cli.main import DAILY, GROUPS
from sluice.cli.main import main as sluice
from sluice.history_db.records import Job
from sluice.history_db.store import Store
from sluice.slurm.daemon import main as sluiced
from sluice.slurm.views import formatting

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"numpy", "sklearn", "scipy", "darshan", "rich"}
VERBS = [
    *((sluice, verb) for verb in DAILY),
    *((group, verb) for group in GROUPS.values() for verb in group.verbs),
]


def every_command() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []

    def walk(name: str, command: click.Command) -> None:
        found.append((name, command))
        if isinstance(command, click.Group):
            context = click.Context(command)
            for verb in command.list_commands(context):
                walk(f"{name} {verb}", command.get_command(context, verb))

    walk("sluice", sluice)
    return [*found, ("sluiced", sluiced)]


COMMANDS = every_command()


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A configuration whose paths are all below tmp_path."""
    path = tmp_path / "sluice.conf"
    keys = {
        "Bundle": "model.bundle",
        "Snapshot": "cluster.snapshot",
        "Socket": "plugin.sock",
        "History": "history.db",
        "OffFile": "run/off",
    }
    path.write_text("".join(f"{key}={tmp_path}/{name}\n" for key, name in keys.items()))
    return path


def run(*words: str | Path, **environment: str) -> click.testing.Result:
    environment = {"SLUICE_CONF": "", "SLUICE_HISTORY": ""} | environment
    return CliRunner().invoke(
        sluice, [str(word) for word in words], env={k: v or None for k, v in environment.items()}
    )


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_has_help_and_an_example(name, command):
    text = command.get_help(click.Context(command, info_name=name))
    assert command.get_short_help_str()
    if not isinstance(command, click.Group) or name == "sluice":
        assert re.search(rf"^ {{4,}}.*\b{name}", text, re.MULTILINE), "no example"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts[0]} has no help"


@pytest.mark.parametrize(("group", "verb"), VERBS, ids=[f"{g.name} {v.name}" for g, v in VERBS])
def test_the_overview_says_of_a_command_what_its_own_help_says(group, verb):
    command = group.get_command(click.Context(group), verb.name)
    assert command.get_short_help_str(limit=200) == verb.help


def test_the_linter_knows_every_command():
    """So that none imports another: `make lint` checks those that it lists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (one for one in settings["contracts"] if one["type"] == "independence")
    assert set(contract["modules"]) == {f"sluice.cli.{v.module or v.name}" for _, v in VERBS}


def test_help_lists_the_commands_of_every_day_and_then_the_groups_a_line_each():
    lines = run("--help").output.splitlines()
    assert lines.index("Commands:") < lines.index("Groups, each with its own --help:")
    names = [line.split()[0] for line in lines if re.match(r"  [a-z]+  +[A-Z]", line)]
    assert names == [*(verb.name for verb in DAILY), *GROUPS]


def test_history_alone_says_what_it_holds(tmp_path):
    words = ("--history", tmp_path / "history.db", "--json")
    Store(tmp_path / "history.db", create=True).close()
    assert run("history", *words).stdout == run("history", "show", *words).stdout
    assert json.loads(run("history", *words).stdout)["logs"] == 0
    assert run("history", "--help").stdout.startswith("Usage: sluice history [OPTIONS] COMMAND")


def modules_of(*words: str | Path, expected: int = 0) -> tuple[str, set[str]]:
    """What a command prints, and the modules that it has imported by then."""
    code = (
        "import sys; from sluice.cli.main import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
    return done.stdout, set(done.stderr.split())


def test_help_imports_nothing_heavy():
    text, modules = modules_of("--help")
    assert "Usage: " in text
    assert modules & {*HEAVY, "sqlite3", "sluice.policies._core"} == set()


def test_ingest_imports_nothing_that_trains(tmp_path):
    words = ("history", "ingest", tmp_path, "--history", tmp_path / "history.db")
    for more, expected in (([], 1), (["--follow", "--once"], 0)):  # 1: there is no log
        _, modules = modules_of(*words, *more, expected=expected)
        assert "sluice.ingest.ingest" in modules
        assert "sklearn" not in modules


@pytest.mark.parametrize("words", [["history"], ["history", "top", "writers"], ["why", "5"]])
def test_what_is_asked_often_imports_nothing_heavy(tmp_path, words):
    job = {"cluster": "c1", "job_id": 5, "submit": 900, "restarts": 0, "source": "sacct"}
    with Store(tmp_path / "history.db", create=True) as store:
        store.jobs.upsert_jobs([Job(**dict.fromkeys(Job.__slots__) | job | {"array_task": -1})])
    text, modules = modules_of(*words, "--history", tmp_path / "history.db")
    assert text
    assert modules & HEAVY == set()


def test_a_prediction_imports_nothing_heavy(tmp_path):
    (tmp_path / "bundle").write_bytes(bundle_bytes())
    text, modules = modules_of("predict", "--bundle", tmp_path / "bundle")
    assert "nothing is known" in text
    assert modules & HEAVY == set()


def test_the_version_is_the_distribution_s():
    result = run("--version")
    assert re.fullmatch(r"sluice \d+\.\d+\.\d+\n", result.output)


@pytest.mark.parametrize("words", [["why", "9" * 20], ["why", "5", "--cluster", "\udcff"]])
def test_what_no_job_can_be_called_is_not_found(tmp_path, words):
    Store(tmp_path / "history.db", create=True).close()
    done = run(*words, "--history", tmp_path / "history.db")
    assert done.exit_code == 1
    assert "nothing in a history has such a name or number" in done.stderr


def test_a_wrong_word_is_a_usage_error():
    for words in (["no-such-verb"], ["why"], ["why", "4711x"], ["decisions", "--limit", "0"]):
        assert run(*words).exit_code == 2


def test_a_failure_is_one_line_with_a_remedy_and_exit_code_1(tmp_path):
    done = subprocess.run(
        [BIN / "sluice", "decisions", "--history", tmp_path / "none.db"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"sluice: {tmp_path}/none.db: there is no history yet; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_output_that_nobody_can_take_is_no_traceback(where):
    done = subprocess.run(
        ["sh", "-c", f"{BIN}/sluice config explain Mode {where}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert ("No space left on device" in done.stderr) == (where == ">/dev/full")


@pytest.mark.parametrize("kind", ["pipe", "giant", "text"])
def test_what_is_no_bundle_is_named(tmp_path, kind):
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("hello")
    if kind == "giant":
        os.truncate(path, 1 << 40)
    result = run("model", "bundle", path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"sluice: {path}: ")


def test_an_unreadable_configuration_is_named(tmp_path):
    result = run("config", "show", "--config", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == f"sluice: {tmp_path}: Is a directory\n"
    result = run("config", "show", "--config", tmp_path / "none.conf")
    assert result.exit_code == 1
    assert "none.conf: no such file; `sluice init` writes one" in result.stderr


# Where the history is


def test_the_history_comes_from_the_option_then_the_configuration(conf, tmp_path, monkeypatch):
    assert common.Files(conf, tmp_path / "x.db").history == tmp_path / "x.db"
    assert common.Files(conf, None).history == tmp_path / "history.db"
    monkeypatch.setattr(common, "DEFAULT_CONFIG", tmp_path / "none.conf")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert common.Files(None, None).history == tmp_path / "share" / "sluice" / "history.db"
    monkeypatch.setattr(common, "DEFAULT_CONFIG", conf)
    assert common.Files(None, None).history == tmp_path / "history.db"


# The configuration


def test_config_check_names_line_and_remedy(conf):
    assert run("config", "check", "--config", conf).output == f"{conf}: valid.\n"
    lines = conf.read_text().count("\n")
    conf.write_text(conf.read_text() + "MinConfidense=0.7\n")
    result = run("config", "check", "--config", conf)
    assert result.exit_code == 1
    assert (
        f"{conf}:{lines + 1}: unknown key MinConfidense; did you mean MinConfidence? Or remove"
        in result.stderr
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mode_", "Mode"),
        ("Bundel", "Bundle"),
        ("Confidence", "MinConfidence"),
        ("turnsport6", "TurnsPort"),
        ("Colour", None),
        ("x" * 200, None),
    ],
)
def test_a_key_that_nobody_knows_is_answered_with_the_nearest(conf, written, meant):
    conf.write_text(f"{written}=1\n")
    told = run("config", "check", "--config", conf).stderr
    asked = run("config", "explain", written).stderr
    for text in (told, asked):
        found = re.search(r"[Dd]id you mean (\w+)\?", text)
        assert (found and found[1]) == meant


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("Mode=enforce\n", "of the storage, as no Lane= divides it, the Bandwidth is not known"),
        ("ModeOf=enforce Accounts=phys\n", "of the storage, as no Lane= divides it,"),
        ("Mode=enforce\nLane=a Targets=4\n", "of lane a the Bandwidth is not known"),
        ("Mode=enforce\nLane=a Targets=4 Bandwidth=8G\n", ""),
        ("Mode=advise\n", ""),
    ],
)
def test_config_check_says_what_jobs_would_wait_by_without_a_bandwidth(conf, lines, words):
    conf.write_text(lines)
    result = run("config", "check", "--config", conf)
    assert result.exit_code == 0
    assert result.output.startswith(f"{conf}: valid.\n")
    assert ("Bandwidth is not known" in result.output) == bool(words)
    assert words in result.output.replace("\n", " ")


def test_config_check_refuses_what_the_plugin_refuses(conf, tmp_path):
    link = tmp_path / "link.conf"
    link.symlink_to(conf)
    result = run("config", "check", "--config", link)
    assert result.exit_code == 1
    assert result.stderr == f"sluice: {link}: is a symbolic link; put the file itself there\n"
    conf.chmod(0o664)
    result = run("config", "check", "--config", conf)
    assert (result.exit_code, "use chmod go-w" in result.stderr) == (1, True)
    (finding,) = (
        finding
        for finding in json.loads(run("doctor", "--json", "--config", conf).output)["findings"]
        if finding["topic"] == "configuration"
    )
    assert (finding["level"], "use chmod go-w" in finding["text"]) == ("FAIL", True)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_config_check_names_the_owner_that_the_plugin_wants(conf):
    os.chown(conf, 4711, -1)
    result = run("config", "check", "--config", conf)
    assert result.exit_code == 1
    assert "owned by uid 4711; it must belong to root or uid 0: use chown" in result.stderr


def test_config_show_prints_every_key_with_its_value(conf, tmp_path):
    conf.write_text(conf.read_text() + "MinConfidence=0.5\nLane=sl0 Targets=4 Bandwidth=1K\n")
    shown = json.loads(run("config", "show", "--json", "--config", conf).output)
    explained = json.loads(run("config", "explain", "--json").output)["settings"]
    assert list(shown) == ["version", *(key["key"] for key in explained)]
    assert shown["MinConfidence"] == 0.5
    assert shown["OffFile"] == f"{tmp_path}/run/off"
    assert shown["Lane"][0]["bandwidth"] == 1024.0
    table = run("config", "show", "--config", conf).output
    assert "sl0 Targets=4 Bandwidth=1024" in table
    assert re.search(r"^FollowInterval +1000$", table, re.MULTILINE)


def test_config_explain_takes_keys_in_any_case_and_refuses_others():
    assert "abstain when" in run("config", "explain", "minconfidence").output
    result = run("config", "explain", "Foo")
    assert result.exit_code == 2
    assert "There is no setting Foo" in result.stderr


def test_the_doctor_finds_that_the_configuration_is_a_directory(tmp_path):
    result = run("doctor", "--json", "--config", tmp_path)
    assert result.exit_code == 1
    rows = json.loads(result.stdout)["findings"]
    found = {row["topic"]: row for row in rows}["configuration"]
    assert (found["level"], found["text"]) == ("FAIL", f"{tmp_path}: Is a directory")
    assert "sluice off" in found["remedy"]


# The switch


def test_off_and_on_leave_and_remove_the_off_file(conf, tmp_path):
    file = tmp_path / "run" / "off"
    result = run("off", "--reason", "repairs", "--config", conf)
    assert result.exit_code == 0
    assert "leaves all jobs alone" in result.output
    assert file.read_text() == "repairs\n"
    assert "off already" in run("off", "--config", conf).output
    assert "Sluice is on" in run("on", "--config", conf).output
    assert not file.exists()
    assert "was not off" in run("on", "--config", conf).output


def test_who_may_not_switch_is_told_who_may(conf):
    conf.write_text(re.sub("OffFile=.*", "OffFile=/proc/off", conf.read_text()))
    result = run("off", "--config", conf)
    assert result.exit_code == 1
    assert result.stderr.startswith("sluice: /proc/off: ")
    assert "run this as root or as the user of sluiced" in result.stderr


# Tables and numbers


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (65536, "64 KiB"),
        (1.5 * (1 << 20), "1.5 MiB"),
        (1 << 40, "1 TiB"),
        (1 << 60, "1024 PiB"),
    ],
)
def test_bytes_are_in_binary_units(count, text):
    assert formatting.bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.25, "0.25 s"),
        (59, "59 s"),
        (60, "1 min"),
        (80, "1 min 20 s"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_are_in_their_two_largest_units(seconds, text):
    assert formatting.duration_text(seconds) == text


def test_times_are_local_and_nothing_is_a_dash():
    assert formatting.time_text(None) == "–"
    assert formatting.time_text(0) == "–"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", formatting.time_text(1_800_000_000))


def test_a_table_in_a_pipe_is_aligned_plain_text():
    lines = common.aligned(
        ("Name", "Size", "Share"), [("a", "4 KiB", "12%"), ("long name", "16 MiB", "–")]
    )
    assert lines == [
        "Name         Size  Share",
        "a           4 KiB    12%",
        "long name  16 MiB      –",
    ]


def test_a_table_of_no_rows_is_its_heading():
    assert common.aligned(("A", "B"), []) == ["A  B"]


def test_what_users_write_stays_on_one_line():
    shown = formatting.one_line("a\nb\x1b[31m\udcff")
    assert shown == "a?b?[31m?".replace("?", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(("name", "command"), every_command(), ids=lambda one: str(one)[:40])
def test_help_fits_two_screens_and_that_of_sluice_is_shorter(name, command):
    said = CliRunner().invoke(command, ["--help"], terminal_width=80).output.splitlines()
    lines = sum(max(1, -(-len(line) // 80)) for line in said)
    assert lines <= (40 if name == "sluice" else 48)
