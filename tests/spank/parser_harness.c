/*
 * The SPANK plugin's pure functions and its directory maker behind lines of text,
 * for property tests and sanitizers. Words are separated by tabs; each line gets
 * one line of answer.
 *
 *   settings WORD...                what settings_read makes of the arguments
 *   block FIRST COUNT               where a job with this block goes on the first lane
 *   token LICENSES                  the lane held, by those settings, or -
 *   pattern TEXT | bytes TEXT       the number, or -
 *   directory JOB TEXT              the path, or -
 *   targets TARGET...               the command for these targets of the first lane, or -
 *   make PARENT NAME FILE_SYSTEM MAY_EXIST TIMEOUT WORD...     ok, or the reason
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "directory.h"
#include "settings.h"

enum { MAX_WORDS = 600 };

static struct settings settings;

static void
complain (const char *argument, const char *why)
{
	printf ("!%s: %s\t", argument, why);
}

/* A command line, or the path where the backend needs none. */
static void
show_placed (const struct lane *lane, uint32_t first, uint32_t count)
{
	const char *words[BACKEND_WORDS];
	char number[16];
	struct placed_lane placed;

	lane_place (&settings, lane, first, count, &placed);
	backend_command (&settings, &placed, number, words);
	printf ("%s:%" PRIu32 ":", placed.path, placed.targets);
	for (int w = 0; words[w]; w++)
		printf ("%s%s", w > 0 ? " " : "", words[w]);
}

static void
show_settings (void)
{
	printf ("%s\t%s\t%" PRIu32, settings.backend->name, settings.command,
		settings.timeout_s);
	for (uint32_t i = 0; i < settings.lane_count; i++) {
		printf ("\t%s:", settings.lanes[i].name);
		show_placed (&settings.lanes[i], 0, 0);
	}
	printf ("\n");
}

static void
make (char **words)
{
	char found[DIRECTORY_NAME_SIZE], why[128];
	const struct directory_request request = {
		.uid = geteuid (),
		.parent = words[0],
		.name = words[1],
		.file_system = words[2],
		.may_exist = atoi (words[3]),
		.timeout_s = (uint32_t)atoi (words[4]),
		.words = (const char *const *)words + 5,
	};
	printf ("%s\n",
		directory_make (&request, found, why, sizeof why) == 0 ? "ok" : why);
}

static void
show_targets (int count, char **numbers)
{
	struct sluice_turns_targets targets = { { 0 } };
	const char *words[BACKEND_WORDS];
	struct placed_lane placed;
	char text[16];

	for (int i = 0; i < count; i++)
		targets.bits[atoi (numbers[i]) / 64] |= 1ull << atoi (numbers[i]) % 64;
	if (lane_place_on (&settings, &settings.lanes[0], &targets, &placed) < 0) {
		printf ("-\n");
		return;
	}
	backend_command (&settings, &placed, text, words);
	for (int w = 0; words[w]; w++)
		printf ("%s%s", w > 0 ? " " : "", words[w]);
	printf ("\n");
}

static void
answer (int count, char **words)
{
	char path[IO_DIR_SIZE];

	if (strcmp (words[0], "settings") == 0) {
		settings_read (count - 1, words + 1, &settings, complain);
		show_settings ();
	} else if (strcmp (words[0], "block") == 0) {
		show_placed (&settings.lanes[0], (uint32_t)strtoul (words[1], NULL, 10),
			     (uint32_t)strtoul (words[2], NULL, 10));
		printf ("\n");
	} else if (strcmp (words[0], "token") == 0) {
		const struct lane *lane = token_lane (words[1], &settings);
		printf ("%s\n", lane ? lane->name : "-");
	} else if (strcmp (words[0], "directory") == 0) {
		uint32_t job_id = (uint32_t)strtoul (words[1], NULL, 10);
		if (io_dir_parse (words[2], job_id, path) == 0)
			printf ("%s\n", path);
		else
			printf ("-\n");
	} else if (strcmp (words[0], "targets") == 0) {
		show_targets (count - 1, words + 1);
	} else if (strcmp (words[0], "make") == 0) {
		make (words + 1);
	}
	fflush (stdout);
}

int
main (void)
{
	static char line[65536];

	settings_read (0, NULL, &settings, complain);
	while (fgets (line, sizeof line, stdin)) {
		char *words[MAX_WORDS] = { NULL };
		int count = 0;
		char *rest = line;
		line[strcspn (line, "\n")] = '\0';
		/* a copy of its own for each word, so that a sanitizer sees its end */
		for (char *word; count < MAX_WORDS - 1 && (word = strsep (&rest, "\t"));)
			words[count++] = strdup (word);
		answer (count, words);
		for (int i = 0; i < count; i++)
			free (words[i]);
	}
	return 0;
}
