"""Builds `sluice.sim._engine`: the C of the simulator, with the decision core inside it."""

import runpy
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = [HERE / "engine" / name for name in ("scheduler", "storage", "policies", "trace")]
HEADERS = ("engine.h", "swf.h", "mean_field.h", "contended.h", "policies.h", "discrete_event.h")

core = runpy.run_path(str(HERE.parent / "policies" / "build_core.py"))
ffibuilder = core["builder"]("sluice.sim._engine", HEADERS, [*FOLDERS, *core["CORE"]])
