#include "submission.h"

#include <string.h>

#include "vocabulary.h"

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

uint32_t
sluice_submission_lot (const struct sluice_submission *submission, int64_t now)
{
	uint64_t hash = sluice_hash_text (submission->name, submission->uid);
	hash = sluice_hash_bytes (&submission->script_signature,
				  sizeof submission->script_signature, hash);
	hash = sluice_hash_bytes (&submission->submit_line_hash,
				  sizeof submission->submit_line_hash, hash);
	hash = sluice_hash_bytes (&now, sizeof now, hash);
	uint32_t lot = (uint32_t)(hash >> 32);
	return lot ? lot : 1; /* 0 means: not drawn */
}

void
sluice_submission_question (const struct sluice_submission *submission,
			    struct sluice_submission *out)
{
	*out = *submission;
	sluice_name_stem (submission->name, out->name);
	out->submit_line_hash = 0;
	out->lot = 0;
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
	case SLUICE_EVIDENCE_USER_ARGUMENTS:
		key = sluice_application_key (submission, submission->script_signature
							      ? SLUICE_EVIDENCE_USER_SCRIPT
							      : SLUICE_EVIDENCE_USER_NAME);
		if (key == 0 || submission->arguments.hash == 0)
			return 0;
		key = sluice_hash_bytes (&submission->arguments.hash,
					 sizeof submission->arguments.hash, key);
		break;
	default:
		return 0;
	}
	return key ? key : 1; /* 0 means: no key */
}
