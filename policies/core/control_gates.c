#include "control_loop.h"

#include <stdlib.h>
#include <string.h>

/* How hard a job presses where its lanes are slow: it fills them sooner. That jobs are
 * slow there is not for the tolerance to judge. */
static void
press (const struct sluice_control_job *job, const struct sluice_situation *situation,
       struct sluice_pressure *out)
{
	double slowest = 1.0;
	for (uint32_t lane = 0; lane < situation->policy->lane_count; lane++)
		if (job->tokens.lane_mask >> lane & 1)
			slowest = smaller (slowest, situation->speeds[lane]);
	*out = job->pressure;
	if (slowest < 1.0) {
		struct sluice_pressure slowed = job->pressure;
		sluice_pressure_slow_down (&slowed, slowest);
		out->demand = slowed.demand;
	}
}

/* Whether the gates cannot tell two jobs with tokens apart. */
static int
are_alike (const struct sluice_control_job *a, const struct sluice_control_job *b)
{
	return memcmp (&a->tokens, &b->tokens, sizeof a->tokens) == 0
	       && memcmp (&a->pressure, &b->pressure, sizeof a->pressure) == 0;
}

static struct kind *
kind_of (struct sluice_control *c, const struct sluice_control_job *jobs, uint32_t i)
{
	uint64_t hash = sluice_hash_bytes (&jobs[i].pressure, sizeof jobs[i].pressure, 0);
	hash = sluice_hash_bytes (&jobs[i].tokens, sizeof jobs[i].tokens, hash);
	uint32_t *slot;
	for (;; hash++) {
		slot = &c->slots[hash & (c->slot_count - 1)];
		if (*slot == 0)
			break;
		if (are_alike (&jobs[c->kinds[*slot - 1].first], &jobs[i]))
			return &c->kinds[*slot - 1];
	}
	c->kinds[c->kind_count] = (struct kind){ .first = i };
	*slot = ++c->kind_count;
	return &c->kinds[*slot - 1];
}

static void
count_waiting (struct kind *kind, const struct sluice_control_job *job)
{
	for (int has_room = 0; has_room < 2; has_room++) {
		if (has_room && !(job->flags & SLUICE_CONTROL_ROOM))
			break;
		kind->waiting[has_room] += job->tasks;
		kind->need[has_room] += job->memory.waits ? 0 : job->tasks;
	}
}

void
sluice_control_count_none (struct sluice_control *c)
{
	memset (c->slots, 0, c->slot_count * sizeof *c->slots);
	c->kind_count = c->load_count = 0;
}

void
sluice_control_count (struct sluice_control *c, const struct sluice_control_job *jobs,
		      uint32_t i)
{
	const struct sluice_control_job *job = &jobs[i];
	int runs = job->state == SLUICE_CONTROL_RUNS;
	if (counts (job)) {
		struct kind *kind = kind_of (c, jobs, i);
		if (runs)
			kind->running++;
		else if (job->state == SLUICE_CONTROL_WAITS)
			count_waiting (kind, job);
	} else if (runs && job->flags & SLUICE_CONTROL_PREDICTED
		   && job->tokens.klass != SLUICE_CLASS_NONE) {
		c->loads[c->load_count++] = &job->pressure;
	}
}

static int
by_kind (const void *left, const void *right)
{
	const struct sluice_member *a = left, *b = right;
	if (a->klass != b->klass)
		return a->klass < b->klass ? -1 : 1;
	return memcmp (&a->pressure, &b->pressure, sizeof a->pressure);
}

/*
 * Enough jobs to stand for all that wait: the worst case depends on which kinds wait, on
 * whether a kind can meet itself, and on how many of a class there are, up to the limit.
 * members are sorted by kind, job_id holding how many each stands for. Kinds are put down
 * twice at most, and the classes are filled up from the first kind on.
 */
