#include "reader.h"

#include "darshan.h"
#include "layers.h"
#include "names.h"
#include "rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t max_processes = 1 << 26;	 /* more than any machine has */
static const int64_t max_targets = 1 << 22;	 /* of a file */
static const int64_t max_count = 1ll << 60;	 /* no counter of a real job is larger */
static const int64_t earliest_start = 946684800; /* 2000: Darshan is younger */
static const uint32_t max_version = 16;	 /* of a module; in ten years there were five */
static const int64_t max_bins = 1 << 13; /* of a heatmap; Darshan makes 200 */

enum {
	EXE_BUFFER_SIZE
	= 1 << 16, /* the library writes up to 4 KiB and does not say how much */
};

/* Everything that reading one log needs. */
struct reading {
	const struct sluice_library *library;
	struct darshan_handle *handle;
	struct region *region;
	struct sluice_log *log;
	struct rows rows;
	double *target_bytes; /* while layouts are read: of each Lustre target */
	struct sluice_error *err;
};

static int
out_of_memory (struct reading *r)
{
	return sluice_fail (r->err, "reading it needs too much memory");
}

/* Header */

static int
check_job (struct reading *r, const struct darshan_job *job, double runtime)
{
	if (job->nprocs < 1 || job->nprocs > max_processes)
		return sluice_fail (r->err, "says that it had %lld processes",
				    (long long)job->nprocs);
	if (job->start_sec < earliest_start || job->end_sec > max_count
	    || r->log->start > r->log->end || !(runtime >= 0)
	    || runtime > (double)max_count)
		return sluice_fail (r->err,
				    "says that it ran from %lld to %lld (UTC seconds)",
				    (long long)job->start_sec, (long long)job->end_sec);
	if (job->uid < 0 || job->uid >= 1ll << 32 || job->jobid < 0)
		return sluice_fail (r->err, "says that user %lld ran it as job %lld",
				    (long long)job->uid, (long long)job->jobid);
	return 0;
}

/* What no checksum guards: the format, and the version of each module that is read. */
static int
check_versions (struct reading *r)
{
	const struct darshan_handle *handle = r->handle;
	static const int modules[] = { DARSHAN_POSIX, DARSHAN_MPIIO, DARSHAN_LUSTRE,
				       DARSHAN_STDIO, DARSHAN_HEATMAP };
	for (size_t i = 0; i < sizeof handle->version; i++)
		if (handle->version[i] && !strchr (".0123456789", handle->version[i]))
			return sluice_fail (r->err, "its header is damaged");
	for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
		uint32_t version = handle->versions[modules[i]];
		if (handle->modules[modules[i]].length > 0
		    && (version < 1 || version > max_version))
			return sluice_fail (r->err, "has version %lu of module %d",
					    (unsigned long)version, modules[i]);
	}
	return 0;
}

/* The runtime says of a forked process which parent it has, in "key=value" lines. */
static void
find_parent (struct sluice_log *log, const struct darshan_job *job)
{
	static const char key[] = "fork_parent=";
	char text[sizeof job->metadata];
	sluice_copy_text (text, sizeof text, job->metadata);
	const char *place = strstr (text, key);
	if (!place)
		return;
	place += strlen (key);
	size_t length = strspn (place, "0123456789");
	if (length < sizeof log->parent)
		memcpy (log->parent, place, length);
}

static int
read_job (struct reading *r)
{
	if (check_versions (r) < 0)
		return -1;
	struct darshan_job job;
	if (r->handle->job.length == 0 || r->handle->job.offset == 0
	    || r->library->get_job (r->handle, &job) < 0)
		return sluice_fail (r->err, "the job region is damaged");
	struct sluice_log *log = r->log;
	if (r->library->get_runtime (r->handle, job, &log->runtime) < 0)
		return sluice_fail (r->err, "the job's times are damaged");
	memcpy (log->format, r->handle->version, sizeof log->format);
	log->format[sizeof log->format - 1] = 0;
	log->uid = job.uid;
	log->jobid = job.jobid;
	log->nprocs = job.nprocs;
	log->start = (double)job.start_sec + (double)job.start_nsec * 1e-9;
	log->end = (double)job.end_sec + (double)job.end_nsec * 1e-9;
	log->partial = r->handle->partial;
	log->watched = r->handle->versions[DARSHAN_POSIX] > 0
		       || r->handle->modules[DARSHAN_POSIX].length > 0;
	find_parent (log, &job);
	return check_job (r, &job, log->runtime);
}

