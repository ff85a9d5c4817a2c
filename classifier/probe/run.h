/* All processes of the probe: started, brought to the same instant, ended. */
#ifndef SLUICE_PROBE_RUN_H
#define SLUICE_PROBE_RUN_H

#include "options.h"
#include "place.h"
#include "tally.h"

struct outcome {
	int code;     /* 0, or an enum exit_code */
	double start; /* of the I/O, seconds since the epoch */
	double end;   /* when the last process had finished its I/O */
	bool dropped; /* what was read came past a cache that was emptied before */
};

/* What all processes share. */
struct crew;

/* Everything that may fail for want of memory, before anything is on a disk. Ends
 * the program then. From here on signals wait for `run`, so that none leaves a
 * directory behind. */
struct crew *crew_create (const struct options *options);

/* Run to the end, or until a process fails or a signal tells to stop; no process
 * is left then. The tally's slices begin at the start of the I/O. */
struct outcome run (struct crew *crew, const struct options *options,
		    const struct place *places, struct tally *tally);

/* The report, as JSON lines on stdout. */

/* 0, or -1 when stdout does not take it. */
int report (const struct options *options, const struct place *places,
	    const struct tally *tally, const struct outcome *outcome);

#endif
