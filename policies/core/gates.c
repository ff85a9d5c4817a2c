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
	const struct sluice_interference *model;
	double tolerance;
	double z;
	struct sluice_load worst[SLUICE_CLASS_COUNT]; /* of a class that waits */
	uint32_t waits[SLUICE_CLASS_COUNT];
	uint32_t alike; /* holders that equal the next one, by bit; in exact questions */
	uint32_t n_known;
	/* what runs, strongest first: holders, and load without tokens */
	const struct sluice_pressure *known[SLUICE_MAX_SET + 1];
	struct sluice_load known_loads[SLUICE_MAX_SET + 1];
	uint32_t known_holders[SLUICE_MAX_SET + 1]; /* its bit; 0: it holds no token */
};

/* A job, and how often it meets each of the others. */
struct victim {
	const struct sluice_pressure *pressure;
	struct sluice_load self;
	uint32_t klass; /* of those that wait; SLUICE_CLASS_COUNT: it runs */
	double known_overlaps[SLUICE_MAX_SET + 1];
	double virtual_overlaps[SLUICE_CLASS_COUNT];
};

/* One victim's co-runners in one case. */
struct others_of_victim {
	struct sluice_load self;
	uint32_t n_known; /* strongest first */
	struct sluice_load known[SLUICE_MAX_SET];
	double known_overlaps[SLUICE_MAX_SET];
	uint32_t n_virtual[SLUICE_CLASS_COUNT];
	const double *virtual_overlaps;
};

static double
overlap_of (const struct lane *lane, const struct victim *victim,
	    const struct sluice_pressure *other, struct sluice_load load)
{
	double rho = sluice_load_rate (victim->self, load, lane->model);
	return sluice_load_overlap (victim->pressure, other, rho);
}

static int
are_equal (const struct sluice_member *a, const struct sluice_member *b)
{
	return a->klass == b->klass
	       && memcmp (&a->pressure, &b->pressure, sizeof a->pressure) == 0;
}

static void
meet_others (const struct lane *lane, struct victim *victim)
{
	for (uint32_t i = 0; i < lane->n_known; i++)
		if (lane->known[i] != victim->pressure)
			victim->known_overlaps[i] = overlap_of (
			    lane, victim, lane->known[i], lane->known_loads[i]);
	memset (victim->virtual_overlaps, 0, sizeof victim->virtual_overlaps);
	for (uint32_t i = 0; i < lane->n_waiting; i++) {
		const struct sluice_pressure *other = &lane->waiting[i].pressure;
		double *most = &victim->virtual_overlaps[lane->waiting[i].klass];
		int is_known = i > 0 && are_equal (&lane->waiting[i - 1], &lane->waiting[i])
			       && &lane->waiting[i - 1].pressure != victim->pressure;
		if (other != victim->pressure && !is_known)
			*most = fmax (*most, overlap_of (lane, victim, other,
							 sluice_load_of (other, lane->z,
									 SLUICE_AGAINST)));
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

static double
slowdown_at (const struct victim *victim, double rate)
{
	return sluice_job_slowdown (victim->pressure, fmax (1.0, 1.0 / rate));
}

/* Whether a victim loses too little even if all the others were always on: then no case
 * of it needs to be looked at. Well below the tolerance, as sums round. */
static int
is_safe (const struct lane *lane, const struct victim *victim, const uint32_t *gates)
{
	const double margin = 1.0 - 1e-9;
	struct sluice_load all = { 0 };

	for (uint32_t i = 0; i < lane->n_known; i++)
		if (lane->known[i] != victim->pressure)
			all = sluice_load_add (all, lane->known_loads[i]);
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
		uint32_t most = gates[k] < lane->waits[k] ? gates[k] : lane->waits[k];
		double others = (double)most - (k == victim->klass && most > 0);
		all = sluice_load_add (all, sluice_load_scale (lane->worst[k], others));
	}
	double rate = sluice_load_rate (victim->self, all, lane->model);
	return slowdown_at (victim, rate) <= lane->tolerance * margin;
}

/* Whether the victim bears the holders that are not gone, and the admitted. */
static int
is_tolerable (const struct lane *lane, const struct victim *victim,
	      const uint32_t *admitted, uint32_t gone)
{
	struct others_of_victim c; /* too large to clear it in vain */
	uint32_t exact[SLUICE_CLASS_COUNT];
	uint32_t n_virtual = 0;

	c.self = victim->self;
	c.virtual_overlaps = victim->virtual_overlaps;
	c.n_known = 0;
	for (uint32_t i = 0; i < lane->n_known; i++) {
		if (lane->known[i] == victim->pressure || lane->known_holders[i] & gone)
			continue;
		c.known[c.n_known] = lane->known_loads[i];
		c.known_overlaps[c.n_known++] = victim->known_overlaps[i];
	}
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
		c.n_virtual[k] = admitted[k] - (k == victim->klass);
		n_virtual += c.n_virtual[k];
	}
	uint32_t n = c.n_known + n_virtual;
	double rate = least (lane, &c, 0, n < EXACT ? n : EXACT, exact);
	return slowdown_at (victim, rate) <= lane->tolerance;
}

