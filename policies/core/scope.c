#include "scope.h"

#include <string.h>

void
sluice_submission_complete (struct sluice_submission *submission,
			    const struct sluice_snapshot *snapshot)
{
	if (!snapshot)
		return;
	if (!submission->partition[0]) {
		const struct sluice_partition *p = sluice_snapshot_partition (snapshot, "");
		sluice_copy_text (submission->partition, sizeof submission->partition,
				  p ? p->name : NULL);
	}
	const struct sluice_user *user = sluice_snapshot_user (snapshot, submission->uid);
	if (user && !submission->account[0])
		sluice_copy_text (submission->account, sizeof submission->account,
				  user->account);
	if (user && !submission->qos[0])
		sluice_copy_text (submission->qos, sizeof submission->qos, user->qos);
}

/* The first item of a comma-separated list; returns what is behind it. */
static const char *
next_item (const char *list, char *item)
{
	size_t length = strcspn (list, ",");
	size_t kept = length < SLUICE_NAME_SIZE ? length : SLUICE_NAME_SIZE - 1;
	memcpy (item, list, kept);
	item[kept] = '\0';
	return list[length] ? list + length + 1 : list + length;
}

static int
is_listed (const char *list, const char *word)
{
	char item[SLUICE_NAME_SIZE];
	while (*list) {
		list = next_item (list, item);
		if (word[0] && strcmp (item, word) == 0)
			return 1;
	}
	return 0;
}

/* Users are uids by now: sluice_config_resolve_users has seen to that. */
static int
is_user_listed (const char *list, uint32_t uid)
{
	while (*list) {
		uint64_t number = 0;
		for (; *list && *list != ','; list++)
			number = number * 10 + (uint64_t)(*list - '0');
		if (number == uid)
			return 1;
		list += *list == ',';
	}
	return 0;
}

/* Whether the job, or one of the partitions that it may start in, preempts others. */
static int
may_preempt (const struct sluice_snapshot *snapshot, const struct sluice_submission *s)
{
	const char *rest = s->partition;
	char name[SLUICE_NAME_SIZE];

	if (!snapshot)
		return 0;
	if (s->qos[0] && sluice_snapshot_preempts (snapshot, s->qos))
		return 1;
	while (*rest) {
		rest = next_item (rest, name);
		const struct sluice_partition *p
		    = name[0] ? sluice_snapshot_partition (snapshot, name) : NULL;
		if (p
		    && (p->flags & SLUICE_PARTITION_PREEMPTS
			|| sluice_snapshot_preempts (snapshot, p->qos)))
			return 1;
	}
	return 0;
}

/* Kinds of job that are exempt unless the site includes them. */
static uint32_t
kind_scope (uint32_t included, const struct sluice_submission *s)
{
	static const struct {
		uint32_t flag, include, reason;
	} kinds[] = {
		{ SLUICE_SUBMIT_RESERVATION, SLUICE_INCLUDE_RESERVATION,
		  SLUICE_REASON_EXEMPT_RESERVATION },
		{ SLUICE_SUBMIT_DEADLINE, SLUICE_INCLUDE_DEADLINE,
		  SLUICE_REASON_EXEMPT_DEADLINE },
		{ SLUICE_SUBMIT_PTY, SLUICE_INCLUDE_INTERACTIVE,
		  SLUICE_REASON_EXEMPT_INTERACTIVE },
		{ SLUICE_SUBMIT_IMMEDIATE, SLUICE_INCLUDE_IMMEDIATE,
		  SLUICE_REASON_EXEMPT_INTERACTIVE },
		{ SLUICE_SUBMIT_CRON, SLUICE_INCLUDE_CRON, SLUICE_REASON_EXEMPT_CRON },
	};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (s->flags & kinds[i].flag && !(included & kinds[i].include))
			return kinds[i].reason;
	if (s->launcher == SLUICE_LAUNCHER_SALLOC && !(included & SLUICE_INCLUDE_SALLOC))
		return SLUICE_REASON_EXEMPT_INTERACTIVE;
	return SLUICE_REASON_NONE;
}

