/* Sluice in a replay: what job_submit and sluiced do between them, at each event. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crowd_of_jobs.h"
#include "policies.h"
#include "tokens.h"

enum {
	MOVES = 3, /* times that the tokens of a job are exchanged, as in sluiced */
};

/* While nobody else starts or ends, a decision holds so many seconds. */
static const double stale = 60.0;

/* What was decided on a job so far. */
struct plan {
	struct sluice_tokens tokens; /* lane_mask 0: none */
	double decided;		     /* s: when */
	double again;		     /* s: when the conflict should be over */
	uint64_t version;	     /* of the co-runners it was decided beside */
	uint32_t moves;
	uint16_t klass; /* enum sluice_class, with or without tokens */
	uint16_t waits; /* 1: until the conflict is over */
};

struct sluice_core_policy {
	struct sluice_replay_policy table;
	struct sluice_core_setup setup;
	const struct sluice_policy *policy;
	struct sluice_state state; /* of the snapshot: just taken */
	struct sluice_snapshot *snapshot;
	struct sluice_situation *situation;
	struct sluice_desk *desk;
	struct crowd_of_jobs *crowd;
	uint64_t renewed; /* version of the crowd in the situation */
	uint32_t decided; /* the job whose prediction `latest` holds; UINT32_MAX: none */
	struct sluice_decision latest;
	struct plan *plans;
	struct sluice_policy_result *results;
};

void
sluice_core_submission (const struct sluice_core_setup *setup, uint32_t job,
			struct sluice_submission *out)
{
	const struct sluice_replay_job *j = &setup->jobs[job];
	*out = setup->submissions[setup->application[job]];
	out->uid = j->user + 1;
	out->nodes = (uint32_t)j->slots;
	out->time_limit
	    = j->limit < INFINITY ? (uint32_t)fmin (ceil (j->limit / 60.0), 1e9) : 0;
}

static int64_t
utc (const struct sluice_core_policy *p, double now)
{
	return p->setup.epoch + (int64_t)floor (now);
}

static uint32_t
everywhere (const struct sluice_core_policy *p)
{
	return p->policy->lane_count ? (1u << p->policy->lane_count) - 1 : 1;
}

/* Lanes as the world and the core take them: 0 where it may write everywhere. */
static uint32_t
confinement (const struct sluice_core_policy *p, const struct sluice_tokens *tokens)
{
	return tokens->lane_mask == everywhere (p) ? 0 : tokens->lane_mask;
}

/* Note a decision, but for its tokens. */
static void
note (struct sluice_core_policy *p, double now, uint32_t job,
      const struct sluice_decision *decision)
{
	struct plan *plan = &p->plans[job];
	struct sluice_policy_result *result = &p->results[job];
	plan->decided = now;
	plan->again = now + decision->wait;
	plan->version = p->renewed;
	plan->klass = (uint16_t)decision->prediction.klass;
	plan->waits = decision->action == SLUICE_ACTION_DELAY;
	result->action = (uint16_t)decision->action;
	result->reason = (uint16_t)decision->reason;
	result->decisions++;
}

static void
decide (struct sluice_core_policy *p, double now, uint32_t job)
{
	struct sluice_submission submission;
	uint64_t version = crowd_of_jobs_look (p->crowd, utc (p, now));
	if (version != p->renewed) {
		sluice_situation_renew (p->situation, crowd_of_jobs_crowd (p->crowd));
		p->renewed = version;
	}
	p->state.taken = utc (p, now);
	sluice_core_submission (&p->setup, job, &submission);
	sluice_decide (p->desk, p->situation, p->setup.config, &submission, p->state.taken,
		       &p->latest);
	p->decided = job;
	note (p, now, job, &p->latest);
}

/* The profile of a job as it is predicted, which most often was just done. */
static const struct sluice_profile *
profile_of (struct sluice_core_policy *p, uint32_t job)
{
	struct sluice_submission submission;
	if (p->decided != job) {
		sluice_core_submission (&p->setup, job, &submission);
		sluice_predict (p->setup.bundle, &submission, &p->latest.prediction);
		p->decided = job;
	}
	return &p->latest.prediction.profile;
}

static void
submitted (void *self, double now, uint32_t job, struct sluice_choice *choice)
{
	struct sluice_core_policy *p = self;
	(void)choice;
	decide (p, now, job);
	sluice_tokens_of (p->policy, &p->latest, &p->plans[job].tokens);
}

static int
is_known (const struct plan *plan, uint64_t version, double now)
{
	double until = fmin (plan->decided + stale, plan->waits ? plan->again : INFINITY);
	return plan->decided >= now || (plan->version == version && now < until);
}

/* Decide again, as sluiced does near the start. */
static void
decide_again (struct sluice_core_policy *p, double now, uint32_t job)
{
	struct plan *plan = &p->plans[job];
	if (is_known (plan, crowd_of_jobs_version (p->crowd), now))
		return;
	decide (p, now, job);

	struct sluice_tokens wanted;
	sluice_tokens_of (p->policy, &p->latest, &wanted);
	if (wanted.lane_mask == 0) {
		plan->tokens = wanted;
	} else if (plan->moves < MOVES
		   && sluice_tokens_exchange (p->policy, &plan->tokens, &p->latest)) {
		plan->tokens = wanted;
		plan->moves++;
	}
}

