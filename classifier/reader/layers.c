#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure.h"

enum {
	KINDS = 4,	 /* of reads, or of writes, that a layer counts apart, at most */
	UNTOLD = 1 << 8, /* with the modules of a row: some of its bytes cannot be true */
};
static const int64_t max_records = 1 << 20;
static const int64_t max_count = 1ll << 60; /* no counter of a real job is larger */

/* Where the words of a record lie; 0: it has none of that. The first is its id, the second
 * the process. All have the same times, in POSIX's order. */
struct layer {
	int module;
	uint32_t version;
	uint8_t words;
	uint8_t file;  /* id of the file that it is a part of; 0: its own id is that */
	uint8_t loose; /* its id is not the file's, which it does not tell */
	uint8_t bytes_read, bytes_written, flushes, times;
	uint8_t opens[2], reads[KINDS], writes[KINDS];
	const char *name;
};

enum { COUNTERS = 2, PART_COUNTERS = 3, MPIIO_WORDS = sizeof (struct darshan_mpiio) / 8 };

/* The lowest first: what one has told of a file is not taken from the next. */
static const struct layer layers[] = {
	{ .module = DARSHAN_DFS,
	  .version = 1,
	  .words = 73,
	  .name = "DFS",
	  .bytes_read = COUNTERS + 14,
	  .bytes_written = COUNTERS + 15,
	  .times = COUNTERS + 52,
	  .opens = { COUNTERS, COUNTERS + 1 },
	  .reads = { COUNTERS + 4, COUNTERS + 5 },
	  .writes = { COUNTERS + 6, COUNTERS + 7 } },
	{ .module = DARSHAN_DAOS,
	  .version = 1,
	  .words = 87,
	  .name = "DAOS",
	  .bytes_read = COUNTERS + 24,
	  .bytes_written = COUNTERS + 25,
	  .times = COUNTERS + 64,
	  .opens = { COUNTERS, COUNTERS + 9 },
	  .reads = { COUNTERS + 1, COUNTERS + 10, COUNTERS + 18 },
	  .writes = { COUNTERS + 2, COUNTERS + 11, COUNTERS + 19 } },
	{ .module = DARSHAN_MPIIO,
	  .version = 3,
	  .words = MPIIO_WORDS,
	  .name = "MPI-IO",
	  .bytes_read = COUNTERS + MPIIO_BYTES_READ,
	  .bytes_written = COUNTERS + MPIIO_BYTES_WRITTEN,
	  .flushes = COUNTERS + MPIIO_SYNCS,
	  .times = COUNTERS + MPIIO_COUNTERS,
	  .opens = { COUNTERS + MPIIO_INDEP_OPENS, COUNTERS + MPIIO_COLL_OPENS },
	  .reads = { COUNTERS + MPIIO_INDEP_READS, COUNTERS + MPIIO_COLL_READS,
		     COUNTERS + MPIIO_SPLIT_READS, COUNTERS + MPIIO_NB_READS },
	  .writes = { COUNTERS + MPIIO_INDEP_WRITES, COUNTERS + MPIIO_COLL_WRITES,
		      COUNTERS + MPIIO_SPLIT_WRITES, COUNTERS + MPIIO_NB_WRITES } },
	{ .module = DARSHAN_PNETCDF_VAR,
	  .version = 1,
	  .words = 140,
	  .name = "PNETCDF_VAR",
	  .file = 2,
	  .bytes_read = PART_COUNTERS + 7,
	  .bytes_written = PART_COUNTERS + 8,
	  .times = PART_COUNTERS + 120,
	  .reads = { PART_COUNTERS + 1, PART_COUNTERS + 3, PART_COUNTERS + 5 },
	  .writes = { PART_COUNTERS + 2, PART_COUNTERS + 4, PART_COUNTERS + 6 } },
	{ .module = DARSHAN_PNETCDF_FILE,
	  .version = 3,
	  .words = 19,
	  .name = "PNETCDF_FILE",
	  .bytes_read = COUNTERS + 6,
	  .bytes_written = COUNTERS + 7,
	  .flushes = COUNTERS + 5,
	  .opens = { COUNTERS, COUNTERS + 1 } },
	{ .module = DARSHAN_PNETCDF_FILE,
	  .version = 2,
	  .words = 8,
	  .name = "PNETCDF_FILE",
	  .opens = { COUNTERS, COUNTERS + 1 } },
	{ .module = DARSHAN_PNETCDF_FILE,
	  .version = 1,
	  .words = 6,
	  .name = "PNETCDF_FILE",
	  .opens = { COUNTERS, COUNTERS + 1 } },
	{ .module = DARSHAN_H5D,
	  .version = 2,
	  .words = 114,
	  .name = "H5D",
	  .file = 2,
	  .bytes_read = PART_COUNTERS + 4,
	  .bytes_written = PART_COUNTERS + 5,
	  .flushes = PART_COUNTERS + 3,
	  .times = PART_COUNTERS + 94,
	  .reads = { PART_COUNTERS + 1 },
	  .writes = { PART_COUNTERS + 2 } },
	{ .module = DARSHAN_H5D,
	  .version = 1,
	  .words = 113,
	  .name = "H5D",
	  .loose = 1,
	  .bytes_read = COUNTERS + 4,
	  .bytes_written = COUNTERS + 5,
	  .flushes = COUNTERS + 3,
	  .times = COUNTERS + 94,
	  .reads = { COUNTERS + 1 },
	  .writes = { COUNTERS + 2 } },
	{ .module = DARSHAN_H5F,
	  .version = 3,
	  .words = 10,
	  .name = "H5F",
	  .opens = { COUNTERS } },
	{ .module = DARSHAN_H5F,
	  .version = 2,
	  .words = 7,
	  .name = "H5F",
	  .opens = { COUNTERS } },
	{ .module = DARSHAN_H5F,
	  .version = 1,
	  .words = 5,
	  .name = "H5F",
	  .opens = { COUNTERS } },
};

