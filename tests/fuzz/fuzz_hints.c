/*
 * Any bytes as the values of --io-pattern, --io-chunk and --io-bytes, which may
 * be forged, for a job with a history: whatever they are, no number leaves half
 * and double of it.
 */
#include <stdlib.h>
#include <string.h>

#include "request.h"

static void
check_field (double before, double after)
{
	if (before < 0.0 ? after != before
			 : after < before * 0.499999 || after > before * 2.000001)
		abort ();
}

static void
check (const struct sluice_request *request)
{
	struct sluice_submission submission;
	struct sluice_profile history, hinted;

	sluice_submission_of (request, &submission);
	sluice_profile_init (&history);
	history.share[SLUICE_PATTERN_UNKNOWN] = 0.25f;
	history.share[SLUICE_PATTERN_AW] = 0.5f;
	history.share[SLUICE_PATTERN_WS] = 0.25f;
	history.chunk_bytes = 1 << 20;
	history.write_bytes = 1e12;
	history.io_share = 0.4;
	history.runtime_seconds = 3600.0;
	hinted = history;
	sluice_hints_apply (&submission.hints, &hinted);
	for (unsigned int i = 0; sluice_profile_field (&history, i); i++)
		check_field (*sluice_profile_field (&history, i),
			     *sluice_profile_field (&hinted, i));
	if (sluice_profile_check (&hinted, NULL) != 0)
		abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	struct sluice_request request = { 0 };
	const char **values[]
	    = { &request.io_pattern, &request.io_chunk, &request.io_bytes };
	char *text = malloc (size + 1), *rest = text;

	if (!text)
		return 0;
	memcpy (text, data, size);
	text[size] = '\0';
	for (int i = 0; i < 3 && rest; i++)
		*values[i] = strsep (&rest, "\n");
	check (&request);
	free (text);
	return 0;
}
