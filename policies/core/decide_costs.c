#include "decide_costs.h"

#include <string.h>

#include "turns.h"

static double
factor_of (double mean_rate)
{
	return larger (1.0, 1.0 / mean_rate);
}

/* Share of a span of `length` seconds in which something is there that ends
 * after `remaining` seconds. */
static double
part_of (double length, double remaining)
{
	return remaining >= length ? 1.0 : remaining / length;
}

/* load: what the co-runner puts on the lane. */
static void
pair_with (const struct sluice_situation *s, const struct side *side, uint32_t index,
	   struct sluice_load load, struct pair *out)
{
	const struct sluice_situation_member *member = &s->members[index];
	if (side->together[index]) {
		*out = (struct pair){
			.own_stretch = 1.0,
			.other_stretch = 1.0,
			.own_slowdown = sluice_job_slowdown (side->pressure, 1.0),
			.other_slowdown = sluice_job_slowdown (&member->pressure, 1.0),
		};
		return;
	}
	double own_rho = sluice_load_rate (side->load, load, s->model);
	double other_rho = sluice_load_rate (member->victim, side->load, s->model);

	out->own = sluice_load_mean_overlap (side->pressure, &member->pressure, own_rho);
	out->other
	    = sluice_load_mean_overlap (&member->pressure, side->pressure, other_rho);
	out->own_stretch = factor_of (1.0 - out->own * (1.0 - own_rho));
	out->other_stretch = factor_of (1.0 - out->other * (1.0 - other_rho));
	out->own_slowdown = sluice_job_slowdown (side->pressure, out->own_stretch);
	out->other_slowdown = sluice_job_slowdown (&member->pressure, out->other_stretch);
}

static void
introduce (const struct sluice_situation *s, uint32_t member, struct side *side)
{
	pair_with (s, side, member, s->members[member].against, &side->pairs[member]);
}

/* Shares of their stretched I/O times in which newcomer and co-runner find the
 * other one active, before the first of them ends. */
struct overlaps {
	double own;
	double other;
};

/* The share of a job's stretched I/O time that goes into this share of its work,
 * when that takes `factor` times as long as the rest. */
static double
time_of (double work, double factor)
{
	return work * factor / (work * factor + 1.0 - work);
}

/*
 * The two meet until the first of them ends, each slowed by the other: a stream
 * that fills the targets for T seconds costs a co-runner at most T, however much
 * of its rate it takes.
 */
static struct overlaps
overlaps_of (const struct newcomer *job, const struct pair *pair, double remaining)
{
	double own_length = job->runtime * pair->own_slowdown;
	double other_length = remaining * pair->other_slowdown;

	struct overlaps result = {
		.own = pair->own
		       * time_of (part_of (own_length, other_length), pair->own_stretch),
		.other
		= pair->other
		  * time_of (part_of (other_length, own_length), pair->other_stretch),
	};
	return result;
}

/* A victim's factor without and with the newcomer, which is on for a share of the
 * victim's time. */
static void
compare (double overlap, double without, double with, double *before, double *after)
{
	*before = factor_of (without);
	*after = factor_of ((1.0 - overlap) * without + overlap * with);
}

/* remaining: of the kept ones of the lane; overlap: of the k-th with the newcomer. */
static void
compare_kept (const struct sluice_situation *s, const struct sluice_situation_lane *lane,
	      uint32_t k, const struct side *side, const double *remaining, double overlap,
	      struct meeting *out)
{
	const struct sluice_lane_member *self = &lane->kept[k];
	double overlaps[SLUICE_KEPT];
	uint32_t n = 0;

	for (uint32_t i = 0; i < lane->count; i++)
		if (i != k) {
			overlaps[n]
			    = self->overlaps[n] * part_of (remaining[k], remaining[i]);
			n++;
		}
	double with = sluice_load_mean_rate (s->members[self->member].victim,
					     sluice_load_add (lane->background, side->load),
					     &self->others, overlaps, s->model);
	compare (overlap, sluice_load_mean (self->rates, overlaps, n), with,
		 &out->before[k], &out->after[k]);
}

