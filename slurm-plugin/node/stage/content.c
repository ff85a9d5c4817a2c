#include "content.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "crc32c.h"
#include "queue.h"

enum { BLOCK = 1 << 20, ATTRIBUTES = 65536 };

static unsigned char block[BLOCK];

/* Where data begins or ends at or after this place, and at most at the limit. A file system
 * that has no holes says EINVAL. */
static int64_t
seek (int fd, int64_t from, int whence, int64_t limit)
{
	if (from >= limit)
		return limit;
	int64_t found = lseek (fd, from, whence);
	if (found < 0)
		found = errno == ENXIO || whence == SEEK_HOLE ? limit : from;
	return found < limit ? found : limit;
}

static int
read_all (int fd, unsigned char *to, size_t size, int64_t from)
{
	while (size > 0) {
		ssize_t got = pread (fd, to, size, from);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno;
		if (got == 0)
			return REASON_CHANGED;
		to += got;
		size -= (size_t)got;
		from += got;
	}
	return 0;
}

static int
write_all (int fd, const unsigned char *from, size_t size, int64_t to)
{
	while (size > 0) {
		ssize_t put = pwrite (fd, from, size, to);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? errno : ENOSPC;
		from += put;
		size -= (size_t)put;
		to += put;
	}
	return 0;
}

/* One block of the file; data is where its first byte of data is. */
static int
pass_block (const struct content *content, int64_t start, int64_t end, int64_t data,
	    int64_t *written)
{
	int64_t filled = start;
	while (data < end) {
		int64_t hole = seek (content->in, data, SEEK_HOLE, end);
		if (hole <= data)
			hole = end;
		unsigned char *at = block + (data - start);
		memset (block + (filled - start), 0, (size_t)(data - filled));
		int reason = read_all (content->in, at, (size_t)(hole - data), data);
		if (reason == 0 && content->out >= 0) {
			reason = write_all (content->out, at, (size_t)(hole - data), data);
			*written += hole - data;
		}
		if (reason != 0)
			return reason;
		filled = hole;
		data = seek (content->in, hole, SEEK_DATA, end);
	}
	memset (block + (filled - start), 0, (size_t)(end - filled));
	return 0;
}

static uint32_t
add_block (uint32_t crc, int64_t start, size_t size)
{
	if (block[0] == 0 && memcmp (block, block + 1, size - 1) == 0)
		return crc;
	crc = crc32c (crc, &start, sizeof start);
	return crc32c (crc, block, size);
}

int
content_pass (const struct content *content, uint32_t *crc)
{
	int64_t at = 0, size = content->size;
	*crc = 0;
	while (at < size) {
		int64_t data = seek (content->in, at, SEEK_DATA, size), written = 0;
		if (data == size)
			break;
		int64_t start = data - data % BLOCK;
		int64_t end = size - start < BLOCK ? size : start + BLOCK;
		int reason = pass_block (content, start, end, data, &written);
		if (reason == 0) {
			*crc = add_block (*crc, start, (size_t)(end - start));
			reason = content->between (content->data, written);
		}
		if (reason != 0)
			return reason;
		at = end;
	}
	return 0;
}

static int
is_carried (const char *attribute)
{
	return strncmp (attribute, "user.", 5) == 0
	       || strcmp (attribute, "system.posix_acl_access") == 0;
}

/* A file system without attributes has none to lose. */
static ssize_t
list (int fd, char names[ATTRIBUTES])
{
	ssize_t size = flistxattr (fd, names, ATTRIBUTES);
	return size < 0 && errno == ENOTSUP ? 0 : size;
}

/* Once: no byte of a file is in there. */
static void
tell_unsupported (const char *name)
{
	static int is_told;
	if (!is_told)
		fprintf (stderr,
			 "sluice-drain: the destination takes no attribute %s: such stay "
			 "behind\n",
			 name);
	is_told = 1;
}

static int
remove_others (int in, int out)
{
	static char names[ATTRIBUTES];
	ssize_t size = list (out, names);
	if (size < 0)
		return errno;
	for (char *name = names; name < names + size; name += strlen (name) + 1)
		if (is_carried (name) && fgetxattr (in, name, NULL, 0) < 0
		    && errno == ENODATA && fremovexattr (out, name) < 0)
			return errno;
	return 0;
}

int
content_attributes (int in, int out)
{
	static char names[ATTRIBUTES], value[ATTRIBUTES];
	ssize_t size = list (in, names);
	if (size < 0)
		return errno;
	for (char *name = names; name < names + size; name += strlen (name) + 1) {
		if (!is_carried (name))
			continue;
		ssize_t length = fgetxattr (in, name, value, sizeof value);
		if (length < 0 && errno == ENODATA)
			continue;
		if (length < 0)
			return errno;
		if (fsetxattr (out, name, value, (size_t)length, 0) == 0)
			continue;
		if (errno != ENOTSUP)
			return errno;
		tell_unsupported (name);
	}
	return remove_others (in, out);
}
