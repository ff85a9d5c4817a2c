"""The schema, one step at a time.

Each function runs once, in its own transaction together with the record that it ran.
A released one is never edited: what changes comes as the next function.
64-bit unsigned identities (checksums, keys, signatures) are kept as SQLite's signed integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.history_db.sql import Database

SCHEMA = """
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
    job         INTEGER REFERENCES jobs (id) ON DELETE SET NULL,
    osts        TEXT,                     -- JSON: Lustre's targets that it names
    heatmap     BLOB                      -- compressed; NULL: it has none
) STRICT

CREATE INDEX logs_job ON logs (job)

CREATE INDEX logs_unlinked ON logs (jobid) WHERE job IS NULL

CREATE INDEX logs_seen ON logs (mtime_ns, size)

CREATE INDEX logs_quarantined ON logs (path) WHERE reason IS NOT NULL

CREATE INDEX logs_start ON logs (start)

CREATE INDEX logs_osts ON logs (start) WHERE osts IS NOT NULL

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
    read_chunk_bytes    REAL,
    read_sequential_share REAL,
    read_cached_share   REAL,
    features            BLOB    NOT NULL  -- float32, little-endian: the classifier's input
) STRICT

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
    write_bytes      INTEGER,             -- counted by anybody; NULL: by nobody
    read_bytes       INTEGER,
    metadata_operations INTEGER,
    array_job        INTEGER,             -- NULL: no task of an array
    array_index      INTEGER,
    accounted_write_bytes INTEGER,        -- by Slurm; NULL: not known
    accounted_read_bytes INTEGER,
    served_uid       INTEGER,             -- whose name the servers counted under
    UNIQUE (cluster, job_id, array_task, submit, restarts)
) STRICT

CREATE INDEX jobs_job_id ON jobs (job_id)

CREATE INDEX jobs_start ON jobs (start)

CREATE INDEX jobs_user ON jobs (user, submit) WHERE user IS NOT NULL

CREATE INDEX jobs_of_arrays ON jobs (array_job, array_index) WHERE array_index IS NOT NULL

CREATE TABLE models (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    created     INTEGER NOT NULL,
    metrics     TEXT    NOT NULL,         -- JSON
    content     BLOB    NOT NULL          -- the submit-time model, .npz
) STRICT

CREATE TABLE applications (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    model       INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    evidence    TEXT    NOT NULL,
    key         INTEGER NOT NULL,
    label       TEXT    NOT NULL,         -- for people
    runs        INTEGER NOT NULL
) STRICT

CREATE INDEX applications_model ON applications (model)

CREATE TABLE application_runs (
    application INTEGER NOT NULL REFERENCES applications (id) ON DELETE CASCADE,
    log         INTEGER NOT NULL REFERENCES logs (id) ON DELETE CASCADE,
    PRIMARY KEY (application, log)
) STRICT, WITHOUT ROWID

CREATE INDEX application_runs_log ON application_runs (log)

CREATE TABLE bundles (
    checksum     INTEGER PRIMARY KEY,
    model        INTEGER REFERENCES models (id) ON DELETE SET NULL,
    path         TEXT    NOT NULL,
    published_at INTEGER NOT NULL,
    content      BLOB    NOT NULL,         -- the file, so that decisions can be replayed
    base         INTEGER                  -- that it is a delta to; NULL: it is whole
) STRICT

CREATE INDEX bundles_base ON bundles (base)

CREATE TABLE snapshots (
    checksum    INTEGER PRIMARY KEY,
    sequence    INTEGER NOT NULL,
    taken       INTEGER NOT NULL,         -- UTC seconds
    content     BLOB    NOT NULL,          -- the file, so that decisions can be replayed
    base         INTEGER                  -- that it is a delta to; NULL: it is whole
) STRICT

CREATE TABLE running_sets (
    cluster     TEXT    NOT NULL,
    taken       INTEGER NOT NULL,         -- UTC seconds, of the first look that saw it
    content     TEXT    NOT NULL          -- JSON: who ran together, and the gates
) STRICT

CREATE INDEX running_sets_taken ON running_sets (taken)

CREATE TABLE releases (
    cluster     TEXT    NOT NULL,
    job_id      INTEGER NOT NULL,         -- of an array, the one that sbatch printed
    submit      INTEGER NOT NULL,         -- UTC seconds
    released    INTEGER NOT NULL,         -- UTC seconds
    tokens      TEXT    NOT NULL,         -- what was taken off: a,b
    reason      TEXT    NOT NULL,
    waited      REAL    NOT NULL          -- seconds for its tokens, at most
) STRICT

CREATE INDEX releases_job ON releases (job_id)

CREATE INDEX releases_released ON releases (released)

