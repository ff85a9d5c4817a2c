# The life of RPMs in a root with an RPM database of its own; run by test_packages.py.
# What they require, Debian's packages bring; to rpm a package of stand-ins provides it.
. /srv/site.sh

slurm_alone
files_of_slurm > /tmp/before
rpm --initdb
{
	printf '%s\n' 'Name: stand-ins' 'Version: 1' 'Release: 1' 'Summary: What sluice requires' \
		'License: none' 'BuildArch: noarch'
	rpm -qp --requires /srv/rpms/*.rpm | grep -Ev '^(rpmlib\(|sluice)' | sort -u |
		sed -e 's/^/Provides: /' -e 's/ >= / = /'
	printf '%s\n' '%description' 'Of Debian.' '%files'
} > /tmp/stand-ins.spec
rpmbuild --quiet -bb --define '_topdir /tmp/rpm' /tmp/stand-ins.spec
rpm -i /tmp/rpm/RPMS/noarch/*.rpm

rpm -i /srv/rpms/*.rpm
test "$(rpm -qa 'sluice*' | wc -l)" = 4
rpm -V sluice sluice-tools sluice-plugins sluice-node
getent group sluice | grep -q slurm
sluice --version
sluice init
sed -i '$aJobSubmitPlugins=sluice' /etc/slurm/slurm.conf
own=$(dirname "$(rpm -ql sluice-plugins | grep job_submit)") # of RPMs, and not Debian's
echo "PluginDir=$own:$(dirname "$(ls /usr/lib/*/slurm-wlm/select_cons_tres.so)")" >> /etc/slurm/slurm.conf
controller
plugin_of_slurmctld

# The plugin stays while slurm.conf lists it.
rpm -e sluice-plugins && exit 1
test -e "$(rpm -ql sluice-plugins | grep job_submit)"
sed -i '/^JobSubmitPlugins/d' /etc/slurm/slurm.conf
controller
rpm -e sluice sluice-tools sluice-plugins sluice-node
test -z "$(rpm -qa 'sluice*')"
test ! -e /usr/bin/sluice
! find /usr/lib/sluice 2> /dev/null | grep .
test -e /etc/slurm/sluice.conf # what a site wrote stays
sbatch --wrap true
rm /etc/slurm/sluice.conf
userdel sluice-serve # users and groups of RPMs stay, as they should
groupdel sluice
files_of_slurm > /tmp/after
diff /tmp/before /tmp/after
echo 'Slurm is as before'