uint32_t
sluice_scope (const struct sluice_config *config, const struct sluice_policy *policy,
	      const struct sluice_snapshot *snapshot,
	      const struct sluice_submission *submission, struct sluice_job_mode *mode)
{
	sluice_mode_of (config, policy, submission, 0, mode);
	if (submission->flags & SLUICE_SUBMIT_OPT_OUT)
		return SLUICE_REASON_OPTED_OUT;
	if (submission->flags & SLUICE_SUBMIT_HET_LATER)
		return SLUICE_REASON_HET_COMPONENT;
	if (mode->mode == SLUICE_MODE_OFF)
		return SLUICE_REASON_MODE_OFF;
	if (!(config->include_kinds & SLUICE_INCLUDE_PREEMPT)
	    && may_preempt (snapshot, submission))
		return SLUICE_REASON_EXEMPT_PREEMPT;

	uint32_t reason = kind_scope (config->include_kinds, submission);
	if (reason == SLUICE_REASON_NONE && submission->flags & SLUICE_SUBMIT_OR_LICENSES)
		reason = SLUICE_REASON_EXEMPT_LICENSES;
	return reason;
}

int
sluice_is_left_alone (uint32_t reason)
{
	return reason >= SLUICE_REASON_MODE_OFF && reason <= SLUICE_REASON_OPTED_OUT
	       && reason != SLUICE_REASON_EXEMPT_LICENSES; /* of tokens alone */
}

static int
fits (const struct sluice_rule *rule, const struct sluice_submission *submission,
      const char *partition, const char *lane)
{
	return (!rule->users[0] || is_user_listed (rule->users, submission->uid))
	       && (!rule->accounts[0] || is_listed (rule->accounts, submission->account))
	       && (!rule->qos[0] || is_listed (rule->qos, submission->qos))
	       && (!rule->partitions[0] || is_listed (rule->partitions, partition))
	       && (!rule->lanes[0] || is_listed (rule->lanes, lane));
}

static int
is_controlled_in (const struct sluice_config *config,
		  const struct sluice_submission *submission, const char *partition)
{
	for (uint32_t i = 0; i < config->controlled_count; i++)
		if (fits (&config->controlled[i], submission, partition, ""))
			return 1;
	return 0;
}

/* In each of the partitions that it may start in. */
int
sluice_is_controlled (const struct sluice_config *config,
		      const struct sluice_submission *submission)
{
	const char *rest = submission->partition;
	char partition[SLUICE_NAME_SIZE];

	if (submission->flags & SLUICE_SUBMIT_IO_DIR)
		return 1;
	do {
		rest = next_item (rest, partition);
		if (!is_controlled_in (config, submission, partition))
			return 0;
	} while (*rest);
	return 1;
}

static void
mode_by_rules (const struct sluice_config *config,
	       const struct sluice_submission *submission, const char *partition,
	       const char *lane, struct sluice_job_mode *out)
{
	*out = (struct sluice_job_mode){ .mode = config->mode };
	for (uint32_t i = 0; i < config->mode_rule_count; i++) {
		const struct sluice_rule *rule = &config->mode_rules[i];
		if ((out->rule == 0 || rule->mode < out->mode)
		    && fits (rule, submission, partition, lane))
			*out = (struct sluice_job_mode){ .mode = rule->mode,
							 .rule = i + 1,
							 .by = rule->by };
	}
}

/* It may start in any of its partitions. */
static void
mode_on_lane (const struct sluice_config *config,
	      const struct sluice_submission *submission, const char *lane,
	      struct sluice_job_mode *out)
{
	const char *rest = submission->partition;
	char partition[SLUICE_NAME_SIZE];
	struct sluice_job_mode one;

	rest = next_item (rest, partition);
	mode_by_rules (config, submission, partition, lane, out);
	while (*rest) {
		rest = next_item (rest, partition);
		mode_by_rules (config, submission, partition, lane, &one);
		if (one.mode < out->mode)
			*out = one;
	}
}

void
sluice_mode_of (const struct sluice_config *config, const struct sluice_policy *policy,
		const struct sluice_submission *submission, uint32_t lane_mask,
		struct sluice_job_mode *out)
{
	int is_first = 1;
	struct sluice_job_mode one;

	*out = (struct sluice_job_mode){ .mode = config->mode };
	if (config->mode_rule_count == 0)
		return;
	for (uint32_t lane = 0; lane < sluice_lane_count (policy); lane++) {
		if (lane_mask && !(lane_mask >> lane & 1))
			continue;
		mode_on_lane (config, submission, sluice_lane_name (policy, lane), &one);
		if (is_first || (lane_mask ? one.mode < out->mode : one.mode > out->mode))
			*out = one;
		is_first = 0;
	}
}

uint32_t
sluice_furthest_mode (const struct sluice_config *config)
{
	uint32_t furthest = config->mode;
	for (uint32_t i = 0; i < config->mode_rule_count; i++)
		if (config->mode_rules[i].mode > furthest)
			furthest = config->mode_rules[i].mode;
	return furthest;
}
