#include "situation.h"

#include <stdlib.h>
#include <string.h>

#include "decide.h"

/* Everybody in the snapshot that matters to storage. */
struct sluice_corunner_set {
	const struct sluice_bundle *bundle;
	uint32_t all; /* lanes, as bits */
	double speeds[SLUICE_MAX_LANES];
	uint32_t count;
	struct sluice_situation_member members[SLUICE_MAX_CORUNNERS];
	uint32_t lane_masks[SLUICE_MAX_CORUNNERS];
	struct sluice_block blocks[SLUICE_MAX_CORUNNERS];
	struct sluice_placement *placements[SLUICE_MAX_LANES]; /* as in a situation */
	int is_kept[SLUICE_MAX_CORUNNERS];
	uint32_t index[SLUICE_MAX_CORUNNERS]; /* in the situation, once kept */
};

static int
is_on_lane (const struct sluice_corunner_set *set, uint32_t i, uint32_t lane)
{
	return set->lane_masks[i] == 0 || set->lane_masks[i] >> lane & 1;
}

static struct sluice_load
load_on_lane (const struct sluice_corunner_set *set, uint32_t i, uint32_t lane)
{
	struct sluice_load load = set->members[i].against;
	return is_on_lane (set, i, lane) ? load : sluice_load_elsewhere (load);
}

/* Of the lanes in the mask (0: of all): a striped operation takes its slowest target. */
static double
slowest_of (const double *speeds, uint32_t mask)
{
	double slowest = 1.0;
	for (uint32_t l = 0; l < SLUICE_MAX_LANES; l++)
		if (mask == 0 || mask >> l & 1)
			slowest = smaller (slowest, speeds[l]);
	return slowest;
}

static void
describe (const struct sluice_corunner_set *set, const struct sluice_corunner *c,
	  struct sluice_situation_member *out)
{
	const struct sluice_bundle *bundle = set->bundle;
	out->job_id = c->job_id;
	out->nodes = c->nodes ? c->nodes : 1;
	out->end = (double)c->expected_end;
	out->identity = c->identity;
	sluice_pressure_of (&c->profile, sluice_bundle_interference (bundle),
			    sluice_bundle_policy (bundle), c->lane_mask, &out->pressure);
	sluice_pressure_slow_down (&out->pressure,
				   slowest_of (set->speeds, c->lane_mask & set->all));
	out->against = out->victim = sluice_load_of (&out->pressure, 0.0, SLUICE_AGAINST);
}

static void
account (struct sluice_placement *p, const struct sluice_placed *job, int is_there)
{
	if (is_there)
		sluice_placement_add (p, job);
	else
		sluice_placement_remove (p, job);
}

/* A member starts or ends on its block, or on all targets of its lanes. */
static void
place (struct sluice_corunner_set *set, uint32_t i, int is_there)
{
	struct sluice_placed job = {
		.duty = set->members[i].pressure.io_share,
		.nodes = set->members[i].nodes,
	};
	uint32_t lanes = set->lane_masks[i] ? set->lane_masks[i] : set->all;
	if ((lanes & (lanes - 1)) == 0)
		job.block = set->blocks[i];
	for (uint32_t l = 0; l < SLUICE_MAX_LANES; l++)
		if (set->placements[l] && is_on_lane (set, i, l))
			account (set->placements[l], &job, is_there);
}

/* Put a co-runner at its place in the set. */
static void
enter (struct sluice_corunner_set *set, uint32_t at, const struct sluice_corunner *c)
{
	describe (set, c, &set->members[at]);
	set->lane_masks[at] = c->lane_mask & set->all;
	set->blocks[at] = c->block;
	set->count++;
	place (set, at, 1);
}

static void
gather (const struct sluice_snapshot *snapshot, struct sluice_corunner_set *set)
{
	for (uint32_t i = 0; i < sluice_snapshot_corunner_count (snapshot); i++) {
		const struct sluice_corunner *c = sluice_snapshot_corunner (snapshot, i);
		if (c->klass == SLUICE_CLASS_NONE)
			continue;
		enter (set, set->count, c);
	}
	for (uint32_t i = 0; i < sluice_snapshot_placed_count (snapshot); i++)
		sluice_corunner_set_place (set, sluice_snapshot_placed (snapshot, i), 1);
	for (uint32_t i = 0; i < sluice_snapshot_target_count (snapshot); i++)
		sluice_corunner_set_see (set, sluice_snapshot_target (snapshot, i));
}

