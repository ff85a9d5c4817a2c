#include "siphash.h"

#include <string.h>

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
siphash (const uint64_t key[2], const unsigned char *bytes, size_t size)
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
