#include "grant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "directory.h"
#include "report.h"
#include "token.h"

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
