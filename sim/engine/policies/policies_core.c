/* Sluice in a replay: what job_submit and sluiced do between them, at each event. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "policies.h"
#include "running_jobs.h"

enum {
	FIRST_CAPACITY = 64,
	TOTAL = 1000000, /* tokens in the slurm.conf of the replay */
	NO_ROW = UINT32_MAX,
};

/* How full targets are is looked at no more often. */
static const double filled_every = 60.0; /* s */

/* A poll comes at each event, so nothing passes between two of them. */
static const double soon = 1e-3; /* s */

/* What was decided on a job so far. */
struct plan {
	struct sluice_tokens tokens; /* lane_mask 0: none */
	uint32_t row;		     /* in the control loop; NO_ROW: it is not there */
	uint16_t klass;		     /* enum sluice_class, with or without tokens */
	uint16_t reserved;
	double saving;			/* node-s, of the last decision */
	struct sluice_placed_job place; /* block.count 0: none */
	uint32_t is_waiting;		/* 1: on that, and no co-runner */
	uint32_t reserved_too;
};

/* The jobs with tokens, and those that run without and matter to storage. */
struct rows {
	struct sluice_control *control;
	struct sluice_control_job *jobs;
	struct sluice_submission *submissions;
	const struct sluice_submission **pointers;
	uint32_t *unused; /* rows of jobs that left */
	uint32_t unused_count;
	uint32_t count;
	uint32_t capacity;
};

