/*
 * Which pattern each file of a run follows, and which shares that makes.
 *
 * - Files that a process writes one after the other, and streams that are opened again and
 *   again for large pieces: created and closed (owc).
 * - More bytes written than the file is long, writes in no order, or gaps that no process
 *   fills, as the file was there before: rewritten in place (ws). Where the file is
 *   truncated for each rewrite, or renamed over: created again (owc).
 * - The journal of a file that is rewritten in place, made anew for each transaction of a
 *   database: rewritten as well (ws).
 * - Everything else that is written: appended (aw).
 * - Many opens and stats with few bytes behind each file: metadata.
 * - Reads: read, but for what a program is fed with (supply.c). Such a run is named by its
 *   writes. A run that reads back all that it has written, or reads much more than it
 *   writes, is named by its reads.
 */
#include "measure.h"

#include <math.h>

enum {
	OPERATION_BYTES = 6 * 1024, /* that take as long as to make or flush a file */
	OPERATIONS_A_FILE
	= 3, /* create, stat, open: with more, operations count instead of files */
	SCATTERED = 4,	   /* writes, from which gaps speak */
	TRANSACTIONS = 5,  /* flushes, from which a file may be one of a database, */
	PIECE = 16 * 1024, /* bytes: streams opened again to add fewer are logs */
	DISTANCES = 4,	   /* that Darshan keeps of a file, the commonest ones */
	LARGE
	= 2, /* first class of access sizes that is data: smaller ones may be HDF5's */
};

static const double in_turn = 0.3; /* which is flushed as often for each time that its
				      journal is made */
const double sluice_rewritten = 1.5;
static const double rewritten_band
    = 0.5; /* unsure so far around it: libraries write their headers several times */
static const double filled_first
    = 1.5; /* more of it for files of a series: fill values or moved variables, then data */
const double sluice_filled = 0.75;
static const double filled_band = 0.1;

double
alternating (const struct run *run, int64_t number)
{
	const struct use *use = &run->uses[number];
	/* where they come at random, in equal numbers, half as often */
	double pairs = smaller (use->reads, use->writes);
	double turns = ratio (run->log->rows[number].posix_turns, 2 * pairs);
	return clip ((turns - 0.65) / 0.2);
}

/* How surely a reopened file is empty when its rewrite begins.
 *
 * fopen and C++ streams truncate what they open for writing, and so does a program that
 * renames a new file over the old one. A bare open leaves no record: a program that then
 * writes without seeking has most likely truncated it; a place sought for each write is a
 * rewrite in place, and what is read and written in turns was not empty. MPI-IO opens never
 * truncate: only several writes from the start on speak for a file that was removed before.
 */
static double
how_truncated (const struct run *run, int64_t number)
{
	const struct use *use = &run->uses[number];
	const struct sluice_file_row *row = &run->log->rows[number];
	if (row->stdio_bytes_written > 0.5 * use->written || use->streamed
	    || row->posix_renames > 0)
		return 1;
	double per_open = ratio (use->writes, use->opens), likely = 1;
	if (row->mpiio_bytes_written > 0)
		likely = clip (log2 (larger (per_open, 1)) / 2);
	if (!(ratio (row->posix_seeks, use->writes) < 0.9))
		likely = 0;
	double full = use->reads > 0.5 * use->writes ? alternating (run, number) : 0;
	return likely * (1 - full);
}

/* How much a file is written in no order.
 *
 * Several variables in one file, a slice of each at a time, jump too, but always over the
 * same few distances. */
double
how_random (const struct sluice_file_row *row)
{
	double large = 0; /* writes */
	for (int i = LARGE; i < SLUICE_SIZE_BINS; i++)
		large += row->posix_size_write[i];
	if (large < 4)
		return 0;
	double in_order
	    = smaller (row->posix_seq_writes + row->posix_opens, row->posix_writes);
	/* any four jumps have at most four distances: only more of them can show an order
	 */
	double jumps = row->posix_seq_writes - row->posix_consec_writes - DISTANCES;
	double regular = clip (ratio (row->posix_strides - DISTANCES, jumps));
	double disorder = clip ((larger (large - in_order, 0) / large - 0.2) / 0.3);
	return disorder * (1 - clip ((regular - 0.6) / 0.3));
}

