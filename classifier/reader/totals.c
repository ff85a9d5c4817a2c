/* Sums over a run: bytes, operations, times, and how much of it was recorded. */
#include "measure.h"

#include <math.h>

#include "darshan.h"

static const double unrecorded
    = 96 * 1024; /* bytes alongside the recorded ones that prove nothing */
const double sluice_unseen_coverage = 0.75;
static const double invisible_coverage
    = 0.3; /* of a log whose data passed where Darshan does not look */
const double sluice_silent_coverage = 0.5;
const double sluice_enough_coverage = 0.5;
const double sluice_blind_coverage = 0.25;
const double sluice_above_coverage = 0.875;
static const double all_coverage = 0.95; /* below, the heatmap knows of more */
static const double sector = 512; /* bytes: what bypasses the cache comes in multiples */
static const double hole_writes = 64; /* bytes of a write that makes a hole, */
static const double hole = 1024;      /* and size of the file over them */

/* Modules whose records tell of bytes: not of layouts, times, traces or messages. */
static const uint64_t tell_bytes
    = ~(1ull << DARSHAN_LUSTRE | 1ull << DARSHAN_DXT_POSIX | 1ull << DARSHAN_DXT_MPIIO
	| 1ull << DARSHAN_APMPI | 1ull << DARSHAN_HEATMAP);

static double
coverage_by_heatmap (const struct run *run)
{
	const struct sluice_log *log = run->log;
	const uint64_t cut_off = 1u << DARSHAN_POSIX | 1u << DARSHAN_STDIO;
	/* The first 1,024 files are recorded; how many more there were is anybody's guess.
	 */
	double most = log->partial & cut_off ? sluice_unseen_coverage : 1.0;
	if (log->bins == 0)
		return most;
	double moved
	    = sum_of (log->bins_written, log->bins) + sum_of (log->bins_read, log->bins);
	double seen = run->written + run->read + run->program_read;
	return smaller (most, (seen + unrecorded) / (moved + unrecorded));
}

/* Whether files are opened, few of them, and not a byte of any was recorded.
 *
 * A file that was opened was used: its data passed by calls that Darshan does not see. */
static int
is_unseen (const struct run *run)
{
	return run->operations > 0 && run->operations < SLUICE_METADATA_OPERATIONS
	       && run->recorded + run->read + run->program_read == 0;
}

/* Whether a stream was opened and nothing recorded of it.
 *
 * What fortified stdio formats passes Darshan: a program that seems to read may write as
 * much. */
static int
has_silent_stream (const struct run *run)
{
	EACH (run, i) {
		const struct use *use = &run->uses[i];
		if (use->streamed && use->reads + use->writes == 0 && !use->program)
			return 1;
	}
	return 0;
}

/* Whether a log tells of no bytes, or few, of a run that may have moved many: POSIX was
 * off, or a module that tells of bytes was full or cannot be read.
 *
 * A program that calls nothing which POSIX watches leaves no other log than one that ran
 * without that module. */
static int
is_blind (const struct run *run)
{
	const struct sluice_log *log = run->log;
	return run->written + run->read + run->program_read < unrecorded
	       && (!log->watched || log->unread || log->partial & tell_bytes);
}

/* Whether most of the bytes are told by upper layers, which do not know where in a file
 * they went: what is rewritten looks as if it was appended. */
static int
is_told_from_above (struct run *run)
{
	double above;
	SUM (above, run, row->modules & SLUICE_FROM_ABOVE, use->written + use->read);
	return above > 0.5 * (run->written + run->read);
}

static void
find_coverage (struct run *run)
{
	run->coverage = coverage_by_heatmap (run);
	if (run->coverage < all_coverage)
		run->written = larger (run->written,
				       sum_of (run->log->bins_written, run->log->bins));
	run->mapped = run->stretched > run->recorded;
	if (run->mapped || is_unseen (run))
		run->coverage = smaller (run->coverage, invisible_coverage);
	else if (run->written < unrecorded && has_silent_stream (run))
		run->coverage = smaller (run->coverage, sluice_silent_coverage);
	run->blind = is_blind (run);
	if (run->blind)
		run->coverage = smaller (run->coverage, sluice_blind_coverage);
	else if (is_told_from_above (run))
		run->coverage = smaller (run->coverage, sluice_above_coverage);
}

