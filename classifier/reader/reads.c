/*
 * What a log tells of reads besides their bytes and their size: whether they come in order,
 * and what of them no server can have sent.
 *
 * Program files are no reads of the run. Of bytes that only layers above POSIX tell of it
 * is not known where in the files they lie.
 */
#include "measure.h"

#include <math.h>

static const double most_cached = 1 << 30; /* bytes of the files of a process of which a
					      node's memory surely keeps all */
static const double told = 0.5; /* share of the bytes read that speaks for the others */

static int
is_told (const struct use *use, const struct sluice_file_row *row)
{
	return use->read > 0 && !use->program && !(row->modules & SLUICE_FROM_ABOVE);
}

/* How many of the reads of a file follow the one before. The first one after an open
 * follows none: a file of such reads alone tells only where they are all of it. */
static double
in_order (const struct use *use, const struct sluice_file_row *row)
{
	double following = use->reads - use->opens;
	if (following > 0)
		return clip (row->consec_reads / following);
	return use->extent <= use->read ? 1 : NAN;
}

double
sequential_share (const struct run *run)
{
	double known, follow;
	SUM (known, run, is_told (use, row) && !isnan (in_order (use, row)), use->read);
	SUM (follow, run, is_told (use, row) && !isnan (in_order (use, row)),
	     use->read * in_order (use, row));
	return known >= told * run->read ? follow / known : NAN;
}

/* Bytes of a file that servers may have sent: each once to each process, as each may run on
 * a node of its own, but not what the process had written before. */
static double
from_servers (const struct run *run, const struct use *use,
	      const struct sluice_file_row *row)
{
	if (run->processes.all[use->process].touched > most_cached)
		return use->read;
	if (use->shared)
		return use->extent * run->nprocs;
	int wrote_first = isfinite (row->write_start) && row->read_start > row->write_start;
	return larger (use->extent - wrote_first * smaller (use->written, use->size), 0);
}

/* At least so much, unless reads bypass the cache, of which Darshan does not tell. */
double
cached_share (const struct run *run)
{
	double known, cached;
	SUM (known, run, is_told (use, row), use->read);
	SUM (cached, run, is_told (use, row),
	     larger (use->read - from_servers (run, use, row), 0));
	return known >= told * run->read ? cached / known : NAN;
}
