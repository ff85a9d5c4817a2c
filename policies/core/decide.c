#include "decide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decide_costs.h"
#include "tokens.h"

struct sluice_workspace *
sluice_workspace_create (void)
{
	return malloc (sizeof (struct sluice_workspace));
}

void
sluice_workspace_destroy (struct sluice_workspace *workspace)
{
	free (workspace);
}

static int
is_harmless (const struct sluice_workspace *workspace,
	     const struct sluice_alternative *sharing)
{
	const struct sluice_situation *s = workspace->situation;
	const struct tally *t = &workspace->tally; /* of sharing */
	const double harmless = sluice_harmless_slowdown;
	if (sharing->slowdown > harmless)
		return 0;
	for (uint32_t i = 0; i < s->member_count; i++) {
		const struct sluice_pressure *p = &s->members[i].pressure;
		if (sluice_job_slowdown (p, t->after[i])
			- sluice_job_slowdown (p, t->before[i])
		    > harmless - 1.0)
			return 0;
	}
	return 1;
}

/* Whether most of what a lane saves is that it is not slow. */
static int
is_for_speed (const struct sluice_situation *s, const struct sluice_alternative *sharing,
	      const struct sluice_alternative *lane)
{
	return s->slowest < 1.0
	       && sharing->confined - lane->confined > (sharing->cost - lane->cost) / 2.0;
}

/* Share in turns, where that is possible and saves enough. */
static int
choose_turns (const struct sluice_policy *policy, uint32_t shared,
	      struct sluice_decision *out)
{
	const struct sluice_alternative *plain = &out->alternatives[0];
	const struct sluice_alternative *turns = &out->alternatives[shared];
	int do_pay
	    = turns->action == SLUICE_ACTION_TURNS
	      && (turns == plain || sluice_saves_enough (policy, plain->cost, turns->cost));
	out->chosen = do_pay ? shared : 0;
	return do_pay;
}

/* shared: the alternative of sharing that others have to beat. */
static uint32_t
weigh (const struct sluice_situation *s, uint32_t shared, struct sluice_decision *out)
{
	const struct sluice_alternative *sharing = &out->alternatives[shared];
	int is_in_turns = choose_turns (s->policy, shared, out);
	uint32_t best = shared;
	for (uint32_t i = shared + 1; i < out->alternative_count; i++)
		if (out->alternatives[i].cost < out->alternatives[best].cost)
			best = i;
	if (best == shared)
		return is_in_turns ? SLUICE_REASON_TURNS_PAY
				   : SLUICE_REASON_SHARING_CHEAPEST;
	if (!sluice_saves_enough (s->policy, sharing->cost, out->alternatives[best].cost))
		return is_in_turns ? SLUICE_REASON_TURNS_PAY : SLUICE_REASON_MARGIN;
	out->chosen = best;
	if (out->alternatives[best].action == SLUICE_ACTION_DELAY)
		return SLUICE_REASON_DELAY_PAYS;
	return is_for_speed (s, sharing, &out->alternatives[best])
		   ? SLUICE_REASON_SLOW_LANE
		   : SLUICE_REASON_SEPARATION_PAYS;
}

/*
 * Reviews of pairs
 */

/* Whether a review rules so on the job and another. */
static int
is_ruled (const struct sluice_workspace *workspace, enum sluice_ruling ruling,
	  const struct sluice_identity *other)
{
	for (uint32_t i = 0; i < workspace->pairing_count; i++)
		if (workspace->pairings[i].ruling == ruling
		    && sluice_identity_matches (workspace->pairings[i].other, other))
			return 1;
	return 0;
}

