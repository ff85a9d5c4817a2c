#include "control_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Representatives of waiting jobs besides two a kind. */
enum { FILLED = SLUICE_CLASS_COUNT * SLUICE_CONTROL_LIMIT };

#define NAME(name, json, text) json,
#define TEXT(name, json, text) text,

const char *
sluice_release_name (unsigned int release)
{
	static const char *const names[] = { SLUICE_RELEASES (NAME) };
	return release < SLUICE_RELEASE_COUNT ? names[release] : "?";
}

const char *
sluice_release_text (unsigned int release)
{
	static const char *const texts[] = { SLUICE_RELEASES (TEXT) };
	return release < SLUICE_RELEASE_COUNT ? texts[release] : "?";
}

struct sluice_control *
sluice_control_create (uint32_t capacity)
{
	struct sluice_control *c = calloc (1, sizeof *c);
	if (!c)
		return NULL;
	c->capacity = capacity;
	c->workspace = sluice_workspace_create ();
	c->ranked = calloc ((size_t)capacity + 1, sizeof *c->ranked);
	c->kinds = calloc ((size_t)capacity + 1, sizeof *c->kinds);
	for (c->slot_count = 2; c->slot_count / 2 < capacity; c->slot_count *= 2)
		;
	c->slots = calloc (c->slot_count, sizeof *c->slots);
	c->listed = calloc ((size_t)capacity + 1, sizeof *c->listed);
	c->actions = calloc ((size_t)capacity + 1, sizeof *c->actions);
	c->members = calloc ((size_t)capacity + 1, sizeof *c->members);
	c->chosen = calloc (2 * (size_t)capacity + FILLED, sizeof *c->chosen);
	c->loads = calloc ((size_t)capacity + 1, sizeof *c->loads);
	if (c->workspace && c->ranked && c->kinds && c->slots && c->listed && c->actions
	    && c->members && c->chosen && c->loads)
		return c;
	sluice_control_destroy (c);
	return NULL;
}

void
sluice_control_destroy (struct sluice_control *c)
{
	if (!c)
		return;
	free (c->loads);
	free (c->chosen);
	free (c->members);
	free (c->actions);
	free (c->listed);
	free (c->slots);
	free (c->kinds);
	free (c->ranked);
	sluice_workspace_destroy (c->workspace);
	free (c);
}

static int
by_key (const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->job_id != b->job_id)
		return a->job_id < b->job_id ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

void
sluice_control_rank (struct sluice_control *c, uint32_t *count, double key,
		     const struct sluice_control_job *jobs, uint32_t i)
{
	c->ranked[(*count)++] = (struct ranked){ key, jobs[i].job_id, i };
}

void
sluice_control_sort (struct sluice_control *c, uint32_t count)
{
	qsort (c->ranked, count, sizeof *c->ranked, by_key);
}

/*
 * The bound
 */

/* Whether its tokens, and not Slurm, may keep it. */
static int
is_charged (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	return wants_tokens (job) && job->flags & SLUICE_CONTROL_ROOM
	       && !has_free_tokens (job, facts);
}

/* Seconds for which it may have waited since the last poll. A job that is new to us may
 * have waited all the time since it became eligible. */
static double
interval_of (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	if (job->memory.since > 0.0)
		return larger (0.0, facts->clock - job->memory.polled);
	return job->eligible > 0 && facts->now > job->eligible
		   ? (double)(facts->now - job->eligible)
		   : 0.0;
}

static void
charge (struct sluice_control_job *job, struct sluice_control_facts *facts)
{
	struct sluice_control_memory *memory = &job->memory;
	if (is_charged (job, facts)) {
		double seconds = interval_of (job, facts);
		memory->waited += seconds;
		facts->charged += seconds;
	}
	if (memory->since <= 0.0)
		memory->since = facts->clock;
	memory->polled = facts->clock;
}