struct sluice_core_policy {
	struct sluice_replay_policy table;
	struct sluice_core_setup setup;
	const struct sluice_policy *policy;
	struct sluice_state state; /* of the snapshot: just taken */
	struct sluice_snapshot *snapshot;
	struct sluice_situation *situation;
	struct sluice_workspace *workspace;
	struct running_jobs *running;
	uint64_t renewed;  /* version of the co-runners in the situation */
	uint32_t placed;   /* jobs that got a block so far */
	uint32_t decided;  /* the job whose prediction `latest` holds; UINT32_MAX: none */
	uint32_t is_stale; /* 1: something happened since the last poll */
	uint32_t reserved;
	double polled;				     /* s */
	double filled;				     /* s: when targets were looked at */
	const struct sluice_replay_storage *storage; /* NULL: none */
	struct sluice_decision latest;
	struct rows rows;
	struct sluice_control_facts facts;
	struct sluice_control_gates gates;
	uint32_t made_count, made_capacity;
	struct sluice_core_decision *made; /* in the latest call of a hook */
	struct plan *plans;
	struct sluice_policy_result *results;
	sluice_core_watch *watch; /* NULL: none */
	void *watcher;
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

/* Lanes as the storage model and the core take them: 0 where it may write everywhere. */
static uint32_t
confinement (const struct sluice_core_policy *p, const struct sluice_tokens *tokens)
{
	return tokens->lane_mask == everywhere (p) ? 0 : tokens->lane_mask;
}

static uint32_t
lane_count (const struct sluice_core_policy *p)
{
	return p->policy->lane_count ? p->policy->lane_count : 1;
}

/*
 * Rows of the control loop
 */

static int
grow_rows (struct rows *r)
{
	uint32_t capacity = r->capacity ? 2 * r->capacity : FIRST_CAPACITY;
	struct sluice_control *control = sluice_control_create (capacity);
	struct sluice_control_job *jobs = realloc (r->jobs, capacity * sizeof *jobs);
	if (jobs)
		r->jobs = jobs;
	struct sluice_submission *submissions
	    = realloc (r->submissions, capacity * sizeof *submissions);
	if (submissions)
		r->submissions = submissions;
	const struct sluice_submission **pointers
	    = realloc (r->pointers, capacity * sizeof *pointers);
	if (pointers)
		r->pointers = pointers;
	uint32_t *unused = realloc (r->unused, capacity * sizeof *unused);
	if (unused)
		r->unused = unused;
	if (!control || !jobs || !submissions || !pointers || !unused) {
		sluice_control_destroy (control);
		return -1;
	}
	for (uint32_t i = 0; i < r->count; i++)
		if (pointers[i])
			pointers[i] = &submissions[i];
	sluice_control_destroy (r->control);
	r->control = control;
	r->capacity = capacity;
	return 0;
}

static void
free_rows (struct rows *r)
{
	sluice_control_destroy (r->control);
	free (r->jobs);
	free (r->submissions);
	free (r->pointers);
	free (r->unused);
}

/* What a job presses on the lanes of its tokens. */
static void
press (struct sluice_core_policy *p, struct sluice_control_job *row,
       const struct sluice_profile *profile)
{
	sluice_pressure_of (profile, sluice_bundle_interference (p->setup.bundle),
			    p->policy, confinement (p, &row->tokens), &row->pressure);
}

/* NULL: no memory. */
static struct sluice_control_job *
add_row (struct sluice_core_policy *p, uint32_t job, const struct sluice_profile *profile)
{
	struct rows *r = &p->rows;
	struct plan *plan = &p->plans[job];
	if (!r->unused_count && r->count == r->capacity && grow_rows (r))
		return NULL;
	plan->row = r->unused_count ? r->unused[--r->unused_count] : r->count++;
	struct sluice_control_job *row = &r->jobs[plan->row];
	*row = (struct sluice_control_job){
		.job_id = job,
		.flags = SLUICE_CONTROL_RECORDED | SLUICE_CONTROL_GRANTED
			 | SLUICE_CONTROL_PREDICTED,
		.tokens = plan->tokens,
		.tasks = 1,
		.submit = utc (p, p->setup.jobs[job].submit),
		/* it is met when it enters the queue, and can start only later */
		.memory = { .since = p->facts.clock, .polled = p->facts.clock },
	};
	row->tokens.klass = plan->klass;
	press (p, row, profile);
	sluice_core_submission (&p->setup, job, &r->submissions[plan->row]);
	r->pointers[plan->row] = &r->submissions[plan->row];
	p->is_stale = 1;
	return row;
}

static void
remove_row (struct sluice_core_policy *p, uint32_t job)
{
	struct plan *plan = &p->plans[job];
	if (plan->row == NO_ROW)
		return;
	memset (&p->rows.jobs[plan->row], 0, sizeof *p->rows.jobs);
	p->rows.pointers[plan->row] = NULL;
	p->rows.unused[p->rows.unused_count++] = plan->row;
	plan->row = NO_ROW;
	p->is_stale = 1;
}

/*
 * Decisions
 */

static double
loss_of (const struct sluice_alternative *alternative)
{
	return alternative->own + alternative->caused + alternative->confined;
}

/* Node-seconds that a decision to delay or to confine is predicted to save, waits aside. */
static double
saving_of (const struct sluice_decision *decision)
{
	int acts = decision->action == SLUICE_ACTION_DELAY
		   || decision->action == SLUICE_ACTION_DISJOINT;
	for (uint32_t i = 0; acts && i < decision->alternative_count; i++)
		if (decision->alternatives[i].action == SLUICE_ACTION_COLOCATE)
			return loss_of (&decision->alternatives[i])
			       - loss_of (&decision->alternatives[decision->chosen]);
	return 0.0;
}

static void
note (struct sluice_core_policy *p, uint32_t job, const struct sluice_decision *decision)
{
	struct sluice_policy_result *result = &p->results[job];
	p->plans[job].saving = saving_of (decision);
	p->plans[job].klass = (uint16_t)decision->prediction.klass;
	result->action = (uint16_t)decision->action;
	result->reason = (uint16_t)decision->reason;
	result->decisions++;
	if (p->made_count == p->made_capacity) {
		uint32_t capacity
		    = p->made_capacity ? 2 * p->made_capacity : FIRST_CAPACITY;
		struct sluice_core_decision *made
		    = realloc (p->made, capacity * sizeof *made);
		if (!made)
			return;
		p->made = made;
		p->made_capacity = capacity;
	}
	p->made[p->made_count++]
	    = (struct sluice_core_decision){ .job = job, .decision = *decision };
}

/* Of lanes with blocks; the storage counts targets over all lanes. */
static void
look_at_targets (struct sluice_core_policy *p, double now)
{
	if (!p->storage || !p->storage->filled || now < p->filled + filled_every)
		return;
	uint32_t before = 0;
	for (uint32_t lane = 0; lane < p->policy->lane_count; lane++) {
		const struct sluice_lane *on = &p->policy->lanes[lane];
		for (uint32_t i = 0; on->has_blocks && i < on->targets; i++)
			running_jobs_see (p->running, &(struct sluice_target){
							  .lane = lane,
							  .target = i,
							  .used = p->storage->filled (
							      p->storage->self, before + i),
						      });
		before += on->targets;
	}
	p->filled = now;
}

/* Bring the situation up to date with the running jobs. */
static void
renew (struct sluice_core_policy *p, double now)
{
	look_at_targets (p, now);
	uint64_t version = running_jobs_update (p->running, utc (p, now));
	if (version != p->renewed) {
		sluice_situation_renew (p->situation, running_jobs_set (p->running));
		p->renewed = version;
		p->is_stale = 1;
	}
	p->state.taken = utc (p, now);
}

/* From a decision on until it starts, a job counts on its block as one that waits. */
static void
set_waiting (struct sluice_core_policy *p, uint32_t job, uint32_t is_there)
{
	struct plan *plan = &p->plans[job];
	if (plan->place.block.count && plan->is_waiting != is_there)
		running_jobs_place (p->running, &plan->place, (int)is_there);
	plan->is_waiting = is_there;
}

static void
decide_block (struct sluice_core_policy *p, uint32_t job,
	      const struct sluice_submission *submission)
{
	struct sluice_place place = { .turn = p->placed };
	sluice_decide_block (p->workspace, p->situation, p->setup.config,
			     SLUICE_MODE_ENFORCE, submission, &p->latest, &place);
	p->placed += place.job.block.count > 0;
	p->plans[job].place = place.job;
	set_waiting (p, job, 1);
}

static void
decide (struct sluice_core_policy *p, double now, uint32_t job)
{
	struct sluice_submission submission;
	renew (p, now);
	sluice_core_submission (&p->setup, job, &submission);
	sluice_decide (p->workspace, p->situation, p->setup.config, &submission,
		       p->state.taken, &p->latest);
	p->decided = job;
	note (p, job, &p->latest);
	decide_block (p, job, &submission);
}

/* The profile of a job as it is predicted, which most often was just done. */
static const struct sluice_profile *
profile_of (struct sluice_core_policy *p, uint32_t job)
{
	struct sluice_submission submission;
	if (p->decided != job) {
		sluice_core_submission (&p->setup, job, &submission);
		sluice_predict (p->setup.bundle, &submission, p->state.taken,
				&p->latest.prediction);
		p->decided = job;
	}
	return &p->latest.prediction.profile;
}

/*
 * Polls
 */

/* The tokens of a lane and class that jobs hold. */
static uint32_t
held_of (const struct sluice_core_policy *p, uint32_t klass, uint32_t lane)
{
	uint32_t held = 0;
	for (uint32_t i = 0; i < p->rows.count; i++) {
		const struct sluice_control_job *row = &p->rows.jobs[i];
		held += row->state == SLUICE_CONTROL_RUNS && row->tokens.klass == klass
			&& row->tokens.lane_mask >> lane & 1;
	}
	return held;
}

/* What Slurm would count as free behind the leases of the last poll. */
static void
count_free (struct sluice_core_policy *p)
{
	uint32_t held[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES] = { 0 };

	for (uint32_t i = 0; i < p->rows.count; i++) {
		const struct sluice_control_job *row = &p->rows.jobs[i];
		if (row->state != SLUICE_CONTROL_RUNS)
			continue;
		for (uint32_t lane = 0; row->tokens.lane_mask >> lane; lane++)
			held[row->tokens.klass][lane] += row->tokens.lane_mask >> lane & 1;
	}
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		for (uint32_t lane = 0; lane < lane_count (p); lane++) {
			uint32_t gate = p->gates.tokens[k][lane];
			uint32_t left = gate > held[k][lane] ? gate - held[k][lane] : 0;
			p->facts.free[k][lane]
			    = p->gates.is_given_up[k][lane] ? TOTAL : left;
		}
}

/* What the control loop charged the job: once it is released, it lacks nothing but room. */
static void
note_delay (struct sluice_core_policy *p, uint32_t job,
	    const struct sluice_control_job *row)
{
	p->results[job].held = fmin (row->memory.waited, p->policy->max_delay);
}

/* Do to the queue what sluiced would tell Slurm. */
static uint32_t
carry_out (struct sluice_core_policy *p)
{
	const uint32_t *actions;
	uint32_t count = sluice_control_actions (p->rows.control, &actions);
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_control_job *row = &p->rows.jobs[actions[i]];
		uint32_t job = row->job_id;
		struct plan *plan = &p->plans[job];
		if (row->state == SLUICE_CONTROL_ABSENT)
			continue; /* carried out before */
		if (row->verdict.action == SLUICE_VERDICT_RELEASE) {
			plan->tokens.lane_mask = 0;
			note_delay (p, job, row);
			remove_row (p, job);
			continue;
		}
		plan->tokens = row->tokens = row->verdict.tokens;
		press (p, row, profile_of (p, job));
		row->verdict.action = SLUICE_VERDICT_LEAVE;
		p->is_stale = 1;
	}
	return count;
}