/* How surely a file has unwritten places, so that it was there before.
 *
 * Of processes that share a file each fills a part. Offsets of streams count on through all
 * opens. */
static double
how_scattered (const struct run *run, const struct use *use)
{
	const struct group *file = &run->files.all[use->file];
	if (use->streamed || use->writes < SCATTERED)
		return 0;
	return clip ((sluice_filled - ratio (file->sum, file->most)) / filled_band + 0.5);
}

/* How surely a C++ stream is opened anew for each of several large pieces.
 *
 * Its offsets go on counting through all opens, so that a file rewritten from the start
 * looks as if appended to. */
static double
how_pieced (const struct use *use, const struct sluice_file_row *row, double opens)
{
	if (!use->streamed || row->stdio_bytes_written > 0)
		return 0;
	double each = larger (ratio (use->written, use->opens), 1);
	return clip (opens - 2) * clip (log2 (each / PIECE) / 2);
}

/* How surely files are made one by one: two may be chance, three are a series. Two whose
 * names differ in a number are no chance. */
static double
how_successive (const struct use *use)
{
	double by_size = clip ((use->successive - 1.5) / 1.5);
	double by_name = clip ((smaller (use->successive, use->named) - 1.2) / 0.8);
	return larger (by_size, by_name);
}

static int
is_reopened (const struct use *use, double opens)
{
	return opens >= 0.5 * (use->written / larger (use->size, 1)) && opens >= 2;
}

static double
opens_of_each (const struct run *run, const struct use *use)
{
	return use->opens / (use->shared ? run->nprocs : 1);
}

static void
find_patterns (struct run *run)
{
	EACH (run, i) {
		struct use *use = &run->uses[i];
		const struct sluice_file_row *row = &run->log->rows[i];
		double overwrite = use->written / larger (use->size, 1);
		double opens = opens_of_each (run, use);
		double once = larger (how_successive (use), how_pieced (use, row, opens));
		use->again = clip ((overwrite - sluice_rewritten) / rewritten_band + 0.5);
		use->truncated = is_reopened (use, opens) ? how_truncated (run, i) : 0;
		use->existed = larger (use->random, how_scattered (run, use) * (1 - once));
		double later = clip ((overwrite - filled_first * once - sluice_rewritten)
					 / rewritten_band
				     + 0.5);
		use->ws = larger (later * (1 - use->truncated), use->existed);
		double anew = larger (use->again * use->truncated, (1 - use->ws) * once);
		use->owc = smaller (anew, 1 - use->ws);
	}
}

static int
is_emptied (const struct run *run, int64_t number)
{
	const struct use *use = &run->uses[number];
	double flushes = run->log->rows[number].posix_flushes;
	return use->owc > 0.5 && flushes >= 0.5 * use->opens && use->opens >= TRANSACTIONS;
}

/* Note of each process when its databases are written, and how often one is flushed. */
static int
find_databases (struct run *run)
{
	int found = 0;
	EACH (run, i) {
		const struct sluice_file_row *row = &run->log->rows[i];
		struct group *process = &run->processes.all[run->uses[i].process];
		if (!(run->uses[i].ws > 0.5 && row->posix_flushes >= TRANSACTIONS))
			continue;
		process->least = smaller (process->least, row->write_start);
		process->most = larger (process->most, row->write_end);
		process->flushes = larger (process->flushes, row->posix_flushes);
		found = 1;
	}
	return found;
}

/* Call rewritten what is emptied again and again as the journal of another file.
 *
 * A database saves what it is about to rewrite, flushes that, rewrites, and flushes again:
 * both files are flushed for each transaction, by one process, over the same time. */
static void
find_journals (struct run *run)
{
	if (!find_databases (run))
		return;
	EACH (run, i) {
		struct use *use = &run->uses[i];
		const struct sluice_file_row *row = &run->log->rows[i];
		const struct group *process = &run->processes.all[use->process];
		if (!is_emptied (run, i) || !(row->write_start < process->most)
		    || !(row->write_end > process->least)
		    || !(process->flushes >= in_turn * use->opens))
			continue;
		use->owc = use->truncated = 0;
		use->ws = 1;
	}
}

/* 0: no I/O to speak of; 1: enough of it. What makes a file or waits for storage weighs
 * like some KiB, however few bytes it moves. */
