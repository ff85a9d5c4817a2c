"""The schema, one step at a time.

Each function runs once, in its own transaction together with the record that it ran.
A released one is never edited: what changes comes as the next function.
64-bit unsigned identities (checksums, keys, signatures) are kept as SQLite's signed integers.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.history_db.sql import Database


def m001_logs_and_profiles(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE logs (
            id          INTEGER PRIMARY KEY,
            digest      BLOB    NOT NULL UNIQUE,  -- BLAKE2b-128 of the file
            path        TEXT    NOT NULL,
            size        INTEGER NOT NULL,
            mtime_ns    INTEGER NOT NULL,
            reason      TEXT,                     -- why it is quarantined; NULL: it was read
            jobid       INTEGER,
            uid         INTEGER,
            exe         TEXT,
            start       INTEGER,                  -- UTC seconds
            end         INTEGER,
            nprocs      INTEGER,
            partial     INTEGER NOT NULL,         -- Darshan ran out of records
            format      TEXT,
            job         INTEGER REFERENCES jobs (id) ON DELETE SET NULL
        ) STRICT
        """
    )
    db.execute("CREATE INDEX logs_path ON logs (path)")
    db.execute("CREATE INDEX logs_job ON logs (job)")
    db.execute("CREATE INDEX logs_unlinked ON logs (jobid) WHERE job IS NULL")
    db.execute(
        """
        CREATE TABLE profiles (
            log                 INTEGER PRIMARY KEY REFERENCES logs (id) ON DELETE CASCADE,
            pattern             TEXT    NOT NULL,
            confidence          REAL    NOT NULL,
            shares              TEXT    NOT NULL, -- JSON: share of the bytes by pattern
            log_sd              REAL    NOT NULL,
            chunk_bytes         REAL,             -- NULL: never measured
            nprocs              REAL,
            write_bytes         REAL,
            read_bytes          REAL,
            files               REAL,
            rate                REAL,
            metadata_rate       REAL,
            burst_seconds       REAL,
            period_seconds      REAL,
            io_share            REAL,
            runtime_seconds     REAL,
            bytes_per_flush     REAL,
            creates_per_mib     REAL,
            unflushed_bytes     REAL,
            direct_share        REAL,
            collective_share    REAL,
            shared_share        REAL,
            targets             REAL,
            async_io            REAL,
            features            BLOB    NOT NULL  -- float32, little-endian: the classifier's input
        ) STRICT
        """
    )
    db.execute(
        """
        CREATE TABLE labels (
            log         INTEGER PRIMARY KEY REFERENCES logs (id) ON DELETE CASCADE,
            pattern     TEXT    NOT NULL,
            application TEXT    NOT NULL          -- held out as one when the classifier is judged
        ) STRICT
        """
    )