/* Modules with no bytes that are not told elsewhere, besides those that are read. */
static const uint64_t tell_no_bytes = 1ull << DARSHAN_POSIX | 1ull << DARSHAN_STDIO
				      | 1ull << DARSHAN_MPIIO | 1ull << DARSHAN_BGQ
				      | 1ull << DARSHAN_LUSTRE | 1ull << DARSHAN_DXT_POSIX
				      | 1ull << DARSHAN_DXT_MPIIO | 1ull << DARSHAN_APXC
				      | 1ull << DARSHAN_APMPI | 1ull << DARSHAN_HEATMAP;

struct adding {
	const struct darshan_handle *handle;
	struct region *region;
	struct rows *rows;   /* what lower layers told */
	struct rows above;   /* what this one tells */
	struct groups files; /* of the rows; sum: bytes, count: rows */
	double of_objects;   /* bytes that DAOS took, whose files have other ids */
	struct sluice_log *log;
	struct sluice_error *err;
};

static int
out_of_memory (struct adding *a)
{
	return sluice_fail (a->err, "reading it needs too much memory");
}

static double
bytes_of (const struct sluice_file_row *row)
{
	return row->posix_bytes_read + row->posix_bytes_written + row->stdio_bytes_read
	       + row->stdio_bytes_written;
}

/* A record of a layer -> a row of its own, as if POSIX had seen it */

static double
count_at (struct adding *a, const struct layer *layer, const uint64_t *words, int place)
{
	int64_t count = (int64_t)words[place];
	if (place == 0 || count == 0 || count == -1)
		return 0;
	if (count > 0 && count <= max_count)
		return (double)count;
	char name[SLUICE_NOTE_SIZE];
	const char *what = place == layer->bytes_written ? "BYTES_WRITTEN"
			   : place == layer->bytes_read	 ? "BYTES_READ"
							 : "counters";
	snprintf (name, sizeof name, "%s %s", layer->name, what);
	sluice_log_note (a->log, name);
	return 0;
}

static double
sum_at (struct adding *a, const struct layer *layer, const uint64_t *words,
	const uint8_t *places, int count)
{
	double sum = 0;
	for (int i = 0; i < count; i++)
		sum += count_at (a, layer, words, places[i]);
	return sum;
}

/* A layer that did not count says -1, and one that failed no number. */
static double
time_at (const uint64_t *words, int place)
{
	double seconds;
	memcpy (&seconds, &words[place], sizeof seconds);
	return isfinite (seconds) && seconds > 0 ? seconds : 0;
}

static void
add_times (struct sluice_file_row *row, const struct layer *layer, const uint64_t *words)
{
	if (!layer->times)
		return;
	const uint64_t *times = words + layer->times;
	double read = time_at (times, POSIX_READ_START_TIMESTAMP);
	double write = time_at (times, POSIX_WRITE_START_TIMESTAMP);
	row->read_time += time_at (times, POSIX_READ_TIME);
	row->write_time += time_at (times, POSIX_WRITE_TIME);
	row->meta_time += time_at (times, POSIX_META_TIME);
	row->slowest_time += time_at (times, POSIX_SLOWEST_RANK_TIME);
	if (read > 0)
		row->read_start = smaller (row->read_start, read);
	if (write > 0)
		row->write_start = smaller (row->write_start, write);
	row->read_end = larger (row->read_end, time_at (times, POSIX_READ_END_TIMESTAMP));
	row->write_end
	    = larger (row->write_end, time_at (times, POSIX_WRITE_END_TIMESTAMP));
}