/* For the mean of many, the kept ones are background like each other. */
static void
compare_rest (const struct sluice_situation *s, const struct sluice_situation_lane *lane,
	      const struct newcomer *job, const struct side *side, const double *remaining,
	      double rest_remaining, struct meeting *out)
{
	const struct sluice_situation_member *rest = &s->members[lane->rest];
	struct sluice_load own = sluice_load_scale (rest->against, rest->pressure.io_share);
	struct sluice_load always = sluice_load_less (lane->background, own);

	for (uint32_t i = 0; i < lane->count; i++)
		if (remaining[i] > 0.0)
			always = sluice_load_add (always, lane->kept[i].load);
	struct overlaps met = overlaps_of (job, &side->pairs[lane->rest], rest_remaining);
	compare (
	    met.other, sluice_load_rate (rest->victim, always, s->model),
	    sluice_load_rate (rest->victim, sluice_load_add (always, side->load), s->model),
	    &out->before[SLUICE_KEPT], &out->after[SLUICE_KEPT]);
}

static struct overlaps
overlaps_with_kept (const struct sluice_situation *s, const struct sluice_lane_member *kept,
		    const struct newcomer *job, const struct side *side, double remaining)
{
	struct pair pair;
	if (kept->is_here)
		return overlaps_of (job, &side->pairs[kept->member], remaining);
	pair_with (s, side, kept->member, kept->load, &pair);
	return overlaps_of (job, &pair, remaining);
}

/* side: introduced to those of the lane. A job that has ended meets none. */
static void
meet (const struct sluice_situation *s, const struct sluice_situation_lane *lane,
      const struct newcomer *job, const struct side *side, double start,
      struct meeting *out)
{
	double remaining[SLUICE_KEPT], own[SLUICE_KEPT];

	for (int i = 0; i <= SLUICE_KEPT; i++)
		out->before[i] = out->after[i] = 1.0;
	for (uint32_t k = 0; k < lane->count; k++)
		remaining[k] = sluice_remaining_of (s, lane->kept[k].member, start);
	for (uint32_t k = 0; k < lane->count; k++) {
		own[k] = 0.0;
		if (remaining[k] <= 0.0)
			continue;
		struct overlaps met
		    = overlaps_with_kept (s, &lane->kept[k], job, side, remaining[k]);
		own[k] = met.own;
		if (lane->kept[k].is_here)
			compare_kept (s, lane, k, side, remaining, met.other, out);
	}
	out->own = factor_of (sluice_load_mean_rate (side->load, lane->background,
						     &lane->sets, own, s->model));
	double rest_remaining
	    = lane->has_rest ? sluice_remaining_of (s, lane->rest, start) : 0.0;
	if (rest_remaining > 0.0)
		compare_rest (s, lane, job, side, remaining, rest_remaining, out);
}

/* Not yet introduced to any job. */
static void
side_of (const struct sluice_workspace *workspace, const struct sluice_pressure *pressure,
	 struct side *out)
{
	out->pressure = pressure;
	out->load = sluice_load_of (pressure, 0.0, SLUICE_AGAINST);
	out->together = workspace->together;
}

static void
tally_reset (const struct sluice_situation *s, struct tally *t)
{
	t->own = 1.0;
	for (uint32_t m = 0; m < s->member_count; m++)
		t->before[m] = t->after[m] = 1.0;
}

static void
tally_others (const struct sluice_situation_lane *lane, const struct meeting *meeting,
	      struct tally *t)
{
	for (uint32_t i = 0; i <= SLUICE_KEPT; i++) {
		int is_rest = i == SLUICE_KEPT;
		if (is_rest ? !lane->has_rest : i >= lane->count)
			continue;
		uint32_t m = is_rest ? lane->rest : lane->kept[i].member;
		t->before[m] = larger (t->before[m], meeting->before[i]);
		t->after[m] = larger (t->after[m], meeting->after[i]);
	}
}

static void
add_up (const struct sluice_policy *policy, const struct newcomer *job,
	struct sluice_alternative *out)
{
	out->cost = out->own + out->caused + out->confined
		    + policy->wait_price * out->wait * job->nodes;
}

