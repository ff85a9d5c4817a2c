#include "hint.h"

#include <math.h>
#include <string.h>

/*
 * Reading.
 */

int
sluice_hint_pattern (const char *text, uint32_t *out)
{
	static const uint32_t patterns[] = {
		SLUICE_PATTERN_OWC,  SLUICE_PATTERN_WS,	      SLUICE_PATTERN_AW,
		SLUICE_PATTERN_READ, SLUICE_PATTERN_METADATA, SLUICE_PATTERN_NONE,
	};
	for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
		if (strcmp (text, sluice_pattern_name (patterns[i])) == 0) {
			*out = patterns[i];
			return 0;
		}
	return -1;
}

int
sluice_hint_bytes (const char *text, uint64_t *out)
{
	const uint64_t most = (uint64_t)1 << 60;
	const char *longest = text + 32; /* zeros in front could go on for ever */
	static const char units[] = "kmgt";
	uint64_t number = 0, unit = 1;

	if (*text < '0' || *text > '9')
		return -1;
	for (; *text >= '0' && *text <= '9'; text++) {
		number = number * 10 + (uint64_t)(*text - '0');
		if (number > most || text == longest)
			return -1;
	}
	if (*text) {
		const char *found = strchr (units, *text | 0x20);
		if (!found || text[1])
			return -1;
		unit <<= 10 * (found - units + 1);
	}
	if (number == 0 || number > most / unit)
		return -1;
	*out = number * unit;
	return 0;
}

/*
 * Counting. Each returns whether there was a number to hold the hint against.
 */

static double
held_to (double history, double said)
{
	return fmin (fmax (said, 0.5 * history), 2.0 * history);
}

/* The share of the pattern may double, and no other may fall below half. */
static int
apply_pattern (uint32_t pattern, struct sluice_profile *profile)
{
	double share = (double)profile->share[pattern];
	if (share <= 0.0 || share >= 1.0)
		return 0;
	double raised = fmin (2.0 * share, 0.5 * (1.0 + share));
	double others = (1.0 - raised) / (1.0 - share);
	for (uint32_t p = 0; p < SLUICE_PATTERN_COUNT; p++)
		profile->share[p] = (float)(profile->share[p] * others);
	profile->share[pattern] = (float)raised;
	return 1;
}

static int
apply_chunk (uint64_t chunk_bytes, struct sluice_profile *profile)
{
	if (profile->chunk_bytes <= 0.0)
		return 0;
	profile->chunk_bytes = held_to (profile->chunk_bytes, (double)chunk_bytes);
	return 1;
}

static void
scale (double *quantity, double factor)
{
	if (*quantity >= 0.0)
		*quantity *= factor;
}

/* More bytes at the same rate: bursts, and with them the run, grow. */
static int
apply_total (uint64_t total_bytes, struct sluice_profile *profile)
{
	double history = fmax (0.0, profile->write_bytes) + fmax (0.0, profile->read_bytes);
	if (history <= 0.0)
		return 0;
	double factor = held_to (history, (double)total_bytes) / history;
	scale (&profile->write_bytes, factor);
	scale (&profile->read_bytes, factor);
	scale (&profile->burst_seconds, factor);
	if (profile->io_share < 0.0)
		return 1;
	double stretch = 1.0 + profile->io_share * (factor - 1.0);
	scale (&profile->period_seconds, stretch);
	scale (&profile->runtime_seconds, stretch);
	profile->io_share = fmin (1.0, profile->io_share * factor / stretch);
	return 1;
}

uint32_t
sluice_hints_apply (const struct sluice_hints *hints, struct sluice_profile *profile)
{
	uint32_t hinted = 0;
	if (hints->pattern != SLUICE_PATTERN_UNKNOWN
	    && apply_pattern (hints->pattern, profile))
		hinted |= SLUICE_HINTED_PATTERN;
	if (hints->chunk_bytes > 0 && apply_chunk (hints->chunk_bytes, profile))
		hinted |= SLUICE_HINTED_CHUNK;
	if (hints->total_bytes > 0 && apply_total (hints->total_bytes, profile))
		hinted |= SLUICE_HINTED_TOTAL;
	return hinted;
}
