"""Where the Darshan runtime is: a site's own, or that of the lab next to the repository."""

import ctypes.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from compile_c import ROOT

ALONGSIDE = ROOT.parent / "shared" / "lab" / "darshan-runtime"
FOLDERS = ("/usr/lib", "/usr/local/lib", "/opt/darshan/lib")
PLAIN, MPI = "libdarshan.so", "libdarshan-mpich.so"


@dataclass(frozen=True)
class DarshanRuntime:
    """The libraries to preload, and where they were found."""

    plain: Path  # for programs without MPI
    mpi: Path | None  # for programs of MPICH
    origin: str


def find_runtime() -> DarshanRuntime | None:
    """Return the runtime of this site, else that of the lab, else None.

    DARSHAN_RUNTIME names a folder that is searched first.
    """
    named = os.environ.get("DARSHAN_RUNTIME")
    for folder in filter(None, (named, _of_site(), str(ALONGSIDE))):
        plain, mpi = Path(folder) / PLAIN, Path(folder) / MPI
        if plain.exists():
            return DarshanRuntime(plain, mpi if mpi.exists() else None, folder)
    return None


def _of_site() -> str | None:
    """Return the folder of a Darshan that is installed."""
    config = shutil.which("darshan-config")
    folders = [str(Path(config).resolve().parents[1] / "lib")] if config else []
    folders += [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *FOLDERS]
    if ctypes.util.find_library("darshan"):
        folders += map(str, Path("/usr/lib").glob("*-linux-gnu"))
    return next((f for f in folders if f and (Path(f) / PLAIN).exists()), None)
