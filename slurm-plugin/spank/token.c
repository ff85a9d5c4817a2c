#include "token.h"

#include <string.h>

#include "vocabulary.h"

/* Of the text from an entry's colon on: absent is one, no number is none. */
static int
has_count (const char *text, size_t length)
{
	int positive = 0;
	if (length == 0)
		return 1;
	for (size_t i = 1; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		positive |= text[i] != '0';
	}
	return positive;
}

/* Whether name[0..length) is the lane's name, an underscore and a class. */
static int
is_token_of (const struct lane *lane, const char *name, size_t length)
{
	size_t head = strlen (lane->name);
	if (length <= head || strncmp (name, lane->name, head) != 0 || name[head] != '_')
		return 0;
	name += head + 1;
	length -= head + 1;
	for (unsigned int i = SLUICE_CLASS_NONE + 1; i < SLUICE_CLASS_COUNT; i++) {
		const char *klass = sluice_class_name (i);
		if (strlen (klass) == length && memcmp (klass, name, length) == 0)
			return 1;
	}
	return 0;
}

/* The lane that one entry is a token of, or NULL. */
static const struct lane *
entry_lane (const char *entry, size_t length, const struct settings *settings)
{
	const char *colon = memchr (entry, ':', length);
	size_t name = colon ? (size_t)(colon - entry) : length;

	if (!has_count (entry + name, length - name))
		return NULL;
	for (uint32_t i = 0; i < settings->lane_count; i++)
		if (is_token_of (&settings->lanes[i], entry, name))
			return &settings->lanes[i];
	return NULL;
}

const struct lane *
token_lane (const char *licenses, const struct settings *settings)
{
	const struct lane *held = NULL;

	if (!licenses || strchr (licenses, '|'))
		return NULL;
	for (const char *entry = licenses; *entry;) {
		size_t length = strcspn (entry, ",;");
		const struct lane *lane = entry_lane (entry, length, settings);
		if (lane && held && lane != held)
			return NULL;
		if (lane)
			held = lane;
		entry += length;
		entry += *entry != '\0';
	}
	return held;
}
