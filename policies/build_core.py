"""Builds `sluice.policies._core`: the C core and its binding in one extension.

The headers themselves are the binding: they go through the preprocessor with
SLUICE_BINDING defined (which hides system includes and varargs) straight into
cffi, so there is no second description of any struct that could drift.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
CORE = HERE / "core"
HEADERS = ("record.h", "request.h", "gates.h")

# -ffp-contract=off and -fno-fast-math: a decision has the same bits on every
# machine, and equals scikit-learn's arithmetic.
FLAGS = [
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-fno-fast-math", "-ffp-contract=off"),
]


def declarations() -> str:
    """Return the headers as cffi reads them: preprocessed, without system headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    includes = "".join(f'#include "{name}"\n' for name in HEADERS)
    result = subprocess.run(
        [compiler, "-E", "-P", "-DSLUICE_BINDING", f"-I{CORE}", "-x", "c", "-"],
        input=includes,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.cdef('extern "Python" int sluice_uid_of (const char *name, uint32_t *uid);')
ffibuilder.set_source(
    "sluice.policies._core",
    "".join(f'#include "{name}"\n' for name in HEADERS),
    sources=[os.path.relpath(path) for path in sorted(CORE.glob("*.c"))],
    depends=[os.path.relpath(path) for path in sorted(CORE.iterdir())],
    include_dirs=[os.path.relpath(CORE)],
    extra_compile_args=FLAGS,
    libraries=["m"],
)
