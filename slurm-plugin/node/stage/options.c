#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drain.h"
#include "settings.h"

static const char help[]
    = "Usage: sluice-drain --from DIR --to DIR [OPTION]...\n"
      "Copy what a program writes below one directory to another one, file by file, as "
      "the\n"
      "files are finished. Files appear whole, in the order in which they were finished;\n"
      "what is removed or renamed is so there, too. The local files stay.\n"
      "\n"
      "  --from DIR         the directory in which the program writes\n"
      "  --to DIR           the directory that is to become the same; it must exist\n"
      "  --journal FILE     what has been drained: a drainer that is started again goes "
      "on\n"
      "                     from there (default: none; it copies all again)\n"
      "  --rate BYTES       write no more than this many bytes a second\n"
      "  --patience SECONDS end so long after the last progress, once told to end, though\n"
      "                     something is not drained (default: 60)\n"
      "  --settle MS        look at a path so long after its last event: what is written "
      "again\n"
      "                     by then is copied once (default: 1000)\n"
      "  --once             drain what is there, then end\n"
      "  --help, --version\n"
      "\n"
      "SIGTERM: drain what is left, and end. SIGINT: end at once.\n"
      "Exits with 0 if all was drained, with 1 if something is in the local directory "
      "only:\n"
      "a line says what and why. Both directories are then as they should be for another "
      "try.\n";

static uint64_t
number (const char *option, const char *text, uint64_t most)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull (text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value == 0 || value > most)
		settings_refuse (option, "needs a whole number from 1 on");
	return value;
}

/* Both as they are called whatever the working directory is. */
static const char *
absolute (const char *option, const char *path)
{
	char *real = realpath (path, NULL);
	if (!real) {
		fprintf (stderr, "sluice-drain: %s: %s: %s\n", option, path,
			 strerror (errno));
		exit (1);
	}
	return real;
}

static int
is_within (const char *path, const char *directory)
{
	size_t length = strlen (directory);
	return strncmp (path, directory, length) == 0
	       && (path[length] == '/' || path[length] == '\0');
}

static int
lies_in (const char *file, const char *directory)
{
	char *copy = strdup (file), *real = copy ? realpath (dirname (copy), NULL) : NULL;
	int result = real && is_within (real, directory);
	free (real);
	free (copy);
	return result;
}

void
options_parse (int argc, char **argv, struct drain *drain)
{
	static const struct option options[] = {
		{ "from", required_argument, NULL, 'f' },
		{ "to", required_argument, NULL, 't' },
		{ "journal", required_argument, NULL, 'j' },
		{ "rate", required_argument, NULL, 'r' },
		{ "patience", required_argument, NULL, 'p' },
		{ "settle", required_argument, NULL, 's' },
		{ "once", no_argument, NULL, 'o' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	for (int option; (option = getopt_long (argc, argv, "", options, NULL)) != -1;)
		switch (option) {
		case 'f':
			drain->from_path = absolute ("--from", optarg);
			break;
		case 't':
			drain->to_path = absolute ("--to", optarg);
			break;
		case 'j':
			drain->journal_path = optarg;
			break;
		case 'r':
			drain->rate = number ("--rate", optarg, UINT64_MAX / 2);
			break;
		case 'p':
			drain->patience_s = (int64_t)number ("--patience", optarg, INT_MAX);
			break;
		case 's':
			drain->settle
			    = (int64_t)number ("--settle", optarg, INT_MAX) * 1000000;
			break;
		case 'o':
			drain->is_once = 1;
			break;
		default:
			settings_show (option, help);
		}
	if (!drain->from_path)
		settings_refuse ("--from", "is missing");
	if (!drain->to_path)
		settings_refuse ("--to", "is missing");
	if (is_within (drain->from_path, drain->to_path)
	    || is_within (drain->to_path, drain->from_path))
		settings_refuse ("--to", "and --from lie within each other");
	if (drain->journal_path && lies_in (drain->journal_path, drain->from_path))
		settings_refuse ("--journal", "lies in what is drained");
	if (argc > optind)
		settings_refuse (argv[optind], "is no option");
}
