/* One process of the probe: its files, and one operation after the other. */
#ifndef SLUICE_PROBE_WORKER_H
#define SLUICE_PROBE_WORKER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "options.h"
#include "place.h"
#include "tally.h"

struct file {
	int fd;
	uint64_t at;   /* where the next operation would begin by itself */
	uint64_t size; /* bytes that were ever in it */
};

struct worker {
	const struct options *options;
	const struct place *place;
	struct tally *tally;
	char *buffer; /* a chunk, aligned for direct I/O */
	unsigned number;
	enum pattern pattern;
	enum sync sync;
	uint64_t done; /* operations */
	/* Among those that do the same in one directory, and so share or deal out its
	 * files: how many they are, and how many come before it. */
	unsigned peers, rank;
	struct file files[MAX_FILES];
	struct allowance allowance;
	/* read: what there is, and which of it is being read */
	int source; /* directory */
	char **names;
	unsigned name_count, name_at;
	atomic_bool *dropped; /* some process cannot pass by the cache, and drops it */
};

/* What lies before the start and is not measured: make what will be read. */
void worker_prepare (struct worker *worker);

/* After all processes have prepared: open the files. */
void worker_open (struct worker *worker);

/* One turn of the pattern's loop. Returns the bytes that it moved; adds itself to
 * the tally. */
uint64_t worker_operate (struct worker *worker);

/* Flush, where the sync mode says so, and close. */
void worker_finish (struct worker *worker);

#endif
