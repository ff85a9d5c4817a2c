"""A scenario: what a planner states once about machine, storage, mix and scheduler.

A TOML file, whose tables say in values of an `Experiment` what no replay of the same site changes.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from sluice.sim.engine import MachineError
from sluice.sim.trace.machine import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXAMPLE = """\
[trace]                     # how to read it; needed only where it does not say so itself
format = "csv"              # swf, sacct, csv or history
count = "node"              # or "processor": what to count in accounting
processors_per_node = 16    # where slots are processors; without: as the trace says, else 1
kill = true                 # jobs at their limit that really ran beyond it

[trace.columns]             # of a CSV: job, submit, begin, start, end, runtime, limit, slots, ...
submit = "Received"
slots = "Hosts"

[groups]                    # slots by group: nodes, or processors
cpu = 96
gpu = 4

[partitions.batch]          # the first is the default
groups = ["cpu"]

[partitions.urgent]
groups = ["cpu", "gpu"]
tier = 1
factor = 1.0

[licenses]
matlab = 8

[[leases]]                  # from and until: UTC seconds; without until for good
license = "matlab"          # or group = "gpu"
amount = 2
from = 843480031

[scheduler]
slurm = true                # slurmctld's defaults, unless set below
priority = "multifactor"
weight_age = 1000

[mix]                       # the I/O of jobs without logs
name = "short"              # or "checkpointing", "measured"
io_share = 0.1              # of the jobs are I/O-heavy

[storage]
model = "mean-field"        # or "discrete-event"
lanes = 4
targets = 16                # without: 0.16 a node
servers = 2                 # without: one for eight targets
placement = "round-robin"   # of new files on single targets, or "chance", "blocks", "create";
                            # without: a lane is one big target
foreign_creates = 2         # files a second that others make, which move the round robin on
sharing = "fifo"            # or "jobs", "nodes": how a full target divides itself
spread = 0.2                # of each number in repetitions: sd of its logarithm
metadata_rate = 31000       # operations a second; without: 310 a node
target_bandwidth = 2e9      # and other numbers of the storage model

[policy]                    # options of the policies
wrong = 0.3                 # share of the predictions that are wrong
"""

WORD, WHOLE, NUMBER, YES = (str,), (int,), (int, float), (bool,)
TABLES: Mapping[str, Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "trace": {
        "format": ("kind", WORD),
        "count": ("slot", WORD),
        "processors_per_node": ("processors_per_node", NUMBER),
        "cluster": ("cluster", WORD),
        "kill": ("kills", YES),
    },
    "scheduler": {"slurm": ("slurm", YES)},
    "mix": {"name": ("mix", WORD), "io_share": ("io_share", NUMBER)},
    "storage": {
        "model": ("storage_model", WORD),
        "lanes": ("lanes", WHOLE),
        "targets": ("targets", WHOLE),
        "servers": ("servers", WHOLE),
        "placement": ("placement", WORD),
        "foreign_creates": ("foreign_creates", NUMBER),
        "sharing": ("sharing", WORD),
        "spread": ("spread", NUMBER),
    },
    "policy": {},
}
"""By table and key: the member of an Experiment, and the types of its value."""
OTHERS = {"scheduler": "settings", "storage": "storage", "policy": "options"}
"""Where all other keys of a table go."""
BOUNDS = {
    "lanes": (1, 16),
    "targets": (1, 1 << 20),
    "servers": (1, 1 << 20),
    "foreign_creates": (0, 1e9),
    "spread": (0, 2),
    "io_share": (0, 1),
    "processors_per_node": (1, 1 << 20),
}
CHOICES = {
    "format": ("swf", "sacct", "csv", "history"),
    "count": ("node", "processor"),
    "placement": ("chance", "round-robin", "blocks", "create"),
    "sharing": ("fifo", "jobs", "nodes"),
    "model": ("mean-field", "discrete-event"),
}


def read_scenario(path: Path) -> dict[str, Any]:
    """Return members of an Experiment by name; raises MachineError with the file and the key."""
    try:
        return parse_scenario(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise MachineError(f"{path}: {error}") from error


def parse_scenario(text: str) -> dict[str, Any]:
    """Read the text of a scenario; raises ValueError."""
    tables = tomllib.loads(text)
    members: dict[str, Any] = {}
    for name, table in tables.items():
        if name in TABLES:
            members |= _members(name, table)
        elif name not in PARTS:
            known = ", ".join((*TABLES, *PARTS))
            raise ValueError(f"unknown [{name}]; there are {known}")
    if parts := {name: tables[name] for name in PARTS if name in tables}:
        members["machine"] = json.dumps(parts)
    return members


def _members(name: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError(f"{name} is no table; write [{name}] above its keys")  # noqa: TRY004 - of the file
    members: dict[str, Any] = {}
    rest = {key: value for key, value in table.items() if key not in TABLES[name]}
    if name == "trace" and "columns" in rest:
        members["columns"] = _texts("trace.columns", rest.pop("columns"))
    if rest and name not in OTHERS:
        known = ", ".join((*TABLES[name], *(["columns"] if name == "trace" else [])))
        raise ValueError(f"[{name}] has no {next(iter(rest))}; there are {known}")
    if rest:
        members[OTHERS[name]] = _texts(name, rest)
    for key, (member, types) in TABLES[name].items():
        if key in table:
            members[member] = _checked(name, key, table[key], types)
    return members


def _checked(name: str, key: str, value: Any, types: tuple[type, ...]) -> Any:
    is_kind = isinstance(value, types)
    if not is_kind or (isinstance(value, bool) and bool not in types):
        kinds = {WORD: "a text", WHOLE: "a whole number", NUMBER: "a number", YES: "true or false"}
        raise ValueError(f"[{name}] {key} is {value!r}; give {kinds[types]}")
    if key in CHOICES and value not in CHOICES[key]:
        raise ValueError(f"[{name}] {key} is {value!r}; give {', '.join(CHOICES[key])}")
    if key in BOUNDS and not BOUNDS[key][0] <= value <= BOUNDS[key][1]:
        low, high = BOUNDS[key]
        raise ValueError(f"[{name}] {key} is {value!r}; give {low} to {high}")
    return value


def _texts(name: str, table: Any) -> dict[str, str]:
    if not isinstance(table, dict) or any(isinstance(v, dict | list) for v in table.values()):
        raise ValueError(f"[{name}] holds a table; give one value a key")
    return {str(key): str(value) for key, value in table.items()}
