/* O_CLOEXEC and O_NOFOLLOW */
#define _POSIX_C_SOURCE 200809L

#include "container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = { 'S', 'L', 'U', 'I', 'C', 'E', '\r', '\n' };

static const struct sluice_section *
table (const void *bytes)
{
	return (const void *)((const char *)bytes
			      + sizeof (struct sluice_container_header));
}

static int
check_sections (const struct sluice_container_header *header, struct sluice_error *err)
{
	const struct sluice_section *sections = table (header);
	uint64_t end = sizeof *header + header->section_count * sizeof *sections;
	if (header->section_count > SLUICE_CONTAINER_MAX_SECTIONS
	    || end > header->file_size)
		return sluice_fail (err, "%u sections do not fit",
				    (unsigned int)header->section_count);

	for (uint32_t i = 0; i < header->section_count; i++) {
		const struct sluice_section *s = &sections[i];
		/* in the order of the table, so that none overlap */
		if (s->offset % 8 != 0 || s->offset < end || s->offset > header->file_size)
			return sluice_fail (err, "section %u starts at %llu, out of place",
					    (unsigned int)s->id,
					    (unsigned long long)s->offset);
		if (s->element_size == 0
		    || s->count > (header->file_size - s->offset) / s->element_size)
			return sluice_fail (err, "section %u runs past the end of the file",
					    (unsigned int)s->id);
		end = s->offset + s->count * s->element_size;
		for (uint32_t j = 0; j < i; j++)
			if (sections[j].id == s->id)
				return sluice_fail (err, "section %u is there twice",
						    (unsigned int)s->id);
	}
	return 0;
}

/* Header, table, bounds and checksum. bytes must be 8-byte aligned. */
static int
check_container (const void *bytes, size_t size, uint32_t kind, uint32_t version,
		 struct sluice_error *err)
{
	const struct sluice_container_header *header = bytes;
	const size_t guarded = offsetof (struct sluice_container_header, kind);

	if (size < sizeof *header)
		return sluice_fail (err, "%zu bytes are too few for a header", size);
	if (memcmp (header->magic, magic, sizeof magic) != 0)
		return sluice_fail (err, "not a Sluice file");
	if (header->file_size != size)
		return sluice_fail (err, "truncated or extended: %zu bytes, not %llu", size,
				    (unsigned long long)header->file_size);
	if (header->checksum
	    != sluice_crc64 ((const char *)bytes + guarded, size - guarded))
		return sluice_fail (err, "damaged: the checksum does not fit");
	if (header->kind != kind)
		return sluice_fail (err, "kind is %u, wanted %u",
				    (unsigned int)header->kind, (unsigned int)kind);
	if (header->version != version)
		return sluice_fail (err, "format version is %u, this Sluice reads %u",
				    (unsigned int)header->version, (unsigned int)version);
	if (header->section_table != sizeof *header || header->unused != 0
	    || header->reserved != 0)
		return sluice_fail (err, "header fields that are fixed differ");
	return check_sections (header, err);
}

const void *
sluice_container_section (const void *bytes, uint32_t id, size_t element_size,
			  uint64_t max_count, uint64_t *count, struct sluice_error *err)
{
	const struct sluice_container_header *header = bytes;
	for (uint32_t i = 0; i < header->section_count; i++) {
		const struct sluice_section *s = &table (bytes)[i];
		if (s->id != id)
			continue;
		if (s->element_size != element_size || s->count > max_count) {
			sluice_fail (err,
				     "section %u has %llu elements of %u bytes; "
				     "at most %llu of %zu are possible",
				     (unsigned int)id, (unsigned long long)s->count,
				     (unsigned int)s->element_size,
				     (unsigned long long)max_count, element_size);
			return NULL;
		}
		*count = s->count;
		return (const char *)bytes + s->offset;
	}
	sluice_fail (err, "section %u is missing", (unsigned int)id);
	return NULL;
}

