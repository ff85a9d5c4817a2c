#include "submission.h"
#include "vocabulary.h"

#include <math.h>
#include <string.h>

enum {
	SCRIPT_BYTES = 16 * 1024,
	HASH_LANES = 4,
	HASH_BLOCK = HASH_LANES * sizeof (uint64_t),
	NAME_BUCKETS = 32,
	HASH_BITS = 8,
};

static int
is_blank (char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The start of the first line from here on that is neither blank nor a comment; the
 * end where there is none. */
static size_t
next_code (const char *script, size_t from, size_t end)
{
	while (from < end) {
		size_t i = from;
		while (i < end && is_blank (script[i]))
			i++;
		if (i < end && script[i] != '\n' && script[i] != '#')
			return from;
		const char *newline = memchr (script + i, '\n', end - i);
		if (!newline)
			break;
		from = (size_t)(newline - script) + 1;
	}
	return end;
}

/*
 * Mark the ends of lines at which something may have to be left out: there is a blank
 * in front of them, or a blank, an empty line or a comment behind. Most lines of most
 * scripts have none of this, and here many bytes are looked at in one instruction.
 * marks holds one more than the bytes of the script.
 */
static void
mark_ends (const char *script, size_t size, char *marks)
{
	const unsigned char *p = (const unsigned char *)script;
	marks[0] = 0; /* there is no empty line at the start of a run */
	for (size_t i = 1; i + 1 < size; i++)
		marks[i] = (p[i] == '\n')
			   & ((p[i - 1] <= ' ') | (p[i + 1] <= ' ') | (p[i + 1] == '#'));
	marks[size - 1] = p[size - 1] == '\n';
	marks[size] = 1;
}

/* Copy the lines that say what a script does; returns their bytes. out holds those of
 * the script and one more. */
static size_t
copy_code (const char *script, size_t size, char *out)
{
	char marks[SCRIPT_BYTES + 1];
	size_t copied = 0, run = next_code (script, 0, size);

	if (run < size)
		mark_ends (script, size, marks);
	while (run < size) {
		const char *mark = memchr (marks + run, 1, size + 1 - run);
		size_t stop = (size_t)(mark - marks), end = stop;
		while (is_blank (script[end - 1]))
			end--;
		memcpy (out + copied, script + run, end - run);
		copied += end - run;
		out[copied++] = '\n';
		run = next_code (script, stop + 1, size);
	}
	return copied;
}

/* A script is long, and a processor multiplies several numbers at a time: so its words
 * go round lanes that do not wait for each other. bytes has room for a block more. */
static uint64_t
hash_long_text (char *bytes, size_t size)
{
	const uint64_t multiplier = 0x9e3779b97f4a7c15u;
	uint64_t lanes[HASH_LANES] = { 0 };

	memset (bytes + size, 0, HASH_BLOCK);
	for (const char *p = bytes; p < bytes + size; p += HASH_BLOCK) {
		uint64_t words[HASH_LANES];
		memcpy (words, p, HASH_BLOCK);
		for (int i = 0; i < HASH_LANES; i++) {
			lanes[i] = (lanes[i] ^ words[i]) * multiplier;
			lanes[i] ^= lanes[i] >> 32;
		}
	}
	return sluice_hash_bytes (lanes, sizeof lanes, size);
}

uint64_t
sluice_script_signature (const char *script, size_t size)
{
	char code[SCRIPT_BYTES + 1 + HASH_BLOCK];
	if (!script)
		return 0;
	size_t length = copy_code (script, size < SCRIPT_BYTES ? size : SCRIPT_BYTES, code);
	return length > 0 ? hash_long_text (code, length) : 0;
}

void
sluice_name_stem (const char *name, char *out)
{
	char stem[SLUICE_NAME_SIZE];
	size_t n = 0;
	for (const char *p = name; *p && n + 1 < sizeof stem; p++) {
		char c = *p;
		if (c >= '0' && c <= '9') {
			if (n > 0 && stem[n - 1] == '#')
				continue;
			c = '#';
		} else if (c >= 'A' && c <= 'Z') {
			c = (char)(c - 'A' + 'a');
		}
		stem[n++] = c;
	}
	stem[n] = '\0';
	sluice_copy_text (out, SLUICE_NAME_SIZE, stem);
}

uint64_t
sluice_application_key (const struct sluice_submission *submission, uint32_t evidence)
{
	char stem[SLUICE_NAME_SIZE];
	uint64_t user = (uint64_t)submission->uid + 1;
	uint64_t key;

	switch (evidence) {
	case SLUICE_EVIDENCE_USER_SCRIPT:
		if (submission->script_signature == 0)
			return 0;
		key = sluice_hash_bytes (&submission->script_signature,
					 sizeof submission->script_signature,
					 user << 8 | evidence);
		break;
	case SLUICE_EVIDENCE_USER_NAME:
	case SLUICE_EVIDENCE_NAME:
		sluice_name_stem (submission->name, stem);
		if (!stem[0])
			return 0;
		if (evidence == SLUICE_EVIDENCE_NAME)
			user = 0;
		key = sluice_hash_text (stem, user << 8 | evidence);
		break;
	case SLUICE_EVIDENCE_ACCOUNT:
		if (!submission->account[0])
			return 0;
		key = sluice_hash_text (submission->account, evidence);
		break;
	case SLUICE_EVIDENCE_SITE:
		key = sluice_hash_text ("", evidence);
		break;
	default:
		return 0;
	}
	return key ? key : 1; /* 0 means: no key */
}

enum feature {
#define SLUICE_FEATURE(name) FEATURE_##name,
#include "features.def"
	FEATURE_COUNT
};

_Static_assert((int)FEATURE_COUNT <= SLUICE_MAX_FEATURES, "raise SLUICE_MAX_FEATURES");

static const char *const feature_names[] = {
#define SLUICE_FEATURE(name) #name,
#include "features.def"
};

unsigned int
sluice_feature_count (void)
{
	return FEATURE_COUNT;
}

const char *
sluice_feature_name (unsigned int i)
{
	return i < FEATURE_COUNT ? feature_names[i] : NULL;
}

uint64_t
sluice_feature_hash (void)
{
	uint64_t hash = 0;
	for (unsigned int i = 0; i < FEATURE_COUNT; i++)
		hash = sluice_hash_text (feature_names[i], hash);
	return hash;
}

static float
magnitude (double n)
{
	return (float)log2 (1.0 + n);
}

/* Trigrams of ^stem$, so that a name of one letter has one too. */
static void
count_trigrams (const char *stem, float *buckets)
{
	char text[SLUICE_NAME_SIZE + 2] = "^";
	size_t n = strlen (stem);
	memcpy (text + 1, stem, n);
	text[n + 1] = '$';
	for (size_t i = 0; i < n; i++)
		buckets[sluice_hash_bytes (text + i, 3, 0) % NAME_BUCKETS] += 1.0f;
}

static void
spread_bits (uint64_t hash, float *out)
{
	for (int bit = 0; bit < HASH_BITS; bit++)
		out[bit] = (float)(hash >> bit & 1);
}

void
sluice_submission_features (const struct sluice_submission *submission, float *out)
{
	const struct sluice_submission *s = submission;
	char stem[SLUICE_NAME_SIZE];

	memset (out, 0, FEATURE_COUNT * sizeof *out);
	sluice_name_stem (s->name, stem);
	out[FEATURE_log2_nodes] = magnitude (s->nodes);
	out[FEATURE_log2_tasks] = magnitude (s->tasks);
	if (s->nodes > 0)
		out[FEATURE_log2_tasks_per_node] = magnitude ((double)s->tasks / s->nodes);
	out[FEATURE_log2_cpus_per_task] = magnitude (s->cpus_per_task);
	out[FEATURE_log2_time_limit] = magnitude (s->time_limit);
	out[FEATURE_log2_memory] = magnitude ((double)s->memory_mib);
	out[FEATURE_log2_array_tasks] = magnitude (s->array_tasks);
	out[FEATURE_has_script] = s->script_signature ? 1.0f : 0.0f;
	out[FEATURE_name_length] = (float)strlen (stem);
	count_trigrams (stem, out + FEATURE_name_a_0);
	if (s->account[0])
		spread_bits (sluice_hash_text (s->account, 0), out + FEATURE_account_0);
	spread_bits (sluice_hash_bytes (&s->uid, sizeof s->uid, 0), out + FEATURE_user_0);
}
