"""Builds `sluice.sim._engine`: the C of the simulator and its binding in one extension.

As in policies/build_core.py, the headers themselves are the binding.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
ENGINE = HERE / "engine"
CORE = HERE.parent / "policies" / "core"
HEADERS = ("world.h", "requests.h")

# As for the core: equal inputs give equal bits on every machine.
FLAGS = [
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-fno-fast-math", "-ffp-contract=off"),
]


def declarations() -> str:
    """Return the headers as cffi reads them: preprocessed, without system headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    includes = "".join(f'#include "{name}"\n' for name in HEADERS)
    result = subprocess.run(
        [compiler, "-E", "-P", "-DSLUICE_BINDING", f"-I{CORE}", f"-I{ENGINE}", "-x", "c", "-"],
        input=includes,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.set_source(
    "sluice.sim._engine",
    "".join(f'#include "{name}"\n' for name in HEADERS),
    sources=[
        os.path.relpath(path) for path in [*sorted(ENGINE.glob("*.c")), *sorted(CORE.glob("*.c"))]
    ],
    depends=[os.path.relpath(path) for path in [*ENGINE.iterdir(), *CORE.iterdir()]],
    include_dirs=[os.path.relpath(ENGINE), os.path.relpath(CORE)],
    extra_compile_args=FLAGS,
    libraries=["m"],
)
