#include "spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "slurm_api.h"
#include "thread.h"

static const char magic[8] = { 'S', 'L', 'U', 'S', 'P', 'O', 'O', 'L' };

enum {
	HEAD_ROOM = 8192, /* whole pages, each in its own */
	HEADS = 2,
};

_Static_assert(sizeof (struct spool_head) <= HEAD_ROOM, "a head fits its room");

/* A part's checksum covers what lies behind these bytes. */
#define BEHIND(part) (offsetof (__typeof__ (*(part)), checksum) + sizeof (part)->checksum)
#define CHECKSUM_OF(part)                                                                  \
	sluice_crc64 ((const char *)(part) + BEHIND (part), sizeof *(part)-BEHIND (part))

static int
lock (int fd)
{
	return flock (fd, LOCK_EX | LOCK_NB);
}

int
spool_file_create (struct spool_file *file, const char *path, struct sluice_error *err)
{
	file->fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file->fd < 0)
		return sluice_fail (err, "%s: %s", path, strerror (errno));
	if (lock (file->fd) == 0 && fstat (file->fd, &file->made) == 0)
		return 0;
	sluice_fail (err, "%s: %s", path, strerror (errno));
	unlink (path);
	spool_file_close (file);
	return -1;
}

/* A directory may be any user's: a file that others can write, a link, a device or a
 * name of another user's file is none of ours. */
