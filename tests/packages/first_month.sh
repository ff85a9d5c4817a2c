# docs/guide/first-month.md, word for word: test_packages.py leaves the commands of each of its
# sections in /srv/guide, and gives jobs that ran here their Darshan logs.
. /srv/site.sh
cat > /srv/sudo.sh << 'END'
sudo() { # `sluice report` ends with its verdict
	"$@" && return
	status=$?
	test "$1 $2" = "sluice report" && test $status -ge 3 && test $status -le 5
}
END
guide() { # the commands of a section, with what an administrator has at hand
	echo "== $1"
	bash -ec '. "$0"; . "$1"' /srv/sudo.sh "/srv/guide/$1" < /dev/null
}
apt update
echo 'APT::Get::Assume-Yes "true";' > /etc/apt/apt.conf.d/yes
install -m 755 /srv/systemctl /usr/local/bin
files_of_slurm > /tmp/before
slurm_alone
controller
slurmd
mkdir /var/log/darshan
cp /srv/*.darshan /var/log/darshan

begin=$(date +%s)
guide ten-minutes-what-interference-costs | tee /tmp/report
grep -q "coverage" /tmp/report
grep -q "^Verdict" /tmp/report
echo "minutes to the first report: $((($(date +%s) - begin) / 60))"
test $(($(date +%s) - begin)) -lt 600
! plugin_of_slurmctld

guide the-first-day-observe
plugin_of_slurmctld > /dev/null
await sluice status

# A job runs and leaves its log; the model knows it without a hand on anything.
for _ in 1 2 3; do
	job=$(sbatch --parsable --output=/dev/null --job-name=cavity --wrap 'sleep 5')
	await sh -c "scontrol show job $job | grep -q JobState=COMPLETED"
	for field in Start End; do
		date -d "$(scontrol show job "$job" | sed -nE "s/.*\\b${field}Time=(\\S+).*/\\1/p")" +%s
	done | xargs echo "$job" >> /srv/ran
done
known() { sluice predict --job-name cavity --json | grep -qE '"evidence": "(user_name|unconfirmed)"'; }
PATIENCE=900 await known # two polls of sluice-learn
decided() { # the plugin takes a bundle up within a second
	sbatch --output=/dev/null --job-name=cavity --wrap true
	sluice decisions --json | grep -qE '"evidence": "(user_name|unconfirmed)"'
}
await decided
sluice status

guide each-week-look-at-it
guide take-it-out-again
! plugin_of_slurmctld
sbatch --wrap true
kill "$(cat /run/slurmctld.pid)"
rm /etc/slurm/slurm.conf
files_of_slurm > /tmp/after
diff /tmp/before /tmp/after
echo "Slurm is as before"