/* What reviews say of the job and those that run. */
static void
obey_reviews (struct sluice_workspace *workspace,
	      const struct sluice_submission *submission)
{
	const struct sluice_situation *s = workspace->situation;
	struct sluice_identity identity;
	uint32_t n;
	const struct sluice_review *reviews = sluice_bundle_reviews (s->bundle, &n);

	workspace->kept_from = (struct kept_from){ 0 };
	memset (workspace->together, 0, s->member_count);
	workspace->pairing_count = 0;
	if (n == 0)
		return;
	sluice_identity_of (submission, &identity);
	workspace->pairing_count = sluice_review_pairings (
	    reviews, n, &identity, (int64_t)workspace->now, workspace->pairings);
	if (workspace->pairing_count == 0)
		return;
	for (uint32_t m = 0; m < s->member_count; m++)
		workspace->together[m] = s->members[m].job_id != 0
					 && is_ruled (workspace, SLUICE_RULING_TOGETHER,
						      &s->members[m].identity);
	for (uint32_t i = 0; i < s->corunner_count; i++) {
		const struct sluice_situation_presence *p = &s->present[i];
		if (p->end <= workspace->now
		    || !is_ruled (workspace, SLUICE_RULING_APART, &p->identity))
			continue;
		workspace->kept_from.lanes |= p->lane_mask ? p->lane_mask : UINT32_MAX;
		workspace->kept_from.until = larger (workspace->kept_from.until, p->end);
	}
}

/* The one end to wait for, if it comes soon enough. */
static struct sluice_ends
end_of_apart (const struct sluice_workspace *workspace)
{
	double end = workspace->kept_from.until;
	double wait = end - workspace->now;
	struct sluice_ends ends
	    = { .count = wait <= workspace->situation->policy->max_delay };
	ends.at[0] = end;
	return ends;
}

/* Choose the cheapest way in which the job does not meet those that it is kept apart from.
 * Returns 0 where there is none, or no job. */
static int
keep_apart (const struct sluice_workspace *workspace, struct sluice_decision *out)
{
	const struct kept_from *others = &workspace->kept_from;
	int is_found = 0;

	for (uint32_t i = 0; others->until > 0.0 && i < out->alternative_count; i++) {
		const struct sluice_alternative *a = &out->alternatives[i];
		int parts = a->action == SLUICE_ACTION_DELAY
			    || (a->action == SLUICE_ACTION_DISJOINT
				&& !(a->lane_mask & others->lanes));
		if (!parts || (is_found && a->cost >= out->alternatives[out->chosen].cost))
			continue;
		out->chosen = i;
		is_found = 1;
	}
	return is_found;
}

/* Of sharing that harms no job. */
static uint32_t
harmless_reason (const struct sluice_workspace *workspace,
		 const struct sluice_decision *decision)
{
	if (memchr (workspace->together, 1, workspace->situation->member_count))
		return SLUICE_REASON_LET_TOGETHER;
	return decision->corunner_count ? SLUICE_REASON_HARMLESS
					: SLUICE_REASON_NO_CORUNNERS;
}

/* Price every way to run the job; returns the reason for the one chosen. */
static uint32_t
consider (struct sluice_workspace *workspace, struct sluice_decision *out)
{
	const struct sluice_situation *s = workspace->situation;
	struct sluice_ends ends = { 0 };
	uint32_t shared = sluice_price_sharing (workspace, &ends, out);

	if (out->corunner_count == 0 && s->slowest == 1.0)
		return SLUICE_REASON_NO_CORUNNERS;
	if (workspace->kept_from.until > 0.0)
		ends = end_of_apart (workspace);
	else if (is_harmless (workspace, &out->alternatives[shared])) {
		choose_turns (s->policy, shared, out);
		return harmless_reason (workspace, out);
	}
	sluice_price_apart (workspace, &ends, shared, out);
	return keep_apart (workspace, out) ? SLUICE_REASON_KEPT_APART
					   : weigh (s, shared, out);
}

/* Longest that any co-runner will be there, for a job of unknown length. */
static double
longest_remaining (const struct sluice_situation *s, double now)
{
	double longest = 1.0;
	for (uint32_t i = 0; i < s->member_count; i++)
		longest = larger (longest, sluice_remaining_of (s, i, now));
	return longest;
}

