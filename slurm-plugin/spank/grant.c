#include "grant.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Where slurm_load_job wants a step's id instead of a job's (26.05), slurm.h then
 * takes either. */
#define SLURM_BACKWARD_COMPAT
#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "directory.h"
#include "settings.h"

void
report (const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start (arguments, format);
	vsnprintf (text, sizeof text, format, arguments);
	va_end (arguments);
	if (spank_context () == S_CTX_REMOTE)
		slurm_info ("sluice: %s", text);
	else
		slurm_verbose ("sluice: %s", text);
}

/* Weak: a Slurm program that does not have it must still load us. */
extern __typeof__ (slurm_load_job) slurm_load_job __attribute__ ((weak));
extern __typeof__ (slurm_free_job_info_msg) slurm_free_job_info_msg __attribute__ ((weak));

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

static enum holding_turns
turns_of (const char *admin_comment)
{
	const char *note = admin_comment ? strstr (admin_comment, "sluice(v=1,") : NULL;
	const char *end = note ? strchr (note, ')') : NULL;
	const char *turns = end ? strstr (note, ",turns=") : NULL;

	if (!turns || turns > end)
		return HOLDING_TURNS_NOT_SAID;
	return strncmp (turns, ",turns=yes", 10) == 0 ? HOLDING_TURNS_YES
						      : HOLDING_TURNS_NO;
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
		out->turns = turns_of (job->admin_comment);
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

/* The start is part of the name, so that neither a restart nor a job that gets
 * the same id again finds its name taken. */
static void
default_directory (const struct lane *lane, const struct holding *holding, char *out)
{
	snprintf (out, IO_DIR_SIZE, "%s/job-%" PRIu32 ".%" PRIu32 "-%" PRId64, lane->path,
		  holding->job_id, holding->restarts, holding->start);
}

/* Split path at its last slash into parent and name. */
static int
make_directory (const struct grant_request *request, const struct settings *settings,
		const struct lane *lane, const char *path)
{
	const char *words[BACKEND_WORDS];
	char parent[IO_DIR_SIZE], why[128];
	const char *slash = strrchr (path, '/');

	snprintf (parent, sizeof parent, "%.*s", slash == path ? 1 : (int)(slash - path),
		  path);
	backend_command (settings, lane, words);
	const struct directory_request directory = {
		.uid = request->holding->uid,
		.parent = parent,
		.name = slash + 1,
		.file_system = lane->path,
		.may_exist = request->may_exist && !request->io_dir,
		.words = words,
		.timeout_s = settings->timeout_s,
	};
	if (directory_make (&directory, why, sizeof why) == 0)
		return 0;
	report ("job %" PRIu32 " has no directory on lane %s: %s", request->holding->job_id,
		lane->name, why);
	return -1;
}

int
grant_obtain (const struct grant_request *request, struct grant *out)
{
	const struct holding *holding = request->holding;
	struct settings settings;

	settings_read (request->argc, request->argv, &settings, complain);
	const struct lane *lane = token_lane (holding->licenses, &settings);
	if (!lane)
		return -1;

	char (*values)[IO_DIR_SIZE] = out->values;
	snprintf (values[GRANT_LANE], IO_DIR_SIZE, "%s", lane->name);
	snprintf (values[GRANT_TARGETS], IO_DIR_SIZE, "%" PRIu32, lane->targets);
	snprintf (values[GRANT_JOB_ID], IO_DIR_SIZE, "%" PRIu32, holding->job_id);
	if (!request->io_dir)
		default_directory (lane, holding, values[GRANT_DIR]);
	else if (io_dir_parse (request->io_dir, holding->job_id, values[GRANT_DIR]) < 0)
		return -1;
	return make_directory (request, &settings, lane, values[GRANT_DIR]);
}
