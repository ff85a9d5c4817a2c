#include "decide.h"

#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "situation.h"
#include "tokens.h"
#include "turns.h"

/* The job to decide on. */
struct newcomer {
	const struct sluice_profile *profile;
	double nodes;
	double runtime; /* s, alone */
};

/* What newcomer and co-runner do to each other while both run. */
struct pair {
	double own; /* share of the stretched I/O time that finds the other one active */
	double other;
	double own_stretch; /* of the I/O */
	double other_stretch;
	double own_slowdown; /* of the job */
	double other_slowdown;
};

/* The newcomer as it would press on a lane, and what that means for members of
 * the situation. */
struct side {
	const struct sluice_pressure *pressure;
	struct sluice_load against;
	struct sluice_load victim;
	const unsigned char *together;	       /* by member: a review lets the two be */
	struct pair pairs[SLUICE_MAX_MEMBERS]; /* of those that it was introduced to */
};

/* What newcomer and co-runners do to each other on one lane: I, never below 1. */
struct meeting {
	double own;
	double before[SLUICE_KEPT + 1]; /* of each kept one, and of the rest */
	double after[SLUICE_KEPT + 1];
};

/* Meetings on all lanes -> what an alternative costs. A job on several lanes is
 * as slow as on the worst of them: a striped operation takes its slowest target. */
struct tally {
	double own;
	double before[SLUICE_MAX_MEMBERS];
	double after[SLUICE_MAX_MEMBERS];
};

/* Those that reviews keep the job apart from. */
struct kept_from {
	uint32_t lanes; /* on which they write, as bits */
	double until;	/* the last of them ends, UTC seconds; 0: there are none */
};

/* All that an evaluation of one job needs. */
struct sluice_workspace {
	const struct sluice_situation *situation;
	struct newcomer job;
	int is_confinable;    /* one lane can hold all that it writes */
	double lost_in_turns; /* share of what is lost by sharing that turns leave */
	struct sluice_pressure spread; /* over all lanes */
	struct side sharing;	       /* with that, introduced to everybody */
	struct side confined;	       /* as it would press on some of the lanes only */
	double now;
	struct sluice_pairing pairings[SLUICE_MAX_PAIRINGS];
	uint32_t pairing_count;
	struct kept_from kept_from;
	unsigned char together[SLUICE_MAX_MEMBERS]; /* 1: a review lets the two be */
	struct tally tally;			    /* of the alternative at hand */
	struct meeting shared[SLUICE_MAX_LANES];    /* at now, spread over all lanes */
	struct meeting apart[SLUICE_MAX_LANES];	    /* at now, writing elsewhere */
	struct meeting later[SLUICE_MAX_LANES]; /* after a wait, spread over all lanes */
	struct sluice_profile shifted; /* the job as small or as large as it may be */
	struct sluice_decision if_shifted;
};

struct sluice_workspace *
sluice_workspace_create (void)
{
	return malloc (sizeof (struct sluice_workspace));
}

void
sluice_workspace_destroy (struct sluice_workspace *workspace)
{
	free (workspace);
}

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

