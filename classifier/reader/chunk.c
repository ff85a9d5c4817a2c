/*
 * The size of a run's writes, or of its reads without those of program files: of the one
 * that moves most bytes.
 *
 * Darshan keeps the four commonest sizes of a file, reads and writes together, and how many
 * operations are in which class of sizes, which places the others; STDIO has only sums, so
 * there it is bytes over operations. Where no size moves a large part of the bytes, half of
 * them are moved by smaller and half by larger operations than the result.
 */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of classes: a size is in the one before the first edge that is not smaller. */
static const double lowest[SLUICE_SIZE_BINS]
    = { 1, 100, 1024, 10240, 102400, 1 << 20, 1 << 22, 10 << 20, 100 << 20, 1 << 30 };
static const double highest[SLUICE_SIZE_BINS]
    = { 100,	 1024,	   10240,     102400,  1 << 20,
	1 << 22, 10 << 20, 100 << 20, 1 << 30, 10.0 * (1 << 30) };
static const double dominant
    = 0.4; /* share of the bytes from which one size speaks for all */

/* The operations of one row of the verb that matters. */
struct operations {
	double count, volume;
	const float *of_verb, *of_other; /* classes of sizes */
	double stdio_count, stdio_volume;
};

static struct operations
operations_of (const struct sluice_file_row *row, int of_reads)
{
	if (of_reads)
		return (struct operations){ row->posix_reads,	  row->posix_bytes_read,
					    row->posix_size_read, row->posix_size_write,
					    row->stdio_reads,	  row->stdio_bytes_read };
	return (struct operations){ row->posix_writes,	   row->posix_bytes_written,
				    row->posix_size_write, row->posix_size_read,
				    row->stdio_writes,	   row->stdio_bytes_written };
}

/* Give a size, in whole bytes, the bytes that operations of it moved. */
static int
add_mass (struct groups *sizes, double size, double bytes)
{
	uint64_t key;
	if (!(bytes > 0))
		return 0;
	size = rint (size);
	memcpy (&key, &size, sizeof key);
	struct group *group = groups_find (sizes, key, 0);
	if (!group)
		return -1;
	group->most = size;
	group->sum += bytes;
	return 0;
}

static int
class_of (double size)
{
	int class = 0;
	while (class < SLUICE_SIZE_BINS - 1 && highest[class] < size)
		class ++;
	return class;
}

/* Share the bytes that no common size explains among their classes of sizes: `left`
 * operations in each. Their sizes are the middles of the classes, all scaled alike until
 * they move `rest`, within their class. Returns the number of classes, or -1. */
static int
add_classes (struct groups *sizes, const double *left, double rest)
{
	double moved[SLUICE_SIZE_BINS], size[SLUICE_SIZE_BINS];
	int found = 0;
	for (int i = 0; i < SLUICE_SIZE_BINS; i++) {
		size[i] = sqrt (lowest[i]) * sqrt (highest[i]);
		moved[i] = larger (left[i], 0) * size[i];
	}
	double scale = ratio (rest, sum_of (moved, SLUICE_SIZE_BINS));
	for (int i = 0; i < SLUICE_SIZE_BINS; i++) {
		size[i] = smaller (larger (scale * size[i], lowest[i]), highest[i]);
		moved[i] = larger (left[i], 0) * size[i];
	}
	double share = ratio (rest, sum_of (moved, SLUICE_SIZE_BINS));
	for (int i = 0; i < SLUICE_SIZE_BINS; i++) {
		if (add_mass (sizes, size[i], moved[i] * share) < 0)
			return -1;
		found += moved[i] * share > 0;
	}
	return found;
}

/* What the common sizes leave: `rest` bytes in `count` operations, `left` of each class. */
static int
add_rest (struct groups *sizes, const double *left, double rest, double count)
{
	if (!(rest > 0))
		return 0;
	int found = 0;
	for (int i = 0; i < SLUICE_SIZE_BINS; i++)
		found |= left[i] > 0;
	if (found)
		found = add_classes (sizes, left, rest);
	if (found)
		return found < 0 ? -1 : 0;
	return add_mass (sizes, rest / larger (count, 1), rest);
}

static int
add_operations (struct groups *sizes, const struct sluice_file_row *row, int of_reads)
{
	struct operations of = operations_of (row, of_reads);
	double left[SLUICE_SIZE_BINS], explained = 0, known = 0;
	for (int i = 0; i < SLUICE_SIZE_BINS; i++)
		left[i] = of.of_verb[i];
	for (int i = 0; i < SLUICE_ACCESSES; i++) {
		double size = row->posix_access[i];
		if (!(row->posix_access_count[i] > 0) || size > of.volume)
			continue;
		int class = class_of (size);
		float both = of.of_verb[class] + of.of_other[class];
		double own = both > 0 ? of.of_verb[class] / both : 0;
		double count = row->posix_access_count[i] * own;
		if (add_mass (sizes, size, count * size) < 0)
			return -1;
		explained += count * size;
		known += count;
		left[class] -= count;
	}
	if (add_rest (sizes, left, larger (of.volume - explained, 0), of.count - known) < 0)
		return -1;
	return add_mass (sizes, of.stdio_volume / larger (of.stdio_count, 1),
			 of.stdio_volume);
}

static int
by_size (const void *a, const void *b)
{
	double first = ((const struct group *)a)->most;
	double second = ((const struct group *)b)->most;
	return (first > second) - (first < second);
}

/* The dominant size, or the one in the middle of the bytes. */
static double
typical (struct groups *sizes, double *masses)
{
	double most = 0, below = 0, size = 0;
	qsort (sizes->all, sizes->count, sizeof *sizes->all, by_size);
	for (uint32_t i = 0; i < sizes->count; i++) {
		masses[i] = sizes->all[i].sum;
		if (masses[i] > most)
			size = sizes->all[i].most;
		most = larger (most, masses[i]);
	}
	double all = sum_of (masses, sizes->count);
	if (!(most < dominant * all))
		return size;
	for (uint32_t i = 0; i < sizes->count; i++)
		if ((below += masses[i]) >= all / 2)
			return sizes->all[i].most;
	return size;
}

int
find_chunk (struct run *run, int of_reads, double *chunk)
{
	struct groups sizes = { 0 };
	double *masses = NULL;
	int result = 0;
	for (int64_t i = 0; result == 0 && i < run->log->row_count; i++)
		if (!(of_reads && run->uses[i].program))
			result = add_operations (&sizes, &run->log->rows[i], of_reads);
	if (result == 0 && sizes.count > 0) {
		masses = malloc (sizes.count * sizeof *masses);
		result = masses ? 0 : -1;
	}
	if (masses)
		*chunk = typical (&sizes, masses);
	free (masses);
	groups_free (&sizes);
	return result;
}
