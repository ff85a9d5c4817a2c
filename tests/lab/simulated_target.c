/* simulated_target - serve files by a model of a storage target, without root.
 *
 * A library for LD_PRELOAD. Files below $SLUICE_SIMULATED_TARGETS/<lane>/ behave as
 * if they lay on a slow target; their data really goes to the file system beneath.
 * It is a model: its results are shown as of a "simulated target".
 *
 * The model: one server per target, first come, first served, shared by all
 * processes through a mapped control file, <dir>/.model.<lane>. A write is done as
 * soon as the server's cache has room for it; creating, truncating and flushing a
 * file are one operation each, and wait until the server has done all that came
 * before, as a journal shared by all files makes them.
 *
 * Reached are programs that call the C library's functions below; stdio's and
 * static programs' own writes are not. Nothing is remembered per descriptor: the
 * kernel is asked at each call, so dup, fork and inherited files need no care.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_TARGETS 64
#define SECOND 1e9	 /* in ns */
#define PIECE (1u << 20) /* bytes served at once, so that big writes share the server */

/* The control file. simulated_target.py writes it: change both or none. */
struct model {
	double bytes_per_second;
	double operations_per_second;
	double cache_bytes;
	_Atomic int64_t busy_until; /* CLOCK_MONOTONIC, ns: all accepted work is done */
	_Atomic uint64_t bytes;	    /* accepted so far */
};
_Static_assert(sizeof (struct model) == 40, "as simulated_target.py packs it");

