#include "reader.h"

#include "darshan.h"
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
static const int64_t max_bins = 1 << 16; /* of a heatmap; Darshan makes 200 */

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
	if (record->target_count < 0 || record->target_count > max_targets)
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
		result = names_read (r->handle, r->region, rows, r->rows.count, &files,
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
	if (read_job (r) < 0 || read_exe (r) < 0
	    || records_read (r->library, r->handle, r->region, r->log->nprocs, &r->rows,
			     r->err)
		   < 0)
		return -1;
	if (read_files (r) < 0)
		return -1;
	return read_allocated (r, DARSHAN_HEATMAP, "HEATMAP", DARSHAN_HEATMAP_VERSION,
			       add_heatmap, NULL);
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

static int64_t
scan (const struct sluice_library *library, struct darshan_handle *handle)
{
	static const int modules[] = { DARSHAN_POSIX, DARSHAN_MPIIO, DARSHAN_LUSTRE,
				       DARSHAN_STDIO, DARSHAN_HEATMAP };
	struct darshan_job job;
	union darshan_record buffer;
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
