/*
 * The plugin's arguments in plugstack.conf, the only configuration it has: on
 * configless clusters a compute node gets no other file.
 *
 *   backend=NAME      directory (the default), moosefs or lustre
 *   lane=NAME:PATH:TARGETS[:PLACEMENT]     one a lane, as in sluice.conf
 *       PATH          where the jobs' directories are made; jobs' users may
 *                     write there, and as in /tmp it has the sticky bit
 *       TARGETS       how many storage targets the lane has
 *       PLACEMENT     moosefs: the storage class; lustre: a pool, or a list of
 *                     OST indices such as 0,1,2 or 0-3
 *   command=PATH      the backend's command, if it is not in its usual place
 *   timeout=SECONDS   how long that command may take, 1 to 600, 10 by default
 *
 * An argument that makes no sense is left out and reported; the rest counts.
 */
#ifndef SLUICE_SETTINGS_H
#define SLUICE_SETTINGS_H

#include "base.h"

enum { SETTINGS_PATH_SIZE = 256 };

struct backend;

struct lane {
	char name[SLUICE_NAME_SIZE];
	char path[SETTINGS_PATH_SIZE];
	char placement[SETTINGS_PATH_SIZE];
	uint32_t targets;
};

struct settings {
	const struct backend *backend;
	char command[SETTINGS_PATH_SIZE]; /* empty: the backend needs none */
	uint32_t timeout_s;
	uint32_t lane_count;
	struct lane lanes[SLUICE_MAX_LANES];
};

/* Called with each argument that is left out, and why. */
typedef void settings_complain (const char *argument, const char *why);

void settings_read (int argc, char **argv, struct settings *settings,
		    settings_complain *complain);

#endif