static void
show (const struct sluice_core_policy *p, enum sluice_core_moment moment)
{
	struct sluice_core_queue queue = {
		.jobs = p->rows.jobs,
		.submissions = p->rows.pointers,
		.count = p->rows.count,
		.facts = &p->facts,
		.gates = &p->gates,
	};
	if (p->watch)
		p->watch (p->watcher, moment, &queue);
}

/* Charge the waits up to now. */
static void
bound (struct sluice_core_policy *p, double now)
{
	p->facts.clock = now + 1.0;
	p->facts.now = utc (p, now);
	p->facts.releases = UINT32_MAX;
	count_free (p);
	show (p, SLUICE_CORE_BEFORE_BOUND);
	sluice_control_bound (p->rows.control, p->rows.jobs, p->rows.count, &p->facts);
	show (p, SLUICE_CORE_AFTER_BOUND);
	carry_out (p);
}

static void
poll (struct sluice_core_policy *p, double now)
{
	for (int i = 0; p->is_stale && i <= SLUICE_CONTROL_MOVES; i++) {
		bound (p, now);
		renew (p, now);
		p->is_stale = 0;
		p->facts.version = p->renewed;
		show (p, SLUICE_CORE_BEFORE_POLL);
		sluice_control_poll (p->rows.control, p->rows.jobs, p->rows.pointers,
				     p->rows.count, p->situation, p->setup.config,
				     &p->facts, &p->gates);
		show (p, SLUICE_CORE_AFTER_POLL);
		uint32_t made = sluice_control_decision_count (p->rows.control);
		for (uint32_t d = 0; d < made; d++) {
			const struct sluice_control_decision *decision
			    = sluice_control_decision (p->rows.control, d);
			note (p, p->rows.jobs[decision->job].job_id,
			      &decision->record.decision);
		}
		carry_out (p);
	}
}

