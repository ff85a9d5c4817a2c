# The life of packages on a machine that has Slurm alone; run by test_packages.py in a root.
# Libraries that came as dependencies stay until `apt-get autoremove`, as of any package.
set -eE
trap 'echo "line $LINENO: $BASH_COMMAND"' ERR
export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -y -qq --no-install-recommends "$@" > /tmp/apt.log 2>&1 || { cat /tmp/apt.log; return 1; }; }
files_of_slurm() {
	dpkg -L slurmctld slurmd slurm-client slurm-wlm-basic-plugins | sort -u |
		while read -r path; do test ! -f "$path" || md5sum "$path"; done
	ls -A /usr/lib/*/slurm-wlm /etc/slurm
	getent group
}
await() { for _ in $(seq 300); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done; echo "never: $*"; false; }
plugin_of_slurmctld() { grep job_submit_sluice "/proc/$(cat /run/slurmctld.pid)/maps"; }
controller() { # starts, or starts again
	if test -e /run/slurmctld.pid; then
		local old; old=$(cat /run/slurmctld.pid)
		kill "$old"
		await sh -c "! kill -0 $old"
	fi
	slurmctld
	await scontrol ping
	await sh -c 'scontrol ping | grep -q "is UP"'
}

apt update
files_of_slurm > /tmp/before
install -d -o munge -g munge /run/munge && runuser -u munge -- munged
install -d -o slurm /var/spool/slurmctld
cat > /etc/slurm/slurm.conf <<END
ClusterName=site
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$((20000 + $$ % 10000 + RANDOM % 1000))
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=/var/log/slurmctld.log
NodeName=$(hostname) NodeAddr=127.0.0.1
PartitionName=all Nodes=ALL Default=YES
END

# Installed: nothing of Slurm changes but that a plugin lies there.
apt install /srv/debs/*.deb
sluice --version
getent group sluice | grep -q slurm
test "$(stat -c '%U %G %a' /run/sluice /var/lib/sluice | tr '\n' ' ')" = "slurm sluice 2755 slurm sluice 2750 "
man_pages=$(ls /usr/share/man/man1/sluice*.1.gz | wc -l)
test "$man_pages" -gt 40
for forbidden in pandas seaborn matplotlib; do ! dpkg -s python3-$forbidden > /dev/null 2>&1; done
mkdir /var/log/darshan
sluice init
sluice config show | grep -q 'DarshanLogs *.*/var/log/darshan'
sluice doctor --preflight
sed -i '$aJobSubmitPlugins=sluice' /etc/slurm/slurm.conf
controller
plugin_of_slurmctld
# What Debian's libraries train: shares, whatever the version of scikit-learn keeps
python3 -I - <<END
import sys; sys.path.insert(0, "/usr/lib/sluice/python")
import numpy as np
from sluice.patterns.fit import fit_classifier
rows = np.arange(200, dtype=np.float32).reshape(100, 2)
forest, _ = fit_classifier(rows, np.array(["a", "b"] * 50), weights=np.full(100, 3.0), trees=5, leaf_size=2)
assert np.allclose(forest.value.sum(axis=1), 1)
END
setpriv --reuid=slurm --regid=sluice --init-groups sluiced --config /etc/slurm/sluice.conf &
await test -S /run/sluice/sluiced.sock
await sluice status
sbatch --wrap true
await sh -c 'sluice decisions | grep -q wrap'
sluice init --check

# Reads Darshan logs, with the libdarshan-util that came along.
sluice lab profile /srv/*.darshan | grep -q '^pattern *ws'
cp /srv/*.darshan /var/log/darshan
sluice history ingest /var/log/darshan
sluice history show | grep -Eq '^logs read +1$'

# Upgraded: the gates open meanwhile, and slurmctld goes on with the file that it has mapped.
apt install /srv/newer/*.deb
grep -q "package sluice is being replaced" /tmp/apt.log || grep -q "Sluice is off" /tmp/apt.log
grep -q "Sluice is on" /tmp/apt.log
test ! -e /run/sluice/off
plugin_of_slurmctld | grep -q '(deleted)'
sbatch --wrap true
controller
! plugin_of_slurmctld | grep -q '(deleted)'
# An administrator's own switch stays.
sluice off --reason "maintenance"
apt install --reinstall /srv/newer/*.deb
grep -q maintenance /run/sluice/off
sluice on

# Removed: not while slurmctld needs the plugin.
! apt remove sluice-plugins
grep -q "Take sluice out there" /tmp/apt.log
sed -i '/JobSubmitPlugins/d' /etc/slurm/slurm.conf
controller
! plugin_of_slurmctld
kill %1; wait %1 || true
touch /var/lib/sluice/history.db
apt remove sluice sluice-plugins sluice-node
test -e /run/sluice/off && test -e /var/lib/sluice/history.db
apt install /srv/newer/*.deb
test ! -e /run/sluice/off
apt purge sluice sluice-plugins sluice-node
test ! -e /run/sluice && test ! -e /var/lib/sluice && test ! -e /usr/lib/sluice
sbatch --wrap true
kill "$(cat /run/slurmctld.pid)"
rm /etc/slurm/slurm.conf
files_of_slurm > /tmp/after
diff /tmp/before /tmp/after
echo "Slurm is as before"