static int
is_copy_of (const struct sluice_corunner_set *set, uint32_t lane, uint32_t earlier)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (is_on_lane (set, i, lane) != is_on_lane (set, i, earlier))
			return 0;
	return 1;
}

/* Equal ones go by job id, so that the choice does not depend on the order in
 * the snapshot. Here member is an index into the set. */
static int
is_stronger (const struct sluice_corunner_set *set, const struct sluice_lane_member *a,
	     const struct sluice_lane_member *b)
{
	double weight = a->load.flushes + a->load.streams;
	double other_weight = b->load.flushes + b->load.streams;
	if (weight != other_weight)
		return weight > other_weight;
	if (a->load.metadata != b->load.metadata)
		return a->load.metadata > b->load.metadata;
	return set->members[a->member].job_id < set->members[b->member].job_id;
}

/* What one that a lane does not keep puts there in the mean of its time. */
static void
add_to_background (struct sluice_situation_lane *lane,
		   const struct sluice_corunner_set *set,
		   const struct sluice_lane_member *entry)
{
	double on = set->members[entry->member].pressure.io_share;
	lane->background
	    = sluice_load_add (lane->background, sluice_load_scale (entry->load, on));
}

/* Keep the strongest of a lane, sum up the others. */
static void
keep_strongest (struct sluice_situation_lane *lane, struct sluice_corunner_set *set,
		uint32_t l)
{
	for (uint32_t i = 0; i < set->count; i++) {
		struct sluice_lane_member entry = {
			.member = i,
			.is_here = is_on_lane (set, i, l),
			.load = load_on_lane (set, i, l),
		};
		if (entry.load.demand <= 0.0 && entry.load.metadata <= 0.0)
			continue;
		uint32_t at = lane->count;
		for (; at > 0 && is_stronger (set, &entry, &lane->kept[at - 1]); at--) {
			struct sluice_lane_member *moved = &lane->kept[at - 1];
			if (at < SLUICE_KEPT)
				lane->kept[at] = *moved;
			else
				add_to_background (lane, set, moved);
		}
		if (at < SLUICE_KEPT)
			lane->kept[at] = entry;
		else
			add_to_background (lane, set, &entry);
		if (lane->count < SLUICE_KEPT)
			lane->count++;
	}
}

/* From the set into the situation, each co-runner once. */
static void
enlist_kept (struct sluice_situation *s, struct sluice_corunner_set *set,
	     struct sluice_situation_lane *lane)
{
	for (uint32_t k = 0; k < lane->count; k++) {
		uint32_t i = lane->kept[k].member;
		if (!set->is_kept[i]) {
			set->is_kept[i] = 1;
			set->index[i] = s->member_count;
			s->members[s->member_count++] = set->members[i];
		}
		lane->kept[k].member = set->index[i];
	}
}

/* What the v-th of a lane loses to the other kept ones, whichever of them are on. */
static void
prepare_victim (const struct sluice_situation *s, struct sluice_situation_lane *lane,
		uint32_t v)
{
	struct sluice_lane_member *self = &lane->kept[v];
	const struct sluice_situation_member *victim = &s->members[self->member];
	struct sluice_load loads[SLUICE_KEPT];
	uint32_t n = 0;

	if (!self->is_here)
		return;
	for (uint32_t o = 0; o < lane->count; o++) {
		const struct sluice_lane_member *other = &lane->kept[o];
		if (o == v)
			continue;
		double rho = sluice_load_rate (victim->victim, other->load, s->model);
		self->overlaps[n] = sluice_load_mean_overlap (
		    &victim->pressure, &s->members[other->member].pressure, rho);
		loads[n++] = other->load;
	}
	sluice_load_sets_of (loads, n, &self->others);
	sluice_load_rates (victim->victim, lane->background, &self->others, s->model,
			   self->rates);
}

