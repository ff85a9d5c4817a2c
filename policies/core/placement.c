#include "placement.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "load.h"

const double sluice_full_share = 0.9;

/* Blocks with a target that is fuller than the mean by more are avoided. */
static const double uneven = 1.2;

/* Sums of multiples of these are exact, whatever their order, and come back to 0: up to
 * 2^21 jobs, and 2^29 nodes that do I/O. */
static const double duty_step = 0x1p-32, waiting_step = 0x1p-24;

static double
whole_steps (double value, double most, double step)
{
	return value > 0.0 ? (double)(int64_t)(smaller (value, most) / step + 0.5) * step
			   : 0.0;
}

static uint32_t
node_of (uint32_t first, uint32_t count)
{
	return (SLUICE_MAX_TARGETS + first) / count;
}

int
sluice_is_block (struct sluice_block block, uint32_t targets)
{
	return block.count > 0 && (block.count & (block.count - 1)) == 0
	       && block.first % block.count == 0
	       && (uint32_t)block.first + block.count <= targets;
}

void
sluice_placement_init (struct sluice_placement *p, uint32_t targets)
{
	memset (p, 0, sizeof *p);
	p->targets = targets < SLUICE_MAX_TARGETS ? targets : SLUICE_MAX_TARGETS;
}

static void
add_to (struct sluice_placement *p, uint32_t from, uint32_t count, double duty,
	double waiting)
{
	for (uint32_t i = from; i < from + count; i++)
		p->duty[i] += duty;
	for (uint32_t i = from; i < from + count; i++)
		p->waiting[i] += waiting;
}

/* To every block that shares a target with the job's: those around it and those in it. */
static void
account (struct sluice_placement *p, const struct sluice_placed *job, double sign)
{
	double duty = whole_steps (job->duty, 1.0, duty_step);
	double waiting
	    = sign * whole_steps (duty * larger (job->nodes, 0.0), 0x1p28, waiting_step);
	int is_everywhere = !sluice_is_block (job->block, p->targets);
	uint32_t top = is_everywhere ? 1 : node_of (job->block.first, job->block.count);

	duty *= sign;
	for (uint32_t i = top, count = 1; i < SLUICE_PLACEMENT_NODES; i *= 2, count *= 2)
		add_to (p, i, count, duty, waiting);
	for (uint32_t i = top / 2; i > 0; i /= 2)
		add_to (p, i, 1, duty, waiting);
}

void
sluice_placement_add (struct sluice_placement *p, const struct sluice_placed *job)
{
	account (p, job, 1.0);
}

void
sluice_placement_remove (struct sluice_placement *p, const struct sluice_placed *job)
{
	account (p, job, -1.0);
}

/* Bits of a leaf's `closed`; those of larger blocks count targets. */
enum { CLOSED = 1, FULL = 2 };

static void
set_closed (struct sluice_placement *p, uint32_t target, unsigned int bit, int is_set)
{
	uint32_t leaf = SLUICE_MAX_TARGETS + target;
	int was_open = p->closed[leaf] == 0;
	unsigned int now = is_set ? p->closed[leaf] | bit : p->closed[leaf] & ~bit;

	p->closed[leaf] = (uint16_t)now;
	int change = was_open - (now == 0);
	for (uint32_t i = leaf / 2; i > 0; i /= 2)
		p->closed[i] = (uint16_t)(p->closed[i] + change);
}

void
sluice_placement_close (struct sluice_placement *p, uint32_t target, int is_closed)
{
	if (target < p->targets)
		set_closed (p, target, CLOSED, is_closed);
}

void
sluice_placement_fill (struct sluice_placement *p, uint32_t target, double used,
		       double capacity)
{
	if (target >= p->targets)
		return;
	uint32_t leaf = SLUICE_MAX_TARGETS + target;
	double fill = larger (used, 0.0);
	if (capacity > 0.0)
		fill /= capacity;
	p->fullest[leaf] = fill;
	p->filled[leaf] = fill;
	for (uint32_t i = leaf / 2; i > 0; i /= 2) {
		size_t left = 2 * (size_t)i;
		p->fullest[i] = larger (p->fullest[left], p->fullest[left + 1]);
		p->filled[i] = p->filled[left] + p->filled[left + 1];
	}
	set_closed (p, target, FULL, capacity > 0.0 && fill >= sluice_full_share);
}

void
sluice_placement_see (struct sluice_placement *p, const struct sluice_target *target)
{
	const struct sluice_placed slow
	    = { target->missing, 0.0, { (uint16_t)target->target, 1 } };

	sluice_placement_fill (p, target->target, target->used, target->capacity);
	sluice_placement_close (p, target->target, target->is_closed != 0);
	if (target->target < p->targets)
		sluice_placement_add (p, &slow);
}

/* Nothing is uneven while nothing is known of the filling. */
static double
fill_bound (const struct sluice_placement *p)
{
	return uneven * p->filled[1] / (double)(p->targets ? p->targets : 1);
}

/* What the job costs on the blocks of its size. */
struct search {
	const struct sluice_placement *p;
	double duty, nodes;
	double bound;	   /* of the fullest target */
	uint32_t from, to; /* blocks */
};

/* Of those within the bound, or of the fuller ones. */
struct found {
	double best, next, sum;
	uint32_t ties; /* that cost the least */
	uint32_t count;
};

