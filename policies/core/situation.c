#include "situation.h"

#include <stdlib.h>

/* Everybody in the snapshot that matters to storage. */
struct crowd {
	uint32_t count;
	struct sluice_situation_member members[SLUICE_MAX_CORUNNERS];
	uint32_t lane_masks[SLUICE_MAX_CORUNNERS];
	int is_kept[SLUICE_MAX_CORUNNERS];
	uint32_t index[SLUICE_MAX_CORUNNERS]; /* in the situation, once kept */
};

static int
is_on_lane (const struct crowd *crowd, uint32_t i, uint32_t lane)
{
	return crowd->lane_masks[i] == 0 || crowd->lane_masks[i] >> lane & 1;
}

/* The metadata server is everybody's, the targets are not. */
static struct sluice_load
load_on_lane (const struct crowd *crowd, uint32_t i, uint32_t lane)
{
	struct sluice_load load = crowd->members[i].against;
	if (!is_on_lane (crowd, i, lane))
		load.weight = load.demand = 0.0;
	return load;
}

static void
gather (struct sluice_situation *s, struct crowd *crowd)
{
	uint32_t all = (1u << s->lane_count) - 1;
	for (uint32_t i = 0; i < sluice_snapshot_corunner_count (s->snapshot); i++) {
		const struct sluice_corunner *c = sluice_snapshot_corunner (s->snapshot, i);
		struct sluice_situation_member *m = &crowd->members[crowd->count];
		if (c->klass == SLUICE_CLASS_NONE)
			continue;
		m->job_id = c->job_id;
		m->nodes = c->nodes ? c->nodes : 1;
		m->end = (double)c->expected_end;
		sluice_pressure_of (&c->profile, s->model, s->policy, c->lane_mask,
				    &m->pressure);
		m->against = sluice_load_of (&m->pressure, s->z, SLUICE_AGAINST);
		m->victim = sluice_load_of (&m->pressure, s->z, SLUICE_VICTIM);
		crowd->lane_masks[crowd->count++] = c->lane_mask & all;
	}
	s->corunner_count = crowd->count;
}

static int
is_copy_of (const struct crowd *crowd, uint32_t lane, uint32_t earlier)
{
	for (uint32_t i = 0; i < crowd->count; i++)
		if (is_on_lane (crowd, i, lane) != is_on_lane (crowd, i, earlier))
			return 0;
	return 1;
}

/* Equal ones go by job id, so that the choice does not depend on the order in
 * the snapshot. Here member is an index into the crowd. */
static int
is_stronger (const struct crowd *crowd, const struct sluice_lane_member *a,
	     const struct sluice_lane_member *b)
{
	if (a->load.weight != b->load.weight)
		return a->load.weight > b->load.weight;
	if (a->load.metadata != b->load.metadata)
		return a->load.metadata > b->load.metadata;
	return crowd->members[a->member].job_id < crowd->members[b->member].job_id;
}

/* Keep the strongest of a lane, sum up the others. */
static void
keep_strongest (struct sluice_situation_lane *lane, struct crowd *crowd, uint32_t l)
{
	for (uint32_t i = 0; i < crowd->count; i++) {
		struct sluice_lane_member entry = {
			.member = i,
			.is_here = is_on_lane (crowd, i, l),
			.load = load_on_lane (crowd, i, l),
		};
		if (entry.load.demand <= 0.0 && entry.load.metadata <= 0.0)
			continue;
		uint32_t at = lane->count;
		for (; at > 0 && is_stronger (crowd, &entry, &lane->kept[at - 1]); at--) {
			struct sluice_lane_member *moved = &lane->kept[at - 1];
			if (at < SLUICE_KEPT)
				lane->kept[at] = *moved;
			else
				lane->background
				    = sluice_load_add (lane->background, moved->load);
		}
		if (at < SLUICE_KEPT)
			lane->kept[at] = entry;
		else
			lane->background = sluice_load_add (lane->background, entry.load);
		if (lane->count < SLUICE_KEPT)
			lane->count++;
	}
}

/* From the crowd into the situation, each co-runner once. */
static void
enlist_kept (struct sluice_situation *s, struct crowd *crowd,
	     struct sluice_situation_lane *lane)
{
	for (uint32_t k = 0; k < lane->count; k++) {
		uint32_t i = lane->kept[k].member;
		if (!crowd->is_kept[i]) {
			crowd->is_kept[i] = 1;
			crowd->index[i] = s->member_count;
			s->members[s->member_count++] = crowd->members[i];
		}
		lane->kept[k].member = crowd->index[i];
	}
}

