/* SipHash-2-4 under a key of this process's own: who knows no key cannot make
 * two records of one digest, so no change of a job goes unnoticed. */
#ifndef SLUICE_DIGEST_H
#define SLUICE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

void digest_init (void);
uint64_t digest (const unsigned char *bytes, size_t size);

#endif