static uint32_t
release_of_stranger (const struct sluice_control_job *job,
		     const struct sluice_control_facts *facts)
{
	if (job->flags & SLUICE_CONTROL_RECORDED)
		return SLUICE_RELEASE_FOREIGN;
	return facts->clock - job->memory.since >= SLUICE_CONTROL_PATIENCE
		   ? SLUICE_RELEASE_UNKNOWN
		   : SLUICE_RELEASE_NONE;
}

static uint32_t
release_due (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	/* licences of these names that are not defined as tokens belong to the site */
	if (least_of (facts->totals, &job->tokens) < SLUICE_MIN_TOTAL)
		return is_pending (job) && job->flags & SLUICE_CONTROL_GRANTED
			   ? SLUICE_RELEASE_UNDEFINED
			   : SLUICE_RELEASE_NONE;
	if (is_pending (job) && facts->is_off)
		return SLUICE_RELEASE_SWITCHED_OFF;
	if (!(job->flags & SLUICE_CONTROL_GRANTED))
		return release_of_stranger (job, facts);
	if (is_pending (job) && job->flags & SLUICE_CONTROL_SPARED)
		return SLUICE_RELEASE_MODE;
	/* also with MaxDelay=0 a job has its lanes where nothing keeps it waiting */
	if (job->state == SLUICE_CONTROL_WAITS && job->memory.waited > 0.0
	    && job->memory.waited >= facts->max_delay)
		return SLUICE_RELEASE_MAX_DELAY;
	return SLUICE_RELEASE_NONE;
}

static void
act (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t i, uint32_t action)
{
	jobs[i].verdict.action = action;
	c->actions[c->action_count++] = i;
}

/* Command a release; while it shows no effect it is tried again, ever more seldom. */
static void
command (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t i,
	 struct sluice_control_facts *facts)
{
	struct sluice_control_job *job = &jobs[i];
	struct sluice_control_memory *memory = &job->memory;
	double pause = memory->tries < 6 ? (double)(1u << memory->tries) : 64.0;

	act (c, jobs, i, SLUICE_VERDICT_RELEASE);
	memory->tries++;
	memory->retry = facts->clock + smaller (pause, SLUICE_CONTROL_RETRY);
	facts->releases--;
}

/* Release the ranked ones, as many as may be commanded. */
static void
command_ranked (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t count,
		struct sluice_control_facts *facts)
{
	sluice_control_sort (c, count);
	for (uint32_t i = 0; i < count && facts->releases > 0; i++)
		command (c, jobs, c->ranked[i].index, facts);
}

/* A key that sorts by attempts, then by falling waits. */
static double
urgency_of (const struct sluice_control_job *job)
{
	return (double)job->memory.tries * 1e9 - smaller (job->memory.waited, 1e8);
}

/* It is due; rank it unless its last release is still to show. */
static void
release_when_due (struct sluice_control *c, uint32_t *count,
		  struct sluice_control_job *jobs, uint32_t i, uint32_t release,
		  const struct sluice_control_facts *facts)
{
	jobs[i].verdict.release = release;
	if (facts->clock >= jobs[i].memory.retry)
		sluice_control_rank (c, count, urgency_of (&jobs[i]), jobs, i);
}

static void
release_if_due (struct sluice_control *c, uint32_t *count, struct sluice_control_job *jobs,
		uint32_t i, const struct sluice_control_facts *facts)
{
	uint32_t release = release_due (&jobs[i], facts);
	if (release != SLUICE_RELEASE_NONE)
		release_when_due (c, count, jobs, i, release, facts);
}

void
sluice_control_bound (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n,
		      struct sluice_control_facts *facts)
{
	uint32_t count = 0;

	facts->charged = facts->longest = 0.0;
	c->action_count = c->listed_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct sluice_control_job *job = &jobs[i];
		memset (&job->verdict, 0, sizeof job->verdict);
		if (job->state == SLUICE_CONTROL_ABSENT)
			continue;
		charge (job, facts);
		if (!job->tokens.lane_mask) {
			job->memory.tries = 0;
			job->memory.retry = 0.0;
			continue;
		}
		facts->longest = larger (facts->longest, job->memory.waited);
		release_if_due (c, &count, jobs, i, facts);
	}
	command_ranked (c, jobs, count, facts);
}

