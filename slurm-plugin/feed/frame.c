#include "frame.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static uint64_t key[2];

void
digest_init (void)
{
	if (getrandom (key, sizeof key, 0) != sizeof key)
		err (1, "getrandom");
}

static uint64_t
rotated (uint64_t value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static void
mix (uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotated (v[1], 13) ^ v[0];
	v[0] = rotated (v[0], 32);
	v[2] += v[3];
	v[3] = rotated (v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotated (v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotated (v[1], 17) ^ v[2];
	v[2] = rotated (v[2], 32);
}

static void
absorb (uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	mix (v);
	mix (v);
	v[0] ^= word;
}

uint64_t
digest (const unsigned char *bytes, size_t size)
{
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
			  key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573 };
	uint64_t word, last = (uint64_t)size << 56;
	size_t whole = size / sizeof word * sizeof word;
	for (size_t i = 0; i < whole; i += sizeof word) {
		memcpy (&word, bytes + i, sizeof word);
		absorb (v, word);
	}
	for (size_t i = whole; i < size; i++)
		last |= (uint64_t)bytes[i] << 8 * (i - whole);
	absorb (v, last);
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		mix (v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

enum { FLUSH_BYTES = 1 << 20, HEAD_BYTES = 5 };

static struct {
	unsigned char *bytes;
	size_t size, room;
	size_t begin; /* of the frame at hand */
} out;

void
frame_bytes (const void *bytes, size_t size)
{
	if (out.size + size > out.room) {
		size_t room = 2 * (out.size + size);
		unsigned char *grown = realloc (out.bytes, room);
		if (!grown)
			errx (1, "out of memory");
		out.bytes = grown;
		out.room = room;
	}
	if (size)
		memcpy (out.bytes + out.size, bytes, size);
	out.size += size;
}

void
frame_u32 (uint32_t value)
{
	frame_bytes (&value, sizeof value);
}

void
frame_u64 (uint64_t value)
{
	frame_bytes (&value, sizeof value);
}

void
frame_text (const char *text)
{
	size_t length = text ? strlen (text) : 0;
	frame_u32 ((uint32_t)length);
	frame_bytes (text, length);
}

void
frame_begin (enum frame_kind kind)
{
	unsigned char byte = (unsigned char)kind;
	out.begin = out.size;
	frame_u32 (0);
	frame_bytes (&byte, sizeof byte);
}

void
frame_end (void)
{
	uint32_t length = (uint32_t)(out.size - out.begin - HEAD_BYTES);
	memcpy (out.bytes + out.begin, &length, sizeof length);
	if (out.size >= FLUSH_BYTES)
		frame_flush ();
}

const unsigned char *
frame_payload (size_t *size)
{
	*size = out.size - out.begin - HEAD_BYTES;
	return out.bytes + out.begin + HEAD_BYTES;
}

void
frame_drop (void)
{
	out.size = out.begin;
}

void
frame_flush (void)
{
	for (size_t done = 0; done < out.size;) {
		ssize_t written = write (STDOUT_FILENO, out.bytes + done, out.size - done);
		if (written < 0)
			err (1, "standard output");
		done += (size_t)written;
	}
	out.size = 0;
}