static int
read_exe (struct reading *r)
{
	char text[EXE_BUFFER_SIZE];
	memset (text, 0, sizeof r->log->exe); /* the library does not terminate it */
	if (r->library->get_exe (r->handle, text) < 0)
		return sluice_fail (r->err, "the name of the program is damaged");
	sluice_copy_text (r->log->exe, sizeof r->log->exe, text);
	return 0;
}

/* Records of varying size. A younger runtime may have written a version that is not known
 * here: then none, since the rest can do without. `take` returns the bytes of whole records
 * in a piece, or -1 and a reason. */
static int
read_varying (struct reading *r, int module, const char *what, uint32_t known_version,
	      int64_t (*take) (struct reading *, const char *bytes, size_t size,
			       void *context),
	      void *context)
{
	if (r->handle->modules[module].length == 0
	    || r->handle->versions[module] > known_version)
		return 0;
	if (region_start (r->region, r->handle->modules[module], what) < 0)
		return -1;
	int64_t taken = 0;
	int result;
	while ((result = region_read (r->region, (size_t)taken)) > 0)
		if ((taken = take (r, r->region->bytes, r->region->size, context)) < 0)
			return -1;
	return result;
}

enum { WORD = sizeof (uint64_t) };

static int64_t
word_at (const struct reading *r, const char *bytes, int64_t place)
{
	uint64_t word;
	memcpy (&word, bytes + place * WORD, sizeof word);
	return (int64_t)(r->handle->swapped ? __builtin_bswap64 (word) : word);
}

/* Lustre */

enum {
	LUSTRE_VERSION = 2,
	LUSTRE_HEAD = 4,      /* words: id, process, components, targets, */
	LUSTRE_HEAD_1 = 7,    /* before there were components: ..., stripe count */
	LUSTRE_COMPONENT = 9, /* words: stripe size, stripe count, ... */
};

enum { MOST_TARGETS = 64 * SLUICE_TARGET_WORDS };

static void
note_target (struct reading *r, int64_t target, double bytes)
{
	if (target < 0 || target >= MOST_TARGETS)
		return;
	r->log->targets[target / 64] |= 1ull << target % 64;
	r->target_bytes[target] += bytes;
}

static int
compare_falling (const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;
	return (left < right) - (left > right);
}

/* The fewest targets that hold all but a hundredth of the bytes: small files lie anywhere.
 * Without bytes, those that files lie on. */
static double
count_targets (const struct sluice_log *log, double *bytes)
{
	const double most = 0.99;
	double sum = 0.0, held = 0.0;
	size_t used = 0, needed = 0;

	for (size_t i = 0; i < MOST_TARGETS; i++)
		if (log->targets[i / 64] >> i % 64 & 1) {
			sum += bytes[i];
			bytes[used++] = bytes[i];
		}
	if (sum <= 0.0)
		return (double)used;
	qsort (bytes, used, sizeof *bytes, compare_falling);
	while (needed < used && held < most * sum)
		held += bytes[needed++];
	return (double)needed;
}

/* Return how many of the targets are in use. Components that are not have no size. */
static int64_t
targets_used (const struct reading *r, const char *bytes, int64_t components,
	      struct file *file)
{
	int64_t used = 0;
	for (int64_t i = 0; i < components; i++) {
		int64_t place = LUSTRE_HEAD + i * LUSTRE_COMPONENT;
		int64_t stripes = word_at (r, bytes, place + 1);
		if (word_at (r, bytes, place) == -1)
			break;
		used += stripes > 0 && stripes <= max_targets ? stripes : 0;
		if (file && (double)stripes > file->stripe_count)
			file->stripe_count = (double)stripes;
	}
	return used;
}

/* Returns the words of the record, 0 where the piece does not hold all of it, or -1. */
static int64_t
take_layout (struct reading *r, const char *bytes, size_t size, const struct files *files)
{
	int is_old = r->handle->versions[DARSHAN_LUSTRE] == 1;
	int64_t head = is_old ? LUSTRE_HEAD_1 : LUSTRE_HEAD;
	if (size < (size_t)head * WORD)
		return 0;
	struct file *file = files_find (files, (uint64_t)word_at (r, bytes, 0));
	int64_t components = is_old ? 0 : word_at (r, bytes, 2);
	int64_t targets = word_at (r, bytes, head - 1), used = targets;
	if (targets < 0 || targets > max_targets || components < 0
	    || components > max_targets)
		return sluice_fail (r->err, "has a file on %lld Lustre targets",
				    (long long)targets);
	if (!is_old && components == 0)
		targets = used = 0;
	head += components * LUSTRE_COMPONENT;
	if (size < (size_t)(head + targets) * WORD)
		return 0;
	if (is_old && file && (double)targets > file->stripe_count)
		file->stripe_count = (double)targets;
	if (!is_old)
		used = targets_used (r, bytes, components, file);
	int64_t count = targets < used ? targets : used;
	for (int64_t i = 0; i < count; i++)
		note_target (r, word_at (r, bytes, head + i),
			     file ? file->bytes / (double)count : 0.0);
	return head + targets;
}

