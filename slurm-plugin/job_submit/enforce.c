#include "enforce.h"

#include <string.h>

#include "adapter.h"

/*
 * Of slurmctld's functions this one alone is called on the submit path. It
 * takes Slurm's licence mutex for a walk through a short list. That mutex ranks
 * below the locks that our caller holds: slurmctld itself takes it under them
 * for every job (license_validate), and under it at most a read lock of the
 * association manager (read in licenses.c of all versions from 22.05 to 26.05).
 */
static uint32_t
total_of (const struct sluice_policy *policy, uint32_t lane, uint32_t klass)
{
	char name[SLUICE_TOKEN_SIZE];
	if (!get_total_license_cnt)
		return SLUICE_TOTAL_UNKNOWN;
	sluice_token_name (policy, lane, klass, name);
	return get_total_license_cnt (name);
}

/* The tokens that are Sluice's. Where the controller does not tell, those of a lane that
 * the site has named, but not those of `all`: that may be a licence of its own. */
static void
defined_tokens (const struct sluice_policy *policy, struct sluice_token_set *out)
{
	memset (out, 0, sizeof *out);
	for (uint32_t klass = SLUICE_CLASS_NONE + 1; klass < SLUICE_CLASS_COUNT; klass++)
		for (uint32_t lane = 0; lane < policy->lane_count; lane++) {
			uint32_t total = total_of (policy, lane, klass);
			int is_ours = total == SLUICE_TOTAL_UNKNOWN
					  ? strcmp (policy->lanes[lane].name, "all") != 0
					  : total >= SLUICE_MIN_TOTAL;
			out->lanes[klass] |= (uint32_t)is_ours << lane;
		}
}

/* Take tokens off one text of a job description. What was nothing but tokens
 * becomes NULL: at submission no licences, in a modification no change of them.
 * So nobody's wrong wish for a token costs a running job its other licences. */
static struct sluice_stripped
strip (const struct view *view, const struct sluice_tokens *granted, char **text)
{
	char kept[SLUICE_LICENSES_SIZE];
	struct sluice_stripped stripped = { 0 };
	struct sluice_token_set defined;

	if (!*text
	    || sluice_licenses_strip (&view->reserved, NULL, granted, *text, kept,
				      &stripped)
		   != 0
	    || stripped.items == 0)
		return stripped;
	/* only now, and so for no job that names none: ask what the controller has */
	defined_tokens (&view->reserved, &defined);
	sluice_licenses_strip (&view->reserved, &defined, granted, *text, kept, &stripped);
	if (stripped.items > 0)
		adapter_set_text (text, kept[0] ? kept : NULL);
	return stripped;
}

void
enforce_strip (const struct view *view, job_desc_msg_t *job, struct counters *counters)
{
	if (!view->reserves_tokens)
		return;
	uint32_t items = strip (view, NULL, &job->licenses).items
			 + strip (view, NULL, &job->tres_per_task).items;
	if (items > 0)
		count (&counters->stripped);
}

/* Of a token that a decision asks for, as many as there will be after the next
 * reconfiguration too. */
static uint32_t
promised_total (const struct view *view, uint32_t lane, uint32_t klass)
{
	uint32_t total = total_of (view_policy (view), lane, klass);
	uint32_t promised = view->promised[klass][lane];
	return total < promised ? total : promised;
}

static int
take (const struct sluice_policy *policy, const struct sluice_tokens *tokens,
      job_desc_msg_t *job)
{
	char licenses[SLUICE_LICENSES_SIZE];
	sluice_copy_text (licenses, sizeof licenses, job->licenses);
	if (sluice_licenses_append (policy, tokens, licenses) != 0)
		return -1;
	return adapter_set_text (&job->licenses, licenses);
}

void
enforce_grant (const struct view *view, job_desc_msg_t *job, struct sluice_record *record)
{
	const struct sluice_policy *policy = view_policy (view);
	struct sluice_grant *grant = &record->grant;
	struct sluice_tokens wanted;
	uint32_t totals[SLUICE_MAX_LANES] = { 0 };

	sluice_tokens_of (policy, &record->decision, &wanted);
	if (record->mode == SLUICE_MODE_ENFORCE)
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
			if (wanted.lane_mask >> lane & 1)
				totals[lane] = promised_total (view, lane, wanted.klass);
	sluice_tokens_grant (record->mode, policy, &record->submission, &record->decision,
			     totals, grant);
	if (grant->outcome == SLUICE_GRANT_TAKEN && take (policy, &grant->tokens, job) != 0)
		grant->outcome = SLUICE_GRANT_NO_MEMORY;
}

/* Root, SlurmUser, operators. Where slurmctld does not tell an operator from a
 * user, everybody counts as one: an administrator is never stood in the way. */
static int
is_administrator (uint32_t uid)
{
	return uid == 0 || !validate_operator || validate_operator (uid);
}

void
enforce_modify (const struct view *view, job_desc_msg_t *change, uint32_t uid,
		struct counters *counters)
{
	struct sluice_tokens granted = { 0 };

	if (!view->reserves_tokens || (!change->licenses && !change->tres_per_task)
	    || is_administrator (uid))
		return;
	/* also from an old snapshot: better believed than taken from the user */
	const struct sluice_holder *holder
	    = view->snapshot
		  ? sluice_snapshot_holder (view->snapshot, adapter_job_id (change))
		  : NULL;
	if (holder) {
		granted.klass = holder->klass;
		granted.lane_mask = holder->lane_mask;
	}

	int sets_licenses = change->licenses != NULL;
	struct sluice_stripped licenses = strip (view, &granted, &change->licenses);
	if (licenses.items + strip (view, NULL, &change->tres_per_task).items > 0)
		count (&counters->stripped);
	/* Slurm replaces a job's licences as a whole, so what the user leaves out goes */
	int is_set = sets_licenses && change->licenses;
	if (is_set && granted.lane_mask & ~licenses.lanes)
		count (&counters->opt_outs);
}
