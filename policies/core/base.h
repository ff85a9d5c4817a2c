/*
 * Fixed widths, bounded text and errors: what every header of the core needs.
 *
 * The core has no I/O, no clock, no globals; it allocates only when it loads.
 * Every struct below is plain old data of fixed size, so that a decision record
 * or a snapshot is its bytes, and the Python binding reads these same headers.
 */
#ifndef SLUICE_BASE_H
#define SLUICE_BASE_H

#ifndef SLUICE_BINDING
#include <stddef.h>
#include <stdint.h>
#endif

enum {
	SLUICE_ERROR_SIZE = 256, /* longest error text, with its end */
	SLUICE_NAME_SIZE = 64,	 /* names of jobs, accounts, partitions, ... */
	SLUICE_MAX_LANES = 16,	 /* lanes of one site */
	SLUICE_TURNS_PART
	= 20, /* of the time that its limit leaves a job, turns may hold it 1/20 */
};

/* A quantity that was never measured. Known quantities are >= 0. */
#define SLUICE_UNKNOWN (-1.0)

struct sluice_error {
	char text[SLUICE_ERROR_SIZE];
};

/* Write a formatted reason into err (may be NULL). Always returns -1. */
#ifndef SLUICE_BINDING
int sluice_fail (struct sluice_error *err, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Copy at most size - 1 bytes and terminate; NULL becomes the empty string.
 * The rest of dst is zeroed, so that equal text means equal bytes. */
void sluice_copy_text (char *dst, size_t size, const char *src);
#endif

/*
 * Memory for what decisions look up, from a cache line's start; free() it. NULL: there is
 * none. Much of it comes in huge pages where the kernel has them: a table is read at many
 * places a job, and each small page has to be found first.
 */
void *sluice_allocate (size_t size);

/* CRC-64/XZ of a buffer: guards files against damage, not against malice. */
uint64_t sluice_crc64 (const void *bytes, size_t size);

/* 64-bit hash, the same on every (little-endian) machine; not for security. */
uint64_t sluice_hash_bytes (const void *bytes, size_t size, uint64_t seed);
uint64_t sluice_hash_text (const char *text, uint64_t seed);

#endif