/* s; the time limit ends a job that runs for longer than usual. */
static double
runtime_of (const struct sluice_workspace *workspace, const struct sluice_profile *profile,
	    const struct sluice_submission *submission)
{
	double limit = submission->time_limit * 60.0, usual = profile->runtime_seconds;
	if (usual > 0.0)
		return limit > 0.0 ? smaller (usual, limit) : usual;
	return limit > 0.0 ? limit
			   : longest_remaining (workspace->situation, workspace->now);
}

/* The job as this profile has it, against the state of the cluster. */
static void
weigh_job (struct sluice_workspace *workspace, const struct sluice_profile *profile,
	   const struct sluice_submission *submission, struct sluice_decision *out)
{
	const struct sluice_situation *s = workspace->situation;
	workspace->job.profile = profile;
	workspace->job.runtime = runtime_of (workspace, profile, submission);
	sluice_pressure_of (profile, s->model, s->policy, 0, &workspace->spread);
	sluice_pressure_slow_down (&workspace->spread, s->slowest);
	out->corunner_count = s->corunner_count;
	out->reason = consider (workspace, out);
	out->action = out->alternatives[out->chosen].action;
	out->wait = out->alternatives[out->chosen].wait;
}

/* One run in ten is smaller than the first, one larger than the second: in spreads. */
static const double plausible_ends[] = { -1.2816, 1.2816 };

const float sluice_unknown_rate_spread = 0.6f; /* 1 / z of 0.95 */

/* Whether a number that the decision uses may be off by more than a factor of two. */
static int
is_vague (const struct sluice_profile *p)
{
	float widest = p->spread[0];
	for (unsigned int i = 1; i < SLUICE_PROFILE_FIELD_COUNT; i++)
		widest = p->spread[i] > widest ? p->spread[i] : widest;
	return widest > sluice_wide_spread;
}

/* Turns keep no job from starting. */
static int
is_sharing (uint32_t action)
{
	return action == SLUICE_ACTION_COLOCATE || action == SLUICE_ACTION_TURNS;
}

static int
is_treated_alike (const struct sluice_decision *a, const struct sluice_decision *b)
{
	return a->action == b->action || (is_sharing (a->action) && is_sharing (b->action));
}

/* Whether the job would be treated alike if it were as small, or as large, as nine in ten
 * runs are. */
static int
is_steady (struct sluice_workspace *workspace, const struct sluice_submission *submission,
	   const struct sluice_decision *decision)
{
	const struct sluice_profile *profile = &decision->prediction.profile;

	for (int i = 0; is_vague (profile) && i < 2; i++) {
		memset (&workspace->if_shifted, 0, sizeof workspace->if_shifted);
		sluice_profile_shift (profile, plausible_ends[i], &workspace->shifted);
		weigh_job (workspace, &workspace->shifted, submission,
			   &workspace->if_shifted);
		if (!is_treated_alike (&workspace->if_shifted, decision))
			return 0;
	}
	return 1;
}

static int
is_alone_known (const struct sluice_profile *p)
{
	const size_t rate = offsetof (struct sluice_profile, rate) / sizeof (double);
	return p->spread[rate] <= sluice_unknown_rate_spread;
}

static void
abstain_because (uint32_t reason, struct sluice_decision *out)
{
	out->action = SLUICE_ACTION_ABSTAIN;
	out->reason = reason;
	out->wait = 0.0;
}

static void
look_around (struct sluice_workspace *workspace, const struct sluice_situation *s,
	     const struct sluice_config *config, const struct sluice_submission *submission,
	     int is_enforced, int64_t now)
{
	workspace->situation = s;
	workspace->job.nodes = submission->nodes ? submission->nodes : 1;
	/* a lane that the job is not held to would be a wrong promise; where nothing
	 * is enforced it shows what control would gain */
	workspace->is_confinable
	    = !is_enforced || sluice_is_controlled (config, submission);
	workspace->now = (double)now;
	obey_reviews (workspace, submission);
}

/* What looks harmless although its rate alone is not known may be what loses most. */
static int
is_harmless_unknown (const struct sluice_profile *p, uint32_t reason)
{
	return reason == SLUICE_REASON_HARMLESS && !is_alone_known (p);
}

