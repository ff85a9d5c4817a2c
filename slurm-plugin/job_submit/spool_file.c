#include "spool_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

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

/* A directory may be anybody's: a file that others can write, a link, a device or a
 * name of somebody else's file is none of ours. */
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