static void
prepare_sets (const struct sluice_situation *s, struct sluice_situation_lane *lane)
{
	struct sluice_load loads[SLUICE_KEPT];

	for (uint32_t k = 0; k < lane->count; k++)
		loads[k] = lane->kept[k].load;
	sluice_load_sets_of (loads, lane->count, &lane->sets);
	for (uint32_t k = 0; k < lane->count; k++)
		prepare_victim (s, lane, k);
}

/* Each co-runner that no lane keeps is counted on the first of its lanes. */
static int
is_at_home (const struct sluice_corunner_set *set, uint32_t i, uint32_t lane)
{
	for (uint32_t l = 0; l < lane; l++)
		if (is_on_lane (set, i, l))
			return 0;
	return is_on_lane (set, i, lane);
}

/* The mean, by nodes, of those at home on a lane that no lane keeps; what it puts on
 * the lane is the mean of what they do. */
static void
enlist_rest (struct sluice_situation *s, const struct sluice_corunner_set *set, uint32_t l)
{
	struct sluice_situation_lane *lane = &s->lanes[l];
	struct sluice_situation_member *rest = &s->members[s->member_count];
	double nodes = 0.0, count = 0.0;

	for (uint32_t i = 0; i < set->count; i++)
		if (!set->is_kept[i] && is_at_home (set, i, l))
			nodes += set->members[i].nodes;
	if (nodes == 0.0)
		return;
	*rest = (struct sluice_situation_member){ .nodes = nodes };
	for (uint32_t i = 0; i < set->count; i++) {
		const struct sluice_situation_member *m = &set->members[i];
		if (set->is_kept[i] || !is_at_home (set, i, l))
			continue;
		double part = m->nodes / nodes;
		count += 1.0;
		rest->end += part * m->end;
		rest->pressure.io_share += part * m->pressure.io_share;
		rest->pressure.burst += part * m->pressure.burst;
		rest->pressure.period += part * m->pressure.period;
		rest->pressure.confined += part * m->pressure.confined;
		rest->victim
		    = sluice_load_add (rest->victim, sluice_load_scale (m->victim, part));
		rest->against = sluice_load_add (rest->against, m->against);
	}
	rest->against = sluice_load_scale (rest->against, 1.0 / count);
	lane->has_rest = 1;
	lane->rest = s->member_count++;
}

static void
list_present (struct sluice_situation *s, const struct sluice_corunner_set *set)
{
	s->corunner_count = set->count;
	for (uint32_t i = 0; i < set->count; i++)
		s->present[i] = (struct sluice_situation_presence){
			.end = set->members[i].end,
			.lane_mask = set->lane_masks[i],
			.identity = set->members[i].identity,
		};
}

static void
prepare_lanes (struct sluice_situation *s, struct sluice_corunner_set *set)
{
	list_present (s, set);
	s->member_count = 0;
	memset (set->is_kept, 0, set->count * sizeof *set->is_kept);
	for (uint32_t l = 0; l < s->lane_count; l++) {
		struct sluice_situation_lane *lane = &s->lanes[l];
		lane->original = 0;
		while (!is_copy_of (set, l, lane->original))
			lane->original++;
		if (lane->original < l)
			continue;
		lane->count = 0;
		lane->has_rest = 0;
		lane->background = (struct sluice_load){ 0 };
		keep_strongest (lane, set, l);
		enlist_kept (s, set, lane);
		prepare_sets (s, lane);
	}
	/* only now it is known which are kept nowhere */
	for (uint32_t l = 0; l < s->lane_count; l++)
		if (s->lanes[l].original == l)
			enlist_rest (s, set, l);
}

struct sluice_corunner_set *
sluice_corunner_set_create (const struct sluice_bundle *bundle)
{
	struct sluice_corunner_set *set = calloc (1, sizeof *set);
	if (!set)
		return NULL;
	const struct sluice_policy *policy = sluice_bundle_policy (bundle);
	set->bundle = bundle;
	set->all = (1u << sluice_lane_count (policy)) - 1;
	for (uint32_t l = 0; l < SLUICE_MAX_LANES; l++)
		set->speeds[l] = 1.0;
	for (uint32_t l = 0; l < policy->lane_count; l++) {
		if (!policy->lanes[l].has_blocks)
			continue;
		set->placements[l] = malloc (sizeof *set->placements[l]);
		if (!set->placements[l]) {
			sluice_corunner_set_destroy (set);
			return NULL;
		}
		sluice_placement_init (set->placements[l], policy->lanes[l].targets);
	}
	return set;
}

