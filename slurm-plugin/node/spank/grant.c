#include "grant.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Where slurm_load_job wants a step's id instead of a job's (26.05), slurm.h then
 * takes either. */
#define SLURM_BACKWARD_COMPAT
#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "directory.h"
#include "settings.h"
#include "siphash.h"

void
report (const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start (arguments, format);
	vsnprintf (text, sizeof text, format, arguments);
	va_end (arguments);
	if (spank_context () == S_CTX_REMOTE || spank_context () == S_CTX_JOB_SCRIPT)
		slurm_info ("sluice: %s", text);
	else
		slurm_verbose ("sluice: %s", text);
}

/* Weak: a Slurm program that does not have it must still load us. */
extern __typeof__ (slurm_load_job) slurm_load_job __attribute__ ((weak));
extern __typeof__ (slurm_free_job_info_msg) slurm_free_job_info_msg __attribute__ ((weak));
extern __typeof__ (slurm_init_job_desc_msg) slurm_init_job_desc_msg __attribute__ ((weak));
extern __typeof__ (slurm_update_job) slurm_update_job __attribute__ ((weak));

/* The answer for a leader holds the other components too, and that for the first
 * task of an array its other tasks. */
static const slurm_job_info_t *
find (const job_info_msg_t *answer, uint32_t job_id)
{
	for (uint32_t i = 0; i < answer->record_count; i++)
		if (answer->job_array[i].job_id == job_id)
			return &answer->job_array[i];
	return NULL;
}

/* What stands behind the key in our note, up to the next comma; NULL: nothing. */
static const char *
find_in_note (const char *admin_comment, const char *key)
{
	const char *note = admin_comment ? strstr (admin_comment, "sluice(v=1,") : NULL;
	const char *end = note ? strchr (note, ')') : NULL;
	const char *found = end ? strstr (note, key) : NULL;

	return found && found < end ? found + strlen (key) : NULL;
}

static enum holding_turns
turns_of (const char *admin_comment)
{
	const char *turns = find_in_note (admin_comment, ",turns=");

	if (!turns)
		return HOLDING_TURNS_NOT_SAID;
	return strncmp (turns, "yes", 3) == 0 ? HOLDING_TURNS_YES : HOLDING_TURNS_NO;
}

static void
read_block (const char *admin_comment, struct holding *out)
{
	const char *place = find_in_note (admin_comment, ",place=");
	unsigned int first, count;

	out->first_target = out->target_count = 0;
	if (place && sscanf (place, "%3u+%3u", &first, &count) == 2) {
		out->first_target = first;
		out->target_count = count;
	}
}

int
holding_ask (uint32_t job_id, struct holding *out)
{
	job_info_msg_t *answer = NULL;
	int known = 0;

	if (!slurm_load_job || !slurm_free_job_info_msg
	    || slurm_load_job (&answer, job_id, 0) != SLURM_SUCCESS)
		return -1;
	const slurm_job_info_t *job = find (answer, job_id);
	const char *licenses = job && job->licenses ? job->licenses : "";
	if (job && strlen (licenses) < sizeof out->licenses) {
		known = 1;
		out->job_id = job_id;
		out->restarts = job->restart_cnt;
		out->start = job->start_time;
		out->end = job->end_time;
		out->nodes = job->num_nodes;
		out->uid = job->user_id;
		out->is_heterogeneous = job->het_job_id != 0;
		out->is_batch = job->batch_flag != 0;
		out->is_running = (job->job_state & JOB_STATE_BASE) == JOB_RUNNING;
		out->turns = turns_of (job->admin_comment);
		read_block (job->admin_comment, out);
		strcpy (out->licenses, licenses);
	}
	slurm_free_job_info_msg (answer);
	return known ? 0 : -1;
}

const char *const grant_names[GRANT_VARIABLES] = {
	[GRANT_LANE] = "SLUICE_LANE",
	[GRANT_TARGETS] = "SLUICE_TARGETS",
	[GRANT_DIR] = "SLUICE_DIR",
	[GRANT_JOB_ID] = "SLUICE_JOB_ID",
};

static void
complain (const char *argument, const char *why)
{
	report ("plugstack.conf: %s: %s", argument, why);
}

void
holding_give_up (uint32_t job_id, uid_t uid, int argc, char **argv)
{
	char rest[HOLDING_LICENSES_SIZE];
	struct holding holding;
	struct settings settings;
	job_desc_msg_t change;

	if (!slurm_init_job_desc_msg || !slurm_update_job
	    || holding_ask (job_id, &holding) < 0 || holding.uid != uid
	    || !holding.is_running)
		return;
	settings_read (argc, argv, &settings, complain);
	token_remove (holding.licenses, &settings, rest);
	slurm_init_job_desc_msg (&change);
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
	change.step_id.job_id = job_id;
#else
	change.job_id = job_id;
#endif
	change.licenses = rest;
	if (slurm_update_job (&change) == SLURM_SUCCESS)
		report ("job %" PRIu32 " has no tokens any more: it may write anywhere",
			job_id);
	else
		report ("job %" PRIu32 " keeps its tokens, though it may write anywhere",
			job_id);
}

int
grant_make_seed (char out[GRANT_SEED_SIZE])
{
	uint64_t drawn[2];

	if (getrandom (drawn, sizeof drawn, 0) != sizeof drawn)
		return -1;
	snprintf (out, GRANT_SEED_SIZE, "%016" PRIx64 "%016" PRIx64, drawn[0], drawn[1]);
	return 0;
}

