#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c.h"

enum { SPARE_RECORDS = 10000 };

static uint32_t
sum (const struct record *record, const char *path)
{
	uint32_t crc = crc32c (0, (const char *)record + sizeof record->crc,
			       sizeof *record - sizeof record->crc);
	return crc32c (crc, path, record->length);
}

/* Each part of a path is a name; the roots are two paths, and begin with a slash. */
static int
is_path (const char *path, size_t length)
{
	size_t part = 0;
	if (memchr (path, '\0', length))
		return 0;
	for (size_t i = 0; i <= length; i++) {
		if (i < length && path[i] != '/') {
			part++;
			continue;
		}
		const char *from = path + i - part;
		if (part == 0 || (part == 1 && from[0] == '.')
		    || (part == 2 && from[0] == '.' && from[1] == '.'))
			return 0;
		part = 0;
	}
	return 1;
}

static int
is_whole (const struct record *record, const char *path)
{
	if (record->crc != sum (record, path))
		return 0;
	switch (record->type) {
	case RECORD_ROOTS:
		return record->length > 0 && path[0] == '/'
		       && !memchr (path, '\0', record->length);
	case RECORD_NO_PARTS:
		return record->length == 0;
	case RECORD_PUT:
		return record->is.kind >= KIND_FILE && record->is.kind <= KIND_DIRECTORY
		       && is_path (path, record->length);
	case RECORD_DROP:
	case RECORD_PART:
		return is_path (path, record->length);
	default:
		return 0;
	}
}

size_t
journal_parse (const void *bytes, size_t size, journal_take *take, void *data)
{
	static char path[UINT16_MAX + 1];
	struct record record;
	size_t at = 0;

	while (size - at >= sizeof record) {
		memcpy (&record, (const char *)bytes + at, sizeof record);
		if (size - at - sizeof record < record.length)
			break;
		memcpy (path, (const char *)bytes + at + sizeof record, record.length);
		path[record.length] = '\0';
		if ((at == 0) != (record.type == RECORD_ROOTS) || !is_whole (&record, path))
			break;
		take (data, record.type, path, &record.is);
		at += sizeof record + record.length;
	}
	return at;
}

/* -1 with errno. */
static int
read_file (int fd, char **bytes, size_t *size)
{
	struct stat found;
	if (fstat (fd, &found) < 0)
		return -1;
	*bytes = need (malloc ((size_t)found.st_size + 1));
	for (*size = 0; *size < (size_t)found.st_size;) {
		ssize_t got = pread (fd, *bytes + *size, (size_t)found.st_size - *size,
				     (off_t)*size);
		if (got < 0) {
			free (*bytes);
			return -1;
		}
		if (got == 0)
			break;
		*size += (size_t)got;
	}
	return 0;
}

enum journal_state
journal_open (struct journal *journal, const char *path, journal_take *take, void *data)
{
	char *bytes;
	size_t size;

	*journal = (struct journal){ .path = path, .fd = -1 };
	if (!path)
		return JOURNAL_NEW;
	journal->fd
	    = open (path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (journal->fd < 0 || read_file (journal->fd, &bytes, &size) < 0)
		return JOURNAL_UNUSABLE;
	size_t whole = journal_parse (bytes, size, take, data);
	free (bytes);
	journal->end = (int64_t)whole;
	if (size == 0)
		return JOURNAL_NEW;
	return whole == size ? JOURNAL_WHOLE : JOURNAL_DAMAGED;
}

static size_t
encode (char *out, enum record_type type, const char *path, const struct identity *is)
{
	struct record record
	    = { .type = (uint16_t)type, .length = (uint16_t)strlen (path) };
	if (is)
		record.is = *is;
	record.crc = sum (&record, path);
	memcpy (out, &record, sizeof record);
	memcpy (out + sizeof record, path, record.length);
	return sizeof record + record.length;
}

static void
tell_failure (struct journal *journal, int error)
{
	if (!journal->has_failed)
		fprintf (stderr,
			 "sluice-drain: %s: %s; a drainer that is started again may copy "
			 "files twice\n",
			 journal->path, strerror (error));
	journal->has_failed = 1;
}

void
journal_append (struct journal *journal, enum record_type type, const char *path,
		const struct identity *is)
{
	static char bytes[sizeof (struct record) + UINT16_MAX];
	if (journal->fd < 0 || strlen (path) > UINT16_MAX)
		return;
	size_t size = encode (bytes, type, path, is);
	ssize_t put = pwrite (journal->fd, bytes, size, journal->end);
	if (put != (ssize_t)size) {
		tell_failure (journal, put < 0 ? errno : ENOSPC);
		/* the next one must not follow half a record */
		if (ftruncate (journal->fd, journal->end) < 0)
			return;
		return;
	}
	journal->end += put;
	journal->records++;
}

int
journal_is_long (const struct journal *journal, const struct names *names)
{
	return journal->records > 4 * names->by_path.count + SPARE_RECORDS;
}

void
journal_rewrite (struct journal *journal, const char *roots,
		 const struct identity *destination, const struct names *names)
{
	char path[PATH_MAX];
	if (!journal->path)
		return;
	struct journal fresh = { .path = journal->path };
	if (snprintf (path, sizeof path, "%s.new", journal->path) >= (int)sizeof path)
		return;
	fresh.fd = open (path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fresh.fd < 0) {
		tell_failure (journal, errno);
		return;
	}
	journal_append (&fresh, RECORD_ROOTS, roots, destination);
	struct name **all = names_all (names);
	for (struct name **name = all; *name; name++)
		journal_append (&fresh, RECORD_PUT, (*name)->path, &(*name)->is);
	free (all);
	if (fresh.has_failed || rename (path, journal->path) < 0) {
		unlink (path);
		close (fresh.fd);
		return;
	}
	close (journal->fd);
	*journal = fresh;
}
