/*
 * Any bytes as the licences a user wrote. The first byte says what the job was
 * given before: whatever the rest is, it holds no more of our tokens afterwards,
 * and taking them off again changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "tokens.h"

static const char conf[] = "Lane=a Targets=1\nLane=ab Targets=1\nLane=b_flush Targets=1\n";

static void
check (const struct sluice_policy *policy, const struct sluice_tokens *granted,
       const char *text)
{
	char once[SLUICE_LICENSES_SIZE], twice[SLUICE_LICENSES_SIZE];
	struct sluice_stripped first, second;

	if (sluice_licenses_strip (policy, NULL, granted, text, once, &first) != 0) {
		if (strlen (text) < SLUICE_LICENSES_SIZE)
			abort (); /* refused without need */
		return;
	}
	if (first.items == 0 && strcmp (once, text) != 0)
		abort (); /* altered without need */
	if (first.lanes & ~granted->lane_mask)
		abort ();
	if (sluice_licenses_strip (policy, NULL, granted, once, twice, &second) != 0
	    || second.items != 0 || strcmp (once, twice) != 0)
		abort (); /* something was left */
	if (sluice_tokens_fit (policy, granted, (uint32_t)strlen (once))
	    != (sluice_licenses_append (policy, granted, once) == 0))
		abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	struct sluice_config config;
	struct sluice_tokens granted = { 0 };

	if (size == 0
	    || sluice_config_parse ("conf", conf, sizeof conf - 1, &config, NULL) != 0)
		return 0;
	granted.lane_mask = data[0] & 7;
	granted.klass = granted.lane_mask ? SLUICE_CLASS_STREAM + (data[0] >> 3) % 3u
					  : (uint32_t)SLUICE_CLASS_NONE;
	char *text = malloc (size);
	if (!text)
		return 0;
	memcpy (text, data + 1, size - 1);
	text[size - 1] = '\0';
	check (&config.policy, &granted, text);
	free (text);
	return 0;
}