static int
is_among (const struct search *s, uint32_t i, int are_fuller)
{
	return s->p->closed[i] == 0 && (s->p->fullest[i] > s->bound) == are_fuller;
}

static double
cost_of (const struct search *s, uint32_t i)
{
	return s->duty * (s->p->waiting[i] + s->nodes * s->p->duty[i]);
}

static struct found
look_at (const struct search *s, int are_fuller)
{
	struct found f = { .best = INFINITY, .next = INFINITY };

	for (uint32_t i = s->from; i < s->to; i++) {
		if (!is_among (s, i, are_fuller))
			continue;
		double cost = cost_of (s, i);
		f.ties = cost < f.best ? 1 : f.ties + (cost == f.best);
		f.next = smaller (f.next, larger (f.best, cost));
		f.best = smaller (f.best, cost);
		f.sum += cost;
		f.count++;
	}
	return f;
}

/* The turn-th of the blocks that cost so much. */
static uint32_t
find_tie (const struct search *s, int are_fuller, double cost, uint32_t turn)
{
	uint32_t i = s->from;
	for (;; i++)
		if (is_among (s, i, are_fuller) && cost_of (s, i) == cost && turn-- == 0)
			return i - s->from;
}

int
sluice_placement_choose (const struct sluice_placement *p, uint32_t count, double duty,
			 double nodes, uint32_t turn, struct sluice_placement_choice *out)
{
	memset (out, 0, sizeof *out);
	if (count > SLUICE_MAX_TARGETS
	    || !sluice_is_block ((struct sluice_block){ .count = (uint16_t)count },
				 p->targets))
		return -1;
	struct search s = {
		.p = p,
		.duty = clip (duty),
		.nodes = larger (nodes, 0.0),
		.bound = fill_bound (p),
		.from = node_of (0, count),
		.to = node_of (0, count) + p->targets / count,
	};
	struct found within = look_at (&s, 0), fuller = { .best = INFINITY };
	if (p->fullest[1] > s.bound)
		fuller = look_at (&s, 1);
	const struct found *chosen = within.count ? &within : &fuller;
	if (chosen->count == 0)
		return -1;
	uint32_t at = find_tie (&s, chosen == &fuller, chosen->best, turn % chosen->ties);
	out->block = (struct sluice_block){ (uint16_t)(at * count), (uint16_t)count };
	out->considered = within.count + fuller.count;
	out->cost = chosen->best;
	out->mean_cost = (within.sum + fuller.sum) / out->considered;
	out->next_cost = chosen->count > 1     ? chosen->next
			 : out->considered > 1 ? fuller.best
					       : SLUICE_UNKNOWN;
	return 0;
}

#define IS_VAGUE(profile, field)                                                           \
	((profile)->spread[offsetof (struct sluice_profile, field) / sizeof (double)]      \
	 > sluice_wide_spread)

uint32_t
sluice_placement_need (const struct sluice_profile *profile, double target_rate,
		       uint32_t targets)
{
	double by_rate = target_rate > 0.0 && is_known (profile->rate)
			     ? ceil (profile->rate / target_rate)
			     : 0.0;
	double least = larger (profile->targets, by_rate);
	uint32_t count = 1;

	if (!(least > 0.0))
		return 0;
	int is_by_rate = by_rate > profile->targets;
	if (!is_known (profile->targets)
	    || (is_by_rate ? IS_VAGUE (profile, rate) : IS_VAGUE (profile, targets)))
		least *= 2.0;
	while (count < least && count <= targets)
		count *= 2;
	return 2 * count <= targets && 2 * count <= SLUICE_MAX_TARGETS ? count : 0;
}

/* Fewer writers first, then less full; beyond so many, all are alike. */
enum { MOST_WRITERS = 511, RANKS = 2 * (MOST_WRITERS + 1) };

static uint16_t
rank_of (const struct sluice_placement *p, const uint16_t *writers, uint32_t target,
	 double bound)
{
	uint32_t leaf = SLUICE_MAX_TARGETS + target;
	unsigned int writing
	    = writers[target] < MOST_WRITERS ? writers[target] : MOST_WRITERS;
	if (p->closed[leaf])
		return RANKS;
	return (uint16_t)(2 * writing + (p->fullest[leaf] > bound));
}

uint32_t
sluice_placement_at_create (const struct sluice_placement *p, const uint16_t *writers,
			    uint32_t count, uint32_t turn, uint16_t *out)
{
	uint16_t ranks[SLUICE_MAX_TARGETS], of_rank[RANKS + 1] = { 0 };
	double bound = fill_bound (p);
	uint32_t last = 0, left = count, taken = 0, seen = 0;

	for (uint32_t t = 0; t < p->targets; t++) {
		ranks[t] = rank_of (p, writers, t, bound);
		of_rank[ranks[t]]++;
	}
	/* all of the lower ranks, and so many of the last, round from the turn-th of it */
	while (last < RANKS && of_rank[last] < left)
		left -= of_rank[last++];
	uint32_t equal = last < RANKS ? of_rank[last] : 0;
	for (uint32_t t = 0; t < p->targets; t++) {
		int is_equal = equal > 0 && ranks[t] == last;
		if (ranks[t] < last
		    || (is_equal && (seen + equal - turn % equal) % equal < left))
			out[taken++] = (uint16_t)t;
		seen += (uint32_t)is_equal;
	}
	return taken;
}
