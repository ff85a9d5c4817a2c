#!/bin/sh
# Install the Debian packages of packages.txt that are missing; say which, and
# do nothing (not even ask for root) when all are there.
set -eu
list=$(dirname "$0")/packages.txt
missing=
for package in $(sed 's/#.*//' "$list"); do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' \
		|| missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "install-packages: not a Debian system; install these by hand:$missing" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
	sudo=sudo
	command -v sudo >/dev/null || {
		echo "install-packages: run as root, or install sudo; missing:$missing" >&2
		exit 1
	}
fi
echo "Installing Debian packages:$missing"
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
	>/dev/null