static int64_t
take_layouts (struct reading *r, const char *bytes, size_t size, void *files)
{
	int64_t taken = 0, words;
	while ((words = take_layout (r, bytes + taken, size - (size_t)taken, files)) > 0)
		taken += words * WORD;
	return words < 0 ? -1 : taken;
}

static int
read_layouts (struct reading *r, struct files *files)
{
	r->log->targets = calloc (SLUICE_TARGET_WORDS, sizeof *r->log->targets);
	r->target_bytes = calloc (MOST_TARGETS, sizeof *r->target_bytes);
	int result = r->log->targets && r->target_bytes
			 ? read_varying (r, DARSHAN_LUSTRE, "LUSTRE records",
					 LUSTRE_VERSION, take_layouts, files)
			 : out_of_memory (r);
	if (result == 0)
		r->log->target_count = count_targets (r->log, r->target_bytes);
	free (r->target_bytes);
	return result;
}

static int
read_files (struct reading *r)
{
	struct files files = { 0 };
	struct sluice_file_row *rows = r->rows.rows;
	int has_layouts = r->handle->modules[DARSHAN_LUSTRE].length > 0;
	if (!has_layouts && names_tell_nothing (rows, r->rows.count)) {
		names_by_id (r->handle, rows, r->rows.count);
		return 0;
	}
	if (files_of_rows (&files, rows, r->rows.count) < 0)
		return out_of_memory (r);
	int result = 0;
	if (has_layouts)
		result = read_layouts (r, &files);
	if (result == 0 && r->rows.count > 0)
		result = names_read (r->handle, r->region, rows, r->rows.count, &files,
				     r->err);
	files_into_rows (&files, rows, r->rows.count);
	files_free (&files);
	return result;
}

/* Heatmap */

enum { HEATMAP_VERSION = 1, HEATMAP_HEAD = 6 /* words: id, process, width, bins, ... */ };

/* What saw the bytes. What passes MPI-IO passes POSIX or DAOS, too, and each byte is to be
 * seen once: of the latter the first that saw any counts. */
enum seen { BY_STREAMS, BY_FILES, BY_OBJECTS, BY_MPIIO, SEEN };

struct bins {
	double seconds; /* of a bin */
	int64_t count, room;
	double *moved; /* written and read, bin by bin */
};

/* By Darshan's hash of the name. */
static int
seen_by (uint64_t id)
{
	switch (id) {
	case 3989511027826779520u: /* heatmap:STDIO */
		return BY_STREAMS;
	case 16592106915301738621u: /* heatmap:POSIX */
	case 1597927878319380788u:  /* heatmap:DFS */
		return BY_FILES;
	case 4131494093108637317u: /* heatmap:DAOS */
		return BY_OBJECTS;
	case 3668870418325792824u: /* heatmap:MPIIO */
		return BY_MPIIO;
	default:
		return SEEN;
	}
}

/* The bin of this width in which a narrower one lies. */
static int64_t
bin_over (int64_t bin, double seconds, double width)
{
	return (int64_t)(((double)bin + 0.5) * (seconds / width));
}

static void
widen (struct bins *bins, double width)
{
	for (int64_t i = 0; i < bins->count; i++) {
		int64_t to = bin_over (i, bins->seconds, width);
		for (int way = 0; way < 2; way++) {
			double moved = bins->moved[2 * i + way];
			bins->moved[2 * i + way] = 0;
			bins->moved[2 * to + way] += moved;
		}
	}
	if (bins->count > 0)
		bins->count = bin_over (bins->count - 1, bins->seconds, width) + 1;
	bins->seconds = width;
}

