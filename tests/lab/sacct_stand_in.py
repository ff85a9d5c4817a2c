"""A stand-in of sacct: prints the columns that it is asked for of a file with all of them."""

import shlex
from pathlib import Path

SCRIPT = """#!/bin/sh
said={said}
delimiter="|"
while [ $# -gt 0 ]; do
	case "$1" in
	--helpformat) head -n 1 "$said" | tr "|" " "; exit ;;
	--format) fields=$2 ;;
	--delimiter) delimiter=$2 ;;
	esac
	shift
done
awk -F "|" -v fields="$fields" -v delimiter="$delimiter" '
	NR == 1 {{ for (i = 1; i <= NF; i++) place[$i] = i; count = split(fields, wanted, ",") }}
	{{
		row = $place[wanted[1]]
		for (i = 2; i <= count; i++) row = row delimiter $place[wanted[i]]
		print row
	}}' "$said"
"""


def write_sacct(directory: Path, said: Path) -> Path:
    """Put one into a directory; said is read anew each time, its first line names the columns."""
    path = directory / "sacct"
    path.write_text(SCRIPT.format(said=shlex.quote(str(said))))
    path.chmod(0o755)
    return path
