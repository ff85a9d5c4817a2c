"""Builds `sluice.darshan._reader`: the reader of Darshan logs, with the core's basics."""

import runpy
from pathlib import Path

HERE = Path(__file__).resolve().parent

core = runpy.run_path(str(HERE.parent / "policies" / "build_core.py"))
ffibuilder = core["builder"](
    "sluice.darshan._reader",
    ["reader.h"],
    [HERE / "reader", *core["CORE"]],
    libraries=["deflate"],
)
