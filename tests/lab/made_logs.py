"""Records of Darshan logs that tests and benchmarks make (`MadeLog`)."""

from sluice.darshan.writer import MadeLog

MIB = 1 << 20


def appended(log: MadeLog, *, module="POSIX", file=1, rank=0, chunk=MIB, count=50, **more) -> None:
    """Let a file be written in one stream, in so many chunks."""
    total = chunk * count
    counters = {
        "OPENS": 1,
        "WRITES": count,
        "BYTES_WRITTEN": total,
        "MAX_BYTE_WRITTEN": total - 1,
        "F_WRITE_START_TIMESTAMP": 1.0,
        "F_WRITE_END_TIMESTAMP": 90.0,
    }
    if module == "POSIX":
        counters |= {
            "SEQ_WRITES": count - 1,
            "CONSEC_WRITES": count - 1,
            "ACCESS1_ACCESS": chunk,
            "ACCESS1_COUNT": count,
        }
    log.add(module, file=file, rank=rank, counters=counters | more)