static void
decide_alongside_others (struct sluice_workspace *workspace,
			 const struct sluice_submission *submission, int64_t now,
			 struct sluice_decision *out)
{
	weigh_job (workspace, &out->prediction.profile, submission, out);
	if (!is_steady (workspace, submission, out))
		abstain_because (SLUICE_REASON_WIDE_SPREAD, out);
	else if (is_harmless_unknown (&out->prediction.profile, out->reason))
		abstain_because (SLUICE_REASON_ALONE_UNKNOWN, out);
	if (sluice_bundle_review_of (workspace->situation->bundle,
				     1u << SLUICE_RULING_NEVER_DELAY, submission, now))
		abstain_because (SLUICE_REASON_NEVER_DELAYED, out);
}

/* Why its I/O does not matter, or SLUICE_REASON_NONE. */
static uint32_t
insignificance_of (const struct sluice_profile *p, uint32_t klass,
		   const struct sluice_policy *policy)
{
	if (p->io_share >= 0.0 && p->io_share < policy->min_io_share)
		return SLUICE_REASON_INSIGNIFICANT;
	if (klass == SLUICE_CLASS_NONE)
		return SLUICE_REASON_FEW_BYTES;
	return SLUICE_REASON_NONE;
}

/* Leave a job alone that is predicted not to matter, unless it may be so large that it
 * would be kept from starting. One that may matter, and would share all the same, is left
 * for the reason that it would share. */
static void
leave (struct sluice_workspace *workspace, const struct sluice_submission *submission,
       struct sluice_decision *out)
{
	const struct sluice_profile *profile = &out->prediction.profile;
	const struct sluice_policy *policy = workspace->situation->policy;
	const struct sluice_profile *shifted = &workspace->shifted;
	struct sluice_decision *end = &workspace->if_shifted;

	for (int i = 0; is_vague (profile) && i < 2; i++) {
		sluice_profile_shift (profile, plausible_ends[i], &workspace->shifted);
		if (insignificance_of (shifted, sluice_class_of (shifted, policy), policy)
		    != SLUICE_REASON_NONE)
			continue;
		memset (end, 0, sizeof *end);
		weigh_job (workspace, shifted, submission, end);
		if (!is_sharing (end->action) || is_harmless_unknown (profile, end->reason)
		    || out->prediction.evidence == SLUICE_EVIDENCE_UNCONFIRMED) {
			abstain_because (SLUICE_REASON_WIDE_SPREAD, out);
			return;
		}
		out->reason = end->reason;
	}
	out->action = SLUICE_ACTION_LEAVE;
}

/* Whether it does not matter even if it is as large as nine in ten runs are. */
static int
is_surely_little (const struct sluice_profile *p, const struct sluice_policy *policy)
{
	const size_t share = offsetof (struct sluice_profile, io_share) / sizeof (double);
	double spread = (double)p->spread[share];
	return p->io_share >= 0.0 && spread >= 0.0
	       && p->io_share * exp (plausible_ends[1] * spread) < policy->min_io_share;
}

/* Whether the prediction says enough to go on. */
static uint32_t
judge_prediction (const struct sluice_prediction *prediction,
		  const struct sluice_policy *policy)
{
	const struct sluice_profile *p = &prediction->profile;
	if (prediction->evidence == SLUICE_EVIDENCE_IGNORED)
		return SLUICE_REASON_IGNORED;
	int is_unconfirmed = prediction->evidence == SLUICE_EVIDENCE_UNCONFIRMED;
	int is_own = is_unconfirmed || sluice_prediction_counts (prediction);
	if (p->pattern == SLUICE_PATTERN_UNKNOWN && is_own
	    && (p->write_bytes >= 0.0 || p->read_bytes >= 0.0))
		return SLUICE_REASON_VOLUME_ONLY;
	if (prediction->evidence == SLUICE_EVIDENCE_NONE
	    || p->pattern == SLUICE_PATTERN_UNKNOWN)
		return SLUICE_REASON_UNKNOWN_JOB;
	if (p->confidence < policy->min_confidence)
		return is_own && is_surely_little (p, policy)
			   ? SLUICE_REASON_LITTLE_IO
			   : SLUICE_REASON_LOW_CONFIDENCE;
	if (!is_own)
		return SLUICE_REASON_OTHERS_ONLY;

	uint32_t insignificance
	    = insignificance_of (p, sluice_class_of (p, policy), policy);
	if (insignificance != SLUICE_REASON_NONE)
		return insignificance;
	if (is_unconfirmed)
		return SLUICE_REASON_UNCONFIRMED;
	/* A mixture without numbers or an unknown share of I/O could be anything. */
	int is_bare = p->pattern == SLUICE_PATTERN_MIXED
		      && (p->chunk_bytes < 0.0
			  || (p->bytes_per_flush < 0.0 && p->unflushed_bytes < 0.0));
	if (is_bare || p->io_share < 0.0)
		return SLUICE_REASON_UNMEASURED;
	return SLUICE_REASON_NONE;
}

