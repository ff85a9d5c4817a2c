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
from typing import TYPE_CHECKING

from cffi import FFI

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
CORE = (HERE / "core", HERE / "files")
"""What decides, and what it decides on and by: requests, bundle, snapshot and sluice.conf."""
HEADERS = (
    "record.h",
    "job_request.h",
    "submit_text.h",
    "control.h",
    "turns_check.h",
    "placement.h",
)

# -ffp-contract=off and -fno-fast-math: a decision has the same bits on every
# machine, and equals scikit-learn's arithmetic. -fno-trapping-math: nobody looks at
# floating-point exceptions, and branches become selections.
FLAGS = [
    *("-std=c11", "-O3", "-Wall", "-Wextra", "-Werror"),
    *("-fno-fast-math", "-ffp-contract=off", "-fno-trapping-math"),
]


def includes(headers: Sequence[str]) -> str:
    """Return the lines that include the headers."""
    return "".join(f'#include "{name}"\n' for name in headers)


def declarations(headers: Sequence[str], folders: Sequence[Path]) -> str:
    """Return the headers as cffi reads them: preprocessed, without system headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    options = [f"-I{folder}" for folder in folders]
    result = subprocess.run(
        [compiler, "-E", "-P", "-DSLUICE_BINDING", *options, "-x", "c", "-"],
        input=includes(headers),
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


def builder(
    module: str,
    headers: Sequence[str],
    folders: Sequence[Path],
    extra: str = "",
    libraries: Sequence[str] = (),
) -> FFI:
    """Return what builds the extension `module` from all the C in the folders.

    extra: declarations for cffi alone; libraries: to link besides those of C.
    """
    ffi = FFI()
    ffi.cdef(declarations(headers, folders))
    if extra:
        ffi.cdef(extra)
    ffi.set_source(
        module,
        includes(headers),
        sources=[
            os.path.relpath(path) for folder in folders for path in sorted(folder.glob("*.c"))
        ],
        depends=[os.path.relpath(path) for folder in folders for path in sorted(folder.iterdir())],
        include_dirs=[os.path.relpath(folder) for folder in folders],
        extra_compile_args=FLAGS,
        libraries=["m", "dl", *libraries],
    )
    return ffi


ffibuilder = builder(
    "sluice.policies._core",
    HEADERS,
    CORE,
    'extern "Python" int sluice_uid_of (const char *name, uint32_t *uid);',
)
