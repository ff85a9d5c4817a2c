#include "settings.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

enum { USAGE = 2 };

void
settings_refuse (const char *option, const char *reason)
{
	fprintf (stderr, "%s: %s %s; see --help\n", program_invocation_short_name, option,
		 reason);
	exit (USAGE);
}

void
settings_show (int option, const char *help)
{
	if (option != 'h' && option != 'V')
		exit (USAGE); /* getopt has said why */
	if (option == 'h')
		fputs (help, stdout);
	else
		printf ("%s %s\n", program_invocation_short_name, SLUICE_VERSION);
	exit (fflush (stdout) == 0 ? 0 : 1);
}

uid_t
settings_user (const char *name)
{
	char *end;
	unsigned long uid = strtoul (name, &end, 10);
	const struct passwd *found = getpwnam (name);
	if (found)
		return found->pw_uid;
	if (*end || end == name || uid >= (uid_t)-1)
		settings_refuse (name, "is no user here");
	return (uid_t)uid;
}
