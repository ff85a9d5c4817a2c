/*
 * What Slurm may pick is bounded by a virtual set: for each class as many jobs
 * as are admitted, each with the largest weights, demand and metadata share of
 * the waiting ones, and met by a victim as often as the one it meets most.
 * rho falls in all of these, so no set of real jobs is worse.
 *
 * sluice_io_factor enumerates the strongest SLUICE_EXACT_CORUNNERS of a set. Of
 * the jobs that are known singly these are the strongest k, for some k; which
 * of the others, is unknown. So the bound is the worst over all ways to
 * enumerate k known ones and so many virtual ones of each class.
 */
#include "gates.h"

#include <math.h>
#include <string.h>

#include "load.h"

enum {
	EXACT = SLUICE_EXACT_CORUNNERS,
	/* Holders whose ways to end are all looked at; 2^8 subsets. */
	MAX_LEAVERS = 8,
};

/* The question, and what holds for every victim. */
struct lane {
	const struct sluice_member *running, *waiting;
	uint32_t n_running, n_waiting;
	const struct sluice_pressure *background;
	uint32_t n_background;
	const struct sluice_interference *model;
	double tolerance;
	double z;
	struct sluice_load worst[SLUICE_CLASS_COUNT]; /* of a class that waits */
	uint32_t waits[SLUICE_CLASS_COUNT];
};

/* One victim's co-runners. */
struct others_of_victim {
	struct sluice_load self;
	uint32_t n_known; /* strongest first */
	struct sluice_load known[SLUICE_MAX_SET];
	double known_overlaps[SLUICE_MAX_SET];
	uint32_t n_virtual[SLUICE_CLASS_COUNT];
	double virtual_overlaps[SLUICE_CLASS_COUNT];
};

static double
overlap_of (const struct lane *lane, const struct sluice_pressure *victim,
	    struct sluice_load self, const struct sluice_pressure *other)
{
	struct sluice_load load = sluice_load_of (other, lane->z, SLUICE_AGAINST);
	double rho = sluice_load_rate (self, load, lane->model);
	return sluice_load_overlap (victim, other, rho);
}

/* All that run, but the victim itself, by strength. */
static void
know_running (const struct lane *lane, const struct sluice_pressure *victim,
	      struct others_of_victim *c)
{
	const struct sluice_pressure *ranked[SLUICE_MAX_SET + 1];
	uint32_t n = 0;

	for (uint32_t i = 0; i < lane->n_running + lane->n_background; i++) {
		const struct sluice_pressure *p
		    = i < lane->n_running ? &lane->running[i].pressure
					  : &lane->background[i - lane->n_running];
		if (p == victim)
			continue;
		uint32_t at = n++;
		for (; at > 0 && sluice_pressure_is_stronger (p, ranked[at - 1]); at--)
			ranked[at] = ranked[at - 1];
		ranked[at] = p;
	}
	for (uint32_t i = 0; i < n; i++) {
		c->known[i] = sluice_load_of (ranked[i], lane->z, SLUICE_AGAINST);
		c->known_overlaps[i] = overlap_of (lane, victim, c->self, ranked[i]);
	}
	c->n_known = n;
}

static void
imagine_waiting (const struct lane *lane, const struct sluice_pressure *victim,
		 struct others_of_victim *c)
{
	for (uint32_t i = 0; i < lane->n_waiting; i++) {
		const struct sluice_member *m = &lane->waiting[i];
		double *most = &c->virtual_overlaps[m->klass];
		if (c->n_virtual[m->klass] > 0 && &m->pressure != victim)
			*most = fmax (*most,
				      overlap_of (lane, victim, c->self, &m->pressure));
	}
}

/* Mean rho while the first n_exact known ones and exact[] virtual ones go on
 * and off, and all others are always on. */
