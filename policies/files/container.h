/*
 * The file format that bundle and snapshot share: a header, a table of
 * sections, the sections. Little-endian, 8-byte aligned, one checksum.
 * docs/reference/bundle-format.md describes it byte by byte.
 */
#ifndef SLUICE_CONTAINER_H
#define SLUICE_CONTAINER_H

#include "base.h"

enum {
	SLUICE_CONTAINER_MAX_SECTIONS = 32,
	SLUICE_BUNDLE_VERSION = 11,
	SLUICE_SNAPSHOT_VERSION = 7,
};

enum sluice_container_kind {
	SLUICE_KIND_BUNDLE = 1,
	SLUICE_KIND_SNAPSHOT = 2,
};

/* The first 64 bytes of a file. checksum is the CRC-64 of everything behind
 * the checksum field itself. */
struct sluice_container_header {
	char magic[8]; /* "SLUICE\r\n": a text-mode copy is noticed */
	uint64_t checksum;
	uint32_t kind; /* enum sluice_container_kind */
	uint32_t version;
	uint64_t file_size;
	uint64_t unused; /* 0 */
	int64_t created; /* UTC seconds */
	uint32_t section_count;
	uint32_t section_table; /* always 64: offset of the table */
	uint64_t reserved;	/* 0 */
};

struct sluice_section {
	uint32_t id;
	uint32_t element_size;
	uint64_t offset; /* from the start of the file, a multiple of 8 */
	uint64_t count;
};

/* What is loaded from a container begins with this. */
struct sluice_loaded {
	void *bytes; /* its own */
	const struct sluice_container_header *header;
};

/* What a container may be loaded as. */
struct sluice_loadable {
	uint32_t kind; /* enum sluice_container_kind */
	uint32_t version;
	size_t max_bytes;   /* of a file */
	size_t object_size; /* of what begins with struct sluice_loaded */
	/* Fills the object in from its checked container. 0, or -1 with the reason. */
	int (*check) (void *object, struct sluice_error *err);
};

/* Validate a container in memory and copy it. 0, or -1 with the reason. */
int sluice_container_parse (const struct sluice_loadable *type, const void *bytes,
			    size_t size, void **out, struct sluice_error *err);
/* The same from a file that sluice_read_trusted_file accepts. */
int sluice_container_load (const struct sluice_loadable *type, const char *path,
			   uint32_t owner_uid, void **out, struct sluice_error *err);
/* Free an object and its bytes; NULL is fine. */
void sluice_container_destroy (void *object);

/* The section's elements, or NULL with a reason unless it exists, has this
 * element size and at most max_count elements. Only after a check. */
const void *sluice_container_section (const void *bytes, uint32_t id, size_t element_size,
				      uint64_t max_count, uint64_t *count,
				      struct sluice_error *err);

/* Read a whole file into aligned memory that the caller frees. Refuses anything
 * but a regular file of at most max_size that only its owner may write and that
 * root or owner_uid owns. It runs when something is loaded, never in a decision. */
int sluice_read_trusted_file (const char *path, uint32_t owner_uid, size_t max_size,
			      void **bytes, size_t *size, struct sluice_error *err);
void sluice_free (void *bytes);

#endif
