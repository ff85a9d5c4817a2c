/* Loads libdarshan-util and finds what is called of it. */
#include <dlfcn.h>
#include <libdeflate.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "darshan.h"
#include "reader.h"

/* darshan.h describes the handle of these; a younger library may lay it out anew. */
static const char known_version[] = "3.5.";
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
	const char *(*version) (void) = NULL;
	if (find (object, "darshan_log_get_lib_version", &version, err) < 0)
		return -1;
	if (strncmp (version (), known_version, strlen (known_version)) != 0)
		return sluice_fail (err, "is version %s; install darshan %s*", version (),
				    known_version);
	if (find (object, "darshan_log_open", &library->open, err) < 0
	    || find (object, "darshan_log_close", &library->close, err) < 0
	    || find (object, "darshan_log_get_job", &library->get_job, err) < 0
	    || find (object, "darshan_log_get_job_runtime", &library->get_runtime, err) < 0
	    || find (object, "darshan_log_get_exe", &library->get_exe, err) < 0
	    || find (object, "darshan_log_get_record", &library->get_record, err) < 0
	    || find (object, "darshan_free", &library->free, err) < 0
	    || find (object, "posix_counter_names", &library->posix_counters, err) < 0
	    || find (object, "stdio_counter_names", &library->stdio_counters, err) < 0
	    || find (object, "mpiio_counter_names", &library->mpiio_counters, err) < 0)
		return -1;
	return 0;
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
	if (bind (library, err) < 0 || make_unpacker (library, err) < 0) {
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
