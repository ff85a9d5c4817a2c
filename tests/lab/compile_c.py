"""Compile what tests need in C, also while another test run does the same."""

import fcntl
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror")


def make(folder: str, build: Path = BUILD, *variables: str) -> Path:
    """Run make in a folder of the repository; returns the directory it builds in.

    Raises subprocess.CalledProcessError, after the compiler has said why.
    """
    build.mkdir(parents=True, exist_ok=True)
    words = ("make", "--silent", "-C", ROOT / folder, f"BUILD={build}", *variables)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(words, check=True)
    return build


def compiled(source: Path, *flags: str, suffix: str = "") -> Path:
    """What one C file compiles to, in build/lab; compiled anew when older than its source.

    Raises subprocess.CalledProcessError, after the compiler has said why.
    """
    product = BUILD / "lab" / (source.stem + suffix)
    if product.exists() and product.stat().st_mtime_ns >= source.stat().st_mtime_ns:
        return product
    product.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place: a program that runs, or another test run, keeps its own file.
    fresh = product.with_name(f"{product.name}.{os.getpid()}")
    subprocess.run(["cc", *FLAGS, source, *flags, "-o", fresh], check=True)
    return fresh.rename(product)