static int
check_trust (const struct stat *st, uint32_t owner_uid, size_t max_size,
	     struct sluice_error *err)
{
	if (!S_ISREG (st->st_mode))
		return sluice_fail (err, "not a regular file");
	if (st->st_uid != 0 && st->st_uid != owner_uid)
		return sluice_fail (
		    err, "owned by uid %u; it must belong to root or uid %u: use chown",
		    (unsigned int)st->st_uid, (unsigned int)owner_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return sluice_fail (err, "mode %03o lets others write it; use chmod go-w",
				    (unsigned int)(st->st_mode & 0777));
	if (st->st_size < 0 || (uintmax_t)st->st_size > max_size)
		return sluice_fail (err, "%lld bytes; at most %zu are possible",
				    (long long)st->st_size, max_size);
	return 0;
}

/* All of size bytes, or -1: the file shrank while it was read. */
static int
read_exactly (int fd, char *bytes, size_t size, struct sluice_error *err)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = read (fd, bytes + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return sluice_fail (err, "%s", strerror (errno));
		if (n == 0)
			return sluice_fail (err, "ended early, after %zu of %zu bytes",
					    done, size);
		done += (size_t)n;
	}
	return 0;
}

int
sluice_read_trusted_file (const char *path, uint32_t owner_uid, size_t max_size,
			  void **bytes, size_t *size, struct sluice_error *err)
{
	struct sluice_error why;
	struct stat st;
	char *buffer = NULL;

	/* O_NONBLOCK: a FIFO in the file's place must not hang the reader. */
	int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		sluice_fail (&why, "%s",
			     errno == ELOOP
				 ? "is a symbolic link; put the file itself there"
				 : strerror (errno));
		goto error;
	}
	if (fstat (fd, &st) < 0) {
		sluice_fail (&why, "%s", strerror (errno));
		goto error;
	}
	if (check_trust (&st, owner_uid, max_size, &why) < 0)
		goto error;
	buffer = sluice_allocate ((size_t)st.st_size + 1);
	if (!buffer) {
		sluice_fail (&why, "no memory for %lld bytes", (long long)st.st_size);
		goto error;
	}
	if (read_exactly (fd, buffer, (size_t)st.st_size, &why) < 0)
		goto error;
	close (fd);
	*bytes = buffer;
	*size = (size_t)st.st_size;
	return 0;

error:
	if (fd >= 0)
		close (fd);
	free (buffer);
	return sluice_fail (err, "%.120s: %.120s", path, why.text);
}

void
sluice_free (void *bytes)
{
	free (bytes);
}

/* Takes over bytes, also when it fails. */
static int
adopt (const struct sluice_loadable *type, void *bytes, size_t size, void **out,
       struct sluice_error *err)
{
	struct sluice_loaded *object = NULL;
	if (check_container (bytes, size, type->kind, type->version, err) < 0)
		goto error;
	object = calloc (1, type->object_size);
	if (!object) {
		sluice_fail (err, "no memory");
		goto error;
	}
	object->bytes = bytes;
	object->header = bytes;
	if (type->check (object, err) < 0)
		goto error;
	*out = object;
	return 0;

error:
	free (object);
	free (bytes);
	return -1;
}

int
sluice_container_parse (const struct sluice_loadable *type, const void *bytes, size_t size,
			void **out, struct sluice_error *err)
{
	void *copy = sluice_allocate (size + 1);
	if (!copy)
		return sluice_fail (err, "no memory for %zu bytes", size);
	memcpy (copy, bytes, size);
	return adopt (type, copy, size, out, err);
}

int
sluice_container_load (const struct sluice_loadable *type, const char *path,
		       uint32_t owner_uid, void **out, struct sluice_error *err)
{
	struct sluice_error why;
	void *bytes;
	size_t size;
	if (sluice_read_trusted_file (path, owner_uid, type->max_bytes, &bytes, &size, err)
	    < 0)
		return -1;
	if (adopt (type, bytes, size, out, &why) < 0)
		return sluice_fail (err, "%.120s: %.120s", path, why.text);
	return 0;
}

void
sluice_container_destroy (void *object)
{
	struct sluice_loaded *loaded = object;
	if (loaded)
		free (loaded->bytes);
	free (loaded);
}
