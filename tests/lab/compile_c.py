"""Compile the lab's own C programs, one source file each."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror")


def compiled(source: Path, *flags: str, suffix: str = "") -> Path:
    """What the C file compiles to, in build/lab; compiled anew when older than its source.

    Raises subprocess.CalledProcessError, after the compiler has said why.
    """
    product = ROOT / "build" / "lab" / (source.stem + suffix)
    if product.exists() and product.stat().st_mtime_ns >= source.stat().st_mtime_ns:
        return product
    product.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place: a program that runs, or another test run, keeps its own file.
    fresh = product.with_name(f"{product.name}.{os.getpid()}")
    subprocess.run(["cc", *FLAGS, *flags, source, "-o", fresh], check=True)
    return fresh.rename(product)