static void
price (const struct sluice_workspace *workspace, const struct sluice_pressure *pressure,
       double start, struct sluice_alternative *out)
{
	const struct sluice_situation *s = workspace->situation;
	const struct newcomer *job = &workspace->job;
	const struct tally *t = &workspace->tally;
	double seconds = job->nodes * job->runtime;
	double alone = sluice_job_slowdown (pressure, 1.0);
	double shared = sluice_job_slowdown (pressure, t->own);

	out->slowdown = alone + workspace->lost_in_turns * (shared - alone);
	out->own = seconds * (out->slowdown - alone);
	out->confined = seconds * (alone - 1.0);
	out->caused = 0.0;
	for (uint32_t i = 0; i < s->member_count; i++) {
		const struct sluice_situation_member *m = &s->members[i];
		if (t->after[i] > t->before[i])
			out->caused
			    += m->nodes * sluice_remaining_of (s, i, start)
			       * (sluice_job_slowdown (&m->pressure, t->after[i])
				  - sluice_job_slowdown (&m->pressure, t->before[i]));
	}
	out->caused *= workspace->lost_in_turns;
	add_up (s->policy, job, out);
}

/* Sharing all lanes from `start` on. */
static void
price_sharing (struct sluice_workspace *workspace, const struct meeting *meetings,
	       double start, struct sluice_alternative *out)
{
	const struct sluice_situation *s = workspace->situation;
	struct tally *t = &workspace->tally;
	tally_reset (s, t);
	for (uint32_t l = 0; l < s->lane_count; l++) {
		if (s->lanes[l].original != l)
			continue;
		t->own = larger (t->own, meetings[l].own);
		tally_others (&s->lanes[l], &meetings[l], t);
	}
	price (workspace, &workspace->spread, start, out);
}

static void
introduce_to_all (const struct sluice_situation *s, struct side *side)
{
	for (uint32_t m = 0; m < s->member_count; m++)
		introduce (s, m, side);
}

static void
meet_on_all_lanes (const struct sluice_workspace *workspace, const struct side *side,
		   double start, struct meeting *out)
{
	const struct sluice_situation *s = workspace->situation;
	for (uint32_t l = 0; l < s->lane_count; l++)
		if (s->lanes[l].original == l)
			meet (s, &s->lanes[l], &workspace->job, side, start, &out[l]);
}

/* Elsewhere the newcomer loads the metadata server alone. */
static void
meet_apart (struct sluice_workspace *workspace)
{
	const struct sluice_situation *s = workspace->situation;
	if (workspace->spread.metadata > 0.0) {
		struct sluice_pressure elsewhere = workspace->spread;
		elsewhere.weight = elsewhere.demand = 0.0;
		side_of (workspace, &elsewhere, &workspace->confined);
		introduce_to_all (s, &workspace->confined);
		meet_on_all_lanes (workspace, &workspace->confined, workspace->now,
				   workspace->apart);
		return;
	}
	for (uint32_t l = 0; l < s->lane_count; l++) {
		if (s->lanes[l].original != l)
			continue;
		workspace->apart[l] = workspace->shared[l];
		memcpy (workspace->apart[l].after, workspace->apart[l].before,
			sizeof workspace->apart[l].after);
	}
}

/* One lane, as the newcomer would find it. */
struct visit {
	uint32_t lane;
	struct sluice_pressure pressure;
	struct meeting meeting;
};

/* Whether the newcomer would find on a lane what it found on another. */
static int
is_alike (const struct sluice_situation *s, uint32_t lane, uint32_t other)
{
	const struct sluice_lane *a = &s->policy->lanes[lane];
	const struct sluice_lane *b = &s->policy->lanes[other];
	return s->lanes[lane].original == s->lanes[other].original
	       && a->targets == b->targets && a->bandwidth == b->bandwidth
	       && s->speeds[lane] == s->speeds[other];
}

static void
visit_lane (struct sluice_workspace *workspace, uint32_t lane, struct visit *out)
{
	const struct sluice_situation *s = workspace->situation;
	struct side *side = &workspace->confined;
	if (lane > 0 && is_alike (s, lane, out->lane))
		return;
	out->lane = lane;
	sluice_pressure_of (workspace->job.profile, s->model, s->policy, 1u << lane,
			    &out->pressure);
	sluice_pressure_slow_down (&out->pressure, s->speeds[lane]);
	const struct sluice_situation_lane *place = &s->lanes[s->lanes[lane].original];
	side_of (workspace, &out->pressure, side);
	for (uint32_t k = 0; k < place->count; k++)
		introduce (s, place->kept[k].member, side);
	if (place->has_rest)
		introduce (s, place->rest, side);
	meet (s, place, &workspace->job, side, workspace->now, &out->meeting);
}