def m002_jobs(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE jobs (
            id               INTEGER PRIMARY KEY,
            cluster          TEXT    NOT NULL,    -- empty: sacct did not say
            job_id           INTEGER NOT NULL,
            array_task       INTEGER NOT NULL,    -- -1 unless the raw job id is not known
            submit           INTEGER NOT NULL,    -- UTC seconds; 0: unknown
            restarts         INTEGER NOT NULL,
            name             TEXT,
            user             TEXT,
            uid              INTEGER,
            account          TEXT,
            partition        TEXT,
            qos              TEXT,
            nodes            INTEGER,
            tasks            INTEGER,
            cpus             INTEGER,
            time_limit       INTEGER,             -- minutes; NULL: unlimited or unknown
            start            INTEGER,
            end              INTEGER,
            state            TEXT,
            exit_code        TEXT,
            submit_line      TEXT,
            script_signature INTEGER,
            source           TEXT    NOT NULL CHECK (source IN ('sacct', 'sluiced')),
            UNIQUE (cluster, job_id, array_task, submit, restarts)
        ) STRICT
        """
    )
    db.execute("CREATE INDEX jobs_job_id ON jobs (job_id)")


def m003_models(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE classifiers (
            id          INTEGER PRIMARY KEY AUTOINCREMENT,
            created     INTEGER NOT NULL,
            metrics     TEXT    NOT NULL,         -- JSON
            content     BLOB    NOT NULL          -- the pattern classifier, .npz
        ) STRICT
        """
    )
    db.execute(
        """
        CREATE TABLE models (
            id          INTEGER PRIMARY KEY AUTOINCREMENT,
            created     INTEGER NOT NULL,
            metrics     TEXT    NOT NULL,         -- JSON
            content     BLOB    NOT NULL          -- the submit-time model, .npz
        ) STRICT
        """
    )
    db.execute(
        """
        CREATE TABLE applications (
            id          INTEGER PRIMARY KEY AUTOINCREMENT,
            model       INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
            evidence    TEXT    NOT NULL,
            key         INTEGER NOT NULL,
            label       TEXT    NOT NULL,         -- for people
            runs        INTEGER NOT NULL
        ) STRICT
        """
    )
    db.execute("CREATE INDEX applications_model ON applications (model)")
    db.execute(
        """
        CREATE TABLE application_runs (
            application INTEGER NOT NULL REFERENCES applications (id) ON DELETE CASCADE,
            log         INTEGER NOT NULL REFERENCES logs (id) ON DELETE CASCADE,
            PRIMARY KEY (application, log)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX application_runs_log ON application_runs (log)")
    db.execute(
        """
        CREATE TABLE bundles (
            checksum     INTEGER PRIMARY KEY,
            model        INTEGER REFERENCES models (id) ON DELETE SET NULL,
            path         TEXT    NOT NULL,
            published_at INTEGER NOT NULL,
            content      BLOB    NOT NULL         -- the file, so that decisions can be replayed
        ) STRICT
        """
    )


def m004_decisions(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE decisions (
            boot        INTEGER NOT NULL,
            number      INTEGER NOT NULL,
            now         INTEGER NOT NULL,         -- UTC seconds
            cluster     TEXT    NOT NULL,
            uid         INTEGER NOT NULL,
            job_id      INTEGER,                  -- NULL until joined
            joined_by   TEXT CHECK (joined_by IN ('mark', 'key', 'tie')),
            bundle      INTEGER NOT NULL,         -- checksums; 0: none
            snapshot    INTEGER NOT NULL,
            record      BLOB    NOT NULL,         -- struct sluice_record
            PRIMARY KEY (boot, number)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX decisions_now ON decisions (now)")
    db.execute("CREATE INDEX decisions_job ON decisions (job_id)")
    db.execute("CREATE INDEX decisions_snapshot ON decisions (snapshot)")
    db.execute("CREATE INDEX decisions_bundle ON decisions (bundle)")
    db.execute(
        """
        CREATE TABLE snapshots (
            checksum    INTEGER PRIMARY KEY,
            sequence    INTEGER NOT NULL,
            taken       INTEGER NOT NULL,         -- UTC seconds
            content     BLOB    NOT NULL          -- the file, so that decisions can be replayed
        ) STRICT
        """
    )


def m005_gates(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE running_sets (
            cluster     TEXT    NOT NULL,
            taken       INTEGER NOT NULL,         -- UTC seconds, of the first look that saw it
            content     TEXT    NOT NULL          -- JSON: who ran together, and the gates
        ) STRICT
        """
    )
    db.execute("CREATE INDEX running_sets_taken ON running_sets (taken)")
    db.execute(
        """
        CREATE TABLE releases (
            cluster     TEXT    NOT NULL,
            job_id      INTEGER NOT NULL,         -- of an array, the one that sbatch printed
            submit      INTEGER NOT NULL,         -- UTC seconds
            released    INTEGER NOT NULL,         -- UTC seconds
            tokens      TEXT    NOT NULL,         -- what was taken off: a,b
            reason      TEXT    NOT NULL,
            waited      REAL    NOT NULL          -- seconds for its tokens, at most
        ) STRICT
        """
    )
    db.execute("CREATE INDEX releases_job ON releases (job_id)")
    db.execute("CREATE INDEX releases_released ON releases (released)")


