#include "preload.h"

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "grant.h"
#include "options.h"
#include "settings.h"

enum { PRELOAD_SIZE = 4096 };

static const char variable[] = "LD_PRELOAD";

/* Entries stand between blanks and colons. */
static int
is_listed (const char *library, const char *list)
{
	size_t length = strlen (library);

	for (;;) {
		list += strspn (list, ": ");
		size_t entry = strcspn (list, ": ");
		if (entry == 0)
			return 0;
		if (entry == length && strncmp (list, library, length) == 0)
			return 1;
		list += entry;
	}
}

/* Once. -1: longer than `size`. */
static int
join (const char *library, const char *preloaded, char *out, size_t size)
{
	int length;

	if (is_listed (library, preloaded))
		length = snprintf (out, size, "%s", preloaded);
	else
		length = snprintf (out, size, "%s%s%s", library, preloaded[0] ? ":" : "",
				   preloaded);
	return length >= 0 && (size_t)length < size ? 0 : -1;
}

/* grant.c tells of the others. */
static void
complain (const char *argument, const char *why)
{
	if (strncmp (argument, "turns", 5) == 0)
		report ("plugstack.conf: %s: %s", argument, why);
}

int
preload_is_wanted (spank_t spank)
{
	uid_t uid;

	return options_io_turns (spank) && !options_no_sluice (spank)
	       && spank_get_item (spank, S_JOB_UID, &uid) == ESPANK_SUCCESS && uid != 0;
}

/* A library that is not there would have the loader complain to the job's stderr. */
static int
find_library (int argc, char **argv, struct settings *settings)
{
	settings_read (argc, argv, settings, complain);
	if (!settings->turns[0])
		return -1;
	if (access (settings->turns, R_OK) == 0)
		return 0;
	report (
	    "--io-turns: %s cannot be read on this node: install it, or correct turns= in "
	    "plugstack.conf",
	    settings->turns);
	return -1;
}

void
preload_turns (spank_t spank, int argc, char **argv)
{
	struct settings settings;
	char preloaded[PRELOAD_SIZE] = "", joined[PRELOAD_SIZE];
	spank_err_t found;

	if (!preload_is_wanted (spank) || find_library (argc, argv, &settings) < 0)
		return;
	found = spank_getenv (spank, variable, preloaded, sizeof preloaded);
	if ((found == ESPANK_SUCCESS || found == ESPANK_ENV_NOEXIST)
	    && join (settings.turns, preloaded, joined, sizeof joined) == 0)
		spank_setenv (spank, variable, joined, 1);
	else
		report ("--io-turns: LD_PRELOAD of the job is too long to be added to");
}
