/*
 * Lets a fuzzer past the checksum: behind it is where a hostile file would be.
 */
#ifndef CONTAINER_INPUT_H
#define CONTAINER_INPUT_H

#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "submission.h"

/* A copy of the input, 8-byte aligned, whose magic, size, feature hash and
 * checksum fit; the caller frees it. NULL when it is too short for a header. */
static inline void *
repair_container (const uint8_t *data, size_t size)
{
	static const char magic[8] = { 'S', 'L', 'U', 'I', 'C', 'E', '\r', '\n' };
	const size_t guarded = offsetof (struct sluice_container_header, kind);
	if (size < sizeof (struct sluice_container_header))
		return NULL;
	struct sluice_container_header *header = malloc (size);
	if (!header)
		return NULL;
	memcpy (header, data, size);
	memcpy (header->magic, magic, sizeof magic);
	header->file_size = size;
	header->checksum = sluice_crc64 ((const char *)header + guarded, size - guarded);
	return header;
}

/* Parse the input as it is, and once more with a checksum that fits. */
static inline int
parse_twice (const uint8_t *data, size_t size, void (*parse) (const void *, size_t))
{
	parse (data, size);
	void *repaired = repair_container (data, size);
	if (repaired)
		parse (repaired, size);
	free (repaired);
	return 0;
}

#endif
