# The life of packages on a machine that has Slurm and Prometheus alone; run by test_packages.py in a root.
# Libraries that came as dependencies stay until `apt-get autoremove`, as of any package.
. /srv/site.sh

apt update
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d # apt starts no daemon
chmod 755 /usr/sbin/policy-rc.d
apt install prometheus prometheus-node-exporter
files_of_slurm > /tmp/before
slurm_alone

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
sluice profile /srv/*.darshan | grep -q '^pattern *ws'
cp /srv/*.darshan /var/log/darshan
sluice history ingest /var/log/darshan
sluice history show | grep -Eq '^logs read +1$'

# Prometheus takes up what sluiced writes, as docs/guide/monitoring.md says.
ln -s /run/sluice/cluster.snapshot.prom /var/lib/prometheus/node-exporter/sluice.prom
runuser -u prometheus -- prometheus-node-exporter --web.listen-address=127.0.0.1:29100 \
	--collector.disable-defaults --collector.textfile \
	--collector.textfile.directory=/var/lib/prometheus/node-exporter > /tmp/exporter.log 2>&1 &
exporter=$!
promtool check rules /usr/share/sluice/sluice.rules.yml
promtool check metrics < /run/sluice/cluster.snapshot.prom
cat > /tmp/prometheus.yml <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [/usr/share/sluice/sluice.rules.yml]
scrape_configs:
  - job_name: node
    static_configs: [{targets: ["127.0.0.1:29100"]}]
END
install -d -o prometheus /tmp/prometheus
runuser -u prometheus -- prometheus --config.file=/tmp/prometheus.yml \
	--storage.tsdb.path=/tmp/prometheus --web.listen-address=127.0.0.1:29090 > /tmp/prometheus.log 2>&1 &
prometheus=$!
asked() { promtool query instant http://127.0.0.1:29090 "$1"; }
holds() { asked "$1" | grep -q '=> 1 '; }
await holds sluice_plugin_up
await holds 'sum(sluice_decisions_total)'
await holds 'sluice_program_up{program="sluice-learn"}' # sluiced runs it
chmod -x /usr/bin/sluice-learn
kill -KILL "$(grep -lx sluice-learn /proc/[0-9]*/comm | cut -d/ -f3)"
await holds 'count(ALERTS{alertname="SluiceServiceStopped"}) > bool 0'
chmod +x /usr/bin/sluice-learn
await holds 'sluice_program_restarts_total{program="sluice-learn"}'
! asked 'ALERTS{alertname="SluicePluginAway"}' | grep -q SluicePluginAway
python3 -c 'import json; board = json.load(open("/usr/share/sluice/sluice-dashboard.json"))
print(*(one["expr"] for panel in board["panels"] for one in panel["targets"]), sep="\n")' |
	while read -r expression; do asked "$expression" > /dev/null; done
kill $prometheus $exporter

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
apt remove sluice sluice-tools sluice-plugins sluice-node
test -e /run/sluice/off && test -e /var/lib/sluice/history.db
apt install /srv/newer/*.deb
test ! -e /run/sluice/off
apt purge sluice sluice-tools sluice-plugins sluice-node
test ! -e /run/sluice && test ! -e /var/lib/sluice && test ! -e /usr/lib/sluice
sbatch --wrap true
kill "$(cat /run/slurmctld.pid)"
rm /etc/slurm/slurm.conf
files_of_slurm > /tmp/after
diff /tmp/before /tmp/after
echo "Slurm is as before"