/* A name that others cannot guess: where all may write, they could make it first. The start
 * is part of it, so that a restart and a job that gets the same id again have another. */
static int
name_directory (const struct grant_request *request, char prefix[DIRECTORY_NAME_SIZE],
		char name[DIRECTORY_NAME_SIZE])
{
	const struct holding *holding = request->holding;
	char fresh[GRANT_SEED_SIZE];
	const char *seed = request->seed;
	uint64_t key[2];

	if (!seed && grant_make_seed (fresh) == 0)
		seed = fresh;
	if (!seed || sscanf (seed, "%16" SCNx64 "%16" SCNx64, &key[0], &key[1]) != 2)
		return -1;
	snprintf (prefix, DIRECTORY_NAME_SIZE, "job-%" PRIu32 ".%" PRIu32 "-%" PRId64 "-",
		  holding->job_id, holding->restarts, holding->start);
	snprintf (name, DIRECTORY_NAME_SIZE, "%s%016" PRIx64, prefix,
		  siphash (key, (const unsigned char *)prefix, strlen (prefix)));
	return 0;
}

static int
make_directory (const struct grant_request *request, const struct settings *settings,
		const struct lane *lane, const struct placed_lane *placed,
		struct directory_request *directory, char found[DIRECTORY_NAME_SIZE])
{
	const char *words[BACKEND_WORDS];
	char why[128], count[16];

	backend_command (settings, placed, count, words);
	directory->uid = request->holding->uid;
	directory->file_system = placed->path;
	directory->words = words;
	directory->timeout_s = settings->timeout_s;
	if (directory_make (directory, found, why, sizeof why) == 0)
		return 0;
	report ("job %" PRIu32 " has no directory on %slane %s: %s",
		request->holding->job_id, placed->is_block ? "its targets of " : "",
		lane->name, why);
	return -1;
}

/* On the lane itself, under a name of ours. */
static int
make_usual (const struct grant_request *request, const struct settings *settings,
	    const struct lane *lane, const struct placed_lane *placed,
	    char path[IO_DIR_SIZE])
{
	char prefix[DIRECTORY_NAME_SIZE], name[DIRECTORY_NAME_SIZE];
	char found[DIRECTORY_NAME_SIZE];
	struct directory_request directory = {
		.parent = placed->path,
		.name = name,
		.may_exist = request->seed != NULL,
		.prefix = request->may_find ? prefix : NULL,
	};

	if (name_directory (request, prefix, name) < 0
	    || make_directory (request, settings, lane, placed, &directory, found) < 0)
		return -1;
	snprintf (path, IO_DIR_SIZE, "%s/%s", placed->path, found[0] ? found : name);
	return 0;
}

/* Where the user wants it: split at the last slash into parent and name. */
static int
make_wanted (const struct grant_request *request, const struct settings *settings,
	     const struct lane *lane, const struct placed_lane *placed,
	     char path[IO_DIR_SIZE])
{
	char parent[IO_DIR_SIZE], found[DIRECTORY_NAME_SIZE];

	if (io_dir_parse (request->io_dir, request->holding->job_id, path) < 0)
		return -1;
	const char *slash = strrchr (path, '/');
	snprintf (parent, sizeof parent, "%.*s", slash == path ? 1 : (int)(slash - path),
		  path);
	struct directory_request directory = { .parent = parent, .name = slash + 1 };
	return make_directory (request, settings, lane, placed, &directory, found);
}

static int
make_on (const struct grant_request *request, const struct settings *settings,
	 const struct lane *lane, const struct placed_lane *placed, char path[IO_DIR_SIZE])
{
	return request->io_dir ? make_wanted (request, settings, lane, placed, path)
			       : make_usual (request, settings, lane, placed, path);
}

enum grant_result
grant_obtain (const struct grant_request *request, struct grant *out)
{
	const struct holding *holding = request->holding;
	struct settings settings;

	settings_read (request->argc, request->argv, &settings, complain);
	const struct lane *lane = token_lane (holding->licenses, &settings);
	if (!lane)
		return GRANT_NONE;
	if (request->is_too_late)
		return GRANT_UNPLACED;

	char (*values)[IO_DIR_SIZE] = out->values;
	struct placed_lane placed;
	/* the user's own directory has a place: on a directory lane no other is possible */
	int is_fixed = request->io_dir && !settings.backend->command;
	lane_place (&settings, lane, holding->first_target,
		    is_fixed ? 0 : holding->target_count, &placed);
	int made = make_on (request, &settings, lane, &placed, values[GRANT_DIR]);
	if (made < 0 && placed.is_block) {
		/* a target of it may be full or down */
		lane_place (&settings, lane, 0, 0, &placed);
		made = make_on (request, &settings, lane, &placed, values[GRANT_DIR]);
	}
	snprintf (values[GRANT_LANE], IO_DIR_SIZE, "%s", lane->name);
	snprintf (values[GRANT_TARGETS], IO_DIR_SIZE, "%" PRIu32, placed.targets);
	snprintf (values[GRANT_JOB_ID], IO_DIR_SIZE, "%" PRIu32, holding->job_id);
	return made == 0 ? GRANT_OBTAINED : GRANT_UNPLACED;
}
