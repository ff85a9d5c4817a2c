#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "region.h"

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
	row->max_byte_written = row->max_byte_read = -1;
	row->read_start = row->write_start = INFINITY;
}

struct sluice_file_row *
rows_find (struct rows *rows, uint64_t id, int64_t owner)
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
		if (c[MODULE##_BYTES_READ] > 0)                                            \
			row->max_byte_read = larger (row->max_byte_read,                   \
						     counted (c[MODULE##_MAX_BYTE_READ])); \
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
	struct sluice_file_row *row = rows_find (rows, record->base.id, owner);
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
	row->consec_reads += counted (c[POSIX_CONSEC_READS]);
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
	struct sluice_file_row *row = rows_find (rows, record->base.id, owner);
	if (!row)
		return -1;
	const int64_t *c = record->counters;
	const double *t = record->times;
	double reads = counted (c[STDIO_READS]), opens = counted (c[STDIO_OPENS]);
	row->consec_reads += larger (reads - opens - counted (c[STDIO_SEEKS]), 0);
	row->stdio_opens += opens;
	row->stdio_fdopens += counted (c[STDIO_FDOPENS]);
	row->stdio_reads += reads;
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
	struct sluice_file_row *row = rows_find (rows, record->base.id, owner);
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

void
rows_free (struct rows *rows)
{
	rows_finish (rows);
	free (rows->rows);
	rows->rows = NULL;
}

static const int64_t max_records = 1 << 22; /* of one module: 3 GiB of POSIX records */
static const int64_t max_count = 1ll << 60; /* no counter of a real job is larger */

struct reading {
	const struct sluice_library *library;
	const struct darshan_handle *handle;
	struct region *region;
	struct rows *rows;
	struct sluice_log *log;
	struct sluice_error *err;
};

/* What a record may say
 *
 * What cannot be true is not counted, and noted: runtimes had errors, which would else cost
 * whole logs. Only where how much was moved, and when, is not true there is nothing left.
 */

/* Counters first to end - 1 must be counts, or -1 where the runtime did not count: plus 1,
 * none has one of the four highest bits. Looking at all of them at once costs the least. */
static int
are_counts (const int64_t *counters, int first, int end)
{
	uint64_t bits = 0;
	for (int i = first; i < end; i++)
		bits |= (uint64_t)counters[i] + 1;
	return !(bits >> 60);
}

static int
is_count (int64_t counter)
{
	return counter >= -1 && counter <= max_count;
}

static void
note (struct reading *r, const char *module, const char *const *names, int counter)
{
	char text[SLUICE_NOTE_SIZE];
	snprintf (text, sizeof text, "%s %s", module, strchr (names[counter], '_') + 1);
	sluice_log_note (r->log, text);
}

static void
clean_counters (struct reading *r, const char *module, const char *const *names,
		int64_t *counters, int first, int end)
{
	for (int i = first; i < end; i++)
		if (!is_count (counters[i])) {
			note (r, module, names, i);
			counters[i] = 0;
		}
}

static int
refuse_counter (struct reading *r, const char *module, const char *const *names,
		const int64_t *counters, const int *needed)
{
	for (; *needed >= 0; needed++)
		if (!is_count (counters[*needed]))
			return sluice_fail (r->err, "counts %lld %s %s",
					    (long long)counters[*needed], module,
					    strchr (names[*needed], '_') + 1);
	return 0;
}

/* A double is infinite or no number when all bits of its exponent are set, so that one more
 * in its lowest place carries into the sign's; and less than 0 with that bit alone. */
static int
are_times (const double *times, int count)
{
	const uint64_t exponent = 0x7ff0000000000000u;
	uint64_t carry = 0;
	for (int i = 0; i < count; i++) {
		uint64_t bits;
		memcpy (&bits, &times[i], sizeof bits);
		carry |= ((bits & exponent) + 0x0010000000000000u) | bits;
	}
	return !(carry >> 63);
}

/* Likewise of times: -1, and the sum of several, says that the runtime did not measure. */
static int
clean_times (struct reading *r, const char *module, double *times, int count,
	     const int *needed)
{
	if (are_times (times, count))
		return 0;
	for (; *needed >= 0; needed++)
		if (!isfinite (times[*needed]))
			return sluice_fail (r->err, "has %s times that are not numbers",
					    module);
	for (int i = 0; i < count; i++) {
		char text[SLUICE_NOTE_SIZE];
		if (isfinite (times[i]) && times[i] >= 0)
			continue;
		snprintf (text, sizeof text, "%s times", module);
		if (!isfinite (times[i]))
			sluice_log_note (r->log, text);
		times[i] = 0;
	}
	return 0;
}

/* Left out of the rules: hashes, modes, ranks, differences, alignments, and sizes of
 * accesses, which old runtimes leave undefined where their count is 0. */
struct span {
	int first, end;
};

static int
clean (struct reading *r, const char *module, const char *const *names, int64_t *counters,
       const struct span *spans, size_t count, const int *needed)
{
	int clean = 1;
	for (size_t i = 0; i < count; i++)
		clean &= are_counts (counters, spans[i].first, spans[i].end);
	if (clean)
		return 0;
	if (refuse_counter (r, module, names, counters, needed) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		clean_counters (r, module, names, counters, spans[i].first, spans[i].end);
	return 1;
}

/* Where detail contradicts its total, the total counts. */
static void
clean_accesses (struct reading *r, int64_t *c)
{
	static const int in_order[] = { POSIX_SEQ_WRITES, POSIX_CONSEC_WRITES };
	const char *const *names = r->library->posix_counters;
	int64_t writes = c[POSIX_WRITES];
	double accesses = counted (writes) + counted (c[POSIX_READS]), common = 0;
	for (size_t i = 0; writes > 0 && i < sizeof in_order / sizeof *in_order; i++)
		if (c[in_order[i]] > writes || c[in_order[i]] < -1) {
			note (r, "POSIX", names, in_order[i]);
			c[in_order[i]] = writes;
		}
	for (int i = 0; i < SLUICE_ACCESSES; i++)
		common += counted (c[POSIX_ACCESS_COUNT + i]);
	if (!(accesses > 0) || common <= accesses)
		return;
	note (r, "POSIX", names, POSIX_ACCESS_COUNT);
	memset (c + POSIX_ACCESS_COUNT, 0, SLUICE_ACCESSES * sizeof *c);
}

/* A file is at least as long as what was written to it in one go; without its length it is
 * taken to be written once. */
static void
clean_length (struct reading *r, const char *module, const char *const *names,
	      int64_t *counters, int length, int written)
{
	if (is_count (counters[length]))
		return;
	note (r, module, names, length);
	counters[length] = is_count (counters[written]) ? counters[written] - 1 : 0;
}

static int
clean_posix (struct reading *r, struct darshan_posix *record)
{
	static const struct span spans[] = {
		{ 0, POSIX_RENAMED_FROM },
		{ POSIX_BYTES_READ, POSIX_MEM_ALIGNMENT },
		{ POSIX_FILE_NOT_ALIGNED, POSIX_FILE_ALIGNMENT },
		{ POSIX_MAX_READ_TIME_SIZE, POSIX_STRIDE },
		{ POSIX_ACCESS_COUNT, POSIX_FASTEST_RANK },
	};
	static const int needed[]
	    = { POSIX_READS, POSIX_WRITES, POSIX_BYTES_READ, POSIX_BYTES_WRITTEN, -1 };
	static const int when[] = { POSIX_READ_START_TIMESTAMP,
				    POSIX_WRITE_START_TIMESTAMP,
				    POSIX_READ_END_TIMESTAMP,
				    POSIX_WRITE_END_TIMESTAMP,
				    POSIX_READ_TIME,
				    POSIX_WRITE_TIME,
				    -1 };
	const char *const *names = r->library->posix_counters;
	int64_t *c = record->counters;
	clean_length (r, "POSIX", names, c, POSIX_MAX_BYTE_WRITTEN, POSIX_BYTES_WRITTEN);
	clean_accesses (r, c);
	if (clean (r, "POSIX", names, c, spans, sizeof spans / sizeof *spans, needed) < 0)
		return -1;
	return clean_times (r, "POSIX", record->times, POSIX_TIMES, when);
}

static int
clean_stdio (struct reading *r, struct darshan_stdio *record)
{
	static const struct span spans[] = { { 0, STDIO_FASTEST_RANK } };
	static const int needed[]
	    = { STDIO_READS, STDIO_WRITES, STDIO_BYTES_READ, STDIO_BYTES_WRITTEN, -1 };
	static const int when[] = { STDIO_READ_START_TIMESTAMP,
				    STDIO_WRITE_START_TIMESTAMP,
				    STDIO_READ_END_TIMESTAMP,
				    STDIO_WRITE_END_TIMESTAMP,
				    STDIO_READ_TIME,
				    STDIO_WRITE_TIME,
				    -1 };
	const char *const *names = r->library->stdio_counters;
	int64_t *c = record->counters;
	clean_length (r, "STDIO", names, c, STDIO_MAX_BYTE_WRITTEN, STDIO_BYTES_WRITTEN);
	if (clean (r, "STDIO", names, c, spans, 1, needed) < 0)
		return -1;
	return clean_times (r, "STDIO", record->times, STDIO_TIMES, when);
}

/* Layers below tell how much was moved; where they do not, see layers.c. */
static int
clean_mpiio (struct reading *r, struct darshan_mpiio *record)
{
	static const struct span spans[] = {
		{ 0, MPIIO_MODE },
		{ MPIIO_BYTES_READ, MPIIO_ACCESS },
		{ MPIIO_ACCESS_COUNT, MPIIO_FASTEST_RANK },
	};
	static const int nothing[] = { -1 };
	clean (r, "MPI-IO", r->library->mpiio_counters, record->counters, spans,
	       sizeof spans / sizeof *spans, nothing);
	return clean_times (r, "MPI-IO", record->times, MPIIO_TIMES, nothing);
}

/* Standard input, output and error are no files of the job's making, unless so much is
 * written to the output that it is the job's result, redirected into one. Their ids are
 * hashes of their names, the same everywhere. */
static int
is_no_file (uint64_t id, int64_t written)
{
	static const int64_t result = 96 << 10; /* bytes; fewer are messages */
	if (id == 15920181672442173319u)
		return written < result;
	return id == 14734109647742566553u || id == 7238257241479193519u;
}

/* What becomes of a record */

/* The process behind a record; a lone process owns its shared records too. */
static int64_t
owner_of (const struct reading *r, int64_t rank)
{
	if (rank < 0)
		return r->log->nprocs == 1 ? 0 : -1;
	return rank;
}

static int
added (struct reading *r, int result)
{
	return result < 0 ? sluice_fail (r->err, "reading it needs too much memory") : 0;
}

static int
add_posix (struct reading *r, union darshan_record *record)
{
	struct darshan_posix *posix = &record->posix;
	if (clean_posix (r, posix) < 0)
		return -1;
	if (is_no_file (posix->base.id, posix->counters[POSIX_BYTES_WRITTEN]))
		return 0;
	return added (r, rows_add_posix (r->rows, posix, owner_of (r, posix->base.rank)));
}

static int
add_stdio (struct reading *r, union darshan_record *record)
{
	struct darshan_stdio *stdio = &record->stdio;
	if (clean_stdio (r, stdio) < 0)
		return -1;
	if (is_no_file (stdio->base.id, stdio->counters[STDIO_BYTES_WRITTEN]))
		return 0;
	return added (r, rows_add_stdio (r->rows, stdio, owner_of (r, stdio->base.rank)));
}

static int
add_mpiio (struct reading *r, union darshan_record *record)
{
	struct darshan_mpiio *mpiio = &record->mpiio;
	if (clean_mpiio (r, mpiio) < 0)
		return -1;
	return added (r, rows_add_mpiio (r->rows, mpiio, owner_of (r, mpiio->base.rank)));
}

/* The records of a module */

struct record_type {
	int module;
	const char *what;
	int (*add) (struct reading *, union darshan_record *);
};

static const struct record_type types[] = {
	/* in the order in which they lie in the log */
	{ DARSHAN_POSIX, "POSIX records", add_posix },
	{ DARSHAN_MPIIO, "MPI-IO records", add_mpiio },
	{ DARSHAN_STDIO, "STDIO records", add_stdio },
};

/* Add what a piece holds of whole records. Returns its bytes, or -1. */
static int64_t
add_piece (struct reading *r, const struct record_type *type, const struct form *form)
{
	struct region *region = r->region;
	union darshan_record room;
	size_t taken = 0;
	for (; region->size - taken >= form->size; taken += form->size) {
		union darshan_record *record
		    = form_take (form, region->bytes + taken, r->handle->swapped, &room);
		if (record && type->add (r, record) < 0)
			return -1;
	}
	return (int64_t)taken;
}

static int
read_module (struct reading *r, const struct record_type *type)
{
	uint32_t version = r->handle->versions[type->module];
	const struct form *form = form_find (type->module, version);
	if (!form && type->module == DARSHAN_MPIIO) {
		r->log->unread |= 1ull << DARSHAN_MPIIO;
		return 0;
	}
	if (!form)
		return sluice_fail (r->err, "has %s of version %lu, not known here",
				    type->what, (unsigned long)version);
	if (region_start (r->region, r->handle->modules[type->module], type->what) < 0)
		return -1;
	int64_t taken = 0, total = 0;
	int result;
	while ((result = region_read (r->region, (size_t)taken)) > 0) {
		if ((taken = add_piece (r, type, form)) < 0)
			return -1;
		total += taken;
		if (total > max_records * (int64_t)form->size)
			return sluice_fail (r->err, "has more than %lld %s",
					    (long long)max_records, type->what);
	}
	return result;
}

/* About how many records there are: real ones are packed into at least so many bytes. */
static size_t
expected_records (const struct darshan_handle *handle)
{
	const uint64_t packed = 12, most = 1024;
	uint64_t expected = 0;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		uint64_t length = handle->modules[types[i].module].length;
		if (length / packed > expected)
			expected = length / packed;
	}
	return (size_t)(expected < most ? expected : most);
}

int
records_read (const struct sluice_library *library, const struct darshan_handle *handle,
	      struct region *region, struct rows *rows, struct sluice_log *log,
	      struct sluice_error *err)
{
	struct reading r = { library, handle, region, rows, log, err };
	if (added (&r, rows_reserve (rows, expected_records (handle))) < 0)
		return -1;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (handle->modules[types[i].module].length > 0
		    && read_module (&r, &types[i]) < 0)
			return -1;
	return 0;
}
