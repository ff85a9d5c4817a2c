/*
 * What a program is fed with, reads that serve its writes and are no phase of their own:
 *
 * - The input of a stream: a file read while others are written (a copy, a compressor, a
 *   solver that reads its boundary values), or one before most of the writes that is small
 *   or soon read. It may be replaced at once.
 * - Scratch: a file of its own that it reads back while it writes others (a merge of sorted
 *   runs, an archiver's temporary file).
 * - What is changed in place: the blocks that it reads to write them again (a matrix out of
 *   core, the pages of a database).
 * - A glance at a file that is being written, as for a checksum.
 */
#include "measure.h"

#include <math.h>

static const double glance
    = 0.1; /* of the time or the number of the writes: reads below are no phase */
static const double input_deck
    = 8 << 20; /* bytes read before most are written: no phase of their own, */
static const double soon_read
    = 0.01; /* nor when that takes so little of the run, however many */

/* Of several values: the least, its rank, and the least of the others. */
struct least {
	double value, of_others;
	int64_t rank;
};

static void
lower (struct least *least, double value, int64_t rank)
{
	if (value < least->value) {
		least->of_others = least->value;
		least->value = value;
		least->rank = rank;
	} else {
		least->of_others = smaller (least->of_others, value);
	}
}

static double
least_of_others (const struct least *least, int64_t number)
{
	return number == least->rank ? least->of_others : least->value;
}

/* What feeds a run, as far as one file does not tell. */
struct feeding {
	struct least begin, end;	/* of writes; the end is negative */
	double first_write, last_write; /* of files that anything is written to */
	int written_on;			/* what is read back goes into something else */
	double deck;			/* how surely the given files are no phase */
	double most_written;		/* seconds at which half of the bytes are written */
};

static double
read_of (const struct use *use)
{
	return use->program ? 0 : use->read;
}

/* How surely a file is read while others are written: for most of what lasts less. */
static double
alongside_writes (const struct feeding *feeding, const struct use *use,
		  const struct sluice_file_row *row, int64_t number)
{
	double begin = least_of_others (&feeding->begin, number);
	double end = -least_of_others (&feeding->end, number);
	if (!(read_of (use) > 0))
		return 0;
	double common = smaller (row->read_end, end) - larger (row->read_start, begin);
	double shorter = smaller (row->read_end - row->read_start, larger (end - begin, 0));
	return clip ((ratio (larger (common, 0), shorter) - 0.5) / 0.3);
}

/* Whether a file is read and then, at once, written anew: an image that is rotated. At
 * once: after no longer than it was read, or in a small part of the time of all writes. */
static int
is_replaced (const struct feeding *feeding, const struct use *use,
	     const struct sluice_file_row *row)
{
	double took = use->read > 0 ? row->read_end - row->read_start : 0;
	double lasted = feeding->last_write - feeding->first_write;
	return row->read_start + row->read_end < row->write_start + row->write_end
	       && row->write_start - row->read_end <= larger (took, glance * lasted);
}

/* Whether a file is looked at while it is being written, as for a checksum. That lasts for
 * a moment, or takes few reads among many writes. */
static int
is_glanced_at (const struct use *use, const struct sluice_file_row *row)
{
	double lasted = row->write_end - row->write_start;
	double looked = row->read_end - row->read_start;
	return row->read_start >= row->write_start && row->read_end <= row->write_end
	       && use->read > 0
	       && (looked < glance * lasted || use->reads < glance * use->writes);
}

static int
is_own (const struct feeding *feeding, const struct use *use,
	const struct sluice_file_row *row)
{
	return use->wrote && !is_replaced (feeding, use, row);
}

static int
is_deck (const struct feeding *feeding, const struct use *use,
	 const struct sluice_file_row *row)
{
	return !is_own (feeding, use, row) && read_of (use) > 0
	       && row->read_end <= feeding->most_written;
}

/* How surely the given files are an input that is no phase: read before most is written. */
static double
how_deck (const struct run *run, const struct feeding *feeding)
{
	double bytes, seconds;
	SUM (bytes, run, is_deck (feeding, use, row), read_of (use));
	SUM (seconds, run, is_deck (feeding, use, row), row->read_time);
	seconds /= run->nprocs;
	double longest = larger (larger (run->log->runtime, seconds), 1e-9);
	double small = 1 - log2 (larger (1, bytes / input_deck)) / 3;
	double soon = 1 - log2 (larger (1, seconds / longest / soon_read));
	return larger (0, larger (small, soon));
}

/* Whether what is read back goes into something else that is written.
 *
 * A program that checks, restarts from or reduces its own output leaves nothing unread. */
static int
is_written_on (const struct run *run, const struct feeding *feeding)
{
	double back, onward;
	SUM (back, run, is_own (feeding, use, row), read_of (use));
	SUM (onward, run, use->wrote && use->read <= glance * use->written, use->written);
	return back <= SLUICE_READ_MOSTLY * onward;
}

static struct feeding
feeding_of (const struct run *run)
{
	struct feeding feeding = { .begin = { INFINITY, INFINITY, -1 },
				   .end = { INFINITY, INFINITY, -1 },
				   .first_write = INFINITY };
	double weighted;
	EACH (run, i) {
		const struct sluice_file_row *row = &run->log->rows[i];
		int wrote = run->uses[i].wrote;
		lower (&feeding.begin, row->write_start, i);
		lower (&feeding.end, wrote ? -row->write_end : INFINITY, i);
		if (wrote)
			feeding.first_write
			    = smaller (feeding.first_write, row->write_start);
	}
	feeding.last_write = -feeding.end.value;
	SUM (weighted, run, use->wrote,
	     (row->write_start + row->write_end) / 2 * use->written);
	feeding.most_written = ratio (weighted, run->recorded);
	feeding.deck = how_deck (run, &feeding);
	feeding.written_on = is_written_on (run, &feeding);
	return feeding;
}

/* How surely the reads of a file serve writes. */
static double
how_fed (const struct run *run, const struct feeding *feeding, int64_t number)
{
	const struct use *use = &run->uses[number];
	const struct sluice_file_row *row = &run->log->rows[number];
	double stream = 0, deck = 0;
	if (!is_own (feeding, use, row) || feeding->written_on)
		stream = alongside_writes (feeding, use, row, number);
	if (is_deck (feeding, use, row))
		deck = feeding->deck;
	double in_place = larger (use->again * (1 - use->truncated), use->existed);
	return larger (
	    larger (stream, deck),
	    larger (is_glanced_at (use, row), in_place * alternating (run, number)));
}

/* Tell what programs are fed with from other reads. */
void
find_supply (struct run *run)
{
	double read;
	EACH (run, i)
		run->uses[i].unfed = read_of (&run->uses[i]);
	if (run->files_written == 0 || run->read == 0
	    || run->read > SLUICE_READ_MOSTLY * run->written)
		return;
	struct feeding feeding = feeding_of (run);
	SUM (read, run, 1, read_of (use));
	EACH (run, i) {
		struct use *use = &run->uses[i];
		run->values[i] = read_of (use) * how_fed (run, &feeding, i);
		use->unfed = read_of (use) - run->values[i];
	}
	run->supplied = sum_of (run->values, run->log->row_count) / larger (1, read);
}
