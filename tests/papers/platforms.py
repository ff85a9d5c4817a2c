"""Storage systems that the papers measured, in numbers of the discrete-event storage model.

Every number says where it is from. `fitted` names the figure that it was fitted to; a number that
was fitted to no figure is the platform's own, a default of its software, or an assumption that no
figure depends on much, and the source says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.sim.storage.discrete_event import LUSTRE, MIB, Parameter, Platform

if TYPE_CHECKING:
    from collections.abc import Mapping

KIB = 1024.0

_ORANGEFS = (
    Parameter("servers", 12, "the paper's platform"),
    Parameter("targets", 12, "one device a server"),
    Parameter("node_bandwidth", 1.25e9, "10 GbE"),
    Parameter("server_bandwidth", 1.25e9, "10 GbE"),
    Parameter("process_bandwidth", 1.55e9, "one process to memory alone: 2 GB in 1.32 s", "Y1"),
    Parameter("unit_bytes", 256 * KIB, "OrangeFS reference: FlowBufferSizeBytes 262144"),
    Parameter("flow_window", 8, "OrangeFS reference: FlowBuffersPerFlow 8"),
    Parameter("rewrite_window", 8, "the same: a server does not tell old blocks from new"),
    Parameter("cache_bandwidth", 1.96e9, "a server's memory: 4 GB in 2.09 s", "Y1"),
    Parameter("stall_seconds", 0.04, "Linux: TCP_DELACK_MIN, of each connection"),
    Parameter("flow_seconds", 170e-6, "where requests of 128 KiB stop interfering", "Y7a"),
    Parameter("flow_limit", 550, "between 512 and 704 clients", "Y8a"),
    Parameter("retry_seconds", 0.2, "Linux: TCP_RTO_MIN"),
    Parameter("slice_bytes", 512 * KIB, "Linux: max_sectors_kb, the largest request to a disk"),
    Parameter("commit_group", 1, "OrangeFS syncs each request by itself (TroveSyncData)"),
    Parameter("jitter_seconds", 0.01, "processes of an MPI program leave a barrier within this"),
)

_CACHED = Parameter("cache_bytes", 1e12, "sync off: the volume fits into the servers' memory")

_HDD = (
    Parameter("target_bandwidth", 150e6, "2 GB in 13.4 s", "Y1"),
    Parameter("seek_seconds", 0.00087, "two streams take 33.4 s", "Y1"),
    Parameter("commit_seconds", 0.0042, "half a turn at 7200/min"),
)
_SSD = (
    Parameter("target_bandwidth", 910e6, "2 GB in 2.27 s", "Y1"),
    Parameter("commit_seconds", 1e-4, "assumed: a program and erase in flash"),
)
_RAM = (Parameter("target_bandwidth", 1.96e9, "memory, as the cache", "Y1"),)

_GPFS = (
    Parameter("servers", 4, "the paper's platform"),
    Parameter("targets", 56, "4 × 14 devices"),
    Parameter("target_bandwidth", 20e9 / 56, "20 GB/s over 56 devices"),
    Parameter("server_bandwidth", 20e9 / 4, "20 GB/s over 4 servers"),
    Parameter("node_bandwidth", 4e9, "4X QDR InfiniBand"),
    Parameter("call_seconds", 2e-6, "assumed: a write into the page pool"),
    Parameter("unit_bytes", 4 * MIB, "assumed: the file system's block"),
    Parameter("flow_window", 1e6, "the process limits"),
    Parameter("rewrite_window", 1e6, "the process limits"),
    Parameter("process_window", 18, "GPFS default: prefetchThreads 72 write behind, 4 processes"),
    Parameter("setup_seconds", 0.001, "assumed: token and round trips"),
    Parameter("create_seconds", 1 / 20000, "assumed"),
    Parameter("create_contention", 0.00067, "as on Lustre", "S7c"),
)

_PVFS_8 = (
    Parameter("servers", 8, "the paper's platform: 8 PVFS servers"),
    Parameter("targets", 8, "one device a server"),
    Parameter("target_bandwidth", 100e6, "assumed; only ratios are compared"),
    Parameter("node_bandwidth", 1.25e9, "assumed: 10 GbE, more than the devices take"),
    Parameter("server_bandwidth", 1.25e9, "assumed: 10 GbE, more than the devices take"),
    Parameter("unit_bytes", 256 * KIB, "OrangeFS reference: FlowBufferSizeBytes 262144"),
    Parameter("buffer_bytes", 128 * MIB, "the paper's platform: 128 MB a node"),
    Parameter("buffer_bandwidth", 1e9, "assumed: a process into memory"),
)

_TARGETS_16 = (
    Parameter("servers", 16, "the paper's example: 16 targets"),
    Parameter("targets", 16, "the paper's example"),
    Parameter("target_bandwidth", 400e6, "assumed; only ratios are compared"),
)


_STAGING_16 = (
    *_TARGETS_16,
    Parameter("cache_bytes", 11.5e9, "70 % of what H6's programs write in all", "H6b"),
)


def _orangefs(device: str, parameters: tuple[Parameter, ...]) -> tuple[Platform, Platform]:
    title = f"OrangeFS 2.8.3, 12 servers with {device} (Yildiz et al. 2016)"
    name = f"orangefs-{device.lower()}"
    both = (*_ORANGEFS, *parameters)
    return (
        Platform(f"{name}-sync", f"{title}, sync on", both),
        Platform(name, f"{title}, sync off", (*both, _CACHED)),
    )


PLATFORMS = {
    platform.name: platform
    for platform in (
        *_orangefs("HDD", _HDD),
        *_orangefs("SSD", _SSD),
        *_orangefs("RAM", _RAM),
        LUSTRE,
        Platform("gpfs", "GPFS of TSUBAME 2.5 (Shah et al. 2019)", _GPFS),
        Platform("pvfs-8", "8 PVFS servers with buffers in the nodes (Kougkas et al.)", _PVFS_8),
        Platform("targets-16", "16 targets (Huang et al.)", _TARGETS_16),
        Platform("staging-16", "16 targets behind staging nodes (Huang et al.)", _STAGING_16),
    )
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """Storage, and the programs that write there together."""

    storage: Mapping[str, float]
    programs: tuple[Mapping[str, float | str], ...]
    stop_share: float = 0.0
    """Count until the first has written this share; 0: until all have ended."""
    seed: int = 0
    turns: Mapping[str, float] | None = None
    """Bursts take turns, with these settings (engine/storage/bursts.h); None: they do not."""