static uint32_t
represent (struct sluice_member *members, uint32_t n, struct sluice_member *out)
{
	uint32_t in_class[SLUICE_CLASS_COUNT] = { 0 }, count = 0;

	for (int filling = 0; filling < 2; filling++)
		for (uint32_t first = 0, last; first < n; first = last) {
			uint32_t waiting = 0, klass = members[first].klass;
			for (last = first; last < n; last++) {
				if (by_kind (&members[first], &members[last]) != 0)
					break;
				waiting += members[last].job_id;
			}
			uint32_t put = waiting < 2 ? waiting : 2;
			if (filling) {
				uint32_t room = in_class[klass] < SLUICE_CONTROL_LIMIT
						    ? SLUICE_CONTROL_LIMIT - in_class[klass]
						    : 0;
				put = waiting - put < room ? waiting - put : room;
			}
			in_class[klass] += put;
			for (; put > 0; put--) {
				out[count] = members[first];
				out[count++].job_id = 0;
			}
		}
	return count;
}

static int
by_strength (const void *left, const void *right)
{
	const struct sluice_pressure *a = *(const struct sluice_pressure *const *)left;
	const struct sluice_pressure *b = *(const struct sluice_pressure *const *)right;
	return sluice_pressure_is_stronger (b, a) - sluice_pressure_is_stronger (a, b);
}

/* Running jobs whose load no token stands for: the heaviest, and the rest as one. */
static uint32_t
gather_background (struct sluice_control *c, struct sluice_pressure *out)
{
	double z = sluice_normal_quantile (sluice_quantile);
	uint32_t found = c->load_count, kept;

	qsort (c->loads, found, sizeof *c->loads, by_strength);
	kept = found < SLUICE_CONTROL_BACKGROUND ? found : SLUICE_CONTROL_BACKGROUND;
	for (uint32_t i = 0; i < kept; i++)
		out[i] = *c->loads[i];
	if (found == kept)
		return kept;
	sluice_pressure_merge (c->loads + kept, found - kept, z, &out[kept]);
	return kept + 1;
}

static int
is_on (const struct sluice_control_job *jobs, const struct kind *kind, uint32_t lane)
{
	return jobs[kind->first].tokens.lane_mask >> lane & 1;
}

/*
 * Jobs that a lane's tokens are let out for: those that could start now, but for their
 * tokens; where there are none, all that are eligible, so that one finds its token when a
 * node becomes free. A job that lacks nodes as well must keep no other from a token.
 */
static int
served_on (const struct sluice_control *c, const struct sluice_control_job *jobs,
	   uint32_t lane)
{
	for (uint32_t k = 0; k < c->kind_count; k++)
		if (is_on (jobs, &c->kinds[k], lane) && c->kinds[k].need[1] > 0)
			return 1;
	return 0;
}

/* Running and waiting jobs with tokens of a lane, behind each other in members; those that
 * wait once a kind, job_id holding how many they are. */
static void
gather_members (struct sluice_control *c, const struct sluice_control_job *jobs,
		const struct sluice_situation *situation, uint32_t lane, uint32_t *running,
		uint32_t *waiting)
{
	int served = served_on (c, jobs, lane);

	*running = *waiting = 0;
	for (int pending = 0; pending < 2; pending++)
		for (uint32_t k = 0; k < c->kind_count; k++) {
			const struct kind *kind = &c->kinds[k];
			uint32_t put = pending ? kind->waiting[served] > 0 : kind->running;
			struct sluice_member member
			    = { .klass = jobs[kind->first].tokens.klass };
			if (put == 0 || !is_on (jobs, kind, lane))
				continue;
			member.job_id = pending ? kind->waiting[served] : 0;
			press (&jobs[kind->first], situation, &member.pressure);
			for (; put > 0; put--, ++*(pending ? waiting : running))
				c->members[*running + *waiting] = member;
		}
	qsort (c->members, *running, sizeof *c->members, by_kind);
	qsort (c->members + *running, *waiting, sizeof *c->members, by_kind);
}