CREATE TABLE stale_weeks (                -- whose totals are to be added up again
    week            INTEGER PRIMARY KEY
) STRICT

CREATE TABLE weekly_coverage (
    week                INTEGER PRIMARY KEY,  -- of the start: UTC seconds / 604,800
    jobs                INTEGER NOT NULL,     -- that ran
    logged_jobs         INTEGER NOT NULL,     -- those with a log
    node_seconds        REAL    NOT NULL,
    logged_node_seconds REAL    NOT NULL,
    bytes               REAL    NOT NULL,     -- counted by anybody
    logged_bytes        REAL    NOT NULL      -- counted by Darshan
) STRICT

CREATE TABLE uncovered_weeks (week INTEGER PRIMARY KEY) STRICT

CREATE TABLE weekly_totals (
    uid             INTEGER NOT NULL,
    application     TEXT    NOT NULL,     -- stem of the job's name, else of the program's
    week            INTEGER NOT NULL,     -- of the start: UTC seconds / 604,800
    user            TEXT,                 -- by the accounting
    runs            INTEGER NOT NULL,
    write_bytes     REAL    NOT NULL,
    read_bytes      REAL    NOT NULL,
    metadata        REAL    NOT NULL,     -- opens, stats, ...
    PRIMARY KEY (uid, application, week)
) STRICT, WITHOUT ROWID

CREATE INDEX weekly_totals_week ON weekly_totals (week)

CREATE TABLE calibrations (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    created       INTEGER NOT NULL,       -- UTC seconds
    site          TEXT    NOT NULL,       -- what was measured, for people
    settings      TEXT    NOT NULL,       -- JSON: how, so that it can be resumed
    finished      INTEGER NOT NULL DEFAULT 0
) STRICT

CREATE TABLE application_totals (         -- empty: to be added up from weekly_totals
    uid             INTEGER NOT NULL,
    application     TEXT    NOT NULL,
    user            TEXT,
    runs            INTEGER NOT NULL,
    write_bytes     REAL    NOT NULL,
    read_bytes      REAL    NOT NULL,
    metadata        REAL    NOT NULL,
    PRIMARY KEY (uid, application)
) STRICT, WITHOUT ROWID

CREATE TABLE target_probes (
    target        TEXT    NOT NULL,
    program       TEXT    NOT NULL,       -- of sluice-probe, as aw:1M:2
    observed      INTEGER NOT NULL,       -- UTC seconds
    rate          REAL    NOT NULL CHECK (rate > 0),  -- B/s
    PRIMARY KEY (target, program, observed)
) STRICT, WITHOUT ROWID

CREATE INDEX target_probes_observed ON target_probes (observed)

CREATE TABLE server_counts (
    target        TEXT    NOT NULL,
    start         REAL    NOT NULL,       -- UTC seconds
    seconds       REAL    NOT NULL CHECK (seconds > 0),
    read_bytes    REAL    NOT NULL,       -- in these seconds
    write_bytes   REAL    NOT NULL,
    PRIMARY KEY (target, start)
) STRICT, WITHOUT ROWID

CREATE INDEX server_counts_start ON server_counts (start)

CREATE TABLE confined_jobs (              -- that held tokens of one lane
    cluster       TEXT    NOT NULL,
    job_id        INTEGER NOT NULL,
    submit        INTEGER NOT NULL,
    lane          INTEGER NOT NULL,       -- its place in the policy
    seen          INTEGER NOT NULL,       -- running for the first time, UTC seconds
    PRIMARY KEY (cluster, job_id, submit)
) STRICT, WITHOUT ROWID

CREATE INDEX confined_jobs_seen ON confined_jobs (seen)

CREATE TABLE jobs_in_company (            -- that shared lanes with other jobs
    cluster       TEXT    NOT NULL,
    job_id        INTEGER NOT NULL,
    submit        INTEGER NOT NULL,
    seen          INTEGER NOT NULL,       -- for the first time, UTC seconds
    PRIMARY KEY (cluster, job_id, submit)
) STRICT, WITHOUT ROWID

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

CREATE TABLE dictionaries (               -- records that others are compressed with
    id            INTEGER PRIMARY KEY,
    content       BLOB    NOT NULL,       -- compressed
    uid           INTEGER                 -- whose records it is like
) STRICT

CREATE TABLE losses (                     -- records that were lost while nothing could
    found         INTEGER NOT NULL,       -- be stored; UTC seconds
    records       INTEGER NOT NULL
) STRICT

