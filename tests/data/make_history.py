"""Makes a history to be kept for the upgrade test, when a version is released.

    python tests/data/make_history.py tests/data/history/history-0.1.0.db

Every table has something in it. Run it with the release that is to be kept, never again later.
"""

import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from click.testing import CliRunner

from sluice.cli.main import main
from sluice.history_db.records import Decision, Snapshot
from sluice.history_db.store import Store

LOGS = Path(__file__).parent / "darshan"
CHOSEN = ("001_ior_owc_posix_2K", "098_pat_ws_posix_64K", "116_pat_aw_stdio_1M")


def make(kept: Path) -> None:
    """Work in /tmp, for paths are part of a history."""
    with tempfile.TemporaryDirectory(prefix="sluice-", dir="/tmp") as name:
        place = Path(name)
        fill(place)
        shutil.copy(place / "history.db", kept)
        kept.chmod(0o644)


def fill(place: Path) -> None:
    path, damaged, bundle = (place / n for n in ("history.db", "damaged.darshan", "model.bundle"))
    damaged.write_bytes(b"not a log")
    logs = [shutil.copy(next(LOGS.glob(f"{name}*")), place) for name in CHOSEN]
    rows = (LOGS / "sacct-parsable2.txt").read_text().splitlines()
    chosen = {"JobID", "500001", "600017", "600035"}
    accounting = "\n".join(row for row in rows if row.split("|")[0] in chosen) + "\n"
    run = CliRunner()
    options = ["--history", str(path)]
    names = [str(log) for log in (*logs, damaged)]
    run.invoke(main, ["history", "ingest", *options, *names])
    run.invoke(
        main,
        ["history", "ingest", *options, "--sacct", "-", "--time-zone", "UTC"],
        input=accounting,
    )
    counts = "time,target,read_bytes,write_bytes\n0,a,1,2\n60,a,3,4\n"
    run.invoke(main, ["history", "ingest", *options, "--server-counts", "-"], input=counts)
    for arguments in (["model", "train"], ["model", "publish", "--bundle", str(bundle)]):
        run.invoke(main, [*arguments, *options], catch_exceptions=False)
    with Store(path) as store:
        checksum = store.models.publications()[0].checksum
        store.decisions.add_snapshot(Snapshot(5, 1, 1_800_000_000, b"snapshot"))
        store.decisions.insert_decisions(
            [Decision(7, 1, 1_800_000_000, "c", 0, 500001, "key", b"record", checksum, 5)]
        )
        print(store.counts())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("VACUUM")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