/* The job as a gate sees it. */
static struct sluice_member
member_of (struct sluice_core_policy *p, uint32_t job, const struct plan *plan)
{
	struct sluice_member member = { .klass = plan->tokens.klass, .job_id = job };
	sluice_pressure_of (profile_of (p, job),
			    sluice_bundle_interference (p->setup.bundle), p->policy,
			    confinement (p, &plan->tokens), &member.pressure);
	return member;
}

/* Whether a job that was not decided to wait needs its gates to open first. A gate
 * keeps only jobs that are confined: those that had better share start without a
 * token, and so do those whom their lane slows beyond the tolerance even alone. */
static int
is_shut_out (struct sluice_core_policy *p, uint32_t job, struct plan *plan)
{
	struct sluice_member member = member_of (p, job, plan);
	double alone = sluice_job_slowdown (&member.pressure, 1.0);
	if (alone <= p->policy->tolerance
	    && crowd_of_jobs_admits (p->crowd, &member, plan->tokens.lane_mask))
		return 0;
	if (confinement (p, &plan->tokens) && alone <= p->policy->tolerance)
		return 1;
	plan->tokens.lane_mask = 0;
	return 0;
}

/* Whether it is kept back for now. */
static int
must_wait (struct sluice_core_policy *p, double now, uint32_t job,
	   struct sluice_choice *choice)
{
	struct plan *plan = &p->plans[job];
	if (!plan->waits && !is_shut_out (p, job, plan))
		return 0;
	if (sluice_policy_hold (&p->results[job], now, p->policy->max_delay, choice)) {
		if (plan->waits && plan->again > now)
			choice->hold_until = fmin (choice->hold_until, plan->again);
		return 1;
	}
	plan->tokens.lane_mask = 0; /* it has waited long enough */
	return 0;
}

static void
starting (void *self, double now, uint32_t job, struct sluice_choice *choice)
{
	struct sluice_core_policy *p = self;
	struct plan *plan = &p->plans[job];
	if (plan->tokens.lane_mask)
		decide_again (p, now, job);
	if (plan->tokens.lane_mask && must_wait (p, now, job, choice))
		return;
	choice->lane_mask = confinement (p, &plan->tokens);
	p->results[job].lane_mask = choice->lane_mask;
	sluice_policy_let_go (&p->results[job], now, p->policy->max_delay, choice);
}

static void
started (void *self, double now, uint32_t job)
{
	struct sluice_core_policy *p = self;
	const struct plan *plan = &p->plans[job];
	if (plan->klass == SLUICE_CLASS_NONE)
		return;
	struct sluice_corunner corunner = {
		.job_id = job,
		.nodes = (uint32_t)p->setup.jobs[job].slots,
		.lane_mask = confinement (p, &plan->tokens),
		.klass = plan->klass,
		.profile = *profile_of (p, job),
	};
	double limit = fmin (p->setup.jobs[job].limit, 1e9);
	crowd_of_jobs_enter (p->crowd, &corunner, plan->tokens.lane_mask, utc (p, now),
			     utc (p, now + limit));
}

static void
ended (void *self, double now, uint32_t job)
{
	struct sluice_core_policy *p = self;
	(void)now;
	if (p->plans[job].klass != SLUICE_CLASS_NONE)
		crowd_of_jobs_leave (p->crowd, job);
}

static int
prepare (struct sluice_core_policy *p)
{
	const struct sluice_bundle *bundle = p->setup.bundle;
	p->policy = sluice_bundle_policy (bundle);
	p->decided = UINT32_MAX;
	p->plans = calloc ((size_t)p->setup.job_count + 1, sizeof *p->plans);
	p->results = sluice_policy_results_new (p->setup.job_count);
	p->crowd = crowd_of_jobs_new (bundle);
	p->snapshot = sluice_snapshot_of_state (&p->state);
	p->situation = p->snapshot ? sluice_situation_create (bundle, p->snapshot) : NULL;
	p->desk = sluice_desk_create ();
	return p->plans && p->results && p->crowd && p->situation && p->desk ? 0 : -1;
}

struct sluice_core_policy *
sluice_core_policy_new (const struct sluice_core_setup *setup)
{
	struct sluice_core_policy *p = calloc (1, sizeof *p);
	if (!p)
		return NULL;
	p->setup = *setup;
	p->table = (struct sluice_replay_policy){
		.self = p,
		.submitted = submitted,
		.starting = starting,
		.started = started,
		.ended = ended,
	};
	if (prepare (p) == 0)
		return p;
	sluice_core_policy_destroy (p);
	return NULL;
}

void
sluice_core_policy_destroy (struct sluice_core_policy *p)
{
	if (!p)
		return;
	sluice_situation_destroy (p->situation);
	sluice_desk_destroy (p->desk);
	sluice_snapshot_destroy (p->snapshot);
	crowd_of_jobs_destroy (p->crowd);
	free (p->plans);
	free (p->results);
	free (p);
}

const struct sluice_replay_policy *
sluice_core_policy_table (struct sluice_core_policy *p)
{
	return &p->table;
}

const struct sluice_policy_result *
sluice_core_policy_results (const struct sluice_core_policy *p)
{
	return p->results;
}

const struct sluice_decision *
sluice_core_policy_latest (const struct sluice_core_policy *p)
{
	return &p->latest;
}
