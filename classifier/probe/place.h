/*
 * Where the probe writes: one fresh directory of its own in each directory that
 * it was given. It never touches anything else, and leaves room on every file
 * system for other users.
 */
#ifndef SLUICE_PROBE_PLACE_H
#define SLUICE_PROBE_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "options.h"

struct place {
	char *path;   /* of the fresh directory */
	int fd;	      /* of the fresh directory */
	dev_t device; /* its file system */
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
	unsigned takers; /* for as many at the same moment there must be room */
};

/* Nothing as yet. Where it was known before the start how much process `number` needs,
 * it was found to fit together with that of the others; else they may all take at once. */
struct allowance place_allowance (const struct options *options, unsigned number);

/* Before a process adds to a file system. Ends the process with EXIT_FULL rather
 * than let less free than options->leave. */
void place_reserve (const struct place *place, const struct options *options,
		    struct allowance *allowance, uint64_t bytes, unsigned files);

#endif
