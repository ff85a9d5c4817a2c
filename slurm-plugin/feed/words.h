/* Slurm's words for states and reasons, as its commands print them. */
#ifndef SLUICE_WORDS_H
#define SLUICE_WORDS_H

#include <stdint.h>

const char *state_word (uint32_t state);
const char *reason_word (uint32_t reason);

#endif
