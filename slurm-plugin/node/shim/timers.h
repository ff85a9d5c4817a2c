/*
 * Alarms and timers that a program has set. It may end itself, or a part of its work, when
 * one expires while it waits.
 */
#ifndef SLUICE_TIMERS_H
#define SLUICE_TIMERS_H

#include <stdint.h>

/* Whether any thread of this process has set one that is still to expire. Timers that count
 * the processor time of the process stand still while it waits. */
int timers_are_set (uint64_t now);

#endif