/* The most that may enter the lane when these holders are gone, by class. 0: none may, or
 * as many may when one of them has stayed: then that case is worse. */
static int
entrants (const struct lane *lane, const uint32_t *gates, uint32_t gone, uint32_t *admitted)
{
	uint32_t room[SLUICE_CLASS_COUNT], left[SLUICE_CLASS_COUNT] = { 0 };
	int any = 0;

	memcpy (room, gates, sizeof room);
	for (uint32_t i = 0; i < lane->n_running; i++) {
		uint32_t k = lane->running[i].klass;
		left[k] += gone >> i & 1;
		room[k] -= room[k] > 0 && !(gone >> i & 1);
	}
	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
		if (left[k] > 0 && room[k] > lane->waits[k])
			return 0;
		admitted[k] = room[k] < lane->waits[k] ? room[k] : lane->waits[k];
		any |= admitted[k] > 0;
	}
	return any;
}

/* Whether the victim loses too little whichever of the holders end. Of holders that are
 * equal the last ones end first, which leaves the victim, of equal jobs the first. */
static int
is_always_tolerable (const struct lane *lane, const uint32_t *gates,
		     const struct sluice_member *member, uint32_t klass, uint32_t holder)
{
	struct victim victim;
	uint32_t admitted[SLUICE_CLASS_COUNT];

	victim.pressure = &member->pressure;
	victim.self = sluice_load_of (victim.pressure, lane->z, SLUICE_VICTIM);
	victim.klass = klass;
	if (is_safe (lane, &victim, gates))
		return 1;
	meet_others (lane, &victim);
	for (uint32_t gone = 0; gone < 1u << lane->n_running; gone++)
		if (!(gone & holder) && !(gone & lane->alike & ~(gone >> 1))
		    && entrants (lane, gates, gone, admitted)
		    && (klass == SLUICE_CLASS_COUNT || admitted[klass] > 0)
		    && !is_tolerable (lane, &victim, admitted, gone))
			return 0;
	return 1;
}

/* Whether no job that runs or may enter loses too much, whatever subset of the holders is
 * left. Jobs that are equal lose equally. */
static int
is_kept (const struct lane *lane, const uint32_t *gates)
{
	for (uint32_t i = 0; i < lane->n_running; i++)
		if ((i == 0 || !(lane->alike >> (i - 1) & 1))
		    && !is_always_tolerable (lane, gates, &lane->running[i],
					     SLUICE_CLASS_COUNT, 1u << i))
			return 0;
	for (uint32_t i = 0; i < lane->n_waiting; i++) {
		const struct sluice_member *m = &lane->waiting[i];
		if ((i == 0 || !are_equal (m - 1, m)) && gates[m->klass] > 0
		    && !is_always_tolerable (lane, gates, m, m->klass, 0))
			return 0;
	}
	return 1;
}

static void
rank (struct lane *lane, const struct sluice_pressure *p, uint32_t holder)
{
	uint32_t at = lane->n_known++;
	for (; at > 0 && sluice_pressure_is_stronger (p, lane->known[at - 1]); at--) {
		lane->known[at] = lane->known[at - 1];
		lane->known_holders[at] = lane->known_holders[at - 1];
	}
	lane->known[at] = p;
	lane->known_holders[at] = holder;
}

