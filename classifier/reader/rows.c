#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 32, CLEARED_AT_ONCE = 16, STRIDES = 4 };

static size_t
slot_of (const struct rows *rows, uint64_t id, int64_t owner)
{
	/* ids are hashes already; the owner has to spread too */
	uint64_t hash = (id ^ (uint64_t)owner * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
	size_t slot = (size_t)(hash >> 32) & (rows->slot_count - 1);
	for (; rows->slots[slot]; slot = (slot + 1) & (rows->slot_count - 1)) {
		const struct sluice_file_row *row = &rows->rows[rows->slots[slot] - 1];
		if (row->id == id && row->owner == owner)
			break;
	}
	return slot;
}

static int
make_room (struct rows *rows, size_t capacity)
{
	struct sluice_file_row *larger
	    = realloc (rows->rows, capacity * sizeof *rows->rows);
	if (!larger)
		return -1;
	rows->rows = larger;
	rows->capacity = capacity;

	uint32_t *slots = calloc (2 * capacity, sizeof *slots);
	if (!slots)
		return -1;
	free (rows->slots);
	rows->slots = slots;
	rows->slot_count = 2 * capacity;
	for (size_t i = 0; i < rows->count; i++)
		slots[slot_of (rows, rows->rows[i].id, rows->rows[i].owner)]
		    = (uint32_t)i + 1;
	return 0;
}

int
rows_reserve (struct rows *rows, size_t count)
{
	size_t capacity = FIRST_ROWS; /* slots are counted by powers of two */
	while (capacity < count)
		capacity *= 2;
	return capacity > rows->capacity ? make_room (rows, capacity) : 0;
}

/* Several at once, which costs less than one by one. */
static void
clear_more (struct rows *rows)
{
	size_t more = rows->capacity - rows->cleared;
	if (more > CLEARED_AT_ONCE)
		more = CLEARED_AT_ONCE;
	memset (rows->rows + rows->cleared, 0, more * sizeof *rows->rows);
	rows->cleared += more;
}

static void
start (struct rows *rows, uint64_t id, int64_t owner)
{
	if (rows->count == rows->cleared)
		clear_more (rows);
	struct sluice_file_row *row = &rows->rows[rows->count++];
	row->id = id;
	row->owner = owner;
	row->max_byte_written = -1;
	row->read_start = row->write_start = INFINITY;
}

static struct sluice_file_row *
row_of (struct rows *rows, uint64_t id, int64_t owner)
{
	if (rows->count == rows->capacity && rows_reserve (rows, 2 * rows->count) < 0)
		return NULL;
	size_t slot = slot_of (rows, id, owner);
	if (!rows->slots[slot]) {
		start (rows, id, owner);
		rows->slots[slot] = (uint32_t)rows->count;
	}
	return &rows->rows[rows->slots[slot] - 1];
}

/* -1 says that the runtime did not count. */
static double
counted (int64_t counter)
{
	return counter > 0 ? (double)counter : 0;
}

static double
larger (double a, double b)
{
	return a > b ? a : b;
}

static double
earlier (double a, double b)
{
	return b > 0 && b < a ? b : a; /* 0: it never happened */
}

static void
add_histogram (float *bins, const int64_t *counters)
{
	int64_t bits = 0;
	for (int i = 0; i < SLUICE_SIZE_BINS; i++)
		bits |= counters[i];
	if (!bits)
		return; /* most files are only read or only written */
	for (int i = 0; i < SLUICE_SIZE_BINS; i++)
		bins[i] += counters[i] > 0 ? (float)counters[i] : 0;
}

/* What POSIX and STDIO both have, each under counters of its own. */
#define ADD_COMMON(MODULE)                                                                 \
	do {                                                                               \
		if (c[MODULE##_BYTES_WRITTEN] > 0)                                         \
			row->max_byte_written                                              \
			    = larger (row->max_byte_written,                               \
				      counted (c[MODULE##_MAX_BYTE_WRITTEN]));             \
		row->read_time += t[MODULE##_READ_TIME];                                   \
		row->write_time += t[MODULE##_WRITE_TIME];                                 \
		row->meta_time += t[MODULE##_META_TIME];                                   \
		row->slowest_time += t[MODULE##_SLOWEST_RANK_TIME];                        \
		row->read_start                                                            \
		    = earlier (row->read_start, t[MODULE##_READ_START_TIMESTAMP]);         \
		row->write_start                                                           \
		    = earlier (row->write_start, t[MODULE##_WRITE_START_TIMESTAMP]);       \
		row->read_end = larger (row->read_end, t[MODULE##_READ_END_TIMESTAMP]);    \
		row->write_end = larger (row->write_end, t[MODULE##_WRITE_END_TIMESTAMP]); \
	} while (0)

int
rows_add_posix (struct rows *rows, const struct darshan_posix *record, int64_t owner)
{
	struct sluice_file_row *row = row_of (rows, record->base.id, owner);
	if (!row)
		return -1;
	const int64_t *c = record->counters;
	const double *t = record->times;
	double read = counted (c[POSIX_BYTES_READ]);
	double written = counted (c[POSIX_BYTES_WRITTEN]);
	if (written + read >= row->posix_bytes_written + row->posix_bytes_read)
		for (int i = 0; i < SLUICE_ACCESSES; i++) {
			row->posix_access[i] = counted (c[POSIX_ACCESS + i]);
			row->posix_access_count[i]
			    = (float)counted (c[POSIX_ACCESS_COUNT + i]);
		}
	row->posix_opens += counted (c[POSIX_OPENS]);
	row->posix_opens_on_top += counted (c[POSIX_FILENOS]) + counted (c[POSIX_DUPS]);
	row->posix_reads += counted (c[POSIX_READS]);
	row->posix_writes += counted (c[POSIX_WRITES]);
	row->posix_seeks += counted (c[POSIX_SEEKS]);
	row->posix_stats += counted (c[POSIX_STATS]);
	row->posix_flushes += counted (c[POSIX_FSYNCS]) + counted (c[POSIX_FDSYNCS]);
	row->posix_renames
	    += counted (c[POSIX_RENAME_SOURCES]) + counted (c[POSIX_RENAME_TARGETS]);
	row->posix_bytes_read += read;
	row->posix_bytes_written += written;
	row->posix_consec_writes += counted (c[POSIX_CONSEC_WRITES]);
	row->posix_seq_writes += counted (c[POSIX_SEQ_WRITES]);
	row->posix_turns += counted (c[POSIX_RW_SWITCHES]);
	for (int i = 0; i < STRIDES; i++)
		if (c[POSIX_STRIDE + i] > 0) /* 0: contiguous, or backwards */
			row->posix_strides += counted (c[POSIX_STRIDE_COUNT + i]);
	add_histogram (row->posix_size_read, c + POSIX_SIZE_READ);
	add_histogram (row->posix_size_write, c + POSIX_SIZE_WRITE);
	ADD_COMMON (POSIX);
	row->modules |= SLUICE_FROM_POSIX;
	return 0;
}

int
rows_add_stdio (struct rows *rows, const struct darshan_stdio *record, int64_t owner)
{
	struct sluice_file_row *row = row_of (rows, record->base.id, owner);
	if (!row)
		return -1;
	const int64_t *c = record->counters;
	const double *t = record->times;
	row->stdio_opens += counted (c[STDIO_OPENS]);
	row->stdio_fdopens += counted (c[STDIO_FDOPENS]);
	row->stdio_reads += counted (c[STDIO_READS]);
	row->stdio_writes += counted (c[STDIO_WRITES]);
	row->stdio_bytes_read += counted (c[STDIO_BYTES_READ]);
	row->stdio_bytes_written += counted (c[STDIO_BYTES_WRITTEN]);
	ADD_COMMON (STDIO);
	row->modules |= SLUICE_FROM_STDIO;
	return 0;
}

int
rows_add_mpiio (struct rows *rows, const struct darshan_mpiio *record, int64_t owner)
{
	struct sluice_file_row *row = row_of (rows, record->base.id, owner);
	if (!row)
		return -1;
	const int64_t *c = record->counters;
	row->mpiio_bytes_written += counted (c[MPIIO_BYTES_WRITTEN]);
	row->mpiio_coll_writes
	    += counted (c[MPIIO_COLL_WRITES]) + counted (c[MPIIO_SPLIT_WRITES]);
	row->mpiio_indep_writes += counted (c[MPIIO_INDEP_WRITES]);
	row->mpiio_nb_writes += counted (c[MPIIO_NB_WRITES]);
	row->modules |= SLUICE_FROM_MPIIO;
	return 0;
}

void
rows_finish (struct rows *rows)
{
	free (rows->slots);
	rows->slots = NULL;
	rows->slot_count = 0;
}