static void
prepare_overlaps (const struct sluice_situation *s, struct sluice_situation_lane *lane)
{
	for (uint32_t v = 0; v < lane->count; v++) {
		const struct sluice_situation_member *victim
		    = &s->members[lane->kept[v].member];
		for (uint32_t o = 0; o < lane->count; o++) {
			const struct sluice_situation_member *other
			    = &s->members[lane->kept[o].member];
			double rho = sluice_load_rate (victim->victim, lane->kept[o].load,
						       s->model->capacity);
			lane->kept[v].overlaps[o] = sluice_load_overlap (
			    &victim->pressure, &other->pressure, rho);
		}
	}
}

/* Each co-runner that no lane keeps is counted on the first of its lanes. */
static int
is_at_home (const struct crowd *crowd, uint32_t i, uint32_t lane)
{
	for (uint32_t l = 0; l < lane; l++)
		if (is_on_lane (crowd, i, l))
			return 0;
	return is_on_lane (crowd, i, lane);
}

/* The mean, by nodes, of those at home on a lane that no lane keeps. */
static void
enlist_rest (struct sluice_situation *s, const struct crowd *crowd, uint32_t l)
{
	struct sluice_situation_lane *lane = &s->lanes[l];
	struct sluice_situation_member *rest = &s->members[s->member_count];
	double nodes = 0.0, count = 0.0;

	for (uint32_t i = 0; i < crowd->count; i++)
		if (!crowd->is_kept[i] && is_at_home (crowd, i, l))
			nodes += crowd->members[i].nodes;
	if (nodes == 0.0)
		return;
	rest->nodes = nodes;
	for (uint32_t i = 0; i < crowd->count; i++) {
		const struct sluice_situation_member *m = &crowd->members[i];
		if (crowd->is_kept[i] || !is_at_home (crowd, i, l))
			continue;
		double part = m->nodes / nodes;
		count += 1.0;
		rest->end += part * m->end;
		rest->pressure.io_share += part * m->pressure.io_share;
		rest->pressure.burst += part * m->pressure.burst;
		rest->pressure.period += part * m->pressure.period;
		rest->pressure.confined += part * m->pressure.confined;
		rest->victim.weight += part * m->victim.weight;
		rest->victim.demand += part * m->victim.demand;
		rest->victim.metadata += part * m->victim.metadata;
		lane->rest_load = sluice_load_add (lane->rest_load, m->against);
	}
	lane->rest_load.weight /= count;
	lane->rest_load.demand /= count;
	lane->rest_load.metadata /= count;
	lane->has_rest = 1;
	lane->rest = s->member_count++;
}

static void
prepare_lanes (struct sluice_situation *s, struct crowd *crowd)
{
	uint32_t original[SLUICE_MAX_LANES];

	gather (s, crowd);
	for (uint32_t l = 0; l < s->lane_count; l++) {
		struct sluice_situation_lane *lane = &s->lanes[l];
		original[l] = 0;
		while (!is_copy_of (crowd, l, original[l]))
			original[l]++;
		if (original[l] < l)
			continue;
		keep_strongest (lane, crowd, l);
		enlist_kept (s, crowd, lane);
		prepare_overlaps (s, lane);
	}
	/* only now it is known who is kept nowhere */
	for (uint32_t l = 0; l < s->lane_count; l++) {
		if (original[l] == l)
			enlist_rest (s, crowd, l);
		else
			s->lanes[l] = s->lanes[original[l]];
		s->lanes[l].is_copy = original[l] < l;
	}
}

struct sluice_situation *
sluice_situation_create (const struct sluice_bundle *bundle,
			 const struct sluice_snapshot *snapshot)
{
	struct sluice_situation *s = calloc (1, sizeof *s);
	struct crowd *crowd = calloc (1, sizeof *crowd);
	if (!s || !crowd) {
		free (s);
		s = NULL;
		goto done;
	}
	s->bundle = bundle;
	s->snapshot = snapshot;
	s->policy = sluice_bundle_policy (bundle);
	s->model = sluice_bundle_interference (bundle);
	s->z = sluice_normal_quantile (s->policy->quantile);
	s->lane_count = s->policy->lane_count ? s->policy->lane_count : 1;
	if (snapshot)
		prepare_lanes (s, crowd);
done:
	free (crowd);
	return s;
}

void
sluice_situation_destroy (struct sluice_situation *situation)
{
	free (situation);
}
