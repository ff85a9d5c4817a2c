#include "options.h"

#include <string.h>

#include "settings.h"

enum { OPTIONAL_ARGUMENT = 2 };
enum { IO_DIR, IO_TURNS, IO_PLACE, IO_STAGE, NO_SLUICE, OPTIONS };

static int check (int which, const char *value, int remote);

/* In slurmstepd: until init_post_opt is over, Slurm tells of options only by calling check.
 */
static int is_given[OPTIONS];
static int refuses_turns; /* --io-turns=no */
static enum options_stage stage;
static int is_staged_here; /* plugstack.conf has stage= */

static struct spank_option options[OPTIONS] = {
	[IO_DIR] = { "io-dir", "DIR",
		     "[sluice] make its output directory here; must not exist yet; %j: "
		     "the job's id",
		     1, IO_DIR, check },
	[IO_TURNS]
	= { "io-turns", "no",
	    "[sluice] let its writes take turns with those of other jobs; =no: never",
	    OPTIONAL_ARGUMENT, IO_TURNS, check },
	[IO_PLACE] = { "io-place", NULL,
		       "[sluice] send new files in SLUICE_DIR to storage targets where no "
		       "other job writes",
		       0, IO_PLACE, check },
	[IO_STAGE] = { "io-stage", "keep|no",
		       "[sluice] let it write on its node, and its files follow; =keep: "
		       "they stay there, "
		       "too; =no: never",
		       OPTIONAL_ARGUMENT, IO_STAGE, check },
	[NO_SLUICE]
	= { "no-sluice", NULL, "[sluice] leave this job alone", 0, NO_SLUICE, check },
};

static const char *const remedies[OPTIONS] = {
	[IO_DIR] = "give an absolute path of a directory to be made; %j is the job's id",
	[IO_TURNS] = "give no value, or =no",
	[IO_PLACE] = "",
	[IO_STAGE] = "give no value, =keep or =no",
	[NO_SLUICE] = "",
};

/* To the steps of a script Slurm hands a missing value on as text. */
static int
is_missing (const char *value)
{
	return !value || !*value || strcmp (value, "(null)") == 0;
}

static int
is_valid (int which, const char *value)
{
	switch (which) {
	case IO_TURNS:
		return is_missing (value) || strcmp (value, "no") == 0;
	case IO_STAGE:
		return is_missing (value) || strcmp (value, "no") == 0
		       || strcmp (value, "keep") == 0;
	case IO_DIR:
		return io_dir_parse (value, UINT32_MAX, NULL) == 0;
	default:
		return 1;
	}
}

/* Slurm adds a line with option and value, and ends the command. */
static int
check (int which, const char *value, int remote)
{
	int has_value = value || options[which].has_arg == OPTIONAL_ARGUMENT;
	is_given[which] = 1;
	if (which == IO_TURNS)
		refuses_turns = value && strcmp (value, "no") == 0;
	if (which == IO_STAGE)
		stage = value && strcmp (value, "no") == 0     ? OPTIONS_STAGE_NO
			: value && strcmp (value, "keep") == 0 ? OPTIONS_STAGE_KEEP
							       : OPTIONS_STAGE_YES;
	if (which == IO_STAGE && spank_context () == S_CTX_ALLOCATOR && !is_staged_here
	    && stage != OPTIONS_STAGE_NO)
		slurm_error ("--io-stage: this site does not stage output (no stage= in "
			     "plugstack.conf); the job runs without");
	if (remote || !options[which].has_arg || (has_value && is_valid (which, value)))
		return 0;
	slurm_error ("--%s: %s", options[which].name, remedies[which]);
	return -1;
}

void
options_register (spank_t spank, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		is_staged_here |= strncmp (argv[i], "stage=", 6) == 0;
	for (int i = 0; i < OPTIONS; i++)
		spank_option_register (spank, &options[i]);
}

static int
was_given (spank_t spank, int which)
{
	char *value = NULL;
	return is_given[which]
	       || spank_option_getopt (spank, &options[which], &value) == ESPANK_SUCCESS;
}

int
options_no_sluice (spank_t spank)
{
	return was_given (spank, NO_SLUICE);
}

int
options_io_place (spank_t spank)
{
	return was_given (spank, IO_PLACE);
}

enum options_turns
options_io_turns (spank_t spank)
{
	char *value = NULL;
	if (spank_option_getopt (spank, &options[IO_TURNS], &value) == ESPANK_SUCCESS)
		check (IO_TURNS, value, 1);
	if (!is_given[IO_TURNS])
		return OPTIONS_TURNS_NOT_SAID;
	return refuses_turns ? OPTIONS_TURNS_NO : OPTIONS_TURNS_YES;
}

enum options_stage
options_io_stage (spank_t spank)
{
	char *value = NULL;
	if (spank_option_getopt (spank, &options[IO_STAGE], &value) == ESPANK_SUCCESS)
		check (IO_STAGE, value, 1);
	return is_given[IO_STAGE] ? stage : OPTIONS_STAGE_NO;
}

const char *
options_io_dir (spank_t spank)
{
	char *value = NULL;
	if (spank_option_getopt (spank, &options[IO_DIR], &value) != ESPANK_SUCCESS)
		return NULL;
	return value;
}
