/*
 * What a job gets when it starts: the lane whose token it holds and a directory
 * of its own there.
 */
#ifndef SLUICE_GRANT_H
#define SLUICE_GRANT_H

#include "holding.h"
#include "io_dir.h"

enum {
	GRANT_LANE,    /* SLUICE_LANE: the lane's name */
	GRANT_TARGETS, /* SLUICE_TARGETS: how many storage targets it has */
	GRANT_DIR,     /* SLUICE_DIR: the job's own directory on them */
	GRANT_JOB_ID,  /* SLUICE_JOB_ID: the job that the others belong to */
	GRANT_VARIABLES,
};

extern const char *const grant_names[GRANT_VARIABLES];

struct grant {
	char values[GRANT_VARIABLES][IO_DIR_SIZE];
};

struct grant_request {
	const struct holding *holding; /* of the effective user's job */
	int argc;		       /* the plugin's arguments in plugstack.conf */
	char **argv;
	const char *io_dir; /* --io-dir as it was given, or NULL */
	/* 1: an earlier step of the same job may have made the directory */
	int may_exist;
};

/* Make the directory of a job that holds tokens of one lane. 0 with all values,
 * or -1: the job gets nothing, and the log says why unless that is as it should
 * be. */
int grant_obtain (const struct grant_request *request, struct grant *out);

#endif
