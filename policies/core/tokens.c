#include "tokens.h"

#include <string.h>

#include "record.h"
#include "situation.h"

void
sluice_tokens_of (const struct sluice_policy *policy,
		  const struct sluice_decision *decision, struct sluice_tokens *out)
{
	memset (out, 0, sizeof *out);
	/* a token could still make the two wait for each other */
	if (decision->prediction.klass == SLUICE_CLASS_NONE
	    || decision->reason == SLUICE_REASON_LET_TOGETHER)
		return;
	switch (decision->action) {
	case SLUICE_ACTION_COLOCATE:
	case SLUICE_ACTION_TURNS:
	case SLUICE_ACTION_DELAY:
		out->lane_mask = (1u << sluice_lane_count (policy)) - 1;
		break;
	case SLUICE_ACTION_DISJOINT:
		out->lane_mask = decision->alternatives[decision->chosen].lane_mask;
		break;
	default:
		return;
	}
	out->klass = decision->prediction.klass;
}

/* Whether the lot of a job that would be acted on leaves it alone. */
static int
is_held_out (const struct sluice_policy *policy, uint32_t lot)
{
	uint64_t drawn = sluice_hash_bytes (&lot, sizeof lot, 0);
	return (double)(drawn >> 11) * 0x1p-53 < policy->holdout;
}

static uint32_t
outcome_of (uint32_t mode, const struct sluice_policy *policy,
	    const struct sluice_submission *submission, const struct sluice_grant *grant)
{
	if (mode != SLUICE_MODE_ENFORCE)
		return SLUICE_GRANT_NONE;
	if (grant->tokens.lane_mask == 0)
		return SLUICE_GRANT_NOT_NEEDED;
	if (submission->flags & SLUICE_SUBMIT_TEST_ONLY)
		return SLUICE_GRANT_TEST_ONLY;
	if (submission->lot && is_held_out (policy, submission->lot))
		return SLUICE_GRANT_HELD_OUT;
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++) {
		if (!(grant->tokens.lane_mask >> lane & 1))
			continue;
		if (grant->totals[lane] == SLUICE_TOTAL_UNKNOWN)
			return SLUICE_GRANT_NO_TOTALS;
		if (grant->totals[lane] < SLUICE_MIN_TOTAL)
			return SLUICE_GRANT_UNDEFINED;
	}
	return SLUICE_GRANT_TAKEN;
}

/* Of a job that was not asked about. */
static uint32_t
decided_turns (uint32_t scope, const struct sluice_decision *decision, uint32_t outcome)
{
	if (outcome == SLUICE_GRANT_HELD_OUT)
		return SLUICE_IN_TURNS_EXEMPT;
	if (decision->action == SLUICE_ACTION_TURNS)
		return SLUICE_IN_TURNS_PAYS;
	if (decision->action == SLUICE_ACTION_LEAVE)
		return SLUICE_IN_TURNS_NOT_NEEDED;
	if (decision->action != SLUICE_ACTION_ABSTAIN
	    || decision->reason == SLUICE_REASON_NEVER_DELAYED)
		return SLUICE_IN_TURNS_MATTERS;
	return scope == SLUICE_TURNS_FOR_ALL ? SLUICE_IN_TURNS_ALL
					     : SLUICE_IN_TURNS_UNKNOWN;
}

static uint32_t
turns_of (uint32_t scope, const struct sluice_submission *submission,
	  const struct sluice_decision *decision, uint32_t outcome)
{
	if (scope == SLUICE_TURNS_FOR_OFF)
		return SLUICE_IN_TURNS_NONE;
	if (sluice_is_left_alone (decision->reason))
		return SLUICE_IN_TURNS_EXEMPT;
	if (submission->flags & SLUICE_SUBMIT_NO_TURNS)
		return SLUICE_IN_TURNS_REFUSED;
	if (submission->flags & SLUICE_SUBMIT_IO_TURNS)
		return SLUICE_IN_TURNS_ASKED;
	if (scope == SLUICE_TURNS_FOR_ASKED)
		return SLUICE_IN_TURNS_NOT_ASKED;
	return decided_turns (scope, decision, outcome);
}

void
sluice_tokens_grant (uint32_t mode, uint32_t turns, const struct sluice_policy *policy,
		     const struct sluice_submission *submission,
		     const struct sluice_decision *decision,
		     const uint32_t totals[SLUICE_MAX_LANES], struct sluice_grant *out)
{
	memset (out, 0, sizeof *out);
	sluice_tokens_of (policy, decision, &out->tokens);
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
		if (mode == SLUICE_MODE_ENFORCE && out->tokens.lane_mask >> lane & 1)
			out->totals[lane] = totals[lane];
	out->outcome = outcome_of (mode, policy, submission, out);
	out->in_turns = turns_of (turns, submission, decision, out->outcome);
}

int
sluice_takes_turns (uint32_t in_turns)
{
	return in_turns >= SLUICE_IN_TURNS_ASKED;
}

