/* Loads libdarshan-util, finds what is called of it, and tries whether it is laid out as
 * darshan.h says. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <dlfcn.h>
#include <libdeflate.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "darshan.h"
#include "reader.h"

static const int keep_bytes = 32 << 20; /* of memory that was used and will be again */

/* ISO C has no cast from an object pointer to a function's, so the address is copied. */
static int
find (void *object, const char *name, void *address, struct sluice_error *err)
{
	void *symbol = dlsym (object, name);
	if (!symbol)
		return sluice_fail (err, "has no %s", name);
	memcpy (address, &symbol, sizeof symbol);
	return 0;
}

static int
bind (struct sluice_library *library, struct sluice_error *err)
{
	void *object = library->object;
	if (find (object, "darshan_log_open", &library->open, err) < 0
	    || find (object, "darshan_log_close", &library->close, err) < 0
	    || find (object, "darshan_log_get_job", &library->get_job, err) < 0
	    || find (object, "darshan_log_get_job_runtime", &library->get_runtime, err) < 0
	    || find (object, "darshan_log_get_exe", &library->get_exe, err) < 0
	    || find (object, "posix_counter_names", &library->posix_counters, err) < 0
	    || find (object, "stdio_counter_names", &library->stdio_counters, err) < 0
	    || find (object, "mpiio_counter_names", &library->mpiio_counters, err) < 0)
		return -1;
	find (object, "darshan_log_get_record", &library->get_record, NULL);
	find (object, "darshan_free", &library->free, NULL);
	return 0;
}

/* A younger library may lay out the handle or the job anew. It is made to open a log in
 * memory in which each part has a number of its own, as it is stored without compression.
 */
enum { FORMAT_MODULES = DARSHAN_MODULES, JOB_SIZE = 4096, STORED = 2, PARTIAL = 0x5a };

struct stored_header { /* of format 3.41 */
	char version[8];
	int64_t magic;
	unsigned char compression;
	uint64_t partial;
	struct darshan_region names, modules[FORMAT_MODULES];
	uint32_t versions[FORMAT_MODULES];
};

struct stored_log {
	struct stored_header header;
	union {
		struct darshan_job job; /* and, behind it, the program and the mounts */
		char bytes[JOB_SIZE];
	};
	char regions[FORMAT_MODULES + 1];
};

static void
make_log (struct stored_log *log)
{
	memset (log, 0, sizeof *log);
	uint64_t regions = offsetof (struct stored_log, regions);
	log->header = (struct stored_header){ .version = "3.41",
					      .magic = 6567223,
					      .compression = STORED,
					      .partial = PARTIAL,
					      .names = { regions, 1 } };
	for (int i = 0; i < FORMAT_MODULES; i++) {
		log->header.modules[i]
		    = (struct darshan_region){ regions + 1 + (uint64_t)i, 1 };
		log->header.versions[i] = (uint32_t)i + 1;
	}
	log->job = (struct darshan_job){ .uid = 1,
					 .start_sec = 1000000001,
					 .start_nsec = 250000000,
					 .end_sec = 1000000003,
					 .end_nsec = 750000000,
					 .nprocs = 5,
					 .jobid = 6,
					 .metadata = "x=7\n" };
}

static int
is_same_job (const struct sluice_library *library, struct darshan_handle *handle,
	     const struct darshan_job *made)
{
	struct {
		struct darshan_job job;
		char spare[JOB_SIZE]; /* of a library whose own is larger */
	} read = { 0 };
	double seconds = 0;
	return library->get_job (handle, &read.job) == 0
	       && library->get_runtime (handle, read.job, &seconds) == 0 && seconds == 2.5
	       && memcmp (&read.job, made, offsetof (struct darshan_job, metadata)) == 0
	       && strcmp (read.job.metadata, made->metadata) == 0;
}

static int
is_same_log (const struct sluice_library *library, struct darshan_handle *handle,
	     const struct stored_log *log, int file)
{
	struct stat made, opened;
	const struct stored_header *header = &log->header;
	return strcmp (handle->version, header->version) == 0 && handle->swapped == 0
	       && handle->partial == PARTIAL && handle->compression == STORED
	       && handle->job.offset == sizeof *header && handle->job.length == JOB_SIZE
	       && memcmp (&handle->names, &header->names,
			  sizeof header->names + sizeof header->modules)
		      == 0
	       && memcmp (handle->versions, header->versions, sizeof header->versions) == 0
	       && fstat (file, &made) == 0 && fstat (handle->state->file, &opened) == 0
	       && made.st_ino == opened.st_ino && made.st_dev == opened.st_dev
	       && is_same_job (library, handle, &log->job);
}

static int
try_layout (const struct sluice_library *library, struct sluice_error *err)
{
	struct stored_log log;
	char path[32];
	int same = 0, file = memfd_create ("log", MFD_CLOEXEC);
	make_log (&log);
	snprintf (path, sizeof path, "/proc/self/fd/%d", file);
	struct darshan_handle *handle = NULL;
	if (file >= 0 && write (file, &log, sizeof log) == sizeof log)
		handle = library->open (path);
	if (handle) {
		same = is_same_log (library, handle, &log, file);
		library->close (handle);
	}
	if (file >= 0)
		close (file);
	if (same)
		return 0;
	const char *(*version) (void) = NULL;
	find (library->object, "darshan_log_get_lib_version", &version, NULL);
	return sluice_fail (
	    err,
	    "is version %s, which lays out an open log in a way that is not "
	    "known here; install the one that this Sluice was built with",
	    version ? version () : "?");
}

static int
make_unpacker (struct sluice_library *library, struct sluice_error *err)
{
	library->unpacker = libdeflate_alloc_decompressor ();
	return library->unpacker ? 0 : sluice_fail (err, "out of memory");
}

struct sluice_library *
sluice_library_load (const char *path, struct sluice_error *err)
{
	/* Logs need the same few MiB one after the other: giving them back to the kernel
	 * and clearing them anew costs as much as reading a log. */
	mallopt (M_MMAP_THRESHOLD, keep_bytes);
	mallopt (M_TRIM_THRESHOLD, keep_bytes);
	struct sluice_library *library = calloc (1, sizeof *library);
	if (!library) {
		sluice_fail (err, "out of memory");
		return NULL;
	}
	library->object = dlopen (path, RTLD_NOW | RTLD_LOCAL);
	if (!library->object) {
		sluice_fail (err, "%s", dlerror ());
		free (library);
		return NULL;
	}
	if (bind (library, err) < 0 || try_layout (library, err) < 0
	    || make_unpacker (library, err) < 0) {
		sluice_library_unload (library);
		return NULL;
	}
	return library;
}

void
sluice_library_unload (struct sluice_library *library)
{
	if (!library)
		return;
	libdeflate_free_decompressor (library->unpacker);
	dlclose (library->object);
	free (library);
}
