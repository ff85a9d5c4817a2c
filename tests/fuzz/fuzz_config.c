/* Any bytes as sluice.conf: settings within their ranges, or an error. */
#include <stdlib.h>

#include "config.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	struct sluice_config config;
	struct sluice_error err = { "" };

	if (sluice_config_parse ("sluice.conf", (const char *)data, size, &config, &err) < 0
	    && !err.text[0])
		abort (); /* refused without a reason */
	/* after an error the defaults hold */
	if (config.mode >= SLUICE_MODE_COUNT
	    || sluice_policy_check (&config.policy, &err) < 0)
		abort ();
	return 0;
}
