"""Where a history may lie: not where several machines could open it.

SQLite's log works by shared memory and POSIX locks, which network file systems do not keep between
machines, and some not even on one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NETWORKED = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "daos", "gfs2", "gpfs", "glusterfs"),
    *("lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs"),
    *("vastnfs", "wekafs"),
}
LOCAL_FUSE = {
    *("fuse.bindfs", "fuse.encfs", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.lxcfs"),
    *("fuse.mergerfs", "fuse.ntfs-3g", "fuse.unionfs", "fuse.zfs"),
}
"""Of what runs in a user's process, the few that keep files on this machine."""


def network_file_system(folder: Path) -> str:
    """Return the kind and mount of the network file system that a folder is on; empty: on none.

    What cannot be told counts as local: a site with strange mounts shall not lose its history.
    """
    with suppress(OSError):
        device = folder.stat().st_dev
        for line in reversed(MOUNTS.read_text(errors="replace").splitlines()):
            before, _, after = line.partition(" - ")
            number, _root, place = before.split()[2:5]
            kind = after.split()[0]
            if number == f"{os.major(device)}:{os.minor(device)}":
                is_networked = kind in NETWORKED or (
                    (kind == "fuse" or kind.startswith("fuse.")) and kind not in LOCAL_FUSE
                )
                return f"{kind}, mounted at {place}" if is_networked else ""
    return ""
