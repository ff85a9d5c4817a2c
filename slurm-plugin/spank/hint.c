#include "hint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vocabulary.h"

int
hint_pattern (const char *text, uint32_t *out)
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
hint_bytes (const char *text, uint64_t *out)
{
	const uint64_t most = (uint64_t)1 << 60;
	static const char units[] = "kmgt";
	uint64_t number = 0, unit = 1;

	if (*text < '0' || *text > '9')
		return -1;
	for (; *text >= '0' && *text <= '9'; text++) {
		number = number * 10 + (uint64_t)(*text - '0');
		if (number > most)
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

/* Replace %j and %%. The length, or -1: too long, or another letter. */
static int
expand (const char *text, uint32_t job_id, char out[HINT_PATH_SIZE])
{
	char id[12];
	size_t used = 0;

	snprintf (id, sizeof id, "%" PRIu32, job_id);
	for (; *text; text++) {
		char plain[2] = { *text, '\0' };
		const char *piece = plain;
		if (*text == '%') {
			text++;
			if (*text == 'j')
				piece = id;
			else if (*text != '%')
				return -1;
		}
		if (used + strlen (piece) >= HINT_PATH_SIZE)
			return -1;
		memcpy (out + used, piece, strlen (piece) + 1);
		used += strlen (piece);
	}
	return (int)used;
}

int
hint_directory (const char *text, uint32_t job_id, char out[HINT_PATH_SIZE])
{
	char path[HINT_PATH_SIZE];
	int length = expand (text, job_id, path);

	if (length <= 0 || path[0] != '/')
		return -1;
	while (length > 0 && path[length - 1] == '/')
		path[--length] = '\0';
	const char *slash = strrchr (path, '/');
	if (!slash || strcmp (slash, "/.") == 0 || strcmp (slash, "/..") == 0)
		return -1;
	if (out)
		memcpy (out, path, (size_t)length + 1);
	return 0;
}