def m006_a_million_runs(db: Database) -> None:
    """Make what is asked often quick, and the file no larger than it must be."""
    db.execute("DROP INDEX logs_path")  # as long as the paths themselves
    db.execute("CREATE INDEX logs_seen ON logs (mtime_ns, size)")
    db.execute("CREATE INDEX logs_quarantined ON logs (path) WHERE reason IS NOT NULL")
    db.execute("CREATE INDEX logs_start ON logs (start)")
    db.execute("CREATE INDEX jobs_user ON jobs (user, submit)")
    db.execute(
        """
        CREATE TABLE weekly_totals (
            week            INTEGER NOT NULL,     -- of the start: UTC seconds / 604,800
            uid             INTEGER NOT NULL,
            application     TEXT    NOT NULL,     -- stem of the job's name, else of the program's
            runs            INTEGER NOT NULL,
            write_bytes     REAL    NOT NULL,
            read_bytes      REAL    NOT NULL,
            metadata        REAL    NOT NULL,     -- opens, stats, unlinks
            caused          REAL    NOT NULL,     -- node-seconds that others lost to it
            suffered        REAL    NOT NULL,     -- node-seconds that it lost to others
            PRIMARY KEY (week, uid, application)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute(
        """
        CREATE TABLE stale_weeks (                -- whose totals are to be added up again
            week            INTEGER PRIMARY KEY
        ) STRICT
        """
    )
    db.execute(
        "INSERT INTO stale_weeks SELECT DISTINCT start / 604800 FROM logs "
        "WHERE reason IS NULL AND start IS NOT NULL"
    )
    for event, row in (("INSERT", "new"), ("DELETE", "old"), ("UPDATE OF job", "new")):
        db.execute(
            f"CREATE TRIGGER stale_after_{event.split()[0].lower()} AFTER {event} ON logs "
            f"WHEN {row}.start IS NOT NULL BEGIN INSERT OR IGNORE "
            f"INTO stale_weeks VALUES ({row}.start / 604800); END"
        )
    for boot, number in list(db.execute("SELECT boot, number FROM decisions")):
        same = "WHERE boot = ? AND number = ?"
        (record,) = db.execute(f"SELECT record FROM decisions {same}", [boot, number]).fetchone()
        db.execute(f"UPDATE decisions SET record = ? {same}", [zlib.compress(record), boot, number])


def m007_observed_interference(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE observed_interference (
            victim          TEXT    NOT NULL,     -- application
            aggressor       TEXT    NOT NULL,
            found           INTEGER NOT NULL,     -- UTC seconds
            rho             REAL    NOT NULL,     -- rate left, of the undisturbed one
            log_sd          REAL    NOT NULL,     -- of log(rho)
            p_value         REAL    NOT NULL,
            disturbed       INTEGER NOT NULL,     -- slices of time
            undisturbed     INTEGER NOT NULL,
            is_attributed   INTEGER NOT NULL CHECK (is_attributed IN (0, 1)),
            PRIMARY KEY (victim, aggressor)
        ) STRICT, WITHOUT ROWID
        """
    )


def m008_second_decisions(db: Database) -> None:
    db.execute("ALTER TABLE decisions ADD COLUMN is_second INTEGER NOT NULL DEFAULT 0")