static void
price_lane (struct sluice_workspace *workspace, uint32_t lane, const struct visit *visit,
	    struct sluice_alternative *out)
{
	const struct sluice_situation *s = workspace->situation;
	struct tally *t = &workspace->tally;

	out->action = SLUICE_ACTION_DISJOINT;
	out->lane_mask = 1u << lane;
	tally_reset (s, t);
	t->own = visit->meeting.own;
	tally_others (&s->lanes[s->lanes[lane].original], &visit->meeting, t);
	for (uint32_t l = 0; l < s->lane_count; l++)
		if (s->lanes[l].original == l && l != lane)
			tally_others (&s->lanes[l], &workspace->apart[l], t);
	price (workspace, &visit->pressure, workspace->now, out);
}

/* With one co-runner alone, while both run. */
static struct sluice_corun
corun_with (const struct sluice_workspace *workspace, uint32_t member)
{
	const struct sluice_situation *s = workspace->situation;
	const struct sluice_situation_member *m = &s->members[member];
	const struct pair *pair = &workspace->sharing.pairs[member];

	struct sluice_corun corun = {
		.job_id = m->job_id,
		.nodes = (uint32_t)m->nodes,
		.own_slowdown = pair->own_slowdown,
		.other_slowdown = pair->other_slowdown,
		.together = smaller (workspace->job.runtime,
				     sluice_remaining_of (s, member, workspace->now)),
	};
	return corun;
}

/* Node-seconds that both lose. */
static double
damage_of (const struct sluice_corun *e, const struct newcomer *job)
{
	return e->together
	       * (job->nodes * (e->own_slowdown - 1.0)
		  + e->nodes * (e->other_slowdown - 1.0));
}

static void
report (const struct sluice_corun *e, const struct newcomer *job,
	struct sluice_decision *out)
{
	double damage = damage_of (e, job);
	uint32_t at = out->corun_count;
	while (at > 0 && damage > damage_of (&out->coruns[at - 1], job))
		at--;
	if (at == SLUICE_MAX_REPORTED)
		return;
	if (out->corun_count < SLUICE_MAX_REPORTED)
		out->corun_count++;
	for (uint32_t i = out->corun_count - 1; i > at; i--)
		out->coruns[i] = out->coruns[i - 1];
	out->coruns[at] = *e;
}

static void
note_end (struct sluice_ends *ends, double end)
{
	uint32_t at = ends->count;
	while (at > 0 && end < ends->at[at - 1])
		at--;
	if (at == SLUICE_KEPT || (at > 0 && ends->at[at - 1] == end))
		return;
	if (ends->count < SLUICE_KEPT)
		ends->count++;
	for (uint32_t i = ends->count - 1; i > at; i--)
		ends->at[i] = ends->at[i - 1];
	ends->at[at] = end;
}

static void
meet_singly (const struct sluice_workspace *workspace, struct sluice_ends *ends,
	     struct sluice_decision *out)
{
	const struct sluice_situation *s = workspace->situation;
	const double harmless = sluice_harmless_slowdown;

	for (uint32_t i = 0; i < s->member_count; i++) {
		if (s->members[i].job_id == 0
		    || sluice_remaining_of (s, i, workspace->now) <= 0.0)
			continue;
		struct sluice_corun e = corun_with (workspace, i);
		report (&e, &workspace->job, out);
		if ((e.own_slowdown > harmless || e.other_slowdown > harmless)
		    && s->members[i].end - workspace->now <= s->policy->max_delay)
			note_end (ends, s->members[i].end);
	}
}

/* Whom a wait avoids, others replace: nodes that become free take the next jobs, and what
 * these do is what jobs do now. So a part of what is lost now is lost all the same. */
static void
replace_others (const struct sluice_workspace *workspace,
		const struct sluice_alternative *now, struct sluice_alternative *later)
{
	const double replaced = 0.8; /* as replays of busy sites show: replays.md */
	later->own += replaced * larger (0.0, now->own - later->own);
	later->caused += replaced * larger (0.0, now->caused - later->caused);
	add_up (workspace->situation->policy, &workspace->job, later);
}

