#include "preload.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "grant.h"
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

/* A library that is not there would have the loader complain to the job's stderr. */
int
preload_is_possible (int argc, char **argv, struct settings *settings)
{
	settings_read (argc, argv, settings, complain);
	if (!settings->turns[0])
		return 0;
	if (access (settings->turns, R_OK) == 0)
		return 1;
	report (
	    "--io-turns: %s cannot be read on this node: install it, or correct turns= in "
	    "plugstack.conf",
	    settings->turns);
	return 0;
}

/* It has been complained about. */
static void
keep_quiet (const char *argument, const char *why)
{
	(void)argument;
	(void)why;
}

static int
read_preloaded (spank_t spank, char *out, size_t size)
{
	spank_err_t found = spank_getenv (spank, variable, out, (int)size);
	return found == ESPANK_SUCCESS || found == ESPANK_ENV_NOEXIST ? 0 : -1;
}

void
preload_turns (spank_t spank, int argc, char **argv)
{
	struct settings settings;
	char preloaded[PRELOAD_SIZE] = "", joined[PRELOAD_SIZE];

	settings_read (argc, argv, &settings, keep_quiet);
	if (read_preloaded (spank, preloaded, sizeof preloaded) == 0
	    && join (settings.turns, preloaded, joined, sizeof joined) == 0)
		spank_setenv (spank, variable, joined, 1);
	else
		report ("--io-turns: LD_PRELOAD of the job is too long to be added to");
}

void
preload_no_turns (spank_t spank, int argc, char **argv)
{
	struct settings settings;
	char preloaded[PRELOAD_SIZE] = "";
	size_t length;

	settings_read (argc, argv, &settings, keep_quiet);
	length = strlen (settings.turns);
	if (length == 0 || read_preloaded (spank, preloaded, sizeof preloaded) < 0
	    || strncmp (preloaded, settings.turns, length) != 0)
		return;
	if (preloaded[length] == ':')
		spank_setenv (spank, variable, preloaded + length + 1, 1);
	else if (preloaded[length] == '\0')
		spank_unsetenv (spank, variable);
}