/*
 * Decided again
 */

static int
is_near (const struct sluice_control_job *job)
{
	return wants_tokens (job) && job->flags & SLUICE_CONTROL_GRANTED
	       && job->flags & (SLUICE_CONTROL_NEXT | SLUICE_CONTROL_ROOM);
}

/* Whether the latest decision still holds. */
static int
is_decided (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	const struct sluice_control_memory *m = &job->memory;
	return m->decided > 0.0 && m->version == facts->version
	       && facts->clock - m->decided < SLUICE_CONTROL_STALE
	       && (!m->waits || facts->clock < m->again);
}

/* Reasons by which waiting costs more than it saves. */
static int
should_share (uint32_t reason)
{
	return reason == SLUICE_REASON_HARMLESS || reason == SLUICE_REASON_SHARING_CHEAPEST
	       || reason == SLUICE_REASON_MARGIN || reason == SLUICE_REASON_TURNS_PAY;
}

/* Reasons to abstain that say nothing of the job. */
static int
says_nothing (uint32_t reason)
{
	return reason == SLUICE_REASON_NO_BUNDLE || reason == SLUICE_REASON_NO_SNAPSHOT
	       || reason == SLUICE_REASON_STALE_SNAPSHOT
	       || reason == SLUICE_REASON_SWITCHED_OFF;
}

/* An array changes lanes as a whole, and not while tasks of it write. */
static int
runs_already (const struct sluice_control_job *jobs, uint32_t n, uint32_t array_id)
{
	for (uint32_t i = 0; array_id && i < n; i++)
		if (jobs[i].state == SLUICE_CONTROL_RUNS && jobs[i].array_id == array_id)
			return 1;
	return 0;
}

static void
take_up (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n, uint32_t i,
	 const struct sluice_record *record, const struct sluice_policy *policy,
	 const struct sluice_control_facts *facts)
{
	struct sluice_control_job *job = &jobs[i];
	struct sluice_control_memory *memory = &job->memory;
	const struct sluice_decision *decision = &record->decision;
	const struct sluice_tokens *wanted = &record->grant.tokens;

	memory->decided = facts->clock;
	memory->version = facts->version;
	memory->reason = decision->reason;
	memory->waits = decision->action == SLUICE_ACTION_DELAY;
	memory->again = facts->clock + decision->wait;
	if (job->verdict.release != SLUICE_RELEASE_NONE)
		return;
	if (wanted->lane_mask == 0) {
		if (!says_nothing (decision->reason))
			job->verdict.release = SLUICE_RELEASE_LEFT;
	} else if (record->grant.outcome == SLUICE_GRANT_TAKEN
		   && memory->moves < SLUICE_CONTROL_MOVES
		   && sluice_tokens_exchange (policy, &job->tokens, decision)
		   && !runs_already (jobs, n, job->array_id)) {
		act (c, jobs, i, SLUICE_VERDICT_EXCHANGE);
		job->verdict.tokens = *wanted;
		memory->moves++;
	}
}

static const struct sluice_record *
decide (struct sluice_control *c, uint32_t job, const struct sluice_submission *submission,
	const struct sluice_situation *situation, const struct sluice_config *config,
	struct sluice_control_facts *facts)
{
	struct sluice_control_decision *made = &c->decisions[c->decision_count++];
	struct sluice_record *record = &made->record;
	struct sluice_tokens tokens;

	memset (made, 0, sizeof *made);
	made->job = job;
	record->boot = facts->boot;
	record->number = ++facts->number;
	record->now = facts->now;
	record->config_checksum = facts->config_checksum;
	memcpy (record->cluster, facts->cluster, sizeof record->cluster);
	record->submission = *submission;
	sluice_record_decide (c->workspace, situation, config, record);
	sluice_tokens_of (situation->policy, &record->decision, &tokens);
	sluice_tokens_grant (record->mode, record->turns, situation->policy, submission,
			     &record->decision, facts->totals[tokens.klass],
			     &record->grant);
	return record;
}