/* Whether the state of the cluster is known. */
static uint32_t
judge_snapshot (const struct sluice_situation *s, int64_t now)
{
	if (!s->snapshot)
		return SLUICE_REASON_NO_SNAPSHOT;
	if (sluice_snapshot_state (s->snapshot)->flags & SLUICE_STATE_OFF)
		return SLUICE_REASON_SWITCHED_OFF;
	if (!sluice_snapshot_is_fresh (s->snapshot, s->policy, now))
		return SLUICE_REASON_STALE_SNAPSHOT;
	return SLUICE_REASON_NONE;
}

/* A job whose own licences leave no room for the tokens cannot be held to what
 * was decided. The alternatives stay, to explain what would have been. */
static void
check_tokens_fit (const struct sluice_policy *policy,
		  const struct sluice_submission *submission, struct sluice_decision *out)
{
	struct sluice_tokens tokens;
	sluice_tokens_of (policy, out, &tokens);
	if (tokens.lane_mask == 0
	    || sluice_tokens_fit (policy, &tokens, submission->license_length))
		return;
	abstain_because (SLUICE_REASON_EXEMPT_LICENSES, out);
}

static void
act (struct sluice_workspace *workspace, const struct sluice_submission *submission,
     int64_t now, struct sluice_decision *out)
{
	out->reason = judge_prediction (&out->prediction, workspace->situation->policy);
	if (out->reason == SLUICE_REASON_NONE)
		decide_alongside_others (workspace, submission, now, out);
	else if (out->reason == SLUICE_REASON_INSIGNIFICANT
		 || out->reason == SLUICE_REASON_FEW_BYTES)
		leave (workspace, submission, out);
	else if (out->reason == SLUICE_REASON_LITTLE_IO)
		out->action = SLUICE_ACTION_LEAVE;
}

void
sluice_decide (struct sluice_workspace *workspace, const struct sluice_situation *situation,
	       const struct sluice_config *config,
	       const struct sluice_submission *submission, int64_t now,
	       struct sluice_decision *out)
{
	const struct sluice_snapshot *snapshot = situation ? situation->snapshot : NULL;

	memset (out, 0, sizeof *out);
	sluice_profile_init (&out->prediction.profile);

	struct sluice_job_mode mode;
	out->reason = sluice_scope (config, situation ? situation->policy : &config->policy,
				    snapshot, submission, &mode);
	if (out->reason == SLUICE_REASON_NONE && !situation)
		out->reason = SLUICE_REASON_NO_BUNDLE;
	if (out->reason != SLUICE_REASON_NONE)
		return; /* action 0 is ABSTAIN */

	int is_enforced = mode.mode == SLUICE_MODE_ENFORCE;

	/* Also without a snapshot: what it would have been is worth recording. */
	sluice_predict (situation->bundle, submission, now, &out->prediction);
	out->reason = judge_snapshot (situation, now);
	if (out->reason == SLUICE_REASON_NONE) {
		look_around (workspace, situation, config, submission, is_enforced, now);
		act (workspace, submission, now, out);
	}
	if (is_enforced)
		check_tokens_fit (situation->policy, submission, out);
}