void
sluice_corunner_set_destroy (struct sluice_corunner_set *set)
{
	for (uint32_t l = 0; set && l < SLUICE_MAX_LANES; l++)
		free (set->placements[l]);
	free (set);
}

int
sluice_corunner_set_add (struct sluice_corunner_set *set,
			 const struct sluice_corunner *corunner)
{
	uint32_t at = set->count;
	if (at == SLUICE_MAX_CORUNNERS)
		return -1;
	if (corunner->klass == SLUICE_CLASS_NONE)
		return 0;
	for (; at > 0 && set->members[at - 1].job_id > corunner->job_id; at--) {
		set->members[at] = set->members[at - 1];
		set->lane_masks[at] = set->lane_masks[at - 1];
		set->blocks[at] = set->blocks[at - 1];
	}
	enter (set, at, corunner);
	return 0;
}

void
sluice_corunner_set_remove (struct sluice_corunner_set *set, uint32_t job_id)
{
	uint32_t at = 0;
	while (at < set->count && set->members[at].job_id != job_id)
		at++;
	if (at == set->count)
		return;
	place (set, at, 0);
	set->count--;
	memmove (&set->members[at], &set->members[at + 1],
		 (set->count - at) * sizeof *set->members);
	memmove (&set->lane_masks[at], &set->lane_masks[at + 1],
		 (set->count - at) * sizeof *set->lane_masks);
	memmove (&set->blocks[at], &set->blocks[at + 1],
		 (set->count - at) * sizeof *set->blocks);
}

void
sluice_corunner_set_place (struct sluice_corunner_set *set,
			   const struct sluice_placed_job *job, int is_there)
{
	const struct sluice_placed placed = { job->duty, job->nodes, job->block };
	if (job->lane < SLUICE_MAX_LANES && set->placements[job->lane])
		account (set->placements[job->lane], &placed, is_there);
}

void
sluice_corunner_set_see (struct sluice_corunner_set *set,
			 const struct sluice_target *target)
{
	if (target->lane < SLUICE_MAX_LANES && set->placements[target->lane])
		sluice_placement_see (set->placements[target->lane], target);
}

void
sluice_situation_renew (struct sluice_situation *s, struct sluice_corunner_set *set)
{
	prepare_lanes (s, set);
	for (uint32_t l = 0; l < SLUICE_MAX_LANES; l++)
		if (s->placements[l])
			*s->placements[l] = *set->placements[l];
}

struct sluice_situation *
sluice_situation_create (const struct sluice_bundle *bundle,
			 const struct sluice_snapshot *snapshot)
{
	struct sluice_situation *s = calloc (1, sizeof *s);
	struct sluice_corunner_set *set = sluice_corunner_set_create (bundle);
	if (!s || !set) {
		free (s);
		s = NULL;
		goto done;
	}
	s->bundle = bundle;
	s->snapshot = snapshot;
	s->policy = sluice_bundle_policy (bundle);
	s->model = sluice_bundle_interference (bundle);
	s->lane_count = sluice_lane_count (s->policy);
	if (snapshot) {
		for (uint32_t l = 0; l < s->policy->lane_count; l++)
			set->speeds[l] = sluice_snapshot_lane_speed (
			    snapshot, s->policy->lanes[l].name);
		gather (snapshot, set);
		prepare_lanes (s, set);
	}
	memcpy (s->speeds, set->speeds, sizeof s->speeds);
	s->slowest = slowest_of (s->speeds, 0);
	memcpy (s->placements, set->placements, sizeof s->placements);
	memset (set->placements, 0, sizeof set->placements);
done:
	sluice_corunner_set_destroy (set);
	return s;
}

void
sluice_situation_destroy (struct sluice_situation *situation)
{
	for (uint32_t l = 0; situation && l < SLUICE_MAX_LANES; l++)
		free (situation->placements[l]);
	free (situation);
}