/* Rank those of the listed jobs whose latest decision does not hold, those first that were
 * decided on longest ago. */
static uint32_t
rank_undecided (struct sluice_control *c, const struct sluice_control_job *jobs,
		const struct sluice_submission *const *submissions,
		const struct sluice_control_facts *facts)
{
	uint32_t count = 0;
	for (uint32_t k = 0; k < c->listed_count; k++) {
		uint32_t i = c->listed[k];
		if ((!submissions || submissions[i]) && !is_decided (&jobs[i], facts))
			sluice_control_rank (c, &count, jobs[i].memory.decided, jobs, i);
	}
	sluice_control_sort (c, count);
	return count < SLUICE_CONTROL_DECISIONS ? count : SLUICE_CONTROL_DECISIONS;
}

uint32_t
sluice_control_undecided (struct sluice_control *c, const struct sluice_control_job *jobs,
			  uint32_t n, const struct sluice_control_facts *facts,
			  uint32_t out[SLUICE_CONTROL_DECISIONS])
{
	c->listed_count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (is_near (&jobs[i]))
			c->listed[c->listed_count++] = i;
	uint32_t count = rank_undecided (c, jobs, NULL, facts);
	for (uint32_t k = 0; k < count; k++)
		out[k] = c->ranked[k].index;
	return count;
}

static void
decide_again (struct sluice_control *c, struct sluice_control_job *jobs,
	      const struct sluice_submission *const *submissions, uint32_t n,
	      const struct sluice_situation *situation, const struct sluice_config *config,
	      struct sluice_control_facts *facts)
{
	uint32_t count = rank_undecided (c, jobs, submissions, facts);

	c->decision_count = 0;
	for (uint32_t k = 0; k < count; k++) {
		uint32_t i = c->ranked[k].index;
		take_up (c, jobs, n, i,
			 decide (c, i, submissions[i], situation, config, facts),
			 situation->policy, facts);
	}
}

/* Whether a job with tokens is too slow on its lanes even alone. */
static int
is_confined (const struct sluice_control_job *job, const struct sluice_policy *policy)
{
	return sluice_job_slowdown (&job->pressure, 1.0) > policy->tolerance;
}

/*
 * Decided again at the start
 */

/* A key that sorts by start, then by falling priority; of long ago all alike. */
static double
turn_of (const struct sluice_control_job *job, int64_t now)
{
	const double long_ago = 100000.0;
	double start = larger (0.0, long_ago - (double)(now - job->start));
	return start * 4294967296.0 + (double)(UINT32_MAX - job->priority);
}

/* Whether the decision at submission may have been made alongside others. before: the one
 * that started last of those in front; NULL: there is none. */
static int
is_news (const struct sluice_control_job *job, const struct sluice_control_job *before)
{
	return job->start - job->submit > SLUICE_CONTROL_STALE
	       || (before && before->start >= job->submit - SLUICE_CONTROL_UNSEEN);
}

/* Whether it has just started, was not decided on since then, and needed no token. */
static int
has_started (const struct sluice_control_job *job, const struct sluice_control_facts *facts)
{
	return job->flags & SLUICE_CONTROL_SPARED && job->memory.decided <= 0.0
	       && job->start >= facts->now - SLUICE_CONTROL_STARTED;
}

uint32_t
sluice_control_starts (struct sluice_control *c, struct sluice_control_job *jobs,
		       uint32_t n, const struct sluice_control_facts *facts,
		       uint32_t *order, uint32_t due[SLUICE_CONTROL_STARTS],
		       uint32_t *due_count)
{
	uint32_t count = 0;

	*due_count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (jobs[i].state == SLUICE_CONTROL_RUNS
		    && jobs[i].flags & SLUICE_CONTROL_PREDICTED
		    && jobs[i].tokens.klass != SLUICE_CLASS_NONE)
			sluice_control_rank (c, &count, turn_of (&jobs[i], facts->now),
					     jobs, i);
	sluice_control_sort (c, count);
	for (uint32_t k = 0; k < count; k++) {
		struct sluice_control_job *job = &jobs[c->ranked[k].index];
		order[k] = c->ranked[k].index;
		if (*due_count == SLUICE_CONTROL_STARTS || !has_started (job, facts))
			continue;
		job->memory.decided = facts->clock;
		if (is_news (job, k > 0 ? &jobs[order[k - 1]] : NULL))
			due[(*due_count)++] = k;
	}
	return count;
}