def m009_io_of_jobs(db: Database) -> None:
    """Jobs without logs have coarse figures; what share has logs is kept by week."""
    for column in ("write_bytes", "read_bytes", "metadata_operations"):
        db.execute(f"ALTER TABLE jobs ADD COLUMN {column} INTEGER")  # NULL: not known
    db.execute("CREATE INDEX jobs_start ON jobs (start)")
    db.execute(
        """
        CREATE TABLE weekly_coverage (
            week                INTEGER PRIMARY KEY,  -- of the start: UTC seconds / 604,800
            jobs                INTEGER NOT NULL,     -- that ran
            logged_jobs         INTEGER NOT NULL,     -- those with a log
            node_seconds        REAL    NOT NULL,
            logged_node_seconds REAL    NOT NULL,
            bytes               REAL    NOT NULL,     -- counted by anybody
            logged_bytes        REAL    NOT NULL      -- counted by Darshan
        ) STRICT
        """
    )
    db.execute("CREATE TABLE uncovered_weeks (week INTEGER PRIMARY KEY) STRICT")
    db.execute(
        "INSERT INTO uncovered_weeks SELECT DISTINCT start / 604800 FROM jobs "
        "WHERE start IS NOT NULL"
    )
    for name, event, row in (
        ("insert", "INSERT", "new"),
        ("update", "UPDATE OF start, end, nodes, write_bytes, read_bytes", "new"),
        ("delete", "DELETE", "old"),
    ):
        db.execute(
            f"CREATE TRIGGER coverage_after_{name} AFTER {event} ON jobs "
            f"WHEN {row}.start IS NOT NULL BEGIN INSERT OR IGNORE "
            f"INTO uncovered_weeks VALUES ({row}.start / 604800); END"
        )
    db.execute(
        "CREATE TRIGGER coverage_after_link AFTER UPDATE OF job ON logs "
        "WHEN new.job IS NOT NULL BEGIN INSERT OR IGNORE "
        "INTO uncovered_weeks SELECT start / 604800 FROM jobs "
        "WHERE id = new.job AND start IS NOT NULL; END"
    )


def m010_totals_by_application(db: Database) -> None:
    """Let a ranking walk the totals in the order in which it adds them up."""
    db.execute("DROP TABLE weekly_totals")
    db.execute(
        """
        CREATE TABLE weekly_totals (
            uid             INTEGER NOT NULL,
            application     TEXT    NOT NULL,     -- stem of the job's name, else of the program's
            week            INTEGER NOT NULL,     -- of the start: UTC seconds / 604,800
            user            TEXT,                 -- by the accounting
            runs            INTEGER NOT NULL,
            write_bytes     REAL    NOT NULL,
            read_bytes      REAL    NOT NULL,
            metadata        REAL    NOT NULL,     -- opens, stats, unlinks
            caused          REAL    NOT NULL,     -- node-seconds that others lost to it
            suffered        REAL    NOT NULL,     -- node-seconds that it lost to others
            PRIMARY KEY (uid, application, week)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX weekly_totals_week ON weekly_totals (week)")
    db.execute(
        "INSERT OR IGNORE INTO stale_weeks SELECT DISTINCT start / 604800 FROM logs "
        "WHERE reason IS NULL AND start IS NOT NULL"
    )


def m011_calibrations(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE calibrations (
            id            INTEGER PRIMARY KEY AUTOINCREMENT,
            created       INTEGER NOT NULL,       -- UTC seconds
            site          TEXT    NOT NULL,       -- what was measured, for people
            settings      TEXT    NOT NULL,       -- JSON: how, so that it can be resumed
            finished      INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """
    )
    db.execute(
        """
        CREATE TABLE encounters (
            id            INTEGER PRIMARY KEY,
            calibration   INTEGER NOT NULL REFERENCES calibrations (id) ON DELETE CASCADE,
            started       INTEGER NOT NULL,       -- UTC seconds
            mode          TEXT    NOT NULL CHECK (mode IN ('rates', 'delta')),
            members       TEXT    NOT NULL,       -- JSON: the probe first, as owc:1M:2
            targets       TEXT    NOT NULL,       -- JSON: of each member
            offset        REAL    NOT NULL,       -- seconds
            alone         TEXT    NOT NULL,       -- JSON: B/s, or seconds
            together      TEXT    NOT NULL,       -- JSON: of each member
            foreign_share REAL    NOT NULL,
            dropped       TEXT    NOT NULL        -- why it does not count
        ) STRICT
        """
    )
    db.execute("CREATE INDEX encounters_calibration ON encounters (calibration)")