static int
is_trusted (const struct stat *file)
{
	return S_ISREG (file->st_mode) && file->st_nlink == 1
	       && (file->st_uid == 0 || file->st_uid == geteuid ())
	       && (file->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int
spool_file_adopt (struct spool_file *file, const char *path, struct sluice_error *err)
{
	file->fd = open (path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file->fd < 0)
		return sluice_fail (err, "%s: %s", path, strerror (errno));
	if (fstat (file->fd, &file->made) != 0 || !is_trusted (&file->made)) {
		spool_file_close (file);
		return sluice_fail (err, "%s: not a file of this controller's own", path);
	}
	if (lock (file->fd) == 0)
		return 0;
	spool_file_close (file);
	return 1;
}

void
spool_file_close (struct spool_file *file)
{
	if (file->fd >= 0)
		close (file->fd);
	file->fd = -1;
}

int
spool_file_is_at (const struct spool_file *file, const char *path)
{
	struct stat now;
	return lstat (path, &now) == 0 && now.st_dev == file->made.st_dev
	       && now.st_ino == file->made.st_ino;
}

static int
write_at (const struct spool_file *file, const void *bytes, size_t size, off_t at,
	  struct sluice_error *err)
{
	const char *p = bytes;
	while (size > 0) {
		ssize_t n = pwrite (file->fd, p, size, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return sluice_fail (err, "%s", n < 0 ? strerror (errno) : "full");
		p += n;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

static off_t
offset_of_slot (uint32_t slot)
{
	return HEADS * HEAD_ROOM + (off_t)slot * (off_t)sizeof (struct spool_slot);
}

int
spool_file_put_head (const struct spool_file *file, struct spool_head *head,
		     struct sluice_error *err)
{
	memcpy (head->magic, magic, sizeof magic);
	head->sequence++;
	head->record_version = SLUICE_RECORD_VERSION;
	head->record_size = sizeof (struct sluice_record);
	head->checksum = CHECKSUM_OF (head);
	return write_at (file, head, sizeof *head,
			 (off_t)(head->sequence % HEADS) * HEAD_ROOM, err);
}

int
spool_file_get_head (const struct spool_file *file, struct spool_head *out)
{
	int result = -1;
	struct spool_head head;

	for (int i = 0; i < HEADS; i++) {
		ssize_t n = pread (file->fd, &head, sizeof head, (off_t)i * HEAD_ROOM);
		if (n != sizeof head || memcmp (head.magic, magic, sizeof magic) != 0
		    || head.checksum != CHECKSUM_OF (&head))
			continue;
		if (result != 0 || head.sequence > out->sequence)
			*out = head;
		result = 0;
	}
	return result;
}

int
spool_file_put_record (const struct spool_file *file, uint32_t slot, uint64_t place,
		       const struct sluice_record *record, struct sluice_error *err)
{
	struct spool_slot full = { .place = place, .record = *record };
	full.checksum = CHECKSUM_OF (&full);
	return write_at (file, &full, sizeof full, offset_of_slot (slot), err);
}

int
spool_file_get_slot (const struct spool_file *file, uint32_t slot, struct spool_slot *out)
{
	ssize_t n = pread (file->fd, out, sizeof *out, offset_of_slot (slot));
	if (n != sizeof *out)
		return -1;
	return out->checksum == CHECKSUM_OF (out) ? 0 : 1;
}

enum {
	TEND_MS = 1000, /* between polls of the file and of others next to it */
	WAIT_MS = 100,	/* the same while another slurmctld is about to end */
	BOOT_DIGITS = 16,
};

static const char infix[] = ".spool.";

/*
 * What became of the file. The log gets a line when that changes.
 */

static void
set_error (struct spool *spool, const char *text)
{
	/* no other thread writes them */
	int is_news = strcmp (spool->status.error, text) != 0
		      || strcmp (spool->status.path, spool->path) != 0;

	spool->has_failed = text[0] != '\0';
	if (!is_news)
		return;
	pthread_mutex_lock (&spool->status_lock);
	sluice_copy_text (spool->status.error, sizeof spool->status.error, text);
	sluice_copy_text (spool->status.path, sizeof spool->status.path, spool->path);
	pthread_mutex_unlock (&spool->status_lock);
	if (spool->has_failed)
		slurm_error ("sluice: records are not saved for the next slurmctld: %s",
			     text);
	else
		slurm_info ("sluice: records are saved in %s", spool->path);
}

static void
set_since (struct spool *spool, int64_t since)
{
	spool->head.since = since;
	pthread_mutex_lock (&spool->status_lock);
	spool->status.since = since;
	pthread_mutex_unlock (&spool->status_lock);
}

/*
 * Our own file.
 */

/* Write the head if it says something new. */
static int
put_head (struct spool *spool, const struct ring_state *ring, struct sluice_error *err)
{
	struct spool_head head = spool->head;

	head.written = ring->written;
	head.removed = ring->removed;
	head.dropped = ring->dropped;
	head.lost = ring->lost;
	counters_read (spool->counters, head.counted);
	if (memcmp (&head, &spool->head, sizeof head) == 0)
		return 0;
	if (spool_file_put_head (&spool->file, &head, err) < 0)
		return -1;
	spool->head = head;
	return 0;
}

static int
put_record (struct spool *spool, const struct ring_state *ring, uint64_t place,
	    struct sluice_error *err)
{
	struct sluice_record record;
	uint32_t slot = (uint32_t)((place - spool->first) % ring->size);

	if (ring_copy (spool->ring, place, &record) != 0)
		return 0; /* acknowledged meanwhile */
	return spool_file_put_record (&spool->file, slot, place, &record, err);
}

/* Bring the file up to date: the head says what is acknowledged before the slots of that
 * are written again, and how many records there should be before they are. */
static int
update (struct spool *spool, struct sluice_error *err)
{
	struct ring_state ring = ring_state (spool->ring);

	if (spool->next < ring.removed)
		spool->next = ring.removed;
	if (ring.removed == ring.written)
		spool->first = spool->next; /* an empty ring starts at the front again */
	if (put_head (spool, &ring, err) < 0)
		return -1;
	for (; spool->next < ring.written; spool->next++)
		if (put_record (spool, &ring, spool->next, err) < 0)
			return -1;
	return 0;
}

static void
leave_file (struct spool *spool)
{
	if (spool->file.fd >= 0 && spool_file_is_at (&spool->file, spool->path))
		unlink (spool->path);
	spool_file_close (&spool->file);
}

static int
make_file (struct spool *spool, struct sluice_error *err)
{
	struct ring_state ring = ring_state (spool->ring);

	if (spool_file_create (&spool->file, spool->path, err) < 0)
		return -1;
	spool->first = spool->next = ring.removed;
	/* both heads, so that there is room for each later */
	if (spool_file_put_head (&spool->file, &spool->head, err) == 0
	    && spool_file_put_head (&spool->file, &spool->head, err) == 0)
		return 0;
	leave_file (spool);
	return -1;
}

static void
save (struct spool *spool)
{
	struct sluice_error err = { .text = "" }, why;

	if (spool->file.fd < 0 && make_file (spool, &err) < 0) {
		set_error (spool, err.text);
		return;
	}
	if (update (spool, &why) < 0)
		sluice_fail (&err, "%s: %s", spool->path, why.text);
	set_error (spool, err.text);
}

/*
 * The files of others.
 */

struct found {
	uint64_t place;
	uint32_t slot;
};

static int
compare_found (const void *a, const void *b)
{
	uint64_t x = ((const struct found *)a)->place, y = ((const struct found *)b)->place;
	return (x > y) - (x < y);
}

/* The slots of records without an acknowledgement. */
static uint32_t
find_records (const struct spool_file *file, uint64_t removed, struct found *out)
{
	struct spool_slot slot;
	uint32_t count = 0;
	int result;

	for (uint32_t i = 0; i < RING_RECORDS; i++) {
		result = spool_file_get_slot (file, i, &slot);
		if (result < 0)
			break;
		if (result == 0 && slot.place >= removed)
			out[count++] = (struct found){ slot.place, i };
	}
	return count;
}

/* Put its records into the ring, the oldest first. Returns how many are lost. */
static uint64_t
inherit_records (struct spool *spool, const struct spool_file *file,
		 const struct spool_head *head)
{
	uint64_t missing = head->written - head->removed;
	struct spool_slot slot;
	struct found *found = NULL;
	uint32_t count = 0;

	if (head->record_version == SLUICE_RECORD_VERSION
	    && head->record_size == sizeof slot.record)
		found = calloc (RING_RECORDS, sizeof *found);
	if (found)
		count = find_records (file, head->removed, found);
	if (count > 0)
		qsort (found, count, sizeof *found, compare_found);
	for (uint32_t i = 0; i < count; i++) {
		if (spool_file_get_slot (file, found[i].slot, &slot) != 0)
			continue;
		ring_inherit (spool->ring, &slot.record);
		if (found[i].place < head->written && missing > 0)
			missing--;
	}
	free (found);
	slurm_info ("sluice: took over %u records of an earlier slurmctld (%016" PRIx64
		    "), %" PRIu64 " are lost",
		    count, head->boot, missing);
	return missing;
}

static void
inherit (struct spool *spool, const struct spool_file *file)
{
	struct spool_head head;

	if (spool_file_get_head (file, &head) != 0)
		return; /* it ended before it had anything to say */
	counters_add (spool->counters, head.counted);
	if (head.since < spool->head.since)
		set_since (spool, head.since);
	ring_add_losses (spool->ring, head.dropped, head.lost);
	ring_add_losses (spool->ring, 0, inherit_records (spool, file, &head));
}

static void
adopt (struct spool *spool, const char *path)
{
	struct spool_file file;
	int result = spool_file_adopt (&file, path, NULL);

	spool->waits |= result > 0;
	if (result != 0)
		return;
	inherit (spool, &file);
	save (spool);
	/* also when ours could not be written: else it would be taken over again */
	if (unlink (path) != 0 && ftruncate (file.fd, 0) != 0)
		slurm_error ("sluice: %s: %s", path, strerror (errno));
	spool_file_close (&file);
}

/* `<name of the socket>.spool.<boot>`, and not ours. */
static int
is_anothers (const char *name, const char *own)
{
	size_t stem = strlen (own) - BOOT_DIGITS;
	return strlen (name) == stem + BOOT_DIGITS && strncmp (name, own, stem) == 0
	       && strcmp (name, own) != 0
	       && strspn (name + stem, "0123456789abcdef") == BOOT_DIGITS;
}

static void
adopt_others (struct spool *spool)
{
	char path[SPOOL_PATH_SIZE];
	char *slash;
	const struct dirent *entry;

	sluice_copy_text (path, sizeof path, spool->path);
	slash = strrchr (path, '/');
	spool->waits = 0;
	if (!slash)
		return;
	*slash = '\0';
	DIR *directory = opendir (path[0] ? path : "/");
	*slash = '/';
	while (directory && (entry = readdir (directory)))
		if (is_anothers (entry->d_name, strrchr (spool->path, '/') + 1)) {
			sluice_copy_text (slash + 1,
					  (size_t)(path + sizeof path - slash - 1),
					  entry->d_name);
			adopt (spool, path);
		}
	if (directory)
		closedir (directory);
}

/*
 * The thread.
 */

/* Where the configuration wants the file; a refused one changes nothing. */
static void
wanted_path (const struct spool *spool, char out[SPOOL_PATH_SIZE])
{
	const struct view *view = loader_acquire (spool->loader);
	if (view && view->config_checksum != 0)
		snprintf (out, SPOOL_PATH_SIZE, "%s%s%0*" PRIx64, view->config.socket,
			  infix, BOOT_DIGITS, spool->head.boot);
	else
		sluice_copy_text (out, SPOOL_PATH_SIZE, spool->path);
	loader_release (spool->loader);
}

/* The file may have to move, or it may have been deleted. */
static void
tend (struct spool *spool)
{
	char path[SPOOL_PATH_SIZE];

	wanted_path (spool, path);
	if (!path[0] || ring_state (spool->ring).size == 0)
		return;
	if (strcmp (path, spool->path) != 0
	    || (spool->file.fd >= 0 && !spool_file_is_at (&spool->file, path)))
		leave_file (spool);
	sluice_copy_text (spool->path, sizeof spool->path, path);
	save (spool);
	if (!spool->has_failed)
		adopt_others (spool);
}

static void *
run (void *data)
{
	struct spool *spool = data;
	int64_t due = 0;
	eventfd_t pushed;

	do {
		eventfd_read (spool->ring->pushed_fd, &pushed);
		spool->ring->is_awaited = 1;
		int64_t now = thread_milliseconds ();
		/* where the file belongs is unknown until the configuration is loaded */
		if (now >= due || !spool->path[0]) {
			tend (spool);
			due = now + (spool->waits ? WAIT_MS : TEND_MS);
		} else if (spool->file.fd >= 0 && !spool->has_failed) {
			save (spool);
		}
	} while (!thread_sleep (spool->stop_fd, spool->ring->pushed_fd, SPOOL_MS));
	if (spool->path[0])
		save (spool);
	spool_file_close (&spool->file);
	return NULL;
}

int
spool_start (struct spool *spool, struct loader *loader, struct ring *ring,
	     struct counters *counters, uint64_t boot, int stop_fd)
{
	memset (spool, 0, sizeof *spool);
	spool->loader = loader;
	spool->ring = ring;
	spool->counters = counters;
	spool->stop_fd = stop_fd;
	spool->file.fd = -1;
	spool->head.boot = boot;
	pthread_mutex_init (&spool->status_lock, NULL);
	set_since (spool, time (NULL));
	return thread_start (&spool->thread, "sluice-spool", run, spool);
}

void
spool_destroy (struct spool *spool)
{
	pthread_mutex_destroy (&spool->status_lock);
}

void
spool_get_status (struct spool *spool, struct spool_status *out)
{
	pthread_mutex_lock (&spool->status_lock);
	*out = spool->status;
	pthread_mutex_unlock (&spool->status_lock);
}