int
sluice_tokens_exchange (const struct sluice_policy *policy,
			const struct sluice_tokens *held,
			const struct sluice_decision *decision)
{
	uint32_t everywhere = (1u << sluice_lane_count (policy)) - 1;
	struct sluice_tokens wanted;

	sluice_tokens_of (policy, decision, &wanted);
	if (wanted.klass == held->klass && wanted.lane_mask == held->lane_mask)
		return 0;
	if (wanted.klass != held->klass)
		return 1;
	for (uint32_t i = 0; i < decision->alternative_count; i++) {
		const struct sluice_alternative *a = &decision->alternatives[i];
		uint32_t mask = a->lane_mask ? a->lane_mask : everywhere;
		if (a->action == SLUICE_ACTION_DELAY || mask != held->lane_mask)
			continue;
		if (i + 1 < decision->alternative_count
		    && a[1].action == SLUICE_ACTION_TURNS)
			continue; /* where turns are on, sharing is in turns */
		return sluice_saves_enough (policy, a->cost,
					    decision->alternatives[decision->chosen].cost);
	}
	return 1; /* no job is there for which it would have to keep to its lanes */
}

void
sluice_token_name (const struct sluice_policy *policy, uint32_t lane, uint32_t klass,
		   char *out)
{
	const char *name = sluice_lane_name (policy, lane);
	size_t length = strlen (name);
	memcpy (out, name, length);
	out[length] = '_';
	sluice_copy_text (out + length + 1, SLUICE_TOKEN_SIZE - length - 1,
			  sluice_class_name (klass));
}

/*
 * Writing.
 */

/* Licences that grow in SLUICE_LICENSES_SIZE bytes. */
struct text {
	char *bytes;
	size_t used;
};

static int
put (struct text *text, char separator, const char *item, size_t length)
{
	size_t needed = (text->used > 0) + length;
	if (text->used + needed >= SLUICE_LICENSES_SIZE)
		return -1;
	if (text->used > 0)
		text->bytes[text->used++] = separator;
	memcpy (text->bytes + text->used, item, length);
	text->used += length;
	text->bytes[text->used] = '\0';
	return 0;
}

int
sluice_licenses_append (const struct sluice_policy *policy,
			const struct sluice_tokens *tokens, char *text)
{
	char name[SLUICE_TOKEN_SIZE];
	size_t before = strlen (text);
	struct text out = { text, before };

	for (uint32_t lane = 0; lane < sluice_lane_count (policy); lane++) {
		if (!(tokens->lane_mask >> lane & 1))
			continue;
		sluice_token_name (policy, lane, tokens->klass, name);
		if (put (&out, ',', name, strlen (name)) < 0) {
			text[before] = '\0';
			return -1;
		}
	}
	return 0;
}

int
sluice_tokens_fit (const struct sluice_policy *policy, const struct sluice_tokens *tokens,
		   uint32_t length)
{
	size_t needed = length;
	for (uint32_t lane = 0; lane < sluice_lane_count (policy); lane++)
		if (tokens->lane_mask >> lane & 1)
			needed += (needed > 0) + strlen (sluice_lane_name (policy, lane))
				  + 1 + strlen (sluice_class_name (tokens->klass));
	return needed < SLUICE_LICENSES_SIZE;
}

/*
 * Reading.
 */

/* One item of a text, and the character in front of it. */
struct item {
	char *start;
	size_t length;
	char separator;
};

static int
next_item (char **rest, const char *separators, struct item *out)
{
	char *p = *rest;
	out->separator = ',';
	while (*p && strchr (separators, *p))
		out->separator = *p++;
	out->start = p;
	out->length = strcspn (p, separators);
	*rest = p + out->length;
	return out->length > 0;
}

/* Of a licence the length of its name: `a:1`, from 23.11 also `a=1`, from 25.05 also
 * `a(nodes):1`. */
static size_t
name_length (const char *name, const char *end)
{
	size_t length = 0;
	while (name + length < end && !strchr (":=(;|", name[length]))
		length++;
	return length;
}

/* Whether a licence is one of our tokens. */
static int
is_token (const struct sluice_policy *policy, const char *name, const char *end,
	  uint32_t *lane, uint32_t *klass)
{
	char token[SLUICE_TOKEN_SIZE];
	size_t length = name_length (name, end);

	for (*lane = 0; *lane < sluice_lane_count (policy); ++*lane) {
		const char *prefix = sluice_lane_name (policy, *lane);
		size_t n = strlen (prefix);
		if (length <= n || memcmp (name, prefix, n) != 0)
			continue;
		for (*klass = SLUICE_CLASS_NONE + 1; *klass < SLUICE_CLASS_COUNT;
		     ++*klass) {
			sluice_token_name (policy, *lane, *klass, token);
			if (strlen (token) == length && memcmp (name, token, length) == 0)
				return 1;
		}
	}
	return 0;
}

