#include "worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

enum { NAME_SIZE = 64 };

/* ---- files ------------------------------------------------------------------ */

static _Noreturn void
fail_at (const struct worker *worker, const char *name, const char *what)
{
	char path[4096];

	snprintf (path, sizeof path, "%s/%s", worker->place->path, name);
	fail (path, what);
}

static void
name_file (const struct worker *worker, uint64_t number, char name[NAME_SIZE])
{
	const char *pattern = pattern_name (worker->pattern);

	if (worker->options->shared)
		snprintf (name, NAME_SIZE, "%s.shared", pattern);
	else
		snprintf (name, NAME_SIZE, "%s.%u.%" PRIu64, pattern, worker->number,
			  number);
}

static int
open_own (const struct worker *worker, const char *name, int flags)
{
	int direct = worker->options->direct ? O_DIRECT : 0;
	int fd = openat (worker->place->fd, name, flags | direct | O_CLOEXEC, 0644);

	if (fd < 0)
		fail_at (worker, name, flags & O_CREAT ? "create" : "open");
	return fd;
}

static void
write_chunk (struct worker *worker, int fd)
{
	uint64_t size = worker->options->chunk;

	for (uint64_t done = 0; done < size;) {
		ssize_t count = write (fd, worker->buffer + done, size - done);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			fail (worker->place->path, "write");
		done += (uint64_t)count;
	}
}

static void
flush (const struct worker *worker, int fd)
{
	if (fsync (fd) < 0)
		fail (worker->place->path, "fsync");
}

static void
close_file (const struct worker *worker, int fd)
{
	if (close (fd) < 0)
		fail (worker->place->path, "close");
}

/* Where the process's chunk number `round` lies in its file. */
static uint64_t
offset_of (const struct worker *worker, uint64_t round)
{
	const struct options *options = worker->options;
	uint64_t file_size = file_size_of (options, worker->pattern);

	if (worker->pattern == WS)
		round = 0;
	else if (worker->pattern == AW && file_size)
		round %= file_size / options->chunk;
	if (options->shared)
		round = round * worker->peers + worker->rank;
	return round * options->chunk;
}

/* ---- the patterns ----------------------------------------------------------- */

static uint64_t
create_and_write (struct worker *worker)
{
	char name[NAME_SIZE];

	place_reserve (worker->place, worker->options, &worker->allowance,
		       worker->options->chunk, 1);
	name_file (worker, worker->done, name);
	int fd = open_own (worker, name, O_CREAT | O_EXCL | O_WRONLY);
	write_chunk (worker, fd);
	if (worker->sync != SYNC_NONE)
		flush (worker, fd);
	close_file (worker, fd);
	return worker->options->chunk;
}

static uint64_t
write_on (struct worker *worker)
{
	const struct options *options = worker->options;
	struct file *file = &worker->files[worker->done % options->files];
	uint64_t offset = offset_of (worker, worker->done / options->files);

	if (offset + options->chunk > file->size) {
		place_reserve (worker->place, options, &worker->allowance, options->chunk,
			       0);
		file->size = offset + options->chunk;
	}
	if (offset != file->at && lseek (file->fd, (off_t)offset, SEEK_SET) < 0)
		fail (worker->place->path, "seek");
	write_chunk (worker, file->fd);
	file->at = offset + options->chunk;
	if (worker->sync == SYNC_EACH)
		flush (worker, file->fd);
	return options->chunk;
}

/* What is in this machine's cache says nothing about the storage: it is passed by where
 * the file system can, and else dropped. */
static int
open_past_cache (struct worker *worker, const char *name)
{
	const struct options *options = worker->options;
	int flags = O_RDONLY | O_CLOEXEC, fd = -1;

	if (options->direct || (is_aligned (options) && !atomic_load (worker->dropped)))
		fd = openat (worker->source, name, flags | O_DIRECT);
	if (fd < 0 && !options->direct) {
		*worker->dropped = true;
		fd = openat (worker->source, name, flags);
	}
	if (fd < 0)
		fail (name, "open");
	posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
	return fd;
}

static void
open_next (struct worker *worker)
{
	struct file *file = &worker->files[0];

	if (file->fd >= 0)
		close_file (worker, file->fd);
	const char *name = worker->names[worker->name_at % worker->name_count];
	worker->name_at += worker->options->shared ? 1 : worker->peers;
	file->fd = open_past_cache (worker, name);
	file->at = 0;
}

/* Some file systems take the flag and then no read. Whether this one may have been the
 * reason, so that it can be tried again. */
