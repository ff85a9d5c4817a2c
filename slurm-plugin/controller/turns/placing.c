/*
 * Placement at create: new files of a job go to targets of its lane where no burst is under
 * way. A job keeps its targets while it is in a burst, and changes them no more than it has
 * to: a process on its node sets a directory's layout anew for each change.
 */
#include "bursts_state.h"

#include <math.h>
#include <string.h>

static const double least_stay = 1.0; /* s between two changes of a job's targets */
static const double renewal
    = 1e-9 * WIRE_PLACE_NS / 3.0; /* s after which it is said again */

/* Of a burst on a target, over a job that may begin one there. */
enum { BURST_WEIGHT = 64 };

_Static_assert(sizeof (struct sluice_turns_targets) * 8 == SLUICE_MAX_TARGETS
		   && (int)SLUICE_MAX_TARGETS == (int)SLUICE_TURNS_TARGETS,
	       "one numbering of targets");

struct placing {
	struct bursts *bursts;
	const struct sluice_turns_storage *storage;
	uint32_t lane, targets;
	double clock;
	struct sluice_placement placement;
	uint32_t weights[SLUICE_MAX_TARGETS]; /* of bursts, and of jobs between bursts */
};

static int
has_target (const struct sluice_turns_targets *targets, uint32_t target)
{
	return (targets->bits[target / 64] >> target % 64 & 1u) != 0;
}

static uint32_t
count_targets (const struct sluice_turns_targets *targets)
{
	uint32_t count = 0;
	for (size_t i = 0; i < sizeof targets->bits / sizeof targets->bits[0]; i++)
		count += (uint32_t)__builtin_popcountll (targets->bits[i]);
	return count;
}

/* As was said last, else by its block. */
const struct sluice_turns_targets *
bursts_targets_of (const struct burst_job *job)
{
	if (count_targets (&job->targets) > 0)
		return &job->targets;
	return count_targets (&job->block) > 0 ? &job->block : NULL;
}

static void
weigh (struct placing *p, const struct burst_job *job, int weight)
{
	const struct sluice_turns_targets *targets = bursts_targets_of (job);
	for (uint32_t t = 0; targets && t < p->targets; t++)
		if (has_target (targets, t))
			p->weights[t] += (uint32_t)weight;
}

static uint32_t
bursts_on (const struct placing *p, const struct sluice_turns_targets *targets)
{
	uint32_t bursts = 0;
	for (uint32_t t = 0; t < p->targets; t++)
		bursts += has_target (targets, t) ? p->weights[t] / BURST_WEIGHT : 0;
	return bursts;
}

static void
say_place (struct bursts *bursts, struct burst_job *job, double clock)
{
	const struct wire_place word = { .job_id = job->id, .targets = job->targets };
	for (struct burst_part *part = job->parts; part; part = part->next_of_job)
		if (part->flags & WIRE_PLACED)
			bursts->send_place (bursts->sender, part->agent, &word);
	job->targets_said = clock;
}

static void
set_place (struct bursts *bursts, struct burst_job *job,
	   const struct sluice_turns_targets *wanted, double clock)
{
	if (memcmp (&job->targets, wanted, sizeof *wanted) == 0)
		return;
	job->targets = *wanted;
	job->targets_changed = clock;
	bursts->counts.places++;
	say_place (bursts, job, clock);
}

static void
set_target (struct sluice_turns_targets *targets, uint32_t target)
{
	targets->bits[target / 64] |= 1ull << target % 64;
}

/* Of equal blocks the next by the job's number. */
static void
choose_block (const struct placing *p, const struct burst_job *job, uint32_t width,
	      struct sluice_turns_targets *out)
{
	uint32_t blocks = p->targets / width, least = UINT32_MAX, best = 0;
	for (uint32_t i = 0; i < blocks; i++) {
		uint32_t first = (job->id + i) % blocks * width, weight = 0;
		for (uint32_t t = first; t < first + width; t++)
			weight += p->weights[t];
		if (weight < least) {
			least = weight;
			best = first;
		}
	}
	for (uint32_t t = best; t < best + width; t++)
		set_target (out, t);
}

