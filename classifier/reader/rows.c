#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 32, STRIDES = 4 };

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
grow (struct rows *rows)
{
	size_t capacity = rows->capacity ? 8 * rows->capacity : FIRST_ROWS;
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

static void
start (struct sluice_file_row *row, uint64_t id, int64_t owner)
{
	memset (row, 0, sizeof *row);
	row->id = id;
	row->owner = owner;
	row->posix_max_byte_read = row->posix_max_byte_written = -1;
	row->stdio_max_byte_read = row->stdio_max_byte_written = -1;
	row->posix_open_start = row->posix_read_start = row->posix_write_start = INFINITY;
	row->stdio_open_start = row->stdio_read_start = row->stdio_write_start = INFINITY;
}

static struct sluice_file_row *
row_of (struct rows *rows, uint64_t id, int64_t owner)
{
	if (rows->count == rows->capacity && grow (rows) < 0)
		return NULL;
	size_t slot = slot_of (rows, id, owner);
	if (!rows->slots[slot]) {
		start (&rows->rows[rows->count], id, owner);
		rows->slots[slot] = (uint32_t)++rows->count;
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
add_histogram (double *bins, const int64_t *counters)
{
	for (int i = 0; i < SLUICE_SIZE_BINS; i++)
		bins[i] += counted (counters[i]);
}

#define SUM(module, counter, field) row->field += counted (c[module##_##counter]);
#define LARGEST(module, counter, bytes, field)                                             \
	if (c[module##_##bytes] > 0)                                                       \
		row->field = larger (row->field, counted (c[module##_##counter]));
#define SECONDS(module, counter, field) row->field += t[module##_##counter];
#define FIRST(module, counter, field)                                                      \
	row->field = earlier (row->field, t[module##_##counter]);
#define LAST(module, counter, field)                                                       \
	row->field = larger (row->field, t[module##_##counter]);

int
rows_add_posix (struct rows *rows, const struct darshan_posix *record, int64_t owner)
{
	struct sluice_file_row *row = row_of (rows, record->base.id, owner);
	if (!row)
		return -1;
	const int64_t *c = record->counters;
	const double *t = record->times;
	double moved = counted (c[POSIX_BYTES_WRITTEN]) + counted (c[POSIX_BYTES_READ]);
	if (moved >= row->posix_bytes_written + row->posix_bytes_read)
		for (int i = 0; i < SLUICE_ACCESSES; i++) {
			row->posix_access[i] = counted (c[POSIX_ACCESS + i]);
			row->posix_access_count[i] = counted (c[POSIX_ACCESS_COUNT + i]);
		}
#define SLUICE_POSIX
#include "file_row.def"
#undef SLUICE_POSIX
	for (int i = 0; i < STRIDES; i++)
		if (c[POSIX_STRIDE + i] > 0) /* 0: contiguous, or backwards */
			row->posix_strides += counted (c[POSIX_STRIDE_COUNT + i]);
	add_histogram (row->posix_size_read, c + POSIX_SIZE_READ);
	add_histogram (row->posix_size_write, c + POSIX_SIZE_WRITE);
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
#define SLUICE_STDIO
#include "file_row.def"
#undef SLUICE_STDIO
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
	const double *t = record->times;
#define SLUICE_MPIIO
#include "file_row.def"
#undef SLUICE_MPIIO
	add_histogram (row->mpiio_size_write_agg, c + MPIIO_SIZE_WRITE);
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
