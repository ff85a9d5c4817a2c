"""A storage target by a model, for machines where nothing real can be throttled.

See simulated_target.c for the model. Its results must be shown as such.
"""

import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from compile_c import compiled

SOURCE = Path(__file__).with_suffix(".c")

# struct model of simulated_target.c: bytes/s, operations/s, bytes of cache, moment
# at which the server is idle (CLOCK_MONOTONIC, ns), bytes accepted.
MODEL = struct.Struct("=3d q Q")
PARAMETERS = struct.Struct("=3d")
UNLIMITED = 1e12  # per second


def set_limits(target: Path, *, bandwidth: int, operations: int, cache: int) -> None:
    """Make the target's model, or change its parameters while programs use it."""
    control = _control(target)
    if not control.exists():
        control.write_bytes(MODEL.pack(UNLIMITED, UNLIMITED, 0, 0, 0))
        control.chmod(0o666)  # every program that writes to the target keeps its token audit
    with control.open("r+b") as file:
        file.write(PARAMETERS.pack(bandwidth or UNLIMITED, operations or UNLIMITED, cache))


def bytes_written(target: Path) -> int:
    """Bytes that the model's server has done; what waits in its cache is not."""
    bandwidth, _, _, _, accepted = MODEL.unpack(_control(target).read_bytes())
    return max(0, int(accepted) - int(_backlog(target) * bandwidth))


def settle(target: Path) -> None:
    """Wait until the model's server has nothing to do."""
    while (wait := _backlog(target)) > 0:
        time.sleep(wait)


def remove(target: Path) -> None:
    """Remove the target's model."""
    _control(target).unlink(missing_ok=True)


def command(targets: Path, words: Sequence[str]) -> list[str]:
    """The command line that sees the model; targets is the directory of all of them."""
    library = compiled(SOURCE, "-shared", "-fPIC", suffix=".so")
    preload = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return [
        "env",
        f"LD_PRELOAD={':'.join(preload)}",
        f"SLUICE_SIMULATED_TARGETS={targets}",
        *words,
    ]


def _control(target: Path) -> Path:
    return target.with_name(f".model.{target.name}")


def _backlog(target: Path) -> float:
    """Seconds of work that wait for the model's server."""
    idle_at = int(MODEL.unpack(_control(target).read_bytes())[3])
    return max(0.0, (idle_at - time.monotonic_ns()) / 1e9)