static bool
is_not_direct (struct worker *worker, int fd)
{
	int flags = fcntl (fd, F_GETFL);

	if (errno != EINVAL || worker->options->direct || flags < 0 || !(flags & O_DIRECT))
		return false;
	*worker->dropped = true;
	return fcntl (fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static uint64_t
read_chunk (struct worker *worker)
{
	struct file *file = &worker->files[0];
	off_t offset = (off_t)offset_of (worker, file->at++);
	ssize_t count;

	while ((count = pread (file->fd, worker->buffer, worker->options->chunk, offset))
		   < 0
	       && (errno == EINTR || is_not_direct (worker, file->fd)))
		;
	if (count < 0)
		fail (worker->place->path, "read");
	return (uint64_t)count;
}

/* One file after the other, again and again. */
static uint64_t
read_on (struct worker *worker)
{
	for (unsigned tried = 0; tried <= worker->name_count; tried++) {
		uint64_t count = read_chunk (worker);

		if (count > 0)
			return count;
		open_next (worker);
	}
	give_up (EXIT_IO, "process %u finds no chunk to read: fewer chunks than processes",
		 worker->number);
}

static void
add (struct worker *worker, double *from, uint64_t bytes)
{
	double now = clock_now ();

	tally_add (worker->tally, *from, now, bytes);
	*from = now;
}

/* Three operations, each with its own latency. */
static void
handle_metadata (struct worker *worker, double from)
{
	char name[NAME_SIZE];
	struct stat facts;

	place_reserve (worker->place, worker->options, &worker->allowance, 0, 1);
	name_file (worker, worker->done, name);
	close_file (worker, open_own (worker, name, O_CREAT | O_EXCL | O_WRONLY));
	add (worker, &from, 0);
	if (fstatat (worker->place->fd, name, &facts, 0) < 0)
		fail_at (worker, name, "stat");
	add (worker, &from, 0);
	if (unlinkat (worker->place->fd, name, 0) < 0)
		fail_at (worker, name, "remove");
	add (worker, &from, 0);
	worker->allowance.files++;
}

uint64_t
worker_operate (struct worker *worker)
{
	double from = clock_now ();
	uint64_t bytes = 0;

	switch (worker->pattern) {
	case OWC:
		bytes = create_and_write (worker);
		break;
	case READ:
		bytes = read_on (worker);
		break;
	case METADATA:
		handle_metadata (worker, from);
		worker->done++;
		return 0;
	default:
		bytes = write_on (worker);
	}
	add (worker, &from, bytes);
	worker->done++;
	return bytes;
}

/* ---- before and after ------------------------------------------------------- */

static int
is_file (int directory, const char *name)
{
	struct stat facts;

	return fstatat (directory, name, &facts, AT_SYMLINK_NOFOLLOW) == 0
	       && S_ISREG (facts.st_mode) && facts.st_size > 0;
}

static int
by_name (const void *a, const void *b)
{
	return strcmp (*(char *const *)a, *(char *const *)b);
}

static void
list_files (struct worker *worker, const char *path)
{
	DIR *directory = opendir (path);

	if (!directory)
		fail (path, "open");
	worker->source = dirfd (directory); /* stays open, like the process */
	for (struct dirent *entry; (entry = readdir (directory));) {
		if (!is_file (worker->source, entry->d_name))
			continue;
		worker->names = realloc (worker->names,
					 (worker->name_count + 1) * sizeof *worker->names);
		if (!worker->names
		    || !(worker->names[worker->name_count++] = strdup (entry->d_name)))
			fail (path, "list");
	}
	if (worker->name_count == 0)
		give_up (EXIT_IO,
			 "%s: no files to read; make some with `sluice-probe "
			 "--pattern aw --keep`",
			 path);
	qsort (worker->names, worker->name_count, sizeof *worker->names, by_name);
}

/* Files to read, complete on the storage and not in this machine's cache. */
static void
make_readable (struct worker *worker)
{
	const struct options *options = worker->options;
	uint64_t file_size = file_size_of (options, READ);
	char name[NAME_SIZE];

	for (unsigned i = 0; i < options->files; i++) {
		name_file (worker, i, name);
		int fd = open_own (worker, name,
				   options->shared ? O_CREAT | O_WRONLY
						   : O_CREAT | O_EXCL | O_WRONLY);
		for (uint64_t n = 0; n < file_size / options->chunk; n++) {
			place_reserve (worker->place, options, &worker->allowance,
				       options->chunk, 0);
			if (lseek (fd, (off_t)offset_of (worker, n), SEEK_SET) < 0)
				fail_at (worker, name, "seek");
			write_chunk (worker, fd);
		}
		flush (worker, fd);
		close_file (worker, fd);
	}
}

/* Whether process `number` does the same and has its files in the same directory. */
static int
is_peer (const struct worker *worker, unsigned number)
{
	const struct options *options = worker->options;
	unsigned directories = options->directory_count;

	if (pattern_of (options, number) != worker->pattern)
		return 0;
	if (worker->pattern == READ && options->from)
		return 1;
	return number % directories == worker->number % directories;
}

static void
find_peers (struct worker *worker)
{
	for (unsigned p = 0; p < worker->options->processes; p++)
		if (is_peer (worker, p)) {
			worker->peers++;
			worker->rank += p < worker->number;
		}
}

void
worker_prepare (struct worker *worker)
{
	find_peers (worker);
	for (unsigned i = 0; i < MAX_FILES; i++)
		worker->files[i].fd = -1;
	if (worker->pattern == READ && !worker->options->from)
		make_readable (worker);
}

void
worker_open (struct worker *worker)
{
	const struct options *options = worker->options;
	char name[NAME_SIZE];

	if (worker->pattern == READ) {
		list_files (worker, options->from ? options->from : worker->place->path);
		worker->name_at = options->shared ? 0 : worker->rank;
		open_next (worker);
	} else if (worker->pattern == WS || worker->pattern == AW) {
		int fresh = options->shared ? 0 : O_EXCL;

		for (unsigned i = 0; i < options->files; i++) {
			name_file (worker, i, name);
			worker->files[i].fd
			    = open_own (worker, name, O_CREAT | O_WRONLY | fresh);
		}
	}
}

void
worker_finish (struct worker *worker)
{
	double from = clock_now ();
	int flushed = 0;

	for (unsigned i = 0; i < MAX_FILES && worker->files[i].fd >= 0; i++) {
		if (worker->sync == SYNC_CLOSE) {
			flush (worker, worker->files[i].fd);
			flushed = 1;
		}
		close_file (worker, worker->files[i].fd);
	}
	if (flushed)
		add (worker, &from, 0);
}
