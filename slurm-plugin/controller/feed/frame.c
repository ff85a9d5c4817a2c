#include "frame.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "siphash.h"

static uint64_t key[2];

void
digest_init (void)
{
	if (getrandom (key, sizeof key, 0) != sizeof key)
		err (1, "getrandom");
}

uint64_t
digest (const unsigned char *bytes, size_t size)
{
	return siphash (key, bytes, size);
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