def m012_totals_of_all_weeks(db: Database) -> None:
    """Let a ranking of all time read a row an application."""
    db.execute(
        """
        CREATE TABLE application_totals (         -- empty: to be added up from weekly_totals
            uid             INTEGER NOT NULL,
            application     TEXT    NOT NULL,
            user            TEXT,
            runs            INTEGER NOT NULL,
            write_bytes     REAL    NOT NULL,
            read_bytes      REAL    NOT NULL,
            metadata        REAL    NOT NULL,
            caused          REAL    NOT NULL,
            suffered        REAL    NOT NULL,
            PRIMARY KEY (uid, application)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute(
        """
        INSERT INTO application_totals
        SELECT uid, application, max(user), sum(runs), sum(write_bytes), sum(read_bytes),
               sum(metadata), sum(caused), sum(suffered)
        FROM weekly_totals GROUP BY uid, application
        """
    )


def m013_rates_of_targets(db: Database) -> None:
    """Let each storage target be compared with the others: who is slow, and since when."""
    db.execute("ALTER TABLE logs ADD COLUMN osts TEXT")  # JSON: numbers; NULL: not known
    db.execute("CREATE INDEX logs_osts ON logs (start) WHERE osts IS NOT NULL")
    db.execute(
        """
        CREATE TABLE target_probes (
            target        TEXT    NOT NULL,
            program       TEXT    NOT NULL,       -- of sluice-probe, as aw:1M:2
            observed      INTEGER NOT NULL,       -- UTC seconds
            rate          REAL    NOT NULL CHECK (rate > 0),  -- B/s
            PRIMARY KEY (target, program, observed)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX target_probes_observed ON target_probes (observed)")
    db.execute(
        """
        CREATE TABLE confined_jobs (              -- that held tokens of one lane
            cluster       TEXT    NOT NULL,
            job_id        INTEGER NOT NULL,
            submit        INTEGER NOT NULL,
            lane          INTEGER NOT NULL,       -- its place in the policy
            seen          INTEGER NOT NULL,       -- running for the first time, UTC seconds
            PRIMARY KEY (cluster, job_id, submit)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX confined_jobs_seen ON confined_jobs (seen)")


def m014_arrays(db: Database) -> None:
    db.execute("ALTER TABLE jobs ADD COLUMN array_job INTEGER")  # NULL: no task of an array


def m015_jobs_in_company(db: Database) -> None:
    """Tell rates that are a lane's own from those that its other jobs left."""
    db.execute(
        """
        CREATE TABLE jobs_in_company (            -- that shared lanes with other jobs
            cluster       TEXT    NOT NULL,
            job_id        INTEGER NOT NULL,
            submit        INTEGER NOT NULL,
            seen          INTEGER NOT NULL,       -- for the first time, UTC seconds
            PRIMARY KEY (cluster, job_id, submit)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute(  # whatever their lanes: what is left out by mistake is forgotten in a week
        """
        INSERT OR IGNORE INTO jobs_in_company
        SELECT cluster, json_extract(value, '$[0]'), json_extract(value, '$[1]'), taken
        FROM running_sets, json_each(content, '$.holders')
        WHERE json_array_length(content, '$.holders') > 1
        ORDER BY taken
        """
    )


def m016_observed_in_some_time(db: Database) -> None:
    """Let what the logs of one month showed stand beside that of another."""
    db.execute("ALTER TABLE observed_interference RENAME TO observed_before")
    db.execute(
        """
        CREATE TABLE observed_interference (
            victim          TEXT    NOT NULL,     -- application
            aggressor       TEXT    NOT NULL,
            since           INTEGER NOT NULL,     -- start of the first run that was read and of
            until           INTEGER NOT NULL,     -- the last, UTC seconds; both 0: not recorded
            found           INTEGER NOT NULL,     -- UTC seconds
            rho             REAL    NOT NULL,     -- rate left, of the undisturbed one
            log_sd          REAL    NOT NULL,     -- of log(rho)
            p_value         REAL    NOT NULL,
            disturbed       INTEGER NOT NULL,     -- slices of time
            undisturbed     INTEGER NOT NULL,
            false_rate      REAL    NOT NULL,     -- of what is attributed, as it was asked for
            PRIMARY KEY (victim, aggressor, since, until)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute(
        """
        INSERT INTO observed_interference
        SELECT victim, aggressor, 0, 0, found, rho, log_sd, p_value, disturbed, undisturbed, 0.05
        FROM observed_before
        """
    )
    db.execute("DROP TABLE observed_before")


def m017_packed_snapshots(db: Database) -> None:
    """Keep snapshots compressed, most as what differs from the one before; count lost records."""
    db.execute("ALTER TABLE snapshots ADD COLUMN base INTEGER")  # NULL: content is the whole file
    checksums = [row[0] for row in db.execute("SELECT checksum FROM snapshots")]
    for checksum in checksums:
        row = db.execute("SELECT content FROM snapshots WHERE checksum = ?", [checksum]).fetchone()
        db.execute(
            "UPDATE snapshots SET content = ? WHERE checksum = ?",
            [zlib.compress(row[0]), checksum],
        )
    db.execute(
        """
        CREATE TABLE dictionaries (               -- records that others are compressed with
            id            INTEGER PRIMARY KEY,
            content       BLOB    NOT NULL        -- compressed
        ) STRICT
        """
    )
    db.execute("ALTER TABLE decisions ADD COLUMN dictionary INTEGER REFERENCES dictionaries")
    db.execute(
        """
        CREATE TABLE losses (                     -- records that were lost while nothing could
            found         INTEGER NOT NULL,       -- be stored; UTC seconds
            records       INTEGER NOT NULL
        ) STRICT
        """
    )


def m018_decisions_by_dictionary(db: Database) -> None:
    """Let a dictionary be forgotten without reading all decisions, for its foreign key."""
    db.execute("CREATE INDEX decisions_dictionary ON decisions (dictionary)")


def m019_heatmaps(db: Database) -> None:
    """Let the processes and steps of a job be laid over each other without their logs."""
    db.execute("ALTER TABLE logs ADD COLUMN heatmap BLOB")  # packed; NULL: not known


def m020_losses_of_jobs(db: Database) -> None:
    """Add all weeks up again: they counted logs, and harm by rates that were not alone."""
    db.execute("INSERT OR IGNORE INTO stale_weeks SELECT DISTINCT week FROM weekly_totals")


def m021_bundles_as_deltas(db: Database) -> None:
    """Let a bundle be kept as what differs from another, which is kept whole."""
    db.execute("ALTER TABLE bundles ADD COLUMN base INTEGER")  # NULL: content is the whole file
    db.execute("CREATE INDEX bundles_base ON bundles (base)")


def m022_capacity_of_targets(db: Database) -> None:
    """Let calibrations keep what servers take and how they share it."""
    db.execute("ALTER TABLE encounters RENAME TO encounters_before")
    db.execute("DROP INDEX encounters_calibration")
    db.execute(
        """
        CREATE TABLE encounters (
            id            INTEGER PRIMARY KEY,
            calibration   INTEGER NOT NULL REFERENCES calibrations (id) ON DELETE CASCADE,
            started       INTEGER NOT NULL,       -- UTC seconds
            mode          TEXT    NOT NULL CHECK (mode IN ('rates', 'delta', 'capacity')),
            members       TEXT    NOT NULL,       -- JSON: the probe first, as owc:1M:2
            targets       TEXT    NOT NULL,       -- JSON: of each member
            offset        REAL    NOT NULL,       -- seconds
            alone         TEXT    NOT NULL,       -- JSON: B/s, or seconds
            together      TEXT    NOT NULL,       -- JSON: of each member
            foreign_share REAL    NOT NULL,
            dropped       TEXT    NOT NULL        -- why it does not count
        ) STRICT
        """
    )
    db.execute("INSERT INTO encounters SELECT * FROM encounters_before")
    db.execute("DROP TABLE encounters_before")
    db.execute("CREATE INDEX encounters_calibration ON encounters (calibration)")


def m023_totals_without_harm(db: Database) -> None:
    """Forget what jobs cost each other: it is computed when it is asked for, by one model."""
    for table in ("weekly_totals", "application_totals"):
        for column in ("caused", "suffered"):
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")


def m024_held_bursts(db: Database) -> None:
    """Keep which bursts of running jobs were held in turns, for whose sake and how long."""
    db.execute(
        """
        CREATE TABLE held_bursts (
            cluster     TEXT    NOT NULL,
            source      TEXT    NOT NULL,         -- a run of sluice-turns, drawn when it began
            number      INTEGER NOT NULL,
            job_id      INTEGER NOT NULL,
            nodes       INTEGER NOT NULL,
            sake        INTEGER,                  -- the job that went first; NULL: unknown
            sake_nodes  INTEGER NOT NULL,
            lane_mask   INTEGER NOT NULL,         -- of the policy's lanes; 0: all
            began       INTEGER NOT NULL,         -- UTC seconds
            lasted      REAL    NOT NULL,         -- seconds, holds included
            held        REAL    NOT NULL,         -- seconds
            holds       INTEGER NOT NULL,         -- times
            bytes       REAL    NOT NULL,
            saving      REAL,                     -- node-seconds expected of it; NULL: unknown
            is_held     INTEGER NOT NULL,         -- 0: in observe, it would have been
            ended       TEXT    NOT NULL,         -- why it was released
            PRIMARY KEY (source, number)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX held_bursts_job ON held_bursts (job_id, began)")
    db.execute("CREATE INDEX held_bursts_began ON held_bursts (began)")


def m025_smaller_decisions(db: Database) -> None:
    """Drop the indices that only upkeep asked, and let records be kept by one that is like them."""
    # of a base, whose records it is for; NULL: a dictionary of all users' latest
    db.execute("ALTER TABLE dictionaries ADD COLUMN uid INTEGER")
    for index in ("now", "job", "snapshot", "bundle", "dictionary"):
        db.execute(f"DROP INDEX decisions_{index}")
    db.execute("ALTER TABLE decisions RENAME TO decisions_before")
    db.execute(  # without the foreign key, for which each dictionary asked all decisions
        """
        CREATE TABLE decisions (
            boot        INTEGER NOT NULL,
            number      INTEGER NOT NULL,
            now         INTEGER NOT NULL,         -- UTC seconds
            cluster     TEXT    NOT NULL,
            uid         INTEGER NOT NULL,
            job_id      INTEGER,                  -- NULL until joined
            joined_by   TEXT CHECK (joined_by IN ('mark', 'key', 'tie')),
            bundle      INTEGER NOT NULL,         -- checksums; 0: none
            snapshot    INTEGER NOT NULL,
            record      BLOB    NOT NULL,         -- struct sluice_record, compressed
            is_second   INTEGER NOT NULL DEFAULT 0,
            dictionary  INTEGER,                  -- that it is compressed with; NULL: none
            PRIMARY KEY (boot, number)
        ) STRICT, WITHOUT ROWID
        """
    )
    db.execute(
        "INSERT INTO decisions SELECT boot, number, now, cluster, uid, job_id, joined_by, bundle, "
        "snapshot, record, is_second, dictionary FROM decisions_before"
    )
    db.execute("DROP TABLE decisions_before")
    db.execute("CREATE INDEX decisions_now ON decisions (now)")
    db.execute("CREATE INDEX decisions_job ON decisions (job_id)")
    db.execute("DROP INDEX jobs_user")  # sluiced knows numbers, the accounting names
    db.execute("CREATE INDEX jobs_user ON jobs (user, submit) WHERE user IS NOT NULL")
    db.execute("CREATE TABLE decided_bundles (checksum INTEGER PRIMARY KEY) STRICT")
    db.execute("INSERT INTO decided_bundles SELECT DISTINCT bundle FROM decisions")
    db.execute(
        "CREATE TRIGGER decided_after_insert AFTER INSERT ON decisions BEGIN "
        "INSERT OR IGNORE INTO decided_bundles VALUES (new.bundle); END"
    )


def m026_io_waits(db: Database) -> None:
    """Keep how long users and accounts waited for tokens, for their budgets."""
    db.execute(
        """
        CREATE TABLE io_waits (
            cluster     TEXT    NOT NULL,
            hour        INTEGER NOT NULL,         -- its begin; UTC seconds
            uid         INTEGER NOT NULL,
            account     TEXT    NOT NULL,         -- empty: none
            seconds     REAL    NOT NULL,         -- of all their jobs together
            PRIMARY KEY (cluster, hour, uid, account)
        ) STRICT, WITHOUT ROWID
        """
    )


def m027_reviews(db: Database) -> None:
    """Keep what administrators ruled on programs and pairs; what was undone stays, too."""
    db.execute(
        """
        CREATE TABLE reviews (
            id          INTEGER PRIMARY KEY,
            name        TEXT    NOT NULL,         -- follows from what was ruled
            source      TEXT    NOT NULL CHECK (source IN ('command', 'page', 'file')),
            made_at     INTEGER NOT NULL,         -- UTC seconds
            content     TEXT    NOT NULL,         -- JSON, as `sluice review show --json`
            undone_at   INTEGER,                  -- UTC seconds; NULL: it stands
            undone_by   TEXT
        ) STRICT
        """
    )
    db.execute("CREATE INDEX reviews_name ON reviews (name)")


def m028_decisions_of_users(db: Database) -> None:
    """Find a user's decisions, whom PrivateData shows no others, without reading all."""
    db.execute("CREATE INDEX decisions_user ON decisions (uid, now) WHERE is_second = 0")


def m029_audit(db: Database) -> None:
    """Keep who changed what about Sluice, and let nobody change that."""
    db.execute(
        """
        CREATE TABLE audit (
            id          INTEGER PRIMARY KEY AUTOINCREMENT,
            at          INTEGER NOT NULL,         -- UTC seconds
            uid         INTEGER,                  -- NULL: nobody knows
            cluster     TEXT    NOT NULL,         -- empty for bundles
            subject     TEXT    NOT NULL,         -- a setting, `switch`, a file
            before      TEXT    NOT NULL,
            after       TEXT    NOT NULL,
            reason      TEXT    NOT NULL
        ) STRICT
        """
    )
    db.execute("CREATE INDEX audit_subject ON audit (cluster, subject)")
    seal_audit(db)


def seal_audit(db: Database) -> None:
    """Refuse changes of rows; `DROP TRIGGER` is what a copy without names does first."""
    for name, event in SEALS.items():
        db.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'rows of the audit stay as they are'); END"
        )


SEALS = {"audit_keeps_rows": "DELETE", "audit_keeps_values": "UPDATE"}


def m030_reports(db: Database) -> None:
    """Keep what reports said, for the pages: to make one takes minutes."""
    db.execute(
        """
        CREATE TABLE reports (
            id          INTEGER PRIMARY KEY AUTOINCREMENT,
            made_at     INTEGER NOT NULL,         -- UTC seconds
            since       INTEGER NOT NULL,         -- UTC seconds
            verdict     TEXT    NOT NULL,
            sections    TEXT    NOT NULL,         -- JSON, as they were told
            facts       BLOB    NOT NULL          -- JSON, compressed
        ) STRICT
        """
    )


def m031_who_counted(db: Database) -> None:
    """Tell apart what Slurm counted of a job and what the servers counted under its name."""
    for column in ("array_index", "accounted_write_bytes", "accounted_read_bytes", "served_uid"):
        db.execute(f"ALTER TABLE jobs ADD COLUMN {column} INTEGER")  # NULL: not known
    db.execute(
        "CREATE INDEX jobs_of_arrays ON jobs (array_job, array_index) WHERE array_index IS NOT NULL"
    )


MIGRATIONS: tuple[Callable[[Database], None], ...] = (
    m001_logs_and_profiles,
    m002_jobs,
    m003_models,
    m004_decisions,
    m005_gates,
    m006_a_million_runs,
    m007_observed_interference,
    m008_second_decisions,
    m009_io_of_jobs,
    m010_totals_by_application,
    m011_calibrations,
    m012_totals_of_all_weeks,
    m013_rates_of_targets,
    m014_arrays,
    m015_jobs_in_company,
    m016_observed_in_some_time,
    m017_packed_snapshots,
    m018_decisions_by_dictionary,
    m019_heatmaps,
    m020_losses_of_jobs,
    m021_bundles_as_deltas,
    m022_capacity_of_targets,
    m023_totals_without_harm,
    m024_held_bursts,
    m025_smaller_decisions,
    m026_io_waits,
    m027_reviews,
    m028_decisions_of_users,
    m029_audit,
    m030_reports,
    m031_who_counted,
)
