"""Builds `sluice.classifier._reader`: the reader of Darshan logs and its binding.

As for the core (`policies/build_core.py`), the header itself is the binding.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
READER = HERE / "reader"
CORE = HERE.parent / "policies" / "core"  # errors and bounded text

# -O3: it vectorises the checks of counters, a third of what reading a record costs here
FLAGS = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror"]


def declarations() -> str:
    """Return the header as cffi reads it: preprocessed, without system headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    result = subprocess.run(
        [compiler, "-E", "-P", "-DSLUICE_BINDING", f"-I{CORE}", str(READER / "reader.h")],
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.set_source(
    "sluice.classifier._reader",
    '#include "reader.h"\n',
    sources=[
        *(os.path.relpath(path) for path in sorted(READER.glob("*.c"))),
        os.path.relpath(CORE / "base.c"),
    ],
    depends=[os.path.relpath(path) for path in sorted(READER.iterdir())],
    include_dirs=[os.path.relpath(READER), os.path.relpath(CORE)],
    extra_compile_args=FLAGS,
    libraries=["dl"],
)
