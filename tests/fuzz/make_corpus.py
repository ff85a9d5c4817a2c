"""Write the seeds in corpus/: small valid files and a few that are wrong in one place.

Run it again when the format changes: `python tests/fuzz/make_corpus.py`.
"""

import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))

import made_model  # noqa: E402 - its folder is no package
from stored_logs import STORED, ZLIB, packed, record  # noqa: E402 - likewise

from sluice.policies.snapshot import pack_snapshot  # noqa: E402

CONFIGS = {
    "empty": "",
    "site": (
        "Mode=advise\n# a comment\nBundle=/var/lib/sluice/model.bundle\n"
        "Lane=sl0 Targets=8 Bandwidth=20G\nLane=sl1 Targets=8 Bandwidth=20G\n"
        "MinConfidence=0.7\nModeOf=off Users=0,1000\nInclude=reservation,cron\nFollowInterval=100\n"
    ),
    "unknown-key": "Mod=observe\n",
    "twice": "Mode=observe\nMode=advise\n",
    "range": "MinConfidence=7\n",
    "lane": "Lane=sl0 Targets=0\n",
}

# The first byte is what the job was given: lanes in bits 0 to 2, the class above.
LICENSES = {
    "own": b"\0tool:2,b@srv;c:1",
    "forged": b"\0a_stream:99,tool;ab_meta|b_flush_flush=2,license/a_flush:1",
    "granted": b"\3a_stream,ab_stream:2;tool:1",
    "separators": b"\7,,;a_stream,;|",
    "long": b"\1" + b"a_stream," * 100,
}

SLURM_FILES = {
    "plain": b"ClusterName=lab\nLicenses=tool:9,sl0_stream:1000000\nNodeName=n1\n",
    "odd": b" licenses = tool:9; \\\n sl0_stream:5 # sl0_stream:1000000\ninclude more.conf",
    "include": b"Include /etc/slurm/licenses.conf\n",
    "none": b"# Licenses=sl0_stream:1000000\nLicensesX=1\n",
}

SWF = {
    "job": b"; MaxProcs: 100\n7 100 20 300.5 4 -1 -1 8 600 -1 1 3 5 -1 2 1 6 30\n",
    "short": b"1 2 3\r\n",
    "long": b"1 " * 19,
    "letters": b"1 2 x\n; end",
    "digits": b"9" * 40,
}

NEWEST = (4, 3, 2, 2, 1, 2, 1)  # versions of POSIX, MPI-IO, STDIO, Lustre, …
FILE, PROGRAM = 9, 8
NAMES = struct.pack("<Q", FILE) + b"/scratch/dump.100\0" + struct.pack("<Q", PROGRAM) + b"/x.py\0"
COUNTED_NAMES = struct.pack("<QI", FILE, 4) + b"/a.1"
LUSTRE = struct.pack("<Qq2q", FILE, -1, 1, 2) + struct.pack("<7q16s2q", 0, 4, *[0] * 5, b"p", 3, 5)
HEATMAP = struct.pack("<Qqdq16x4q", 16592106915301738621, 0, 0.1, 2, 4096, 0, 0, 512)
H5D = struct.pack("<QqQ8q103q", 5, 0, FILE, 1, 2, 3, 0, 512, 1 << 20, 0, 0, *[0] * 103)
DFS = struct.pack("<Qq71q", 6, 0, *range(71))


def darshan_log(
    regions: tuple[bytes, ...],
    *,
    versions: tuple[int, ...] = NEWEST,
    compression: int = ZLIB,
    is_plain: bool = False,
    order: str = "<",
    log_format: bytes = b"3.41",
) -> bytes:
    """Return the regions as fuzz_darshan_log.c takes them, in its order."""
    head = struct.pack(
        "<8s5qd10B8H6x",
        *(log_format, 1000, 1_700_000_000, 100, 2, 7, 100.0),
        *(order == ">", compression, is_plain, *versions),
        *(len(region) for region in regions),
    )
    return head + b"".join(regions)


def records(module: str, version: int, order: str = "<") -> list[bytes]:
    """Return what a process says of a file that it writes, and of one that it only reads."""
    written = {"OPENS": 1, "BYTES_WRITTEN": 1 << 20, "F_WRITE_TIME": 0.5}
    read = {"OPENS": 1, "BYTES_READ": 9, "F_READ_TIME": 0.5}
    return [
        record(module, version, written, file=FILE, rank=0, order=order),
        record(module, version, read, file=PROGRAM, rank=1, order=order),
    ]


def darshan_logs() -> dict[str, bytes]:
    posix, mpiio, stdio = records("POSIX", 4), records("MPI-IO", 3), records("STDIO", 2)
    newest = (b"".join(posix), mpiio[0], stdio[0], NAMES, LUSTRE, HEATMAP, H5D, DFS)
    posix_1, posix_2 = b"".join(records("POSIX", 1)), b"".join(records("POSIX", 2, ">"))
    return {
        "newest": darshan_log(newest, is_plain=True),
        "streams": darshan_log((packed(posix), b"", packed(stdio), packed([NAMES]), *[b""] * 4)),
        "above": darshan_log((b"", mpiio[0], *[b""] * 4, H5D, DFS), is_plain=True),
        "stored": darshan_log(newest, compression=STORED),
        "swapped": darshan_log(
            (posix_2, *[b""] * 7), versions=(2, *[0] * 6), is_plain=True, order=">"
        ),
        "oldest": darshan_log(
            (posix_1, records("MPI-IO", 1)[0], b"", COUNTED_NAMES, *[b""] * 4),
            versions=(1, 1, *[0] * 5),
            is_plain=True,
            log_format=b"3.00",
        ),
        "cut": darshan_log(newest, is_plain=True)[:300],
    }


