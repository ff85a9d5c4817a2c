/*
 * A file's bytes: read once, summed on the way, and written where they are no hole.
 *
 * The sum is a CRC32C of the blocks that are not zero, each behind its number, so that it
 * is the same however the file system stores its holes.
 */
#ifndef SLUICE_STAGE_CONTENT_H
#define SLUICE_STAGE_CONTENT_H

#include <stdint.h>

struct content {
	int in, out; /* out -1: only the sum */
	int64_t size;
	/* Called after each block with the bytes that were written; else than 0 ends it. */
	int (*between) (void *data, int64_t written);
	void *data;
};

/* 0, or an errno, or what between returned, or a reason of queue.h. */
int content_pass (const struct content *content, uint32_t *crc);

/* Extended attributes of the user and access lists, from one file to another. 0, or an
 * errno: the destination does not take one. */
int content_attributes (int in, int out);

#endif
