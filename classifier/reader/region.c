#define _POSIX_C_SOURCE 200809L
#include "region.h"

#include "zlib_stream.h"

#include <string.h>
#include <unistd.h>

enum { COMPRESSED_BY_ZLIB = 0 };

static void
start_stream (struct region *region)
{
	region->library->inflate_reset (region->library->stream);
	region->in_stream = 0;
	region->checksum = 1;
}

void
region_start (struct region *region, const struct sluice_library *library,
	      const struct darshan_handle *handle, struct darshan_region where)
{
	region->library = library;
	region->file = handle->state->file;
	region->packed = handle->compression == COMPRESSED_BY_ZLIB;
	region->offset = where.offset;
	region->left = where.length;
	region->library->stream->next_in = region->input + REGION_CHECKSUM;
	region->library->stream->avail_in = 0;
	region->ended = 0;
	region->size = 0;
	start_stream (region);
}

/* The checksum of a zlib stream (RFC 1950): the sum of its bytes, and the sum of these
 * sums, by columns that compilers make vectors of. So many rows do not overflow 16 bits. */
static uint32_t
adler32 (uint32_t checksum, const unsigned char *bytes, size_t size)
{
	enum { COLUMNS = 32, ROWS = 22, CHUNK = ROWS * COLUMNS, MODULUS = 65521 };
	uint32_t sum = checksum & 0xffff, sums = checksum >> 16;
	for (; size >= CHUNK; size -= CHUNK) {
		uint16_t column[COLUMNS] = { 0 }, above[COLUMNS] = { 0 };
		for (int row = 0; row < ROWS; row++, bytes += COLUMNS)
			for (int i = 0; i < COLUMNS; i++) {
				above[i] = (uint16_t)(above[i] + column[i]);
				column[i] = (uint16_t)(column[i] + bytes[i]);
			}
		sums += CHUNK * sum;
		for (int i = 0; i < COLUMNS; i++) {
			sum += column[i];
			sums += COLUMNS * (uint32_t)above[i]
				+ (uint32_t)((COLUMNS - i) * column[i]);
		}
		sum %= MODULUS;
		sums %= MODULUS;
	}
	for (; size > 0; size--) {
		sum += *bytes++;
		sums += sum;
	}
	return sums % MODULUS << 16 | sum % MODULUS;
}

/* Read up to so many bytes of the region; returns their number, or -1. */
static int64_t
load (struct region *region, void *bytes, size_t room)
{
	size_t size = region->left < room ? (size_t)region->left : room;
	if (pread (region->file, bytes, size, (off_t)region->offset) != (ssize_t)size)
		return -1;
	region->offset += size;
	region->left -= size;
	return (int64_t)size;
}

static int
load_packed (struct region *region)
{
	struct zlib_stream *stream = region->library->stream;
	unsigned char *place = region->input + REGION_CHECKSUM;
	memmove (region->input, stream->next_in - REGION_CHECKSUM, REGION_CHECKSUM);
	int64_t size = load (region, place, REGION_PACKED);
	if (size < 0)
		return -1;
	stream->next_in = place;
	stream->avail_in = (unsigned)size;
	return 0;
}

/* Unpack what there is to read, or what there is room for. */
static int
unpack_some (struct region *region)
{
	struct zlib_stream *stream = region->library->stream;
	const unsigned char *before = stream->next_out;
	int result = region->library->inflate (stream, ZLIB_NO_FLUSH);
	if (result != ZLIB_OK && result != ZLIB_STREAM_END)
		return -1;
	region->in_stream = 1;
	region->checksum
	    = adler32 (region->checksum, before, (size_t)(stream->next_out - before));
	if (result == ZLIB_OK)
		return 0;
	const unsigned char *told = stream->next_in - REGION_CHECKSUM;
	if (region->checksum
	    != ((uint32_t)told[0] << 24 | (uint32_t)told[1] << 16 | (uint32_t)told[2] << 8
		| told[3]))
		return -1;
	start_stream (region);
	return 0;
}

/* Returns the number of bytes, less than a piece at the end, or -1. */
static int64_t
unpack (struct region *region)
{
	struct zlib_stream *stream = region->library->stream;
	stream->next_out = (unsigned char *)region->bytes + region->size;
	stream->avail_out = REGION_PIECE;
	while (stream->avail_out > 0) {
		if (stream->avail_in == 0 && region->left == 0)
			return region->in_stream
				   ? -1
				   : (int64_t)REGION_PIECE - stream->avail_out;
		if (stream->avail_in == 0 && load_packed (region) < 0)
			return -1;
		if (unpack_some (region) < 0)
			return -1;
	}
	return REGION_PIECE;
}

int
region_read (struct region *region, size_t taken)
{
	region->size -= taken;
	memmove (region->bytes, region->bytes + taken, region->size);
	if (region->ended)
		return region->size == 0 ? 0 : -1;
	if (region->size > REGION_PIECE)
		return -1;
	int64_t got = region->packed
			  ? unpack (region)
			  : load (region, region->bytes + region->size, REGION_PIECE);
	if (got < 0)
		return -1;
	region->size += (size_t)got;
	region->ended = got < REGION_PIECE;
	return 1;
}
