#!/bin/sh
# Makes the service group, the user of the pages and Sluice's directories, also without systemd.
# Usage: make-group.sh [SLURM_USER [ROOT]]     ROOT: of the directories, for tests
set -eu
user=${1:-@SLURM_USER@}
root=${2:-}

getent group sluice > /dev/null || groupadd --system sluice
getent passwd sluice-serve > /dev/null ||
	useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin sluice-serve
if getent passwd "$user" > /dev/null; then
	usermod --append --groups sluice "$user"
else
	echo "there is no user $user: give SlurmUser's name, $0 NAME, and in the units (make install SLURM_USER=NAME)" >&2
	exit 1
fi
install -d -m 2755 -o "$user" -g sluice "$root/run/sluice"
install -d -m 2750 -o "$user" -g sluice "$root/var/lib/sluice"