CREATE TABLE coruns (
    id            INTEGER PRIMARY KEY,
    calibration   INTEGER NOT NULL REFERENCES calibrations (id) ON DELETE CASCADE,
    started       INTEGER NOT NULL,       -- UTC seconds
    mode          TEXT    NOT NULL CHECK (mode IN ('rates', 'capacity')),
    members       TEXT    NOT NULL,       -- JSON: the probe first, as owc:1M:2
    targets       TEXT    NOT NULL,       -- JSON: of each member
    alone         TEXT    NOT NULL,       -- JSON: B/s
    together      TEXT    NOT NULL,       -- JSON: of each member
    foreign_share REAL    NOT NULL,
    dropped       TEXT    NOT NULL        -- why it does not count
) STRICT

CREATE INDEX coruns_calibration ON coruns (calibration)

CREATE TABLE held_bursts (
    cluster     TEXT    NOT NULL,
    source      TEXT    NOT NULL,         -- a run of sluice-turns, drawn when it began
    number      INTEGER NOT NULL,
    job_id      INTEGER NOT NULL,
    nodes       INTEGER NOT NULL,
    first_job   INTEGER,                  -- that it was last held for; NULL: unknown
    first_nodes INTEGER NOT NULL,
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

CREATE INDEX held_bursts_job ON held_bursts (job_id, began)

CREATE INDEX held_bursts_began ON held_bursts (began)

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

CREATE INDEX decisions_now ON decisions (now)

CREATE INDEX decisions_job ON decisions (job_id)

CREATE INDEX decisions_user ON decisions (uid, now) WHERE is_second = 0

CREATE TABLE decided_bundles (checksum INTEGER PRIMARY KEY) STRICT

CREATE TABLE reviews (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL,         -- follows from what was ruled
    source      TEXT    NOT NULL CHECK (source IN ('command', 'page')),
    made_at     INTEGER NOT NULL,         -- UTC seconds
    content     TEXT    NOT NULL,         -- JSON, as `sluice review show --json`
    undone_at   INTEGER,                  -- UTC seconds; NULL: it stands
    undone_by   TEXT
) STRICT

CREATE INDEX reviews_name ON reviews (name)

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

CREATE INDEX audit_subject ON audit (cluster, subject)

CREATE TABLE reports (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    made_at     INTEGER NOT NULL,         -- UTC seconds
    since       INTEGER NOT NULL,         -- UTC seconds
    verdict     TEXT    NOT NULL,
    sections    TEXT    NOT NULL,         -- JSON, as they were told
    facts       BLOB    NOT NULL          -- JSON, compressed
) STRICT

CREATE TRIGGER stale_after_insert AFTER INSERT ON logs WHEN new.start IS NOT NULL
BEGIN INSERT OR IGNORE INTO stale_weeks VALUES (new.start / 604800);
END

CREATE TRIGGER stale_after_delete AFTER DELETE ON logs WHEN old.start IS NOT NULL
BEGIN INSERT OR IGNORE INTO stale_weeks VALUES (old.start / 604800);
END

CREATE TRIGGER stale_after_update AFTER UPDATE OF job ON logs WHEN new.start IS NOT NULL
BEGIN INSERT OR IGNORE INTO stale_weeks VALUES (new.start / 604800);
END

CREATE TRIGGER coverage_after_insert AFTER INSERT ON jobs WHEN new.start IS NOT NULL
BEGIN INSERT OR IGNORE INTO uncovered_weeks VALUES (new.start / 604800);
END

CREATE TRIGGER coverage_after_update
AFTER UPDATE OF start, end, nodes, write_bytes, read_bytes ON jobs WHEN new.start IS NOT NULL
BEGIN INSERT OR IGNORE INTO uncovered_weeks VALUES (new.start / 604800);
END

CREATE TRIGGER coverage_after_delete AFTER DELETE ON jobs WHEN old.start IS NOT NULL
BEGIN INSERT OR IGNORE INTO uncovered_weeks VALUES (old.start / 604800);
END

CREATE TRIGGER coverage_after_link AFTER UPDATE OF job ON logs WHEN new.job IS NOT NULL
BEGIN
    INSERT OR IGNORE INTO uncovered_weeks
    SELECT start / 604800 FROM jobs WHERE id = new.job AND start IS NOT NULL;
END

CREATE TRIGGER decided_after_insert AFTER INSERT ON decisions
BEGIN INSERT OR IGNORE INTO decided_bundles VALUES (new.bundle);
END

CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'rows of the audit stay as they are');
END

CREATE TRIGGER audit_keeps_values BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'rows of the audit stay as they are');
END
"""
"""Statements, with an empty line between two."""


def m001_schema(db: Database) -> None:
    for statement in SCHEMA.split("\n\n"):
        db.execute(statement)


MIGRATIONS: tuple[Callable[[Database], None], ...] = (m001_schema,)