static double
significance_of (const struct run *run)
{
	double waits = run->opens_to_write + run->flushes_of_written;
	double felt = run->written + run->read + OPERATION_BYTES * waits;
	return clip (log2 ((felt + 1) / SLUICE_SIGNIFICANT_BYTES) + 0.5);
}

/* 1: opens and stats are all there is; fades as the bytes behind each file grow. A program
 * that flushes what it writes, or formats it, means the data, however small. */
static double
metadata_share (const struct run *run)
{
	double touched = larger (1, run->data_files), streamed = 0;
	if (run->operations < SLUICE_METADATA_OPERATIONS)
		return 0;
	EACH (run, i)
		streamed += run->uses[i].wrote && run->uses[i].streamed;
	double each = larger (run->written, run->read)
		      / larger (touched, run->operations / OPERATIONS_A_FILE);
	double few_bytes = clip (log2 (4.0 * SLUICE_METADATA_BYTES / larger (each, 1)) / 2);
	double flushed = run->flushes / larger (1, run->writes);
	double meant = larger (smaller (1, flushed), smaller (1, streamed / touched));
	return few_bytes * (1 - meant);
}

static struct sluice_shares
normal (double owc, double ws, double aw, double read)
{
	double all = owc + ws + aw + read;
	return (struct sluice_shares){ .owc = ratio (owc, all),
				       .ws = ratio (ws, all),
				       .aw = ratio (aw, all),
				       .read = ratio (read, all) };
}

/* Add metadata and nothing-to-speak-of, so that all sums to 1. */
static struct sluice_shares
whole (struct sluice_shares data, double metadata, double significance)
{
	double weight = (1 - metadata) * significance;
	struct sluice_shares all = { .owc = weight * data.owc,
				     .ws = weight * data.ws,
				     .aw = weight * data.aw,
				     .read = weight * data.read,
				     .metadata = metadata };
	all.none = larger (0, 1 - (all.owc + all.ws + all.aw + all.read + all.metadata));
	return all;
}

static void
share_bytes (struct run *run, double metadata)
{
	double owc, ws, aw, read;
	SUM (owc, run, 1, use->written * use->owc);
	SUM (ws, run, 1, use->written * use->ws);
	SUM (aw, run, 1, use->written * (1 - use->ws - use->owc));
	SUM (read, run, 1, use->unfed);
	run->of_data = normal (owc, ws, aw, read);
	run->of_bytes = whole (run->of_data, metadata, run->significance);
}

/* Share out the seconds of each file by what was done in them. */
static void
share_seconds (struct run *run, double metadata)
{
	double owc, ws, aw, read, writing, idle;
	SUM (owc, run, 1, use->writing * use->owc);
	SUM (ws, run, 1, use->writing * use->ws);
	SUM (aw, run, 1, use->writing * (1 - use->ws - use->owc));
	SUM (read, run, 1,
	     (use->program ? 0 : row->read_time) * ratio (use->unfed, use->read));
	SUM (writing, run, 1, use->writing);
	SUM (idle, run, use->written + use->read == 0, use->meta_time);
	double spent = writing + read + idle;
	double opening = metadata > 0 ? larger (metadata, ratio (idle, spent)) : metadata;
	run->of_time = whole (normal (owc, ws, aw, read), opening, run->significance);
}

static void
find_signals (struct run *run)
{
	double weight = run->recorded, reopened = 0, truncated, random;
	EACH (run, i) {
		run->successive = larger (run->successive, run->uses[i].successive);
		run->named = larger (run->named, run->uses[i].named);
		if (run->uses[i].again > 0.5
		    && is_reopened (&run->uses[i], opens_of_each (run, &run->uses[i])))
			reopened += run->uses[i].written;
	}
	SUM (truncated, run, 1, use->truncated * use->again * use->written);
	SUM (random, run, 1, use->random * use->written);
	run->reopened = ratio (reopened, weight);
	run->truncated = ratio (truncated, weight);
	run->random = ratio (random, weight);
}

int
find_behaviour (struct run *run)
{
	if (find_series (run) < 0)
		return -1;
	find_patterns (run);
	find_journals (run);
	find_supply (run);
	run->significance = significance_of (run);
	double metadata = metadata_share (run);
	share_bytes (run, metadata);
	share_seconds (run, metadata);
	find_signals (run);
	return 0;
}
