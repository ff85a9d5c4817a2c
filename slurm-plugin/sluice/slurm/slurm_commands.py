"""Asks a running Slurm by its own commands. The only module that runs them.

Each command has a timeout: they hang for minutes while slurmctld is down. Where somebody waits,
slurmctld is asked for a sign of life first, and for nothing else without one. Times come as UTC
seconds. Texts of users, as names of jobs and accounts, are not asked for here but by queue.py.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.history_db.sacct import TEXT_FIELDS, TYPED_FIELDS
from sluice.slurm.records import (
    CommandFailedError,
    Controller,
    Partition,
    Reservation,
    UserDefaults,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TIMEOUT = 10.0  # seconds

ACCOUNTING_TIMEOUT = 120.0  # seconds

NO_VAL = 0xFFFFFFFE  # slurm.h: what stands for a number that is not set
ADMIN_LEVELS = frozenset({"Operator", "Administrator"})
# Words by which Slurm says that there is no value.
NO_VALUE = frozenset({"", "(null)", "N/A", "n/a", "NONE", "None", "Unknown", "UNLIMITED"})


def run(
    *command: str, stdin: str | None = None, timeout: float = TIMEOUT, check: bool = True
) -> str:
    """Run one of Slurm's commands and return what it prints."""
    if command[0] == "scontrol":
        PING.check()
    try:
        done = _done(command, stdin, timeout)
    except subprocess.TimeoutExpired:
        raise CommandFailedError(
            f"`{' '.join(command)}` gave no answer within {timeout:g} s; is slurmctld up? See "
            "`scontrol ping`"
        ) from None
    if check and done.returncode != 0:
        raise CommandFailedError(f"{_failure(done)}; see `scontrol ping`")
    return done.stdout


def _done(
    command: tuple[str, ...], stdin: str | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SCONTROL_", "SLURM_CLUSTERS"))
    } | {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            timeout=timeout,
            env=environment,
        )
    except FileNotFoundError:
        raise CommandFailedError(
            f"`{command[0]}` is not installed here; install Slurm's client commands, or run this "
            "on a machine that has them"
        ) from None


def _failure(done: subprocess.CompletedProcess[str]) -> str:
    why = done.stderr.strip().splitlines()
    return f"`{' '.join(done.args)}` failed: {why[0] if why else f'exit code {done.returncode}'}"


class Ping:
    """Whether slurmctld gives a sign of life, asked before anything else where somebody waits.

    Slurm's commands try for 10 s to reach a slurmctld that is down or stopped, each anew; to answer
    `scontrol ping` takes milliseconds and no lock.
    """

    SECONDS = 0.8
    HOST_SECONDS = 3.0
    """More for each other host of slurmctld, as the first may be dead: longer than TCPTimeout."""
    HOLDS = 10.0
    """Seconds: what was found counts for so long."""

    def __init__(self) -> None:
        self._is_asked = False
        self._until = 0.0
        self._failure = ""
        self.silence = ""
        """What was said of a slurmctld that is down; empty where it is not, or was not asked."""

    @contextmanager
    def asked_first(self) -> Iterator[None]:
        """Ask for it in this block; a daemon, for which no user waits, does not."""
        self._is_asked, self._until, self.silence = True, 0.0, ""
        try:
            yield
        finally:
            self._is_asked = False

    def check(self) -> None:
        """Raise CommandFailedError where it is asked for and did not come."""
        if not self._is_asked:
            return
        if time.monotonic() >= self._until:
            self._failure, self.silence = self._ask()
            self._until = time.monotonic() + self.HOLDS
        if self._failure or self.silence:
            raise CommandFailedError(self._failure or self.silence)

    def _ask(self) -> tuple[str, str]:
        """Return why none can be asked for, and what is said where none came."""
        hosts = len(given_in_slurm_conf("SlurmctldHost"))
        seconds = self.SECONDS + self.HOST_SECONDS * max(0, hosts - 1)
        try:
            done = _done(("scontrol", "ping"), None, seconds)
        except subprocess.TimeoutExpired:
            return "", (
                f"slurmctld gave no sign of life within {seconds:g} s, so Slurm cannot be asked; "
                "see `scontrol ping`"
            )
        except CommandFailedError as error:
            return str(error), ""
        if done.returncode == 0 or re.search(r"\bUP\b", done.stdout):
            return "", ""
        if re.search(r"\bDOWN\b", done.stdout):
            return "", "slurmctld is down, so Slurm cannot be asked; start it, see `scontrol ping`"
        return _failure(done), ""