/* What holds whatever the gates. */
static void
prepare (struct lane *lane, const struct sluice_pressure *background, uint32_t n_background)
{
	for (uint32_t i = 0; i < lane->n_waiting; i++) {
		const struct sluice_member *m = &lane->waiting[i];
		struct sluice_load load
		    = sluice_load_of (&m->pressure, lane->z, SLUICE_AGAINST);
		struct sluice_load *worst = &lane->worst[m->klass];
		*worst = sluice_load_most (*worst, load);
		lane->waits[m->klass]++;
	}
	for (uint32_t i = 0; i < lane->n_running; i++) {
		const struct sluice_member *m = &lane->running[i];
		rank (lane, &m->pressure, 1u << i);
		if (i > 0 && are_equal (m - 1, m))
			lane->alike |= 1u << (i - 1);
	}
	for (uint32_t i = 0; i < n_background; i++)
		rank (lane, &background[i], 0);
	for (uint32_t i = 0; i < lane->n_known; i++)
		lane->known_loads[i]
		    = sluice_load_of (lane->known[i], lane->z, SLUICE_AGAINST);
}

/* What the gates are sized for: the jobs of the lane; beyond MAX_LEAVERS holders as one
 * pool, in which holders and waiting jobs alike may have the tokens. */
struct question {
	struct lane lane;
	uint32_t held[SLUICE_CLASS_COUNT];
	uint32_t waits[SLUICE_CLASS_COUNT];
	uint32_t room; /* for jobs on the lane */
	uint32_t limit;
};

static int
may_have (const struct question *q, const uint32_t *gates)
{
	uint32_t most[SLUICE_CLASS_COUNT]; /* that have tokens, while all holders stay */
	uint32_t total = 0;

	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++)
		total += most[k] = gates[k] > q->held[k] ? gates[k] : q->held[k];
	return total <= q->room && is_kept (&q->lane, q->lane.n_running ? gates : most);
}

/* All that may be asked for; where that is too much, one more of each class in turn, until
 * none can grow. A class that cannot never can again, because the others only grow. */
static void
grow (const struct question *q, uint32_t *gates)
{
	uint32_t most[SLUICE_CLASS_COUNT] = { 0 };
	int may_grow[SLUICE_CLASS_COUNT];
	int growing = 1;

	for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
		uint32_t waits = q->waits[k];
		may_grow[k] = waits > 0;
		if (waits > 0)
			most[k] = q->held[k] + (q->limit < waits ? q->limit : waits);
	}
	if (may_have (q, most)) {
		memcpy (gates, most, sizeof most);
		return;
	}
	while (growing) {
		growing = 0;
		for (uint32_t k = 0; k < SLUICE_CLASS_COUNT; k++) {
			if (!may_grow[k])
				continue;
			gates[k]++;
			may_grow[k] = gates[k] <= most[k]
				      && memcmp (gates, most, sizeof most) != 0
				      && may_have (q, gates);
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
	uint32_t n_holders = n_running <= MAX_LEAVERS ? n_running : 0;
	struct question q = {
		.lane.running = members,
		.lane.waiting = members + n_holders,
		.lane.n_running = n_holders,
		.lane.n_waiting = n_running - n_holders + n_waiting,
		.lane.model = model,
		.lane.tolerance = policy->tolerance,
		.lane.z = sluice_normal_quantile (sluice_quantile),
		.room = SLUICE_MAX_SET + 1,
		.limit = limit,
	};

	memset (out, 0, sizeof *out);
	if (n_waiting == 0 || n_running > q.room || n_background > q.room - n_running)
		return; /* none waits; or more than can be judged: let none in */
	q.room -= n_background;
	for (uint32_t i = 0; i < n_running; i++)
		q.held[members[i].klass]++;
	for (uint32_t i = 0; i < n_waiting; i++)
		q.waits[members[n_running + i].klass]++;
	prepare (&q.lane, background, n_background);
	grow (&q, out->tokens);
}