const struct sluice_record *
sluice_control_decide (struct sluice_control *c, uint32_t job,
		       const struct sluice_submission *submission,
		       const struct sluice_situation *situation,
		       const struct sluice_config *config,
		       struct sluice_control_facts *facts)
{
	c->decision_count = 0;
	return decide (c, job, submission, situation, config, facts);
}

/* A gate behind which a job has waited beyond the bound is given up: whatever keeps
 * that job from being released, the gate keeps no job. */
static void
give_up_gates (const struct sluice_control_job *jobs, uint32_t n,
	       const struct sluice_control_facts *facts, struct sluice_control_gates *out)
{
	double latest = facts->max_delay + facts->grace;
	for (uint32_t i = 0; facts->longest >= latest && i < n; i++) {
		const struct sluice_control_job *job = &jobs[i];
		if (!wants_tokens (job) || job->memory.waited < latest)
			continue;
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
			if (job->tokens.lane_mask >> lane & 1)
				out->is_given_up[job->tokens.klass][lane] = 1;
	}
}

/*
 * Releases by what was decided
 */

static int
is_shut_out (const struct sluice_control_job *job, const struct sluice_control_gates *gates,
	     const uint32_t wanted[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES])
{
	uint32_t k = job->tokens.klass;
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
		if (job->tokens.lane_mask >> lane & 1
		    && gates->tokens[k][lane] < wanted[k][lane])
			return 1;
	return 0;
}

/* Whether the job that was released last to share is still to start. */
static int
is_sharing_settled (const struct sluice_control_job *jobs, uint32_t n,
		    const struct sluice_control_facts *facts)
{
	if (facts->shared <= 0.0 || facts->clock - facts->shared >= SLUICE_CONTROL_START)
		return 1;
	for (uint32_t i = 0; i < n; i++)
		if (jobs[i].job_id == facts->sharing && is_pending (&jobs[i]))
			return 0;
	return 1;
}

static int
comes_before (const struct sluice_control_job *a, const struct sluice_control_job *b)
{
	if (a->memory.tries != b->memory.tries)
		return a->memory.tries < b->memory.tries;
	return a->submit != b->submit ? a->submit < b->submit : a->job_id < b->job_id;
}

/* The first submitted of the jobs that had better share than wait for a shut gate. One at
 * a time, so that the next decision knows of it; no array, whose tasks would all start.
 * One whose release was in vain keeps no other. */
static struct sluice_control_job *
next_to_share (const struct sluice_control *c, struct sluice_control_job *jobs,
	       const struct sluice_control_facts *facts,
	       const struct sluice_control_gates *gates)
{
	uint32_t wanted[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES] = { 0 };
	struct sluice_control_job *first = NULL;

	sluice_control_wanted (c, jobs, wanted);
	for (uint32_t k = 0; k < c->listed_count; k++) {
		struct sluice_control_job *job = &jobs[c->listed[k]];
		if (!is_decided (job, facts) || job->verdict.action
		    || job->verdict.release != SLUICE_RELEASE_NONE
		    || facts->clock < job->memory.retry
		    || !should_share (job->memory.reason)
		    || job->flags & SLUICE_CONTROL_ARRAY
		    || !is_shut_out (job, gates, wanted))
			continue;
		if (!first || comes_before (job, first))
			first = job;
	}
	return first;
}