static double
remaining_of (const struct sluice_situation *s, uint32_t member, double start)
{
	return larger (0.0, s->members[member].end - start);
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
	double own_rho = sluice_load_rate (side->victim, load, s->model);
	double other_rho = sluice_load_rate (member->victim, side->against, s->model);

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
	double with
	    = sluice_load_mean_rate (s->members[self->member].victim,
				     sluice_load_add (lane->background, side->against),
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
	struct sluice_load always = sluice_load_less (lane->background, rest->against);

	for (uint32_t i = 0; i < lane->count; i++)
		if (remaining[i] > 0.0)
			always = sluice_load_add (always, lane->kept[i].load);
	struct overlaps met = overlaps_of (job, &side->pairs[lane->rest], rest_remaining);
	compare (met.other, sluice_load_rate (rest->victim, always, s->model),
		 sluice_load_rate (rest->victim, sluice_load_add (always, side->against),
				   s->model),
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

/* side: introduced to those of the lane. Who has ended meets nobody. */
static void
meet (const struct sluice_situation *s, const struct sluice_situation_lane *lane,
      const struct newcomer *job, const struct side *side, double start,
      struct meeting *out)
{
	double remaining[SLUICE_KEPT], own[SLUICE_KEPT];

	for (int i = 0; i <= SLUICE_KEPT; i++)
		out->before[i] = out->after[i] = 1.0;
	for (uint32_t k = 0; k < lane->count; k++)
		remaining[k] = remaining_of (s, lane->kept[k].member, start);
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
	out->own = factor_of (sluice_load_mean_rate (side->victim, lane->background,
						     &lane->sets, own, s->model));
	double rest_remaining = lane->has_rest ? remaining_of (s, lane->rest, start) : 0.0;
	if (rest_remaining > 0.0)
		compare_rest (s, lane, job, side, remaining, rest_remaining, out);
}

/* Not yet introduced to anybody. */
static void
side_of (const struct sluice_workspace *workspace, const struct sluice_pressure *pressure,
	 struct side *out)
{
	double z = workspace->situation->z;
	out->pressure = pressure;
	out->against = sluice_load_of (pressure, z, SLUICE_AGAINST);
	out->victim = sluice_load_of (pressure, z, SLUICE_VICTIM);
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
			    += m->nodes * remaining_of (s, i, start)
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
				     remaining_of (s, member, workspace->now)),
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

/* Ends of co-runners that hurt or are hurt, within the longest delay, rising. */
struct ends {
	uint32_t count;
	double at[SLUICE_KEPT];
};

static void
note_end (struct ends *ends, double end)
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
meet_singly (const struct sluice_workspace *workspace, struct ends *ends,
	     struct sluice_decision *out)
{
	const struct sluice_situation *s = workspace->situation;
	const double harmless = sluice_harmless_slowdown;

	for (uint32_t i = 0; i < s->member_count; i++) {
		if (s->members[i].job_id == 0 || remaining_of (s, i, workspace->now) <= 0.0)
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
price_delay (struct sluice_workspace *workspace, const struct ends *ends,
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

static int
is_harmless (const struct sluice_workspace *workspace,
	     const struct sluice_alternative *sharing)
{
	const struct sluice_situation *s = workspace->situation;
	const struct tally *t = &workspace->tally; /* of sharing */
	const double harmless = sluice_harmless_slowdown;
	if (sharing->slowdown > harmless)
		return 0;
	for (uint32_t i = 0; i < s->member_count; i++) {
		const struct sluice_pressure *p = &s->members[i].pressure;
		if (sluice_job_slowdown (p, t->after[i])
			- sluice_job_slowdown (p, t->before[i])
		    > harmless - 1.0)
			return 0;
	}
	return 1;
}

/* Whether most of what a lane saves is that it is not slow. */
static int
is_for_speed (const struct sluice_situation *s, const struct sluice_alternative *sharing,
	      const struct sluice_alternative *lane)
{
	return s->slowest < 1.0
	       && sharing->confined - lane->confined > (sharing->cost - lane->cost) / 2.0;
}

/* Share in turns, where that is possible and saves enough. */
static int
choose_turns (const struct sluice_policy *policy, uint32_t shared,
	      struct sluice_decision *out)
{
	const struct sluice_alternative *plain = &out->alternatives[0];
	const struct sluice_alternative *turns = &out->alternatives[shared];
	int do_pay
	    = turns->action == SLUICE_ACTION_TURNS
	      && (turns == plain || sluice_saves_enough (policy, plain->cost, turns->cost));
	out->chosen = do_pay ? shared : 0;
	return do_pay;
}

/* shared: the alternative of sharing that others have to beat. */
static uint32_t
weigh (const struct sluice_situation *s, uint32_t shared, struct sluice_decision *out)
{
	const struct sluice_alternative *sharing = &out->alternatives[shared];
	int is_in_turns = choose_turns (s->policy, shared, out);
	uint32_t best = shared;
	for (uint32_t i = shared + 1; i < out->alternative_count; i++)
		if (out->alternatives[i].cost < out->alternatives[best].cost)
			best = i;
	if (best == shared)
		return is_in_turns ? SLUICE_REASON_TURNS_PAY
				   : SLUICE_REASON_SHARING_CHEAPEST;
	if (!sluice_saves_enough (s->policy, sharing->cost, out->alternatives[best].cost))
		return is_in_turns ? SLUICE_REASON_TURNS_PAY : SLUICE_REASON_MARGIN;
	out->chosen = best;
	if (out->alternatives[best].action == SLUICE_ACTION_DELAY)
		return SLUICE_REASON_DELAY_PAYS;
	return is_for_speed (s, sharing, &out->alternatives[best])
		   ? SLUICE_REASON_SLOW_LANE
		   : SLUICE_REASON_SEPARATION_PAYS;
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

/*
 * Reviews of pairs
 */

/* Whether a review rules so on the job and another. */
static int
is_ruled (const struct sluice_workspace *workspace, enum sluice_ruling ruling,
	  const struct sluice_identity *other)
{
	for (uint32_t i = 0; i < workspace->pairing_count; i++)
		if (workspace->pairings[i].ruling == ruling
		    && sluice_identity_matches (workspace->pairings[i].other, other))
			return 1;
	return 0;
}

/* What reviews say of the job and those that run. */
static void
obey_reviews (struct sluice_workspace *workspace,
	      const struct sluice_submission *submission)
{
	const struct sluice_situation *s = workspace->situation;
	struct sluice_identity identity;
	uint32_t n;
	const struct sluice_review *reviews = sluice_bundle_reviews (s->bundle, &n);

	workspace->kept_from = (struct kept_from){ 0 };
	memset (workspace->together, 0, s->member_count);
	workspace->pairing_count = 0;
	if (n == 0)
		return;
	sluice_identity_of (submission, &identity);
	workspace->pairing_count = sluice_review_pairings (
	    reviews, n, &identity, (int64_t)workspace->now, workspace->pairings);
	if (workspace->pairing_count == 0)
		return;
	for (uint32_t m = 0; m < s->member_count; m++)
		workspace->together[m] = s->members[m].job_id != 0
					 && is_ruled (workspace, SLUICE_RULING_TOGETHER,
						      &s->members[m].identity);
	for (uint32_t i = 0; i < s->corunner_count; i++) {
		const struct sluice_situation_presence *p = &s->present[i];
		if (p->end <= workspace->now
		    || !is_ruled (workspace, SLUICE_RULING_APART, &p->identity))
			continue;
		workspace->kept_from.lanes |= p->lane_mask ? p->lane_mask : UINT32_MAX;
		workspace->kept_from.until = larger (workspace->kept_from.until, p->end);
	}
}

/* The one end to wait for, if it comes soon enough. */
static struct ends
end_of_apart (const struct sluice_workspace *workspace)
{
	double end = workspace->kept_from.until;
	double wait = end - workspace->now;
	struct ends ends = { .count = wait <= workspace->situation->policy->max_delay };
	ends.at[0] = end;
	return ends;
}

/* Choose the cheapest way in which the job does not meet those that it is kept apart from.
 * Returns 0 where there is none, or nobody. */
static int
keep_apart (const struct sluice_workspace *workspace, struct sluice_decision *out)
{
	const struct kept_from *others = &workspace->kept_from;
	int is_found = 0;

	for (uint32_t i = 0; others->until > 0.0 && i < out->alternative_count; i++) {
		const struct sluice_alternative *a = &out->alternatives[i];
		int parts = a->action == SLUICE_ACTION_DELAY
			    || (a->action == SLUICE_ACTION_DISJOINT
				&& !(a->lane_mask & others->lanes));
		if (!parts || (is_found && a->cost >= out->alternatives[out->chosen].cost))
			continue;
		out->chosen = i;
		is_found = 1;
	}
	return is_found;
}

/* Of sharing that harms nobody. */
static uint32_t
harmless_reason (const struct sluice_workspace *workspace,
		 const struct sluice_decision *decision)
{
	if (memchr (workspace->together, 1, workspace->situation->member_count))
		return SLUICE_REASON_LET_TOGETHER;
	return decision->corunner_count ? SLUICE_REASON_HARMLESS
					: SLUICE_REASON_NO_CORUNNERS;
}

/* Price every way to run the job; returns the reason for the one chosen. */
static uint32_t
consider (struct sluice_workspace *workspace, struct sluice_decision *out)
{
	const struct sluice_situation *s = workspace->situation;
	struct ends ends = { 0 };

	side_of (workspace, &workspace->spread, &workspace->sharing);
	introduce_to_all (s, &workspace->sharing);
	uint32_t shared = price_both_sharings (workspace, out);
	const struct sluice_alternative *sharing = &out->alternatives[shared];
	meet_singly (workspace, &ends, out);
	if (out->corunner_count == 0 && s->slowest == 1.0)
		return SLUICE_REASON_NO_CORUNNERS;
	if (workspace->kept_from.until > 0.0)
		ends = end_of_apart (workspace);
	else if (is_harmless (workspace, sharing)) {
		choose_turns (s->policy, shared, out);
		return harmless_reason (workspace, out);
	}

	if (s->policy->lane_count >= 2 && workspace->is_confinable) {
		meet_apart (workspace);
		struct visit visit;
		for (uint32_t l = 0; l < s->policy->lane_count; l++) {
			visit_lane (workspace, l, &visit);
			price_lane (workspace, l, &visit,
				    &out->alternatives[out->alternative_count++]);
		}
	}
	if (price_delay (workspace, &ends, sharing,
			 &out->alternatives[out->alternative_count]))
		out->alternative_count++;
	return keep_apart (workspace, out) ? SLUICE_REASON_KEPT_APART
					   : weigh (s, shared, out);
}

/* Longest that any co-runner will be there, for a job of unknown length. */
static double
longest_remaining (const struct sluice_situation *s, double now)
{
	double longest = 1.0;
	for (uint32_t i = 0; i < s->member_count; i++)
		longest = larger (longest, remaining_of (s, i, now));
	return longest;
}

/* The job as this profile has it, against the state of the cluster. */
static void
weigh_job (struct sluice_workspace *workspace, const struct sluice_profile *profile,
	   const struct sluice_submission *submission, struct sluice_decision *out)
{
	const struct sluice_situation *s = workspace->situation;
	workspace->job.profile = profile;
	workspace->job.runtime = profile->runtime_seconds > 0.0 ? profile->runtime_seconds
				 : submission->time_limit
				     ? submission->time_limit * 60.0
				     : longest_remaining (s, workspace->now);
	sluice_pressure_of (profile, s->model, s->policy, 0, &workspace->spread);
	sluice_pressure_slow_down (&workspace->spread, s->slowest);
	out->corunner_count = s->corunner_count;
	out->reason = consider (workspace, out);
	out->action = out->alternatives[out->chosen].action;
	out->wait = out->alternatives[out->chosen].wait;
}

/* One run in ten is smaller than the first, one larger than the second: in spreads. */
static const double plausible_ends[] = { -1.2816, 1.2816 };

const float sluice_wide_spread = 0.4214f;      /* ln 2 / z of 0.95 */
const float sluice_unknown_rate_spread = 0.6f; /* 1 / z of 0.95 */

/* Whether a number that the decision uses may be off by more than a factor of two. */
static int
is_vague (const struct sluice_profile *p)
{
	float widest = p->spread[0];
	for (unsigned int i = 1; i < SLUICE_PROFILE_FIELD_COUNT; i++)
		widest = p->spread[i] > widest ? p->spread[i] : widest;
	return widest > sluice_wide_spread;
}

/* Turns keep nobody from starting. */
static int
is_sharing (uint32_t action)
{
	return action == SLUICE_ACTION_COLOCATE || action == SLUICE_ACTION_TURNS;
}

static int
is_treated_alike (const struct sluice_decision *a, const struct sluice_decision *b)
{
	return a->action == b->action || (is_sharing (a->action) && is_sharing (b->action));
}

/* Whether the job would be treated alike if it were as small, or as large, as nine in ten
 * runs are. */
static int
is_steady (struct sluice_workspace *workspace, const struct sluice_submission *submission,
	   const struct sluice_decision *decision)
{
	const struct sluice_profile *profile = &decision->prediction.profile;

	for (int i = 0; is_vague (profile) && i < 2; i++) {
		memset (&workspace->if_shifted, 0, sizeof workspace->if_shifted);
		sluice_profile_shift (profile, plausible_ends[i], &workspace->shifted);
		weigh_job (workspace, &workspace->shifted, submission,
			   &workspace->if_shifted);
		if (!is_treated_alike (&workspace->if_shifted, decision))
			return 0;
	}
	return 1;
}

static int
is_alone_known (const struct sluice_profile *p)
{
	const size_t rate = offsetof (struct sluice_profile, rate) / sizeof (double);
	return p->spread[rate] <= sluice_unknown_rate_spread;
}

static void
abstain_because (uint32_t reason, struct sluice_decision *out)
{
	out->action = SLUICE_ACTION_ABSTAIN;
	out->reason = reason;
	out->wait = 0.0;
}

static void
decide_alongside_others (struct sluice_workspace *workspace,
			 const struct sluice_situation *s,
			 const struct sluice_config *config,
			 const struct sluice_submission *submission, int is_enforced,
			 int64_t now, struct sluice_decision *out)
{
	workspace->situation = s;
	workspace->job.nodes = submission->nodes ? submission->nodes : 1;
	/* a lane that nobody holds the job to would be a wrong promise; where nothing
	 * is enforced it shows what control would gain */
	workspace->is_confinable
	    = !is_enforced || sluice_is_controlled (config, submission);
	workspace->now = (double)now;
	obey_reviews (workspace, submission);
	weigh_job (workspace, &out->prediction.profile, submission, out);
	if (!is_steady (workspace, submission, out))
		abstain_because (SLUICE_REASON_WIDE_SPREAD, out);
	else if (out->reason == SLUICE_REASON_HARMLESS
		 && !is_alone_known (&out->prediction.profile))
		abstain_because (SLUICE_REASON_ALONE_UNKNOWN, out);
	if (sluice_bundle_review_of (s->bundle, 1u << SLUICE_RULING_NEVER_DELAY, submission,
				     now))
		abstain_because (SLUICE_REASON_NEVER_DELAYED, out);
}

/* Why its I/O does not matter, or SLUICE_REASON_NONE. */
static uint32_t
insignificance_of (const struct sluice_profile *p, uint32_t klass,
		   const struct sluice_policy *policy)
{
	if (p->io_share >= 0.0 && p->io_share < policy->min_io_share)
		return SLUICE_REASON_INSIGNIFICANT;
	if (klass == SLUICE_CLASS_NONE && p->pattern != SLUICE_PATTERN_READ)
		return SLUICE_REASON_FEW_BYTES;
	return SLUICE_REASON_NONE;
}

/* Whether the job may be too large to be left alone, although it is not predicted to. */
static int
may_matter (struct sluice_workspace *workspace, const struct sluice_profile *profile,
	    const struct sluice_policy *policy)
{
	const struct sluice_profile *shifted = &workspace->shifted;

	for (int i = 0; is_vague (profile) && i < 2; i++) {
		sluice_profile_shift (profile, plausible_ends[i], &workspace->shifted);
		if (insignificance_of (shifted, sluice_class_of (shifted, policy), policy)
		    == SLUICE_REASON_NONE)
			return 1;
	}
	return 0;
}

/* Whether the prediction says enough to go on. */
static uint32_t
judge_prediction (const struct sluice_prediction *prediction,
		  const struct sluice_policy *policy)
{
	const struct sluice_profile *p = &prediction->profile;
	if (prediction->evidence == SLUICE_EVIDENCE_IGNORED)
		return SLUICE_REASON_IGNORED;
	int is_unconfirmed = prediction->evidence == SLUICE_EVIDENCE_UNCONFIRMED;
	int is_own = is_unconfirmed || sluice_prediction_counts (prediction);
	if (p->pattern == SLUICE_PATTERN_UNKNOWN && is_own
	    && (p->write_bytes >= 0.0 || p->read_bytes >= 0.0))
		return SLUICE_REASON_VOLUME_ONLY;
	if (prediction->evidence == SLUICE_EVIDENCE_NONE
	    || p->pattern == SLUICE_PATTERN_UNKNOWN)
		return SLUICE_REASON_UNKNOWN_JOB;
	if (p->confidence < policy->min_confidence)
		return SLUICE_REASON_LOW_CONFIDENCE;
	if (!is_own)
		return SLUICE_REASON_OTHERS_ONLY;

	int is_read = p->pattern == SLUICE_PATTERN_READ;
	uint32_t insignificance
	    = insignificance_of (p, sluice_class_of (p, policy), policy);
	if (insignificance != SLUICE_REASON_NONE)
		return insignificance;
	if (is_unconfirmed)
		return SLUICE_REASON_UNCONFIRMED;
	/* Nobody measured how reads interfere, and a mixture without numbers or
	 * an unknown share of I/O could be anything. */
	int is_bare = p->pattern == SLUICE_PATTERN_MIXED
		      && (p->chunk_bytes < 0.0
			  || (p->bytes_per_flush < 0.0 && p->unflushed_bytes < 0.0));
	if (is_read || is_bare || p->io_share < 0.0)
		return SLUICE_REASON_UNMEASURED;
	return SLUICE_REASON_NONE;
}

/* Whether the state of the cluster is known. */
static uint32_t
judge_snapshot (const struct sluice_situation *s, int64_t now)
{
	if (!s->snapshot)
		return SLUICE_REASON_NO_SNAPSHOT;
	if (sluice_snapshot_state (s->snapshot)->flags & SLUICE_STATE_OFF)
		return SLUICE_REASON_SWITCHED_OFF;
	if (!sluice_snapshot_is_fresh (s->snapshot, s->policy, now))
		return SLUICE_REASON_STALE_SNAPSHOT;
	return SLUICE_REASON_NONE;
}

/* A job whose own licences leave no room for the tokens cannot be held to what
 * was decided. The alternatives stay, to explain what would have been. */
static void
check_tokens_fit (const struct sluice_policy *policy,
		  const struct sluice_submission *submission, struct sluice_decision *out)
{
	struct sluice_tokens tokens;
	sluice_tokens_of (policy, out, &tokens);
	if (tokens.lane_mask == 0
	    || sluice_tokens_fit (policy, &tokens, submission->license_length))
		return;
	out->action = SLUICE_ACTION_ABSTAIN;
	out->reason = SLUICE_REASON_EXEMPT_LICENSES;
	out->wait = 0.0;
}

void
sluice_decide (struct sluice_workspace *workspace, const struct sluice_situation *situation,
	       const struct sluice_config *config,
	       const struct sluice_submission *submission, int64_t now,
	       struct sluice_decision *out)
{
	const struct sluice_snapshot *snapshot = situation ? situation->snapshot : NULL;

	memset (out, 0, sizeof *out);
	sluice_profile_init (&out->prediction.profile);

	out->reason = sluice_scope (config, situation ? situation->policy : &config->policy,
				    snapshot, submission);
	if (out->reason == SLUICE_REASON_NONE && !situation)
		out->reason = SLUICE_REASON_NO_BUNDLE;
	if (out->reason != SLUICE_REASON_NONE)
		return; /* action 0 is ABSTAIN */

	struct sluice_job_mode mode;
	sluice_mode_of (config, situation->policy, submission, 0, &mode);
	int is_enforced = mode.mode == SLUICE_MODE_ENFORCE;

	/* Also without a snapshot: what it would have been is worth recording. */
	sluice_predict (situation->bundle, submission, now, &out->prediction);
	if (config->user_hints)
		sluice_predict_by_hints (situation->policy, &submission->hints,
					 &out->prediction);
	out->reason = judge_snapshot (situation, now);
	if (out->reason == SLUICE_REASON_NONE)
		out->reason = judge_prediction (&out->prediction, situation->policy);
	if (out->reason == SLUICE_REASON_NONE)
		decide_alongside_others (workspace, situation, config, submission,
					 is_enforced, now, out);
	else if (out->reason == SLUICE_REASON_INSIGNIFICANT
		 || out->reason == SLUICE_REASON_FEW_BYTES) {
		if (may_matter (workspace, &out->prediction.profile, situation->policy))
			out->reason = SLUICE_REASON_WIDE_SPREAD;
		else
			out->action = SLUICE_ACTION_LEAVE;
	}
	if (is_enforced)
		check_tokens_fit (situation->policy, submission, out);
}