/* Whether Slurm finds a token of its class on each of its lanes. */
static int
has_tokens (const struct sluice_core_policy *p, const struct sluice_tokens *tokens)
{
	for (uint32_t lane = 0; tokens->lane_mask >> lane; lane++) {
		if (!(tokens->lane_mask >> lane & 1)
		    || p->gates.is_given_up[tokens->klass][lane])
			continue;
		if (held_of (p, tokens->klass, lane)
		    >= p->gates.tokens[tokens->klass][lane])
			return 0;
	}
	return 1;
}

/*
 * Hooks
 */

/* Whether the site enforces for a job that has been given tokens. */
static int
is_enforced (const struct sluice_core_policy *p, uint32_t job)
{
	struct sluice_submission submission;
	struct sluice_job_mode mode;
	sluice_core_submission (&p->setup, job, &submission);
	sluice_mode_of (p->setup.config, p->policy, &submission,
			p->plans[job].tokens.lane_mask, &mode);
	return mode.mode == SLUICE_MODE_ENFORCE;
}

/* Put a job with tokens among those that wait: without a row it gets none. */
static void
let_wait (struct sluice_core_policy *p, uint32_t job)
{
	struct sluice_control_job *row = add_row (p, job, profile_of (p, job));
	if (row)
		row->state = SLUICE_CONTROL_WAITS;
	else
		p->plans[job].tokens.lane_mask = 0;
}