static int
is_untold (const struct layer *layer, const uint64_t *words)
{
	int64_t read = (int64_t)words[layer->bytes_read];
	int64_t written = (int64_t)words[layer->bytes_written];
	return layer->bytes_read
	       && (read < -1 || read > max_count || written < -1 || written > max_count);
}

/* Where in its file a layer wrote is not told: taken to be one stream, in order. */
static int
add_record (struct adding *a, const struct layer *layer, const uint64_t *words)
{
	int64_t owner = (int64_t)words[1];
	if (owner < 0)
		owner = a->log->nprocs == 1 ? 0 : -1;
	struct sluice_file_row *row = rows_find (&a->above, words[layer->file], owner);
	if (!row)
		return out_of_memory (a);
	double writes = sum_at (a, layer, words, layer->writes, KINDS);
	row->modules |= SLUICE_FROM_ABOVE | (is_untold (layer, words) ? UNTOLD : 0);
	row->posix_opens += sum_at (a, layer, words, layer->opens, 2);
	row->posix_reads += sum_at (a, layer, words, layer->reads, KINDS);
	row->posix_writes += writes;
	row->posix_seq_writes += writes;
	row->posix_consec_writes += writes;
	row->posix_flushes += count_at (a, layer, words, layer->flushes);
	row->posix_bytes_read += count_at (a, layer, words, layer->bytes_read);
	row->posix_bytes_written += count_at (a, layer, words, layer->bytes_written);
	row->max_byte_written = row->posix_bytes_written - 1;
	add_times (row, layer, words);
	return 0;
}

/* Add what a piece holds of whole records. Returns its bytes, or -1. */
static int64_t
add_piece (struct adding *a, const struct layer *layer, const struct form *old)
{
	size_t size = old ? old->size : layer->words * sizeof (uint64_t), taken = 0;
	union darshan_record room;
	for (; a->region->size - taken >= size; taken += size) {
		char *stored = a->region->bytes + taken;
		const void *record = stored;
		if (old)
			record = form_take (old, stored, a->handle->swapped, &room);
		else if (a->handle->swapped)
			swap_words (stored, size);
		if (record && add_record (a, layer, record) < 0)
			return -1;
	}
	return (int64_t)taken;
}

static int
read_records (struct adding *a, const struct layer *layer)
{
	const struct form *old = NULL;
	char what[SLUICE_NOTE_SIZE];
	snprintf (what, sizeof what, "%s records", layer->name);
	if (layer->module == DARSHAN_MPIIO)
		old = form_find (layer->module, a->handle->versions[layer->module]);
	if (region_start (a->region, a->handle->modules[layer->module], what) < 0)
		return -1;
	int64_t taken = 0, total = 0;
	int result;
	while ((result = region_read (a->region, (size_t)taken)) > 0) {
		if ((taken = add_piece (a, layer, old)) < 0)
			return -1;
		total += taken;
		if (total > max_records * layer->words * (int64_t)sizeof (uint64_t))
			return sluice_fail (a->err, "has more than %lld %s",
					    (long long)max_records, what);
	}
	return result;
}

/* What no lower layer told */

static int
find_files (struct adding *a)
{
	groups_free (&a->files);
	memset (&a->files, 0, sizeof a->files);
	for (size_t i = 0; i < a->rows->count; i++) {
		const struct sluice_file_row *row = &a->rows->rows[i];
		struct group *file = groups_find (&a->files, row->id, 0);
		if (!file)
			return out_of_memory (a);
		file->sum += bytes_of (row);
		file->count += row->modules != SLUICE_FROM_MPIIO;
	}
	return 0;
}

/* Whether a file's bytes are told by this layer alone; or, without any, the file is. 1, 0,
 * or -1 and a reason. */
static int
is_told_here (struct adding *a, const struct sluice_file_row *row)
{
	const struct group *file = groups_find (&a->files, row->id, 0);
	if (!file)
		return out_of_memory (a);
	return file->sum == 0
	       && (bytes_of (row) > 0 || row->modules & UNTOLD || file->count == 0);
}