PING = Ping()


# What slurm.conf says without slurmctld


CONF_PLACES = (Path("/etc/slurm/slurm.conf"), Path("/run/slurm/conf/slurm.conf"))
"""The second is of a configless node."""
INCLUDE = re.compile(r"(?im)^\s*include\s+(\S+)")


def in_slurm_conf(key: str) -> str | None:
    """Return the value of a setting; None where no file that can be read says it."""
    given = given_in_slurm_conf(key)
    return given[-1] if given else None


def given_in_slurm_conf(key: str) -> list[str]:
    """Return all that the files say for a setting."""
    named = os.environ.get("SLURM_CONF")
    paths = [Path(named)] if named else [place for place in CONF_PLACES if place.exists()][:1]
    given: list[str] = []
    for path in paths:  # grows by what each includes
        with suppress(OSError):
            text = path.read_text(errors="replace")
            given += re.findall(rf"(?im)^\s*{key}\s*=\s*(\S+)", text)
            included = (path.parent / name for name in INCLUDE.findall(text))
            paths += [one for one in included if one not in paths]
    return given


def configured_slurm_uid() -> int | None:
    """Return the uid of SlurmUser without asking slurmctld; None where nothing tells it."""
    name = in_slurm_conf("SlurmUser") or ""
    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


# Reservations of licences


def reservations(*, timeout: float = TIMEOUT) -> list[Reservation]:
    answer = run("scontrol", "--oneliner", "show", "reservation", timeout=timeout)
    lines = answer.splitlines()
    return [parse_reservation(line) for line in lines if line.startswith("ReservationName=")]


def parse_reservation(line: str) -> Reservation:
    field = dict(word.partition("=")[::2] for word in line.split())
    return Reservation(
        name=field["ReservationName"],
        end=_number(field["EndTime"]) or 0,
        nodes=_number(field.get("NodeCnt", "")) or 0,
        licenses=_text(field.get("Licenses", "")) or "",
    )


def control(commands: Sequence[str], *, timeout: float = TIMEOUT) -> None:
    """Give scontrol several commands at once: starting it takes longer than most of them.

    Each is tried, also after one that failed; then the first failure is raised.
    """
    if not commands:
        return
    run("scontrol", stdin="".join(f"{command}\n" for command in commands), timeout=timeout)


# The rest of the controller


def partitions() -> list[Partition]:
    lines = run("scontrol", "--oneliner", "--all", "show", "partition").splitlines()
    return [parse_partition(line) for line in lines if line.startswith("PartitionName=")]


def parse_partition(line: str) -> Partition:
    field = dict(word.partition("=")[::2] for word in line.split())
    return Partition(
        name=field["PartitionName"],
        is_default=field.get("Default") == "YES",
        qos=_text(field.get("QoS", "")),
        tier=_number(field.get("PriorityTier", "")) or 0,
        preempt_mode=field.get("PreemptMode", "OFF"),
    )


def controller() -> Controller:
    return parse_controller(run("scontrol", "show", "config"))


def parse_controller(text: str) -> Controller:
    field = {
        key.strip(): value.strip()
        for key, equals, value in (line.partition("=") for line in text.splitlines())
        if equals
    }

    def words(key: str, separator: str = ",") -> tuple[str, ...]:
        return tuple(filter(None, (_text(field.get(key, "")) or "").split(separator)))

    return Controller(
        cluster=field.get("ClusterName", ""),
        slurm_version=field.get("SLURM_VERSION", ""),
        slurm_uid=int(re.sub(r".*\((\d+)\)", r"\1", field.get("SlurmUser", "root(0)"))),
        job_submit_plugins=words("JobSubmitPlugins"),
        plugin_dirs=words("PluginDir", ":"),
        preempt_type=field.get("PreemptType", ""),
        accounting=field.get("AccountingStorageType", ""),
        priority_flags=words("PriorityFlags"),
        scheduler_parameters=words("SchedulerParameters"),
        private_data=tuple(word for word in words("PrivateData") if word != "none"),
    )