static double
mean_rate (const struct lane *lane, const struct others_of_victim *c, uint32_t n_exact,
	   const uint32_t *exact)
{
	struct sluice_load loads[EXACT];
	double overlaps[EXACT];
	struct sluice_load_sets sets;
	struct sluice_load always = { 0 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_known; i++) {
		if (i < n_exact) {
			loads[n] = c->known[i];
			overlaps[n++] = c->known_overlaps[i];
		} else {
			always = sluice_load_add (always, c->known[i]);
		}
	}
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		for (uint32_t i = 0; i < c->n_virtual[k]; i++) {
			if (i < exact[k]) {
				loads[n] = lane->worst[k];
				overlaps[n++] = c->virtual_overlaps[k];
			} else {
				always = sluice_load_add (always, lane->worst[k]);
			}
		}
	sluice_load_sets_of (loads, n, &sets);
	return sluice_load_mean_rate (c->self, always, &sets, overlaps, lane->model);
}

static double
least (const struct lane *lane, const struct others_of_victim *c, uint32_t klass,
       uint32_t left, uint32_t *exact)
{
	if (klass == SLUICE_CLASS_COUNT) /* the known ones take what is left */
		return left <= c->n_known ? mean_rate (lane, c, left, exact) : 1.0;

	double rate = 1.0;
	uint32_t most = c->n_virtual[klass] < left ? c->n_virtual[klass] : left;
	for (exact[klass] = 0; exact[klass] <= most; exact[klass]++)
		rate = fmin (rate, least (lane, c, klass + 1, left - exact[klass], exact));
	return rate;
}

static int
is_tolerable (const struct lane *lane, const struct sluice_pressure *victim,
	      const uint32_t *admitted, uint32_t own_class)
{
	struct others_of_victim c;
	uint32_t exact[SLUICE_CLASS_COUNT];
	uint32_t n_virtual = 0;

	memset (&c, 0, sizeof c);
	c.self = sluice_load_of (victim, lane->z, SLUICE_VICTIM);
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
		c.n_virtual[k] = admitted[k] - (k == own_class);
		n_virtual += c.n_virtual[k];
	}
	know_running (lane, victim, &c);
	imagine_waiting (lane, victim, &c);

	uint32_t n = c.n_known + n_virtual;
	double rate = least (lane, &c, 0, n < EXACT ? n : EXACT, exact);
	return sluice_job_slowdown (victim, fmax (1.0, 1.0 / rate)) <= lane->tolerance;
}

/* Whether no job that runs or may be admitted loses too much. */
static int
all_tolerable (const struct lane *lane, const uint32_t *admitted)
{
	for (uint32_t i = 0; i < lane->n_running; i++)
		if (!is_tolerable (lane, &lane->running[i].pressure, admitted,
				   SLUICE_CLASS_COUNT))
			return 0;
	for (uint32_t i = 0; i < lane->n_waiting; i++) {
		const struct sluice_member *m = &lane->waiting[i];
		if (admitted[m->klass] > 0
		    && !is_tolerable (lane, &m->pressure, admitted, m->klass))
			return 0;
	}
	return 1;
}

static void
find_worst (struct lane *lane)
{
	for (uint32_t i = 0; i < lane->n_waiting; i++) {
		const struct sluice_member *m = &lane->waiting[i];
		struct sluice_load load
		    = sluice_load_of (&m->pressure, lane->z, SLUICE_AGAINST);
		struct sluice_load *worst = &lane->worst[m->klass];
		*worst = sluice_load_most (*worst, load);
		lane->waits[m->klass]++;
	}
}

/* The most that may enter a lane of these holders, by class; 0: none. */
static int
entrants (const struct lane *lane, const uint32_t *gates, uint32_t *admitted)
{
	uint32_t held[SLUICE_CLASS_COUNT] = { 0 };
	int any = 0;

	for (uint32_t i = 0; i < lane->n_running; i++)
		held[lane->running[i].klass]++;
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
		uint32_t room = gates[k] > held[k] ? gates[k] - held[k] : 0;
		admitted[k] = room < lane->waits[k] ? room : lane->waits[k];
		any |= admitted[k] > 0;
	}
	return any;
}