/* Count the processes that write; all of them where they share a file. */
static double
count_writers (const struct run *run)
{
	double writers = 0;
	EACH (run, i)
		if (run->uses[i].shared && run->uses[i].wrote)
			return run->nprocs;
	for (uint32_t i = 0; i < run->processes.count; i++)
		writers += run->processes.all[i].count > 0;
	return larger (1, writers);
}

/* Add up I/O times as darshan-parser's `agg_perf_by_slowest` does: files of one process
 * count with that process, shared files with their slowest process. */
static void
add_times (struct run *run)
{
	double slowest = 0, shared;
	EACH (run, i)
		if (!run->uses[i].shared)
			slowest = larger (slowest,
					  run->processes.all[run->uses[i].process].sum);
	SUM (shared, run, use->shared,
	     row->slowest_time > 0 ? row->slowest_time : use->seconds / run->nprocs);
	run->slowest = slowest + shared;
	SUM (run->seconds, run, 1, use->seconds);
	SUM (run->metadata_seconds, run, 1, use->meta_time);
}

/* Whether a file is written through memory, which leaves no trace.
 *
 * It is made long by one tiny write at its end, nothing else is written to it, and it is
 * larger than all that is. */
static int
is_stretched (const struct use *use)
{
	return use->writes > 0 && use->writes <= 4
	       && use->written <= hole_writes * use->writes
	       && use->size > hole * use->written;
}

/* Whether a file may have been written around the cache.
 *
 * Darshan does not keep the flag, but what goes around the cache comes in whole sectors: of
 * streams and of files with odd sizes of accesses it is known that they did not. */
static int
may_be_direct (const struct sluice_file_row *row)
{
	if (!(row->posix_bytes_written > 0) || row->stdio_opens > 0)
		return 0;
	for (int i = 0; i < SLUICE_ACCESSES; i++) {
		double sectors = row->posix_access[i] / sector;
		if (row->posix_access_count[i] > 0 && sectors > floor (sectors))
			return 0;
	}
	return 1;
}

void
add_row (struct run *run, const struct use *use, const struct sluice_file_row *row)
{
	run->posix_read += row->posix_bytes_read;
	run->posix_written += row->posix_bytes_written;
	run->stdio_read += row->stdio_bytes_read;
	run->stdio_written += row->stdio_bytes_written;
	run->mpiio_written += row->mpiio_bytes_written;
	run->recorded += use->written;
	run->writes += use->writes;
	run->consecutive += row->posix_consec_writes;
	run->flushes += row->posix_flushes;
	run->operations += row->posix_stats + (use->program ? 0 : use->opens);
	run->data_files += !use->program;
	*(use->program ? &run->program_read : &run->read) += use->read;
	if (use->streamed)
		run->streamed_written += use->written;
	if (is_stretched (use))
		run->stretched += use->size;
	run->is_async |= row->mpiio_nb_writes > 0;
	run->is_direct |= may_be_direct (row);
	if (!use->wrote)
		return;
	run->files_written++;
	run->size += use->size;
	run->opens_to_write += use->opens;
	run->writes_of_written += use->writes;
	run->flushes_of_written += row->posix_flushes;
}

int
find_totals (struct run *run)
{
	run->written = run->recorded;
	add_times (run);
	find_coverage (run);
	run->writers = count_writers (run);
	if (run->read > 0 && find_chunk (run, 1, &run->read_chunk) < 0)
		return -1;
	if (run->mapped)
		return 0;
	if (run->read <= larger (SLUICE_READ_MOSTLY * run->written, unrecorded))
		return find_chunk (run, 0, &run->chunk);
	run->chunk = run->read_chunk;
	return 0;
}