def turns_report(
    sent: int,
    *bursts: tuple[int, int, int, int],
    agent: int = 0,
    count: int | None = None,
    block: tuple[int, int] = (0, 0),
) -> bytes:
    """Return the act of reporting bursts: job, flags, nodes, bytes."""
    body = struct.pack("<QII", sent, len(bursts) if count is None else count, 0)
    for job, flags, nodes, written in bursts:
        head = struct.pack("<4I", job, flags, nodes, 2)
        body += head + struct.pack("<10Q", sent // 2, written, 9, 0, 0, 0, 0, 0, 2**64 - 1, 0)
        body += struct.pack("<HHI", *block, 0)
    return struct.pack("<BBH", 0, agent, len(body)) + body


ACTIVE, HELD, GONE, PLACED, IN_BLOCKS = 1, 4, 16, 128, 256
DECIDE, DROP, OBSERVE, SWITCH_OFF = b"\1\100", b"\2\0", b"\3\0", b"\3\6"
ONE_LANE = b"\3\11"
SECOND = 10**9
BOTH_WRITE = turns_report(SECOND, (1, ACTIVE, 64, 10**6), (2, ACTIVE, 1, 10**6))
TURNS = {
    "held": BOTH_WRITE
    + b"".join(
        turns_report(i * SECOND, (1, ACTIVE, 64, i * 10**6), (2, ACTIVE | HELD, 1, 10**6)) + DECIDE
        for i in range(2, 8)
    ),
    "gone": BOTH_WRITE + DECIDE + turns_report(2 * SECOND, (1, GONE, 0, 0)) + DECIDE + DROP,
    "switched": BOTH_WRITE + DECIDE * 3 + OBSERVE + DECIDE + SWITCH_OFF + DECIDE,
    "two-agents": BOTH_WRITE + turns_report(1, (1, ACTIVE, 64, 7), agent=1) + DECIDE * 4,
    "placed": ONE_LANE
    + turns_report(SECOND, (1, PLACED, 2, 0), (2, PLACED | IN_BLOCKS, 2, 0), block=(0, 2))
    + DECIDE
    + turns_report(2 * SECOND, (3, ACTIVE, 4, 10**6), agent=1, block=(1, 3))
    + DECIDE * 8
    + turns_report(3 * SECOND, (1, PLACED | ACTIVE, 2, 10**6), block=(65530, 65535))
    + DECIDE * 8
    + OBSERVE
    + DECIDE,
    "count": turns_report(SECOND, (1, ACTIVE, 1, 1), count=2**32 - 1),
    "stream": struct.pack("<IHHQ", 16, 1, 2, 0) + bytes(16) + struct.pack("<IHHQ", 4096, 3, 2, 0),
}


def journal_record(kind: int, path: bytes, sort: int = 1) -> bytes:
    """A record of sluice-drain's journal; the fuzzer puts its sum right."""
    return struct.pack("<IHH6QII", 0, kind, len(path), 5, 100, 7, 8, 9, 0, 0, sort) + path


ROOTS, PUT, DROP, PART, NO_PARTS = range(1, 6)
BEGUN = journal_record(ROOTS, b"/local/5\n/scratch/5")
JOURNALS = {
    "whole": BEGUN
    + journal_record(PART, b"a")
    + journal_record(PUT, b"a")
    + journal_record(NO_PARTS, b"")
    + journal_record(PUT, b"d", 3)
    + journal_record(PUT, b"d/e", 2)
    + journal_record(DROP, b"a"),
    "cut": BEGUN + journal_record(PUT, b"a")[:-1],
    "outside": BEGUN + journal_record(PUT, b"../a") + journal_record(DROP, b"/etc/passwd"),
    "kinds": BEGUN + journal_record(PUT, b"a", 9) + journal_record(7, b"b"),
    "no-roots": journal_record(PUT, b"a"),
}


def main() -> None:
    for name, acts in TURNS.items():
        write("turns_frames", name, acts)
    for name, journal in JOURNALS.items():
        write("drain_journal", name, journal)
    bundle = made_model.bundle(applications=3)
    write("bundle", "small", bundle)
    write("bundle", "no-applications", made_model.bundle(applications=0))
    write("bundle", "version", made_model.with_version(bundle, 1))
    write("bundle", "truncated", bundle[: len(bundle) // 2])
    holders = [{"job_id": 100 + i, "klass": "stream", "lane_mask": 1} for i in range(3)]
    write("snapshot", "four-jobs", made_model.snapshot(holders=holders))
    empty = {"sequence": 1, "taken": made_model.CREATED, "running": 0, "pending": 0}
    write(
        "snapshot",
        "quiet",
        pack_snapshot(state=empty, corunners=[], partitions=[], users=[]),
    )
    for name, text in CONFIGS.items():
        write("config", name, text.encode())
    for name, licenses in LICENSES.items():
        write("licenses", name, licenses)
    for name, trace in SWF.items():
        write("swf", name, trace)
    for name, text in SLURM_FILES.items():
        write("slurm_file", name, text)
    for name, content in darshan_logs().items():
        write("darshan_log", name, content)


def write(target: str, name: str, content: bytes) -> None:
    (HERE / "corpus" / target / name).write_bytes(content)


if __name__ == "__main__":
    main()
