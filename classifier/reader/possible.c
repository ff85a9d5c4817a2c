/*
 * What no job can have done: a log that says so was damaged or made up. Checksums guard the
 * compressed parts of a log, but not its header, which says how they are to be read; and a
 * hand that alters a log can repair its checksums. Bounds are far from what machines do: a
 * true log in quarantine would be a loss, too.
 */
#include "measure.h"

#include <math.h>

static const double bytes_a_second
    = 1e12; /* of one process; the memory of a large node moves about as much */
static const double threads = 4096; /* of one process that do I/O at once */
static const double late_seconds
    = 60; /* after the end of the job, and a tenth of its run time */
static const double shortest = 1;     /* seconds; the run time is rounded before 3.41 */
static const double rounding = 1.001; /* histograms are added up with seven digits */

/* Bytes that an access in each bin of Darshan's histogram has at least, and the next one's
 * are the most. */
static const double bounds[SLUICE_SIZE_BINS + 1]
    = { 0,	 100,	   1 << 10,   10 << 10, 100 << 10, 1 << 20,
	4 << 20, 10 << 20, 100 << 20, 1u << 30, 1ll << 60 };

enum wrong {
	STRANGER,
	MORE_READS,
	MORE_READ,
	LESS_READ,
	MORE_WRITES,
	MORE_WRITTEN,
	LESS_WRITTEN,
	READ_DISORDER,
	WRITE_DISORDER,
	WRONGS,
};

static const char *const reasons[WRONGS] = {
	[MORE_READS] = "its sizes of reads tell of more reads than there were",
	[MORE_READ] = "its sizes of reads tell of more bytes than were moved",
	[LESS_READ] = "its sizes of reads tell of fewer bytes than were moved",
	[MORE_WRITES] = "its sizes of writes tell of more writes than there were",
	[MORE_WRITTEN] = "its sizes of writes tell of more bytes than were moved",
	[LESS_WRITTEN] = "its sizes of writes tell of fewer bytes than were moved",
	[READ_DISORDER] = "its first read of a file comes after the last",
	[WRITE_DISORDER] = "its first write of a file comes after the last",
};

/* Return what of a histogram contradicts the number of accesses or their bytes, as bits
 * from `first` on. */
static unsigned
wrong_sizes (const float *bins, double count, double volume, enum wrong first)
{
	double accesses = 0, least = 0, most = 0;
	if (!(count > 0))
		return 0; /* runtimes may leave counters out */
	for (int i = 0; i < SLUICE_SIZE_BINS; i++) {
		accesses += bins[i];
		least += bins[i] * bounds[i];
		most += bins[i] * bounds[i + 1];
	}
	unsigned wrong = 0;
	wrong |= (unsigned)(accesses > rounding * count);
	wrong |= (unsigned)(least > rounding * volume + 1) << 1;
	int is_whole = rounding * accesses >= count;
	wrong |= (unsigned)(is_whole && volume > rounding * most) << 2;
	return wrong << first;
}

static double
longest_of (const struct run *run)
{
	return larger (run->log->runtime, shortest);
}

void
note_row (struct run *run, const struct sluice_file_row *row)
{
	double slack = 0.1 * longest_of (run) + late_seconds; /* of a clock put back */
	unsigned wrong = (unsigned)(row->owner >= run->log->nprocs) << STRANGER;
	wrong |= wrong_sizes (row->posix_size_read, row->posix_reads, row->posix_bytes_read,
			      MORE_READS);
	wrong |= wrong_sizes (row->posix_size_write, row->posix_writes,
			      row->posix_bytes_written, MORE_WRITES);
	wrong |= (unsigned)(isfinite (row->read_start)
			    && row->read_start > row->read_end + slack)
		 << READ_DISORDER;
	wrong |= (unsigned)(isfinite (row->write_start)
			    && row->write_start > row->write_end + slack)
		 << WRITE_DISORDER;
	run->wrong |= wrong;
	run->latest = larger (run->latest, larger (row->read_end, row->write_end));
	run->reading += row->read_time;
	run->writing += row->write_time;
	run->looking += row->meta_time;
}

static int
check_moved (const struct run *run, struct sluice_error *err)
{
	const struct sluice_log *log = run->log;
	double moved
	    = sum_of (log->bins_written, log->bins) + sum_of (log->bins_read, log->bins);
	moved = larger (moved, larger (larger (run->posix_read, run->posix_written),
				       larger (run->stdio_read, run->stdio_written)));
	if (moved > bytes_a_second * longest_of (run) * run->nprocs)
		return sluice_fail (err,
				    "says that %lld processes moved %.3g bytes in %.3g s",
				    (long long)log->nprocs, moved, log->runtime);
	return 0;
}

static int
check_times (const struct run *run, struct sluice_error *err)
{
	const struct sluice_log *log = run->log;
	double longest = longest_of (run);
	if (run->latest > 1.1 * longest + late_seconds)
		return sluice_fail (err,
				    "says that files were used %.3g s after the start of a "
				    "run of %.3g s",
				    run->latest, log->runtime);
	double spent = larger (larger (run->reading, run->writing), run->looking);
	if (spent > threads * longest * run->nprocs)
		return sluice_fail (err,
				    "says that %lld processes did I/O for %.3g s in %.3g s",
				    (long long)log->nprocs, spent, log->runtime);
	return 0;
}

/* Name the first row that is not of one of the log's processes. */
static int
refuse_stranger (const struct run *run, struct sluice_error *err)
{
	const struct sluice_file_row *row = run->log->rows;
	while (row->owner < run->log->nprocs)
		row++;
	return sluice_fail (err, "has a record of process %lld, and had %lld processes",
			    (long long)row->owner, (long long)run->log->nprocs);
}

int
check_possible (const struct run *run, struct sluice_error *err)
{
	if (check_moved (run, err) < 0 || check_times (run, err) < 0)
		return -1;
	if (!run->wrong)
		return 0;
	int first = __builtin_ctz (run->wrong);
	if (first == STRANGER)
		return refuse_stranger (run, err);
	return sluice_fail (err, "%s", reasons[first]);
}
