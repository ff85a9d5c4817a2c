/* CRC32C, by the processor where it has an instruction for that. */
#ifndef SLUICE_STAGE_CRC32C_H
#define SLUICE_STAGE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of these bytes behind others with the sum `crc`; 0 at the beginning. */
uint32_t crc32c (uint32_t crc, const void *data, size_t size);

#endif
