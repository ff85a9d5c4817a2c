/*
 * A libdarshan-util of another release: it calls the real one (REAL), says that it is
 * version 9.9.9, and, as MOVED says, lays out an open log anew or has another job.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define NAMES(X) X (posix_counter_names) X (stdio_counter_names) X (mpiio_counter_names)

enum { HANDLE_SIZE = 1 << 12 };

struct job {
	long long words[7];
	char metadata[1024];
};

static void *
real (const char *name)
{
	static void *library;
	if (!library)
		library = dlopen (REAL, RTLD_NOW | RTLD_LOCAL);
	return library ? dlsym (library, name) : NULL;
}

#define CALL(result, name, parameters) ((result (*) parameters)real (name))

const char *
darshan_log_get_lib_version (void)
{
	return "9.9.9";
}

#if MOVED
/* Behind the version of the format the handle has a word more. */
static void *opened;

void *
darshan_log_open (const char *path)
{
	opened = CALL (void *, "darshan_log_open", (const char *)) (path);
	char *moved = opened ? calloc (1, HANDLE_SIZE) : NULL;
	if (moved) {
		memcpy (moved, opened, 8);
		memcpy (moved + 16, (char *)opened + 8, 1400);
	}
	return moved;
}

void
darshan_log_close (void *handle)
{
	free (handle);
	CALL (void, "darshan_log_close", (void *)) (opened);
}
#else
void *
darshan_log_open (const char *path)
{
	return CALL (void *, "darshan_log_open", (const char *)) (path);
}

void
darshan_log_close (void *handle)
{
	CALL (void, "darshan_log_close", (void *)) (handle);
}
#endif

int
darshan_log_get_job (void *handle, struct job *job)
{
	int result
	    = CALL (int, "darshan_log_get_job", (void *, struct job *)) (handle, job);
#if OTHER_JOB
	job->words[5] = job->words[6]; /* as if it had a word more before these */
#endif
	return result;
}

int
darshan_log_get_job_runtime (void *handle, struct job job, double *seconds)
{
	return CALL (int, "darshan_log_get_job_runtime",
		     (void *, struct job, double *)) (handle, job, seconds);
}

int
darshan_log_get_exe (void *handle, char *text)
{
	return CALL (int, "darshan_log_get_exe", (void *, char *)) (handle, text);
}

/* Counters have no other names than in the real one. */
#define COPY(name) const char *name[128];
NAMES (COPY)

__attribute__ ((constructor)) static void
copy_names (void)
{
#define FILL(name)                                                                         \
	if (real (#name))                                                                  \
		memcpy (name, real (#name), 14 * sizeof *name);
	NAMES (FILL)
}