static void
take_row (struct sluice_file_row *to, const struct sluice_file_row *from)
{
	to->modules |= SLUICE_FROM_ABOVE;
	to->posix_opens = larger (to->posix_opens, from->posix_opens);
	to->posix_reads += from->posix_reads;
	to->posix_writes += from->posix_writes;
	to->posix_seq_writes += from->posix_seq_writes;
	to->posix_consec_writes += from->posix_consec_writes;
	to->posix_flushes = larger (to->posix_flushes, from->posix_flushes);
	to->posix_bytes_read += from->posix_bytes_read;
	to->posix_bytes_written += from->posix_bytes_written;
	if (from->posix_bytes_written > 0)
		to->max_byte_written
		    = larger (to->max_byte_written, from->max_byte_written);
	to->read_time += from->read_time;
	to->write_time += from->write_time;
	to->meta_time = larger (to->meta_time, from->meta_time);
	to->slowest_time += from->slowest_time;
	to->read_start = smaller (to->read_start, from->read_start);
	to->write_start = smaller (to->write_start, from->write_start);
	to->read_end = larger (to->read_end, from->read_end);
	to->write_end = larger (to->write_end, from->write_end);
}

static int
take_rows (struct adding *a, const struct layer *layer)
{
	for (size_t i = 0; i < a->above.count; i++) {
		const struct sluice_file_row *row = &a->above.rows[i];
		int told = is_told_here (a, row);
		if (told < 0)
			return -1;
		if (!told)
			continue;
		if (row->modules & UNTOLD)
			a->log->unread |= 1ull << layer->module;
		struct sluice_file_row *to = rows_find (a->rows, row->id, row->owner);
		if (!to)
			return out_of_memory (a);
		take_row (to, row);
	}
	return find_files (a);
}

static double
bytes_above (const struct adding *a)
{
	double bytes = 0;
	for (size_t i = 0; i < a->above.count; i++)
		bytes += bytes_of (&a->above.rows[i]);
	return bytes;
}

/* Whether what a layer tells may be what a lower one does, and would count twice: where its
 * ids do not tell of the file, or DAOS, where files have others, moved as much. */
static int
is_told_below (const struct adding *a, const struct layer *layer)
{
	if (layer->loose
	    && (a->handle->modules[DARSHAN_POSIX].length > 0
		|| a->handle->modules[DARSHAN_MPIIO].length > 0))
		return 1;
	return a->of_objects > 0
	       && (layer->module == DARSHAN_DAOS || bytes_above (a) <= a->of_objects);
}

static int
read_layer (struct adding *a, const struct layer *layer)
{
	memset (&a->above, 0, sizeof a->above);
	int result
	    = rows_reserve (&a->above, 1) < 0 ? out_of_memory (a) : read_records (a, layer);
	if (result == 0 && !is_told_below (a, layer))
		result = take_rows (a, layer);
	if (layer->module == DARSHAN_DFS || layer->module == DARSHAN_DAOS)
		a->of_objects = larger (a->of_objects, bytes_above (a));
	rows_free (&a->above);
	return result;
}

/* MPI-IO's records were read before: they are read again only where they tell more. */
static int
is_worth_it (struct adding *a, const struct layer *layer)
{
	if (layer->module != DARSHAN_MPIIO)
		return a->handle->versions[layer->module] == layer->version;
	for (size_t i = 0; i < a->rows->count; i++) {
		const struct sluice_file_row *row = &a->rows->rows[i];
		const struct group *file = groups_find (&a->files, row->id, 0);
		if (row->modules & SLUICE_FROM_MPIIO && file && file->sum == 0)
			return 1;
	}
	return 0;
}

static void
note_unread (struct adding *a)
{
	uint64_t known = tell_no_bytes;
	for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
		if (a->handle->versions[layers[i].module] == layers[i].version)
			known |= 1ull << layers[i].module;
	for (int module = 0; module < DARSHAN_MODULES; module++)
		if (a->handle->modules[module].length > 0 && !(known >> module & 1))
			a->log->unread |= 1ull << module;
}

int
layers_read (const struct darshan_handle *handle, struct region *region, struct rows *rows,
	     struct sluice_log *log, struct sluice_error *err)
{
	struct adding a
	    = { .handle = handle, .region = region, .rows = rows, .log = log, .err = err };
	note_unread (&a);
	int result = 0, is_first = 1;
	for (size_t i = 0; result == 0 && i < sizeof layers / sizeof *layers; i++) {
		const struct layer *layer = &layers[i];
		if (handle->modules[layer->module].length == 0)
			continue;
		if (is_first)
			result = find_files (&a);
		is_first = 0;
		if (result == 0 && is_worth_it (&a, layer))
			result = read_layer (&a, layer);
	}
	groups_free (&a.files);
	return result;
}