static void
submitted (void *self, double now, uint32_t job, struct sluice_choice *choice)
{
	struct sluice_core_policy *p = self;
	const struct sluice_replay_policy *other = p->setup.other;
	p->made_count = 0;
	p->facts.clock = now + 1.0;
	decide (p, now, job);
	choice->block = p->plans[job].place.block;
	if (other && other->submitted)
		other->submitted (other->self, now, job, choice);
	if (other)
		return;
	sluice_tokens_of (p->policy, &p->latest, &p->plans[job].tokens);
	if (!is_enforced (p, job))
		p->plans[job].tokens.lane_mask = 0;
	if (p->plans[job].tokens.lane_mask)
		let_wait (p, job);
}

/* The job could start now, if it had its tokens: decide on it like sluiced. */
static void
see_room (struct sluice_core_policy *p, double now, uint32_t job)
{
	const uint32_t near = SLUICE_CONTROL_ROOM | SLUICE_CONTROL_NEXT;
	if (p->polled < now) {
		bound (p, now);
		p->polled = now;
		p->is_stale = 1;
	}
	if (p->plans[job].row == NO_ROW)
		return;
	struct sluice_control_job *row = &p->rows.jobs[p->plans[job].row];
	if ((row->flags & near) != near) {
		row->flags |= near;
		p->is_stale = 1;
	}
	poll (p, now);
}

/* No time passes between two polls here: a job that has none left to wait is charged a
 * moment, so that it is released now. */
static void
release_if_due (struct sluice_core_policy *p, double now, struct sluice_control_job *row)
{
	if (row->memory.waited + soon <= p->policy->max_delay)
		return;
	row->memory.waited += soon;
	bound (p, now);
}

/* Until when a job that lacks a token need not be asked about. */
static double
hold_of (const struct sluice_core_policy *p, const struct sluice_control_job *row,
	 double now)
{
	double until = now + p->policy->max_delay - row->memory.waited + soon;
	double again = row->memory.again - 1.0;
	if (row->memory.waits && again > now)
		until = fmin (until, again);
	return until;
}

static void
starting (void *self, double now, uint32_t job, struct sluice_choice *choice)
{
	struct sluice_core_policy *p = self;
	struct plan *plan = &p->plans[job];
	struct sluice_policy_result *result = &p->results[job];
	const struct sluice_replay_policy *other = p->setup.other;
	if (other && other->starting)
		other->starting (other->self, now, job, choice);
	if (other)
		return;
	p->made_count = 0;
	if (plan->tokens.lane_mask && plan->row == NO_ROW)
		let_wait (p, job); /* it was preempted, and keeps its licences */
	if (plan->tokens.lane_mask)
		see_room (p, now, job);
	if (plan->tokens.lane_mask && !has_tokens (p, &plan->tokens))
		release_if_due (p, now, &p->rows.jobs[plan->row]);
	if (plan->tokens.lane_mask && !has_tokens (p, &plan->tokens)) {
		if (result->held_since < 0) {
			result->held_since = now;
			result->saving = plan->saving; /* later ones only go on */
		}
		choice->hold_until = hold_of (p, &p->rows.jobs[plan->row], now);
		return;
	}
	choice->lane_mask = confinement (p, &plan->tokens);
	result->lane_mask = choice->lane_mask;
	if (result->lane_mask && result->held_since < 0)
		result->saving = plan->saving;
	if (plan->row != NO_ROW)
		note_delay (p, job, &p->rows.jobs[plan->row]);
	choice->hold_until = 0;
}

