/*
 * Any bytes as the licences a user wrote. The first byte says what the job was
 * given before, and in which text they stand: whatever the rest is, it holds no more of our
 * tokens afterwards, and taking them off again changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "tokens.h"

static const char conf[] = "Lane=a Targets=1\nLane=ab Targets=1\nLane=b_flush Targets=1\n";

static void
check (const struct sluice_policy *policy, const struct sluice_tokens *granted,
       enum sluice_wish wish, char *text)
{
	char own[SLUICE_LICENSES_SIZE];
	char *before = strdup (text);
	if (!before)
		return;
	struct sluice_stripped first
	    = sluice_licenses_strip (policy, NULL, granted, wish, text);
	if (first.items > 0 && !sluice_licenses_name_token (policy, wish, before))
		abort ();
	if (first.items == 0 && strcmp (before, text) != 0)
		abort (); /* altered without need */
	if (strlen (text) > strlen (before) || first.lanes & ~granted->lane_mask)
		abort ();
	strcpy (before, text);
	if (sluice_licenses_strip (policy, NULL, granted, wish, text).items != 0
	    || strcmp (before, text) != 0)
		abort (); /* something was left */
	free (before);
	size_t length = strlen (text);
	if (length >= sizeof own)
		return;
	memcpy (own, text, length + 1);
	if (sluice_tokens_fit (policy, granted, (uint32_t)length)
	    != (sluice_licenses_append (policy, granted, own) == 0))
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
	check (&config.policy, &granted,
	       data[0] & 0x80 ? SLUICE_WISH_FOR_TASKS : SLUICE_WISH_LICENSES, text);
	free (text);
	return 0;
}