static void
choose_any (const struct placing *p, const struct burst_job *job, uint32_t width,
	    struct sluice_turns_targets *out)
{
	uint16_t weights[SLUICE_MAX_TARGETS], chosen[SLUICE_MAX_TARGETS];
	for (uint32_t t = 0; t < p->targets; t++)
		weights[t]
		    = p->weights[t] < UINT16_MAX ? (uint16_t)p->weights[t] : UINT16_MAX;
	uint32_t count = sluice_placement_at_create (&p->placement, weights, width,
						     job->id * width, chosen);
	for (uint32_t i = 0; i < count; i++)
		set_target (out, chosen[i]);
}

/* Returns the clock at which to look again. */
static double
place_idle (struct placing *p, struct burst_job *job, uint32_t width)
{
	struct sluice_turns_targets wanted = { { 0 } };
	int is_new = count_targets (&job->targets) != width;
	uint32_t disturbing = bursts_on (p, &job->targets);
	if (!is_new && !disturbing)
		return INFINITY;
	if (p->clock < job->targets_changed + least_stay)
		return job->targets_changed + least_stay;
	weigh (p, job, -1);
	if (job->is_in_blocks)
		choose_block (p, job, width, &wanted);
	else
		choose_any (p, job, width, &wanted);
	if (is_new || bursts_on (p, &wanted) < disturbing)
		set_place (p->bursts, job, &wanted, p->clock);
	weigh (p, job, 1);
	return INFINITY; /* until a burst begins or ends */
}

static double
place_job (struct placing *p, struct burst_job *job)
{
	static const struct sluice_turns_targets anywhere;
	uint32_t block = count_targets (&job->block);
	uint32_t width = block ? block : job->width;
	double again = INFINITY;
	if (width == 0 || width >= p->targets)
		set_place (p->bursts, job, &anywhere, p->clock);
	else if (!job->slot)
		again = place_idle (p, job, width);
	if (p->clock >= job->targets_said + renewal)
		say_place (p->bursts, job, p->clock);
	return smaller (again, job->targets_said + renewal);
}

/* Whether this is the only lane that it writes to. */
static int
is_on (const struct placing *p, const struct burst_job *job)
{
	return sluice_turns_lanes (p->storage, job->lane_mask) == 1u << p->lane;
}

static double
place_on_lane (struct placing *p)
{
	struct bursts *bursts = p->bursts;
	double again = INFINITY;
	for (uint32_t i = 0; i < bursts->active_count; i++)
		if (is_on (p, bursts->active[i]))
			weigh (p, bursts->active[i], BURST_WEIGHT);
	for (uint32_t i = 0; i < bursts->placed_count; i++)
		if (is_on (p, bursts->placed[i]) && !bursts->placed[i]->slot)
			weigh (p, bursts->placed[i], 1);
	for (uint32_t i = 0; i < bursts->placed_count; i++)
		if (is_on (p, bursts->placed[i]))
			again = smaller (again, place_job (p, bursts->placed[i]));
	return again;
}

double
bursts_place (struct bursts *bursts, const struct bursts_rules *rules, double clock)
{
	static const struct sluice_turns_targets anywhere;
	static struct placing p;
	uint32_t lanes = rules->holds && !rules->is_off ? rules->storage.lane_count : 0;
	double again = INFINITY;
	for (uint32_t i = 0; i < bursts->placed_count; i++) {
		struct burst_job *job = bursts->placed[i];
		if (job->rules != rules->number)
			bursts_predict (job, rules);
		if (lanes == 0)
			set_place (bursts, job, &anywhere, clock);
	}
	for (uint32_t lane = 0; lane < lanes && bursts->placed_count > 0; lane++) {
		double targets = rules->storage.lanes[lane].targets;
		if (!(targets >= 2.0 && targets <= SLUICE_MAX_TARGETS))
			continue;
		p = (struct placing){
			.bursts = bursts,
			.storage = &rules->storage,
			.lane = lane,
			.targets = (uint32_t)targets,
			.clock = clock,
		};
		sluice_placement_init (&p.placement, p.targets);
		again = smaller (again, place_on_lane (&p));
	}
	return again;
}