/* Whether a licence can start here in what is wanted for each task: behind the word,
 * wherever that is (`license/a`, up to 23.02 `license:a`, from 23.11 also `licensea`).
 * slurmctld reads what follows as licences, which may be several (slurm_get_next_tres and
 * its callers). */
static int
is_start_for_tasks (const struct item *item, const char *p)
{
	static const char word[] = "license";
	size_t length = sizeof word - 1;

	if (p > item->start && strchr (";|", p[-1]))
		return 1;
	if (p > item->start && strchr ("/:", p[-1]))
		p--;
	return (size_t)(p - item->start) >= length
	       && memcmp (p - length, word, length) == 0;
}

static int
find_token (const struct sluice_policy *policy, enum sluice_wish wish,
	    const struct item *item, uint32_t *lane, uint32_t *klass)
{
	const char *end = item->start + item->length;

	if (wish == SLUICE_WISH_LICENSES)
		return is_token (policy, item->start, end, lane, klass);
	for (const char *p = item->start; p < end; p++)
		if (is_start_for_tasks (item, p) && is_token (policy, p, end, lane, klass))
			return 1;
	return 0;
}

static const char *
separators_of (enum sluice_wish wish)
{
	return wish == SLUICE_WISH_FOR_TASKS ? "," : ",;|";
}

int
sluice_licenses_name_token (const struct sluice_policy *policy, enum sluice_wish wish,
			    char *text)
{
	struct item item;
	uint32_t lane, klass;

	while (next_item (&text, separators_of (wish), &item))
		if (find_token (policy, wish, &item, &lane, &klass))
			return 1;
	return 0;
}

/* Of a granted token, as much as Sluice would name: one of it. */
static size_t
granted_length (const struct item *item)
{
	size_t length = name_length (item->start, item->start + item->length);
	const char *count = item->start + length;
	return item->length - length == 2 && memcmp (count, ":1", 2) == 0 ? item->length
									  : length;
}

struct sluice_stripped
sluice_licenses_strip (const struct sluice_policy *policy,
		       const struct sluice_token_set *reserved,
		       const struct sluice_tokens *granted, enum sluice_wish wish,
		       char *text)
{
	struct sluice_stripped stripped = { 0 };
	uint32_t kept_lanes = 0, lane, klass;
	char *rest = text, *end = text;
	struct item item;

	while (next_item (&rest, separators_of (wish), &item)) {
		size_t length = item.length;
		if (find_token (policy, wish, &item, &lane, &klass)
		    && (!reserved || reserved->lanes[klass] >> lane & 1)) {
			int is_granted = granted && granted->klass == klass
					 && granted->lane_mask >> lane & 1;
			if (is_granted)
				stripped.lanes |= 1u << lane;
			if (!is_granted || kept_lanes >> lane & 1) {
				stripped.items++;
				continue;
			}
			kept_lanes |= 1u << lane;
			length = granted_length (&item);
		}
		if (stripped.items == 0) {
			end = item.start; /* as it is, with its separators */
		} else {
			if (end > text)
				*end++ = item.separator;
			memmove (end, item.start, length);
		}
		end += length;
		stripped.items += length < item.length;
	}
	if (stripped.items > 0)
		*end = '\0';
	return stripped;
}

void
sluice_record_set_mode (const struct sluice_config *config,
			const struct sluice_policy *policy, struct sluice_record *record)
{
	struct sluice_job_mode at_most, mode;
	struct sluice_tokens tokens;

	sluice_tokens_of (policy, &record->decision, &tokens);
	sluice_mode_of (config, policy, &record->submission, 0, &at_most);
	sluice_mode_of (config, policy, &record->submission, tokens.lane_mask, &mode);
	record->mode = mode.mode;
	record->mode_rule = mode.rule;
	record->mode_by = mode.by;
	record->mode_at_most = at_most.mode;
	int is_spared = mode.mode != SLUICE_MODE_ENFORCE
			&& sluice_furthest_mode (config) == SLUICE_MODE_ENFORCE;
	record->turns = is_spared ? SLUICE_TURNS_FOR_OFF : sluice_turns_scope (config);
}

void
sluice_record_decide (struct sluice_workspace *workspace,
		      const struct sluice_situation *situation,
		      const struct sluice_config *config, struct sluice_record *record)
{
	const struct sluice_snapshot *snapshot = situation ? situation->snapshot : NULL;

	record->version = SLUICE_RECORD_VERSION;
	record->size = sizeof *record;
	if (situation)
		record->bundle_checksum = sluice_bundle_checksum (situation->bundle);
	if (snapshot) {
		record->snapshot_checksum = sluice_snapshot_checksum (snapshot);
		record->snapshot_sequence = sluice_snapshot_state (snapshot)->sequence;
	}
	if (!record->submission.lot)
		record->submission.lot
		    = sluice_submission_lot (&record->submission, record->now);
	sluice_submission_complete (&record->submission, snapshot);
	sluice_decide (workspace, situation, config, &record->submission, record->now,
		       &record->decision);
	sluice_record_set_mode (config, situation ? situation->policy : &config->policy,
				record);
}