struct target {
	char lane[NAME_MAX + 1];
	struct model *model;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct target targets[MAX_TARGETS];
static size_t target_count;

#define NEXT(function) ((__typeof__ (&function))dlsym (RTLD_NEXT, #function))

/* ---- the model ------------------------------------------------------------ */

static int64_t
now (void)
{
	struct timespec time;

	clock_gettime (CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void
wait_until (int64_t moment)
{
	struct timespec time = { moment / 1000000000, moment % 1000000000 };

	while (moment > 0
	       && clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

/* Queue work of so many ns; returns when the server will have done it. */
static int64_t
enqueue (struct model *model, double work)
{
	int64_t busy = atomic_load (&model->busy_until);
	int64_t done;

	do {
		int64_t begin = now ();

		done = (busy > begin ? busy : begin) + (int64_t)work;
	} while (!atomic_compare_exchange_weak (&model->busy_until, &busy, done));
	return done;
}

static void
serve_data (struct model *model, size_t size)
{
	double room = model->cache_bytes / model->bytes_per_second * SECOND;

	while (size > 0) {
		size_t piece = size < PIECE ? size : PIECE;
		int64_t done
		    = enqueue (model, (double)piece / model->bytes_per_second * SECOND);

		atomic_fetch_add (&model->bytes, piece);
		wait_until (done - (int64_t)room);
		size -= piece;
	}
}

static void
serve_operation (struct model *model)
{
	wait_until (enqueue (model, SECOND / model->operations_per_second));
}

/* ---- which target a descriptor lies on ------------------------------------- */

/* A target that cannot be modelled would be measured as a fast one: better to stop. */
static _Noreturn void
give_up (const char *path)
{
	fprintf (stderr, "simulated_target: %s: %s\n", path, strerror (errno));
	abort ();
}

static struct model *
map_model (const char *directory, const char *lane)
{
	char path[2 * PATH_MAX];
	void *model;
	int fd;

	snprintf (path, sizeof path, "%s/.model.%s", directory, lane);
	fd = NEXT (open) (path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		if (errno == ENOENT)
			return NULL;
		give_up (path);
	}
	model
	    = mmap (NULL, sizeof (struct model), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (model == MAP_FAILED)
		give_up (path);
	close (fd);
	return model;
}

static struct model *
model_of_lane (const char *directory, const char *lane)
{
	struct model *model = NULL;
	size_t i;

	pthread_mutex_lock (&lock);
	for (i = 0; i < target_count && !model; i++)
		if (strcmp (targets[i].lane, lane) == 0)
			model = targets[i].model;
	if (!model && target_count < MAX_TARGETS) {
		model = map_model (directory, lane);
		if (model) {
			strcpy (targets[target_count].lane, lane);
			targets[target_count++].model = model;
		}
	}
	pthread_mutex_unlock (&lock);
	return model;
}

/* The model that serves an open file, or NULL. Leaves errno alone. */
static struct model *
model_of (int fd)
{
	const char *directory = getenv ("SLUICE_SIMULATED_TARGETS");
	char link[32], path[PATH_MAX], *lane, *end;
	struct model *model = NULL;
	int saved = errno;
	size_t length;
	ssize_t size;

	if (fd < 0 || !directory)
		return NULL;
	length = strlen (directory);
	snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
	size = readlink (link, path, sizeof path - 1);
	if (size > (ssize_t)length && strncmp (path, directory, length) == 0
	    && path[length] == '/') {
		path[size] = '\0';
		lane = path + length + 1;
		end = strchr (lane, '/');
		if (end && end - lane <= NAME_MAX) {
			*end = '\0';
			model = model_of_lane (directory, lane);
		}
	}
	errno = saved;
	return model;
}

/* ---- the C library's functions ---------------------------------------------- */

static int
opened (int fd, int flags)
{
	struct model *model;

	if (flags & (O_CREAT | O_TRUNC) && (model = model_of (fd)))
		serve_operation (model);
	return fd;
}

static ssize_t
written (int fd, ssize_t size)
{
	struct model *model;

	if (size > 0 && (model = model_of (fd)))
		serve_data (model, (size_t)size);
	return size;
}

/* The mode is there only when a file may be made. */
#define MODE(flags, mode)                                                                  \
	do {                                                                               \
		if (__OPEN_NEEDS_MODE (flags)) {                                           \
			va_list rest;                                                      \
			va_start (rest, flags);                                            \
			(mode) = va_arg (rest, mode_t);                                    \
			va_end (rest);                                                     \
		}                                                                          \
	} while (0)

int
open (const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE (flags, mode);
	return opened (NEXT (open) (path, flags, mode), flags);
}

int
open64 (const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE (flags, mode);
	return opened (NEXT (open64) (path, flags, mode), flags);
}

int
openat (int directory, const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE (flags, mode);
	return opened (NEXT (openat) (directory, path, flags, mode), flags);
}

int
openat64 (int directory, const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE (flags, mode);
	return opened (NEXT (openat64) (directory, path, flags, mode), flags);
}

int
creat (const char *path, mode_t mode)
{
	return opened (NEXT (creat) (path, mode), O_CREAT);
}

int
creat64 (const char *path, mode_t mode)
{
	return opened (NEXT (creat64) (path, mode), O_CREAT);
}

ssize_t
write (int fd, const void *data, size_t size)
{
	return written (fd, NEXT (write) (fd, data, size));
}

ssize_t
pwrite (int fd, const void *data, size_t size, off_t offset)
{
	return written (fd, NEXT (pwrite) (fd, data, size, offset));
}

ssize_t
pwrite64 (int fd, const void *data, size_t size, off64_t offset)
{
	return written (fd, NEXT (pwrite64) (fd, data, size, offset));
}

ssize_t
writev (int fd, const struct iovec *pieces, int count)
{
	return written (fd, NEXT (writev) (fd, pieces, count));
}

/* The model's flush stands for the real one, which would wait for the wrong disk. */
int
fsync (int fd)
{
	struct model *model = model_of (fd);

	if (!model)
		return NEXT (fsync) (fd);
	serve_operation (model);
	return 0;
}

int
fdatasync (int fd)
{
	struct model *model = model_of (fd);

	if (!model)
		return NEXT (fdatasync) (fd);
	serve_operation (model);
	return 0;
}