/* Every subset of the holders may be what is left of them. */
static int
is_kept_exactly (const struct lane *lane, const uint32_t *gates)
{
	uint32_t admitted[SLUICE_CLASS_COUNT];
	struct sluice_member left[MAX_LEAVERS];
	struct lane then = *lane;

	then.running = left;
	for (uint32_t subset = 0; subset < 1u << lane->n_running; subset++) {
		then.n_running = 0;
		for (uint32_t i = 0; i < lane->n_running; i++)
			if (subset >> i & 1)
				left[then.n_running++] = lane->running[i];
		if (entrants (&then, gates, admitted) && !all_tolerable (&then, admitted))
			return 0;
	}
	return 1;
}

/* Holders and waiting jobs alike may have the tokens, and a holder also one
 * that is no longer let out. */
static int
is_kept_by_anybody (const struct lane *pool, const uint32_t *held, const uint32_t *gates)
{
	uint32_t most[SLUICE_CLASS_COUNT];
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		most[k] = gates[k] > held[k] ? gates[k] : held[k];
	return all_tolerable (pool, most);
}

/* What the gates are sized for: the jobs as they are now, and as one pool. */
struct question {
	struct lane lane;
	struct lane pool; /* holders may take each other's tokens */
	uint32_t held[SLUICE_CLASS_COUNT];
	uint32_t room; /* for jobs on the lane */
	uint32_t limit;
};

static int
may_have (const struct question *q, const uint32_t *gates, uint32_t klass)
{
	uint32_t waits = q->lane.waits[klass];
	uint32_t most = q->held[klass] + (q->limit < waits ? q->limit : waits);
	uint32_t total = 0;

	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		total += gates[k] > q->held[k] ? gates[k] : q->held[k];
	if (total > q->room || gates[klass] > most)
		return 0;
	return q->lane.n_running <= MAX_LEAVERS
		   ? is_kept_exactly (&q->lane, gates)
		   : is_kept_by_anybody (&q->pool, q->held, gates);
}

/* One more of each class in turn, until none can grow. A class that cannot
 * never can again, because the others only grow. */
static void
grow (const struct question *q, uint32_t *gates)
{
	int may_grow[SLUICE_CLASS_COUNT];
	int growing = 1;

	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		may_grow[k] = q->lane.waits[k] > 0;
	while (growing) {
		growing = 0;
		for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
			if (!may_grow[k])
				continue;
			gates[k]++;
			may_grow[k] = may_have (q, gates, k);
			growing |= may_grow[k];
			if (!may_grow[k])
				gates[k]--;
		}
	}
}

void
sluice_gates_keep (const struct sluice_member *members, uint32_t n_running,
		   uint32_t n_waiting, const struct sluice_pressure *background,
		   uint32_t n_background, const struct sluice_interference *model,
		   const struct sluice_policy *policy, uint32_t limit,
		   struct sluice_gates *out)
{
	static const uint32_t nobody[SLUICE_CLASS_COUNT];
	struct question q = {
		.lane.running = members,
		.lane.waiting = members + n_running,
		.lane.n_running = n_running,
		.lane.n_waiting = n_waiting,
		.lane.background = background,
		.lane.n_background = n_background,
		.lane.model = model,
		.lane.tolerance = policy->tolerance,
		.lane.z = sluice_normal_quantile (sluice_quantile),
		.room = SLUICE_MAX_SET + 1,
		.limit = limit,
	};

	memset (out, 0, sizeof *out);
	if (n_running > q.room || n_background > q.room - n_running)
		return; /* more than can be judged: let none in */
	for (uint32_t i = 0; i < n_running; i++)
		q.held[members[i].klass]++;
	q.room -= n_background;
	q.pool = q.lane;
	q.pool.waiting = members;
	q.pool.n_running = 0;
	q.pool.n_waiting = n_running + n_waiting;
	find_worst (&q.lane);
	find_worst (&q.pool);
	grow (&q, out->tokens);
	out->sound = (uint32_t)all_tolerable (&q.lane, nobody);
}
