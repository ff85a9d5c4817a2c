# What scripts of test_packages.py share: a site that has Slurm alone. To be sourced.
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
await() { for _ in $(seq ${PATIENCE:-300}); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done; echo "never: $*"; false; }
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
slurm_alone() { # a configuration, and what it needs
	install -d -o munge -g munge /run/munge && runuser -u munge -- munged
	install -d -o slurm /var/spool/slurmctld
	cat > /etc/slurm/slurm.conf <<-END
	ClusterName=site
	SlurmctldHost=$(hostname)(127.0.0.1)
	SlurmctldPort=$((20000 + $$ % 10000 + RANDOM % 1000))
	SlurmdPort=$((10000 + $$ % 5000 + RANDOM % 1000))
	SlurmUser=slurm
	StateSaveLocation=/var/spool/slurmctld
	SlurmctldPidFile=/run/slurmctld.pid
	SlurmctldLogFile=/var/log/slurmctld.log
	SlurmdLogFile=/var/log/slurmd.log
	SlurmdSpoolDir=/var/spool/slurmd
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SlurmdParameters=config_overrides
	NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=2
	PartitionName=all Nodes=ALL Default=YES
	END
}