static uint64_t
hash_more (uint64_t hash, const void *bytes, size_t size)
{
	return sluice_hash_bytes (bytes, size, hash);
}

/* The gates of a lane; the core is asked unless it was asked the same of late. */
static const struct sluice_gates *
gates_of (struct sluice_control *c, const struct sluice_control_job *jobs,
	  const struct sluice_situation *situation, uint32_t lane,
	  const struct sluice_pressure *background, uint32_t n_background)
{
	uint32_t running, waiting;
	gather_members (c, jobs, situation, lane, &running, &waiting);
	memcpy (c->chosen, c->members, running * sizeof *c->members);
	waiting = represent (c->members + running, waiting, c->chosen + running);

	uint32_t counts_of[3] = { running, waiting, n_background };
	uint64_t hash = sluice_bundle_checksum (situation->bundle);
	hash = hash_more (hash, counts_of, sizeof counts_of);
	hash = hash_more (hash, c->chosen, (running + waiting) * sizeof *c->chosen);
	hash = hash_more (hash, background, n_background * sizeof *background);
	struct answer *answer = &c->answers[hash % SLUICE_CONTROL_ANSWERS];
	if (hash != answer->question)
		sluice_gates_keep (c->chosen, running, waiting, background, n_background,
				   situation->model, situation->policy,
				   SLUICE_CONTROL_LIMIT, &answer->gates);
	answer->question = hash;
	return &answer->gates;
}

/* Tokens that are held, and that jobs may be let in for: no more are let out. */
static void
bound_by_need (const struct sluice_control *c, const struct sluice_control_job *jobs,
	       uint32_t lane, uint32_t need[SLUICE_CLASS_COUNT])
{
	int served = served_on (c, jobs, lane);
	for (uint32_t k = 0; k < c->kind_count; k++)
		if (is_on (jobs, &c->kinds[k], lane))
			need[jobs[c->kinds[k].first].tokens.klass]
			    += c->kinds[k].running + c->kinds[k].need[served];
}

/* Whether the same jobs are on two lanes: then their gates are the same. */
static int
are_lanes_alike (const struct sluice_control *c, const struct sluice_control_job *jobs,
		 uint32_t a, uint32_t b)
{
	for (uint32_t k = 0; k < c->kind_count; k++)
		if (is_on (jobs, &c->kinds[k], a) != is_on (jobs, &c->kinds[k], b))
			return 0;
	return 1;
}

void
sluice_control_size_gates (struct sluice_control *c, const struct sluice_control_job *jobs,
			   const struct sluice_situation *situation,
			   struct sluice_control_gates *out)
{
	struct sluice_pressure background[SLUICE_CONTROL_BACKGROUND + 1];
	uint32_t n_background = gather_background (c, background);

	for (uint32_t lane = 0; lane < situation->lane_count; lane++) {
		uint32_t need[SLUICE_CLASS_COUNT] = { 0 };
		if (lane > 0 && are_lanes_alike (c, jobs, lane - 1, lane)) {
			for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
				out->tokens[k][lane] = out->tokens[k][lane - 1];
			continue;
		}
		const struct sluice_gates *gates
		    = gates_of (c, jobs, situation, lane, background, n_background);
		bound_by_need (c, jobs, lane, need);
		for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
			uint32_t most = gates->tokens[k];
			out->tokens[k][lane] = most < need[k] ? most : need[k];
		}
	}
}

void
sluice_control_wanted (const struct sluice_control *c,
		       const struct sluice_control_job *jobs,
		       uint32_t wanted[SLUICE_CLASS_COUNT][SLUICE_MAX_LANES])
{
	for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++) {
		int served = served_on (c, jobs, lane);
		for (uint32_t k = 0; k < c->kind_count; k++)
			if (is_on (jobs, &c->kinds[k], lane))
				wanted[jobs[c->kinds[k].first].tokens.klass][lane]
				    += c->kinds[k].running + c->kinds[k].waiting[served];
	}
}