static int
lengthen (struct bins *bins, int64_t count)
{
	if (count > bins->room) {
		double *more
		    = realloc (bins->moved, (size_t)count * 2 * sizeof *bins->moved);
		if (!more)
			return -1;
		memset (more + 2 * bins->room, 0,
			(size_t)(count - bins->room) * 2 * sizeof *more);
		bins->moved = more;
		bins->room = count;
	}
	if (count > bins->count)
		bins->count = count;
	return 0;
}

/* Have bins of this width or wider, as many as so many of this width need. Processes begin
 * theirs with the job, and have as many as they lived, and as wide. */
static int
make_bins (struct bins *bins, double width, int64_t count)
{
	if (bins->count == 0)
		bins->seconds = width;
	if (width > bins->seconds)
		widen (bins, width);
	return lengthen (bins, bin_over (count - 1, width, bins->seconds) + 1);
}

static int
add_heatmap (struct reading *r, const char *bytes, double width, int64_t count,
	     struct bins *bins)
{
	if (make_bins (bins, width, count) < 0)
		return out_of_memory (r);
	for (int64_t i = 0; i < 2 * count; i++) { /* first all written ones */
		int64_t moved = word_at (r, bytes, i);
		int64_t to = bin_over (i % count, width, bins->seconds);
		bins->moved[2 * to + i / count] += moved > 0 ? (double)moved : 0;
	}
	return 0;
}

static int64_t
take_heatmap (struct reading *r, const char *bytes, size_t size, struct bins *bins)
{
	double width;
	if (size < HEATMAP_HEAD * WORD)
		return 0;
	int64_t bits = word_at (r, bytes, 2), count = word_at (r, bytes, 3);
	memcpy (&width, &bits, sizeof width);
	if (count < 1 || count > max_bins || !(width > 0) || width > (double)max_count)
		return sluice_fail (r->err, "has a heatmap of %lld bins of %g s",
				    (long long)count, width);
	int64_t words = HEATMAP_HEAD + 2 * count;
	if (size < (size_t)words * WORD)
		return 0;
	int seen = seen_by ((uint64_t)word_at (r, bytes, 0));
	if (seen < SEEN
	    && add_heatmap (r, bytes + HEATMAP_HEAD * WORD, width, count, &bins[seen]) < 0)
		return -1;
	return words;
}

static int64_t
take_heatmaps (struct reading *r, const char *bytes, size_t size, void *bins)
{
	int64_t taken = 0, words;
	while ((words = take_heatmap (r, bytes + taken, size - (size_t)taken, bins)) > 0)
		taken += words * WORD;
	return words < 0 ? -1 : taken;
}

static int
has_moved (const struct bins *bins)
{
	for (int64_t i = 0; i < 2 * bins->count; i++)
		if (bins->moved[i] > 0)
			return 1;
	return 0;
}

static int
add_bins (struct bins *to, const struct bins *from)
{
	if (from->count == 0)
		return 0;
	if (make_bins (to, from->seconds, from->count) < 0)
		return -1;
	for (int64_t i = 0; i < from->count; i++) {
		int64_t place = bin_over (i, from->seconds, to->seconds);
		to->moved[2 * place] += from->moved[2 * i];
		to->moved[2 * place + 1] += from->moved[2 * i + 1];
	}
	return 0;
}

static int
bins_into_log (struct reading *r, const struct bins *bins)
{
	struct sluice_log *log = r->log;
	if (bins->count == 0)
		return 0;
	log->bins_written = calloc ((size_t)bins->count, sizeof *log->bins_written);
	log->bins_read = calloc ((size_t)bins->count, sizeof *log->bins_read);
	if (!log->bins_written || !log->bins_read)
		return out_of_memory (r);
	log->bins = bins->count;
	log->bin_seconds = bins->seconds;
	for (int64_t i = 0; i < bins->count; i++) {
		log->bins_written[i] = bins->moved[2 * i];
		log->bins_read[i] = bins->moved[2 * i + 1];
	}
	return 0;
}

static int
read_heatmap (struct reading *r)
{
	struct bins bins[SEEN] = { 0 };
	int result = read_varying (r, DARSHAN_HEATMAP, "HEATMAP records", HEATMAP_VERSION,
				   take_heatmaps, bins);
	int lowest = BY_FILES;
	while (lowest < BY_MPIIO && !has_moved (&bins[lowest]))
		lowest++;
	if (!has_moved (&bins[lowest]))
		lowest = BY_FILES;
	if (result == 0 && add_bins (&bins[BY_STREAMS], &bins[lowest]) < 0)
		result = out_of_memory (r);
	if (result == 0)
		result = bins_into_log (r, &bins[BY_STREAMS]);
	for (int i = 0; i < SEEN; i++)
		free (bins[i].moved);
	return result;
}

