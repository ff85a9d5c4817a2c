#include "crc32c.h"

#include <string.h>

static uint32_t
by_table (uint32_t crc, const unsigned char *data, size_t size)
{
	static uint32_t table[256];

	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t value = i;
			for (int bit = 0; bit < 8; bit++)
				value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
			table[i] = value;
		}
	while (size--)
		crc = crc >> 8 ^ table[(crc ^ *data++) & 0xff];
	return crc;
}

#ifdef __x86_64__
__attribute__ ((target ("sse4.2"))) static uint32_t
by_instruction (uint32_t crc, const unsigned char *data, size_t size)
{
	uint64_t sum = crc, word;
	for (; size >= sizeof word; size -= sizeof word, data += sizeof word) {
		memcpy (&word, data, sizeof word);
		sum = __builtin_ia32_crc32di (sum, word);
	}
	crc = (uint32_t)sum;
	while (size--)
		crc = __builtin_ia32_crc32qi (crc, *data++);
	return crc;
}
#endif

uint32_t
crc32c (uint32_t crc, const void *data, size_t size)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports ("sse4.2"))
		return ~by_instruction (~crc, data, size);
#endif
	return ~by_table (~crc, data, size);
}