static void
release_by_decision (struct sluice_control *c, struct sluice_control_job *jobs, uint32_t n,
		     const struct sluice_policy *policy, struct sluice_control_facts *facts,
		     const struct sluice_control_gates *gates)
{
	uint32_t count = 0;

	if (facts->releases > 0 && is_sharing_settled (jobs, n, facts)) {
		struct sluice_control_job *job = next_to_share (c, jobs, facts, gates);
		if (job) {
			job->verdict.release = SLUICE_RELEASE_SHARING;
			facts->sharing = job->job_id;
			facts->shared = facts->clock;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		struct sluice_control_job *job = &jobs[i];
		if (!job->tokens.lane_mask || !is_pending (job) || job->verdict.action)
			continue;
		if (job->verdict.release == SLUICE_RELEASE_NONE && counts (job)
		    && is_confined (job, policy))
			job->verdict.release = SLUICE_RELEASE_CONFINED;
		if (job->verdict.release >= SLUICE_RELEASE_CONFINED)
			release_when_due (c, &count, jobs, i, job->verdict.release, facts);
	}
	command_ranked (c, jobs, count, facts);
}

/* Go through the queue once: list the jobs near their start, which may be decided on before
 * they count, and count all others. */
static void
survey (struct sluice_control *c, const struct sluice_control_job *jobs, uint32_t n)
{
	sluice_control_count_none (c);
	c->listed_count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (is_near (&jobs[i]))
			c->listed[c->listed_count++] = i;
		else if (jobs[i].state != SLUICE_CONTROL_ABSENT)
			sluice_control_count (c, jobs, i);
}

void
sluice_control_poll (struct sluice_control *c, struct sluice_control_job *jobs,
		     const struct sluice_submission *const *submissions, uint32_t n,
		     const struct sluice_situation *situation,
		     const struct sluice_config *config, struct sluice_control_facts *facts,
		     struct sluice_control_gates *out)
{
	memset (out, 0, sizeof *out);
	survey (c, jobs, n);
	decide_again (c, jobs, submissions, n, situation, config, facts);
	for (uint32_t k = 0; k < c->listed_count; k++)
		sluice_control_count (c, jobs, c->listed[k]);
	sluice_control_size_gates (c, jobs, situation, out);
	release_by_decision (c, jobs, n, situation->policy, facts, out);
	give_up_gates (jobs, n, facts, out);
}

uint32_t
sluice_control_actions (const struct sluice_control *c, const uint32_t **jobs)
{
	*jobs = c->actions;
	return c->action_count;
}

static int
is_longer (const struct sluice_control_job *job, const struct sluice_holder *than)
{
	uint32_t waited = (uint32_t)smaller (ceil (job->memory.waited), UINT32_MAX);
	if (waited != than->waited)
		return waited > than->waited;
	return job->tokens.lane_mask > than->lane_mask;
}

uint32_t
sluice_control_holders (struct sluice_control *c, const struct sluice_control_job *jobs,
			uint32_t n, struct sluice_holder *out)
{
	uint32_t count = 0, found = 0;

	for (uint32_t i = 0; i < n; i++)
		if (jobs[i].state != SLUICE_CONTROL_ABSENT && jobs[i].tokens.lane_mask) {
			uint32_t array_id = jobs[i].array_id;
			sluice_control_rank (c, &count,
					     array_id ? array_id : jobs[i].job_id, jobs, i);
		}
	sluice_control_sort (c, count);
	for (uint32_t k = 0; k < count; k++) {
		const struct sluice_control_job *job = &jobs[c->ranked[k].index];
		uint32_t id = (uint32_t)c->ranked[k].key;
		if (found > 0 && out[found - 1].job_id == id) {
			if (!is_longer (job, &out[found - 1]))
				continue;
			found--;
		}
		out[found++] = (struct sluice_holder){
			.job_id = id,
			.klass = job->tokens.klass,
			.lane_mask = job->tokens.lane_mask,
			.waited = (uint32_t)smaller (ceil (job->memory.waited), UINT32_MAX),
		};
	}
	return found;
}

uint32_t
sluice_control_decision_count (const struct sluice_control *c)
{
	return c->decision_count;
}

const struct sluice_control_decision *
sluice_control_decision (const struct sluice_control *c, uint32_t i)
{
	return &c->decisions[i];
}