/* The whole log */

/* Regions follow each other from the header to the end of the file, in all formats. */
static int64_t
size_told (const struct darshan_handle *handle)
{
	uint64_t told = handle->job.offset + handle->job.length + handle->names.length;
	for (int module = 0; module < DARSHAN_MODULES; module++)
		told += handle->modules[module].length;
	return (int64_t)told;
}

static int
read_all (struct reading *r)
{
	if (read_job (r) < 0 || read_exe (r) < 0
	    || records_read (r->library, r->handle, r->region, &r->rows, r->log, r->err) < 0
	    || layers_read (r->handle, r->region, &r->rows, r->log, r->err) < 0
	    || read_files (r) < 0)
		return -1;
	return read_heatmap (r);
}

/* The wheel's library has no bzip2, and says of such a log no more than that it failed. */
static int
is_bzip2 (const char *path)
{
	static const char magic[] = { '7', '5', 'd', 0, 0, 0, 0, 0 };
	static const char swapped[] = { 0, 0, 0, 0, 0, 'd', '5', '7' };
	enum { MAGIC = 8, COMPRESSION = 16, BZIP2 = 1 };
	char head[COMPRESSION + 1];
	FILE *file = fopen (path, "rb");
	if (!file)
		return 0;
	size_t got = fread (head, 1, sizeof head, file);
	fclose (file);
	return got == sizeof head && head[COMPRESSION] == BZIP2
	       && (memcmp (head + MAGIC, magic, sizeof magic) == 0
		   || memcmp (head + MAGIC, swapped, sizeof swapped) == 0);
}

static int
not_opened (const char *path, struct sluice_error *err)
{
	if (is_bzip2 (path))
		return sluice_fail (err, "compressed by bzip2; darshan-convert makes it a "
					 "log that can be read");
	return sluice_fail (err, "not a Darshan log, or its header is damaged");
}

int
sluice_log_read (const struct sluice_library *library, const char *path,
		 struct sluice_log *log, struct sluice_error *err)
{
	struct region region;
	struct reading r
	    = { .library = library, .region = &region, .log = log, .err = err };
	memset (log, 0, sizeof *log);
	errno = 0; /* the library prints it, though no call may have failed */
	r.handle = library->open (path);
	if (!r.handle)
		return not_opened (path, err);
	log->size = size_told (r.handle);
	int result = region_open (&region, library, r.handle, err);
	if (result == 0)
		result = read_all (&r);
	region_close (&region);
	library->close (r.handle);
	rows_finish (&r.rows);
	log->rows = r.rows.rows;
	log->row_count = (int64_t)r.rows.count;
	return result;
}

void
sluice_log_free (struct sluice_log *log)
{
	free (log->rows);
	free (log->targets);
	free (log->bins_written);
	free (log->bins_read);
	log->rows = NULL;
	log->targets = NULL;
	log->bins_written = log->bins_read = NULL;
}

void
sluice_log_note (struct sluice_log *log, const char *counter)
{
	size_t used = strlen (log->notes), length = strlen (counter);
	for (const char *place = log->notes; (place = strstr (place, counter)); place++)
		if ((place == log->notes || place[-1] == ' ')
		    && (place[length] == 0 || place[length] == ','))
			return;
	if (used + length + sizeof ", " < sizeof log->notes)
		snprintf (log->notes + used, sizeof log->notes - used, "%s%s",
			  used > 0 ? ", " : "", counter);
}

static int64_t
scan (const struct sluice_library *library, struct darshan_handle *handle)
{
	static const int modules[] = { DARSHAN_POSIX, DARSHAN_MPIIO, DARSHAN_LUSTRE,
				       DARSHAN_STDIO, DARSHAN_HEATMAP };
	struct darshan_job job;
	int64_t count = 0;
	if (library->get_job (handle, &job) < 0 || !library->get_record || !library->free)
		return -1;
	for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
		void *record = NULL;
		for (; library->get_record (handle, modules[i], &record) > 0; count++) {
			library->free (record);
			record = NULL;
		}
	}
	return count;
}

int64_t
sluice_log_scan (const struct sluice_library *library, const char *path)
{
	struct darshan_handle *handle = library->open (path);
	if (!handle)
		return -1;
	int64_t count = scan (library, handle);
	library->close (handle);
	return count;
}