def user_defaults(cluster: str) -> list[UserDefaults]:
    """Ask which account and QoS Slurm fills in, by uid; empty without an accounting database.

    The controller's own list knows uids and accounts; only the database knows default QoS.
    """
    listed = run("scontrol", "show", "assoc_mgr", "flags=users")
    return parse_users(listed, _default_qos(cluster) if "UserName=" in listed else {})


def parse_users(listed: str, default_qos: dict[tuple[str, str], str]) -> list[UserDefaults]:
    """Parse `scontrol show assoc_mgr`; default_qos is by user and account."""
    rows = re.findall(
        r"^UserName=(.+?)\((\d+)\) DefAccount=(\S+)(?:.* AdminLevel=(\w+))?", listed, re.MULTILINE
    )
    by_uid = {
        int(uid): UserDefaults(
            uid=int(uid),
            account=_text(account) or "",
            qos=default_qos.get((name, account), ""),
            is_operator=level in ADMIN_LEVELS,
        )
        for name, uid, account, level in rows
        if int(uid) < NO_VAL  # otherwise the controller's machine does not know the user
    }
    return list(by_uid.values())


def is_operator(uid: int) -> bool:
    """Whether the accounting makes this user an operator or administrator, as far as it tells."""
    try:
        name = pwd.getpwuid(uid).pw_name
        listed = run("scontrol", "show", "assoc_mgr", f"users={name}", "flags=users", check=False)
    except (KeyError, CommandFailedError):
        return False
    return any(user.uid == uid and user.is_operator for user in parse_users(listed, {}))


def _default_qos(cluster: str) -> dict[tuple[str, str], str]:
    """Map user and account to the default QoS of that association."""
    answer = run(
        "sacctmgr",
        "--noheader",
        "--parsable2",
        "show",
        "assoc",
        f"cluster={cluster}",
        "format=user,account,defaultqos",
        check=False,
    )
    rows = (line.split("|") for line in answer.splitlines())
    return {(row[0], row[1]): row[2] for row in rows if len(row) == 3 and row[0] and row[2]}


def preempting_qos() -> list[str]:
    """Ask for the QoS that may preempt others; empty without an accounting database."""
    answer = run(
        "sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=name,preempt", check=False
    )
    return parse_preempting_qos(answer)


def parse_preempting_qos(answer: str) -> list[str]:
    rows = (line.partition("|") for line in answer.splitlines())
    return sorted(name for name, _, preempted in rows if name and preempted)


def accounting(since: int) -> tuple[str, str]:
    """Return what sacct says of the jobs that were there since a time in UTC seconds.

    The first answer has TYPED_FIELDS, also of steps: only they tell what was read and written. The
    second has TEXT_FIELDS, apart by a word that no user can have written: sacct escapes nothing.
    Its JSON would; but without the UID, and without the submit line before 23.02.
    """
    known = run("sacct", "--helpformat").split()
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))

    def ask(fields: Sequence[str], *options: str) -> str:
        return run(
            *("sacct", "--parsable2", "--allusers", "--duplicates", "--allclusters", *options),
            *("--starttime", start),
            *("--format", ",".join(field for field in fields if field in known)),
            timeout=ACCOUNTING_TIMEOUT,
        )

    typed = ask(TYPED_FIELDS)
    return typed, ask(TEXT_FIELDS, "--allocations", "--delimiter", f"|{secrets.token_hex(16)}|")


def admin_comments(controller: Controller, *, timeout: float) -> set[str]:
    """Return how admin comments begin, of the queue and of what the accounting had lately.

    What a tool writes when a job has ended may be in the accounting alone.
    """
    found = run(
        *("squeue", "--noheader", "--all", "--states=all", "--Format=admin_comment:40"),
        timeout=timeout,
    )
    if controller.accounting == "accounting_storage/slurmdbd":
        found += run(
            *("sacct", "--noheader", "--parsable2", "--allocations", "--allusers"),
            *("--starttime=now-2hours", "--format=admincomment"),
            timeout=timeout,
        )
    return {line.strip()[:40] for line in found.splitlines()} - NO_VALUE


def slurmctld_version() -> str:
    """Ask the installed slurmctld for its version, x.y.z."""
    return run("slurmctld", "-V").split()[-1]


def _number(text: str) -> int | None:
    number = int(text) if text.isdecimal() else NO_VAL
    return None if number >= NO_VAL else number


def _text(text: str) -> str | None:
    return None if text in NO_VALUE else text
