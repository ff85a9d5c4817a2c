#include "reader.h"

#include "darshan.h"
#include "names.h"
#include "rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const int64_t max_processes = 1 << 26;	 /* more than any machine has */
static const int64_t max_records = 1 << 22;	 /* of one module: 3 GiB of POSIX records */
static const int64_t max_count = 1ll << 60;	 /* no counter of a real job is larger */
static const int64_t earliest_start = 946684800; /* 2000: Darshan is younger */
static const uint32_t max_version = 16;	 /* of a module; in ten years there were five */
static const int64_t max_bins = 1 << 16; /* of a heatmap; Darshan makes 200 */

enum {
	EXE_BUFFER_SIZE
	= 1 << 16, /* the library writes up to 4 KiB and does not say how much */
};

/* Everything that reading one log needs. */
struct reading {
	const struct sluice_library *library;
	struct darshan_handle *handle;
	struct sluice_log *log;
	struct rows rows;
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
	for (int module = 1; module < DARSHAN_MODULES; module++)
		if (r->handle->modules[module].length > 0)
			log->modules |= 1ull << module;
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

/* Records of files */

/* Counters first to end - 1 must be counts, or -1 where the runtime did not count: plus 1,
 * none has one of the four highest bits. Looking at all of them at once costs the least. */
static int
check_counters (struct reading *r, const char *module, const char *const *names,
		const int64_t *counters, int first, int end)
{
	uint64_t bits = 0;
	for (int i = first; i < end; i++)
		bits |= (uint64_t)counters[i] + 1;
	for (int i = first; bits >> 60 && i < end; i++)
		if (counters[i] < -1 || counters[i] > max_count)
			return sluice_fail (r->err, "counts %lld %s %s",
					    (long long)counters[i], module,
					    strchr (names[i], '_') + 1);
	return 0;
}

/* A double is infinite or no number when all bits of its exponent are set, so that one more
 * in its lowest place carries into the sign's. */
static int
check_times (struct reading *r, const char *module, const double *times, int count)
{
	const uint64_t exponent = 0x7ff0000000000000u;
	uint64_t carry = 0;
	for (int i = 0; i < count; i++) {
		uint64_t bits;
		memcpy (&bits, &times[i], sizeof bits);
		carry |= (bits & exponent) + 0x0010000000000000u;
	}
	if (carry >> 63)
		return sluice_fail (r->err, "has %s times that are not numbers", module);
	return 0;
}

/* Left out of the rules: hashes, modes, ranks, differences, alignments, and sizes of
 * accesses, which old runtimes leave undefined where their count is 0. */

static int
check_posix (struct reading *r, const struct darshan_posix *record)
{
	const char *const *names = r->library->posix_counters;
	const int64_t *c = record->counters;
	if (check_counters (r, "POSIX", names, c, 0, POSIX_RENAMED_FROM) < 0
	    || check_counters (r, "POSIX", names, c, POSIX_BYTES_READ, POSIX_MEM_ALIGNMENT)
		   < 0
	    || check_counters (r, "POSIX", names, c, POSIX_FILE_NOT_ALIGNED,
			       POSIX_FILE_ALIGNMENT)
		   < 0
	    || check_counters (r, "POSIX", names, c, POSIX_MAX_READ_TIME_SIZE, POSIX_STRIDE)
		   < 0
	    || check_counters (r, "POSIX", names, c, POSIX_ACCESS_COUNT, POSIX_FASTEST_RANK)
		   < 0)
		return -1;
	return check_times (r, "POSIX", record->times, POSIX_TIMES);
}

static int
check_stdio (struct reading *r, const struct darshan_stdio *record)
{
	if (check_counters (r, "STDIO", r->library->stdio_counters, record->counters, 0,
			    STDIO_FASTEST_RANK)
	    < 0)
		return -1;
	return check_times (r, "STDIO", record->times, STDIO_TIMES);
}

static int
check_mpiio (struct reading *r, const struct darshan_mpiio *record)
{
	const char *const *names = r->library->mpiio_counters;
	const int64_t *c = record->counters;
	if (check_counters (r, "MPI-IO", names, c, 0, MPIIO_MODE) < 0
	    || check_counters (r, "MPI-IO", names, c, MPIIO_BYTES_READ, MPIIO_ACCESS) < 0
	    || check_counters (r, "MPI-IO", names, c, MPIIO_ACCESS_COUNT,
			       MPIIO_FASTEST_RANK)
		   < 0)
		return -1;
	return check_times (r, "MPI-IO", record->times, MPIIO_TIMES);
}

/* Standard input, output and error are no files of the job's making. Their ids are hashes
 * of these names, the same everywhere. */
static int
is_standard_stream (uint64_t id)
{
	return id == 14734109647742566553u || id == 15920181672442173319u
	       || id == 7238257241479193519u;
}

/* The process behind a record; a lone process owns its shared records too. */
static int64_t
owner_of (const struct reading *r, int64_t rank)
{
	if (rank < 0)
		return r->log->nprocs == 1 ? 0 : -1;
	return rank;
}

/* libdarshan-util 3.5 leaves these three times of old logs in the other byte order. */
static void
mend_times (const struct darshan_handle *handle, struct darshan_posix *record)
{
	if (!handle->swapped || handle->versions[DARSHAN_POSIX] >= 4)
		return;
	for (int i = POSIX_META_TIME; i <= POSIX_MAX_WRITE_TIME; i++) {
		uint64_t bits;
		memcpy (&bits, &record->times[i], sizeof bits);
		bits = __builtin_bswap64 (bits);
		memcpy (&record->times[i], &bits, sizeof bits);
	}
}

static int
add_posix (struct reading *r, void *bytes)
{
	struct darshan_posix *record = bytes;
	mend_times (r->handle, record);
	if (check_posix (r, record) < 0)
		return -1;
	if (is_standard_stream (record->base.id))
		return 0;
	return rows_add_posix (&r->rows, record, owner_of (r, record->base.rank)) < 0
		   ? out_of_memory (r)
		   : 0;
}

static int
add_stdio (struct reading *r, void *bytes)
{
	const struct darshan_stdio *record = bytes;
	if (check_stdio (r, record) < 0)
		return -1;
	if (is_standard_stream (record->base.id))
		return 0;
	return rows_add_stdio (&r->rows, record, owner_of (r, record->base.rank)) < 0
		   ? out_of_memory (r)
		   : 0;
}

static int
add_mpiio (struct reading *r, void *bytes)
{
	const struct darshan_mpiio *record = bytes;
	if (check_mpiio (r, record) < 0)
		return -1;
	return rows_add_mpiio (&r->rows, record, owner_of (r, record->base.rank)) < 0
		   ? out_of_memory (r)
		   : 0;
}

/* How a module's records are read; in the order in which they lie in the file. */
struct record_type {
	int module;
	const char *name;
	int (*add) (struct reading *, void *);
};

static const struct record_type record_types[] = {
	{ DARSHAN_POSIX, "POSIX", add_posix },
	{ DARSHAN_MPIIO, "MPI-IO", add_mpiio },
	{ DARSHAN_STDIO, "STDIO", add_stdio },
};

union record {
	struct darshan_posix posix;
	struct darshan_stdio stdio;
	struct darshan_mpiio mpiio;
};

static int
read_records (struct reading *r, const struct record_type *type)
{
	if (r->handle->modules[type->module].length == 0)
		return 0;
	union record record;
	for (int64_t count = 0;; count++) {
		void *place = &record;
		int result = r->library->get_record (r->handle, type->module, &place);
		if (result == 0)
			return 0;
		if (result < 0)
			return sluice_fail (r->err,
					    "the %s records are damaged after %lld of them",
					    type->name, (long long)count);
		if (count == max_records)
			return sluice_fail (r->err, "has more than %lld %s records",
					    (long long)max_records, type->name);
		if (type->add (r, &record) < 0)
			return -1;
	}
}

/* About how many records there are: real ones are packed into at least so many bytes. */
static size_t
expected_records (const struct darshan_handle *handle)
{
	const uint64_t packed = 12, most = 1024;
	uint64_t expected = 0;
	for (size_t i = 0; i < sizeof record_types / sizeof *record_types; i++) {
		uint64_t length = handle->modules[record_types[i].module].length;
		if (length / packed > expected)
			expected = length / packed;
	}
	return (size_t)(expected < most ? expected : most);
}

static int
read_all_records (struct reading *r)
{
	if (rows_reserve (&r->rows, expected_records (r->handle)) < 0)
		return out_of_memory (r);
	for (size_t i = 0; i < sizeof record_types / sizeof *record_types; i++)
		if (read_records (r, &record_types[i]) < 0)
			return -1;
	return 0;
}

/* Records of varying size, which the library allocates. A younger runtime may have written
 * a version that the library cannot read: then none, since the rest can do without. */
static int
read_allocated (struct reading *r, int module, const char *name, uint32_t known_version,
		int (*add) (struct reading *, const void *, void *), void *context)
{
	if (r->handle->modules[module].length == 0
	    || r->handle->versions[module] > known_version)
		return 0;
	for (;;) {
		void *record = NULL;
		int result = r->library->get_record (r->handle, module, &record);
		if (result < 0)
			return sluice_fail (r->err, "the %s records are damaged", name);
		if (result == 0)
			return 0;
		result = add (r, record, context);
		r->library->free (record);
		if (result < 0)
			return -1;
	}
}

/* Lustre */

static int
add_layout (struct reading *r, const void *bytes, void *context)
{
	const struct darshan_lustre *record = bytes;
	struct file *file = files_find (context, record->base.id);
	if (record->target_count < 0 || record->target_count > max_records)
		return sluice_fail (r->err, "has a file on %lld Lustre targets",
				    (long long)record->target_count);
	for (int64_t i = 0; file && i < record->component_count; i++) {
		double stripes
		    = (double)record->components[i].counters[LUSTRE_STRIPE_COUNT];
		if (stripes > file->stripe_count)
			file->stripe_count = stripes;
	}
	for (int64_t i = 0; record->targets && i < record->target_count; i++) {
		int64_t target = record->targets[i];
		if (target >= 0 && target < 64 * SLUICE_TARGET_WORDS)
			r->log->targets[target / 64] |= 1ull << target % 64;
	}
	return 0;
}

static int
read_layouts (struct reading *r, struct files *files)
{
	r->log->targets = calloc (SLUICE_TARGET_WORDS, sizeof *r->log->targets);
	if (!r->log->targets)
		return out_of_memory (r);
	return read_allocated (r, DARSHAN_LUSTRE, "LUSTRE", DARSHAN_LUSTRE_VERSION,
			       add_layout, files);
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
		result = names_read (r->library, r->handle, rows, r->rows.count, &files,
				     r->err);
	files_into_rows (&files, rows, r->rows.count);
	files_free (&files);
	return result;
}

/* Heatmap */

/* heatmap:POSIX, heatmap:STDIO and heatmap:DFS, where each byte is seen once: what passes
 * MPI-IO passes one of them too. */
static int
sees_each_byte_once (uint64_t id)
{
	return id == 16592106915301738621u || id == 3989511027826779520u
	       || id == 1597927878319380788u;
}

static int
start_heatmap (struct sluice_log *log, const struct darshan_heatmap *record)
{
	log->bins_written = calloc ((size_t)record->bins, sizeof *log->bins_written);
	log->bins_read = calloc ((size_t)record->bins, sizeof *log->bins_read);
	log->bins = record->bins;
	log->bin_seconds = record->bin_seconds;
	return log->bins_written && log->bins_read ? 0 : -1;
}

static int
add_heatmap (struct reading *r, const void *bytes, void *context)
{
	(void)context;
	const struct darshan_heatmap *record = bytes;
	struct sluice_log *log = r->log;
	if (!sees_each_byte_once (record->base.id))
		return 0;
	if (record->bins < 1 || record->bins > max_bins || !(record->bin_seconds > 0)
	    || record->bin_seconds > (double)max_count)
		return sluice_fail (r->err, "has a heatmap of %lld bins of %g s",
				    (long long)record->bins, record->bin_seconds);
	if (log->bins == 0 && start_heatmap (log, record) < 0)
		return out_of_memory (r);
	/* the runtime gives all processes the same bins */
	if (record->bins != log->bins
	    || memcmp (&record->bin_seconds, &log->bin_seconds, sizeof (double)) != 0)
		return 0;
	for (int64_t i = 0; i < log->bins; i++) {
		log->bins_written[i]
		    += record->written[i] > 0 ? (double)record->written[i] : 0;
		log->bins_read[i] += record->read[i] > 0 ? (double)record->read[i] : 0;
	}
	return 0;
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
	if (read_job (r) < 0 || read_exe (r) < 0 || read_all_records (r) < 0)
		return -1;
	if (read_files (r) < 0)
		return -1;
	return read_allocated (r, DARSHAN_HEATMAP, "HEATMAP", DARSHAN_HEATMAP_VERSION,
			       add_heatmap, NULL);
}

int
sluice_log_read (const struct sluice_library *library, const char *path,
		 struct sluice_log *log, struct sluice_error *err)
{
	memset (log, 0, sizeof *log);
	struct reading r = { .library = library, .log = log, .err = err };
	errno = 0; /* the library prints it, though no call may have failed */
	r.handle = library->open (path);
	if (!r.handle)
		return sluice_fail (err, "not a Darshan log, or its header is damaged");
	log->size = size_told (r.handle);
	int result = read_all (&r);
	library->close (r.handle);
	rows_finish (&r.rows);
	log->rows = r.rows.rows;
	log->row_count = (int64_t)r.rows.count;
	return result;
}

void
sluice_log_free (struct sluice_log *log)
{
	sluice_rows_free (log->rows);
	free (log->targets);
	free (log->bins_written);
	free (log->bins_read);
	log->rows = NULL;
	log->targets = NULL;
	log->bins_written = log->bins_read = NULL;
}

void
sluice_rows_free (struct sluice_file_row *rows)
{
	free (rows);
}

static int64_t
scan (const struct sluice_library *library, struct darshan_handle *handle)
{
	static const int modules[] = { DARSHAN_POSIX, DARSHAN_MPIIO, DARSHAN_LUSTRE,
				       DARSHAN_STDIO, DARSHAN_HEATMAP };
	struct darshan_job job;
	union record buffer;
	int64_t count = 0;
	if (library->get_job (handle, &job) < 0)
		return -1;
	for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
		int allocated
		    = modules[i] == DARSHAN_LUSTRE || modules[i] == DARSHAN_HEATMAP;
		for (;; count++) {
			void *record = allocated ? NULL : &buffer;
			if (library->get_record (handle, modules[i], &record) <= 0)
				break;
			if (allocated)
				library->free (record);
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
