/*
 * Where the probe writes: one fresh directory of its own in each directory that
 * it was given. It never touches anything else, and leaves room on every file
 * system for those who live there.
 */
#ifndef SLUICE_PROBE_PLACE_H
#define SLUICE_PROBE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

struct place {
	char *path; /* of the fresh directory */
	int fd;	    /* of the fresh directory */
};

/* Make the fresh directories, all or none. Ends the program when one cannot be
 * made, or when the volume asked for would not fit. */
struct place *places_make (const struct options *options);

/* Remove the directories with all that is in them, unless they are to be kept;
 * and forget them. */
void places_remove (struct place *places, const struct options *options);

/* A process's leave to use a file system, given in instalments. */
struct allowance {
	uint64_t bytes;
	uint64_t files;
};

/* Before a process adds to a file system. Ends the process with EXIT_FULL rather
 * than let less free than options->leave. */
void place_reserve (const struct place *place, const struct options *options,
		    struct allowance *allowance, uint64_t bytes, unsigned files);

#endif