static void
started (void *self, double now, uint32_t job)
{
	struct sluice_core_policy *p = self;
	struct plan *plan = &p->plans[job];
	const struct sluice_replay_policy *other = p->setup.other;
	if (other && other->started)
		other->started (other->self, now, job);
	if (plan->klass == SLUICE_CLASS_NONE) {
		remove_row (p, job);
		return;
	}
	struct sluice_corunner corunner = {
		.job_id = job,
		.nodes = (uint32_t)p->setup.jobs[job].slots,
		.lane_mask = confinement (p, &plan->tokens),
		.klass = plan->klass,
		.block = plan->place.block,
		.profile = *profile_of (p, job),
	};
	struct sluice_submission submission;
	sluice_core_submission (&p->setup, job, &submission);
	sluice_identity_of (&submission, &corunner.identity);
	double limit = fmin (p->setup.jobs[job].limit, 1e9);
	set_waiting (p, job, 0);
	if (running_jobs_enter (p->running, &corunner, utc (p, now), utc (p, now + limit)))
		set_waiting (p, job, 1); /* it goes on to count by itself */
	if (other)
		return;
	if (plan->row == NO_ROW && !add_row (p, job, &corunner.profile))
		return;
	p->rows.jobs[plan->row].state = SLUICE_CONTROL_RUNS;
	p->is_stale = 1;
}

static void
ended (void *self, double now, uint32_t job)
{
	struct sluice_core_policy *p = self;
	const struct sluice_replay_policy *other = p->setup.other;
	if (other && other->ended)
		other->ended (other->self, now, job);
	set_waiting (p, job, 0);
	if (p->plans[job].klass != SLUICE_CLASS_NONE)
		running_jobs_leave (p->running, job);
	remove_row (p, job);
}

static void
begins (void *self, const struct sluice_replay_storage *storage)
{
	struct sluice_core_policy *p = self;
	p->storage = storage;
}

static int
prepare (struct sluice_core_policy *p)
{
	const struct sluice_bundle *bundle = p->setup.bundle;
	p->policy = sluice_bundle_policy (bundle);
	p->decided = UINT32_MAX;
	p->polled = p->filled = -INFINITY;
	p->facts.max_delay = p->policy->max_delay;
	p->facts.grace = INFINITY; /* here nothing keeps a job from being released */
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
			p->facts.totals[k][lane] = TOTAL;
	p->plans = calloc ((size_t)p->setup.job_count + 1, sizeof *p->plans);
	for (uint32_t i = 0; p->plans && i < p->setup.job_count; i++)
		p->plans[i].row = NO_ROW;
	p->results = sluice_policy_results_new (p->setup.job_count);
	p->running = running_jobs_new (bundle);
	p->snapshot = sluice_snapshot_of_state (&p->state);
	p->situation = p->snapshot ? sluice_situation_create (bundle, p->snapshot) : NULL;
	p->workspace = sluice_workspace_create ();
	return p->plans && p->results && p->running && p->situation && p->workspace
		       && grow_rows (&p->rows) == 0
		   ? 0
		   : -1;
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
		.begins = begins,
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
	sluice_workspace_destroy (p->workspace);
	sluice_snapshot_destroy (p->snapshot);
	running_jobs_destroy (p->running);
	free_rows (&p->rows);
	free (p->made);
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

const struct sluice_core_decision *
sluice_core_policy_decisions (const struct sluice_core_policy *p, uint32_t *count)
{
	*count = p->made_count;
	return p->made;
}

void
sluice_core_policy_watch (struct sluice_core_policy *p, sluice_core_watch *watch,
			  void *watcher)
{
	p->watch = watch;
	p->watcher = watcher;
}