/* Wait for the first end after which sharing costs less than it does now; if
 * there is none, show the cheapest wait all the same. */
static int
price_delay (struct sluice_workspace *workspace, const struct sluice_ends *ends,
	     const struct sluice_alternative *sharing, struct sluice_alternative *out)
{
	for (uint32_t i = 0; i < ends->count; i++) {
		struct sluice_alternative candidate = {
			.action = SLUICE_ACTION_DELAY,
			.wait = ends->at[i] - workspace->now,
		};
		meet_on_all_lanes (workspace, &workspace->sharing, ends->at[i],
				   workspace->later);
		price_sharing (workspace, workspace->later, ends->at[i], &candidate);
		replace_others (workspace, sharing, &candidate);
		if (i == 0 || candidate.cost < out->cost)
			*out = candidate;
		if (out->cost < sharing->cost)
			break;
	}
	return ends->count > 0;
}

/* Of what the job and all co-runners lose by sharing, the share that is lost in turns: the
 * mean of what each pair would lose then, by what it loses. */
static double
lost_in_turns (const struct sluice_workspace *workspace)
{
	const struct sluice_situation *s = workspace->situation;
	struct sluice_turns_party own = { workspace->job.nodes, workspace->spread.burst };
	double lost = 0.0, left = 0.0;

	if (s->policy->turns_gain <= 0.0)
		return 1.0;
	for (uint32_t i = 0; i < s->member_count; i++) {
		const struct sluice_situation_member *m = &s->members[i];
		struct sluice_turns_party other = { m->nodes, m->pressure.burst };
		struct sluice_corun e = corun_with (workspace, i);
		double damage = damage_of (&e, &workspace->job);
		lost += damage;
		left += damage * sluice_turns_pair_share (own, other);
	}
	return lost > 0.0 ? 1.0 - s->policy->turns_gain * (1.0 - left / lost) : 1.0;
}

/* Share as it is and, where that saves something, in turns. Returns the one of the two that
 * other alternatives have to beat; both have the price of turns in them. */
static uint32_t
price_both_sharings (struct sluice_workspace *workspace, struct sluice_decision *out)
{
	double in_turns = lost_in_turns (workspace);
	/* where lanes take all the room, sharing without turns is not shown */
	int has_room = workspace->situation->policy->lane_count < SLUICE_MAX_LANES;

	meet_on_all_lanes (workspace, &workspace->sharing, workspace->now,
			   workspace->shared);
	for (int turns = in_turns < 1.0 && !has_room; turns <= (in_turns < 1.0); turns++) {
		struct sluice_alternative *sharing
		    = &out->alternatives[out->alternative_count++];
		sharing->action = turns ? SLUICE_ACTION_TURNS : SLUICE_ACTION_COLOCATE;
		workspace->lost_in_turns = turns ? in_turns : 1.0;
		price_sharing (workspace, workspace->shared, workspace->now, sharing);
	}
	return out->alternative_count - 1;
}

uint32_t
sluice_price_sharing (struct sluice_workspace *workspace, struct sluice_ends *ends,
		      struct sluice_decision *out)
{
	side_of (workspace, &workspace->spread, &workspace->sharing);
	introduce_to_all (workspace->situation, &workspace->sharing);
	uint32_t shared = price_both_sharings (workspace, out);
	meet_singly (workspace, ends, out);
	return shared;
}

void
sluice_price_apart (struct sluice_workspace *workspace, const struct sluice_ends *ends,
		    uint32_t shared, struct sluice_decision *out)
{
	const struct sluice_policy *policy = workspace->situation->policy;
	struct visit visit;

	if (policy->lane_count >= 2 && workspace->is_confinable) {
		meet_apart (workspace);
		for (uint32_t l = 0; l < policy->lane_count; l++) {
			visit_lane (workspace, l, &visit);
			price_lane (workspace, l, &visit,
				    &out->alternatives[out->alternative_count++]);
		}
	}
	if (price_delay (workspace, ends, &out->alternatives[shared],
			 &out->alternatives[out->alternative_count]))
		out->alternative_count++;
}
