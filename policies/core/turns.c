/*
 * One sort by index, then one walk in that order, in which each burst that goes takes its
 * shares of the stations. Sums are made in that order too, so that the order in which jobs
 * are listed does not show in the last bit.
 */
#include "turns_stations.h"

#include <math.h>
#include <string.h>

static const double rounding = 1e-9;	/* of a share */
static const double max_overfill = 0.1; /* of a station that it loads little */
static const double min_share = 1e-6;	/* of a station; keeps the index finite */
static const double min_left = 1e-6;	/* s */
static const double least_left = 1.0;	/* s of a run's budget: less counts as none */
static const double call_seconds = 1.0; /* of a call that writes, at most but for few */

/* What bursts take together. */
struct sums {
	double of[MOST_STATIONS];     /* but for those whose targets are known, of lanes */
	struct turns_target_sums *on; /* NULL: no burst's targets are known */
};

struct turns {
	const struct sluice_turns_settings *settings;
	const struct sluice_turns_storage *storage;
	const struct sluice_turns_job *jobs;
	uint32_t *order;
	uint32_t n;
	struct sluice_turn *out;
	double clock;
	uint32_t station_count;
	struct sums wanted; /* by all */
	struct sums taken;  /* by those that go, so far */
	struct sums brief;  /* by those of them that are short */
};

void
sluice_turns_settings_init (struct sluice_turns_settings *settings)
{
#define SET(member, value, low, high, text) settings->member = value;
	SLUICE_TURNS_SETTINGS (SET)
#undef SET
}

int
sluice_turns_settings_check (const struct sluice_turns_settings *settings,
			     struct sluice_error *err)
{
#define CHECK(member, value, low, high, text)                                              \
	if (!(settings->member >= (low) && settings->member <= (high)))                    \
		return sluice_fail (err, "%s of turns is %g; give %g to %g", #member,      \
				    settings->member, (double)(low), (double)(high));
	SLUICE_TURNS_SETTINGS (CHECK)
#undef CHECK
	return 0;
}

#define REASON_NAME(name, json) json,

const char *
sluice_turn_reason_name (unsigned int reason)
{
	static const char *const names[] = { SLUICE_TURN_REASONS (REASON_NAME) };
	return reason < SLUICE_TURN_REASON_COUNT ? names[reason] : "?";
}

/* s; 0: unknown. */
static double
expected_of (const struct sluice_turns_job *job)
{
	return job->expected >= min_left ? turns_sane (job->expected) : 0.0;
}

/* Seconds at full speed that are left of a burst; *level: up to how much done that holds.
 */
static double
left_of (const struct sluice_turns_job *job, double quantum, double *level)
{
	double done = turns_sane (job->done), expected = expected_of (job);
	if (expected > 0.0 && done < expected * (1.0 - rounding)) {
		*level = expected;
		return larger (expected - done, 0.05 * expected);
	}
	double unit = expected > 0.0 ? expected : quantum;
	double ratio = done / unit * (1.0 + 2.0 * rounding);
	if (expected > 0.0) {
		double step = ldexp (unit, ilogb (ratio));
		*level = 2.0 * step;
		return 0.5 * step;
	}
	*level = ratio < 1.0 ? unit : ldexp (unit, ilogb (ratio) + 1);
	return *level;
}

static double
index_of (const struct sluice_turns_job *job, double share, double left)
{
	double nodes = turns_sane (job->nodes);
	return (nodes >= min_share ? nodes : 1.0)
	       / (larger (share, min_share) * larger (left, min_left));
}

void
sluice_turns_leave (struct sluice_turns_job *job, double left)
{
	int is_some = left >= least_left;
	job->most_held = job->held + (is_some ? left : 0.0);
	if (!is_some && job->held <= 0.0)
		job->flags |= SLUICE_TURNS_EXEMPT;
}

/* s for which a burst may be held in all. It grows in steps: if it grew with what is done,
 * a burst whose budget ends would be released and held again without end. */
static double
budget_of (const struct turns *t, const struct sluice_turns_job *job)
{
	double level;
	left_of (job, t->settings->quantum, &level);
	return smaller (t->settings->budget * level, turns_sane (job->most_held));
}

double
sluice_turns_respite (const struct sluice_turns_settings *settings)
{
	return call_seconds + 2.0 * settings->latency;
}

void
sluice_turns_pass (double respite, double share, double seconds, double *stretch,
		   double *went)
{
	if (!(seconds > 0.0))
		return;
	*went = share > 0.0 ? *went + seconds : 0.0;
	if (share <= 0.0)
		*stretch += seconds;
	else if (*went >= respite * (1.0 - rounding))
		*stretch = 0.0;
}

/* s for which a burst may still be held at this stretch; 0: it goes for a moment. */
static double
left_of_stretch (const struct turns *t, const struct sluice_turns_job *job)
{
	double left = t->settings->hold - turns_sane (job->stretch);
	return left > t->settings->hold * rounding ? left : 0.0;
}

/* Seconds done up to which a burst counts as short; 0: it is not. One of which nothing is
 * expected is, until it has lasted; so is one that is a little longer than expected. */
static double
short_until (const struct turns *t, const struct sluice_turns_job *job)
{
	double guard = t->settings->guard * t->settings->latency;
	double expected = expected_of (job);
	if (!(expected > 0.0))
		return guard;
	return expected < guard ? 2.0 * expected : 0.0;
}

/* Seconds by which a burst shows its length: those done, and where nothing is expected also
 * those for which it went, which others may have slowed. */
static double
shown_length (const struct turns *t, const struct sluice_turns_job *job)
{
	double done = turns_sane (job->done);
	double went = turns_sane (t->clock - job->began) - turns_sane (job->held);
	return expected_of (job) > 0.0 ? done : larger (done, went);
}

static int
is_short (const struct turns *t, const struct sluice_turns_job *job)
{
	return shown_length (t, job) < short_until (t, job);
}

static int
is_before (const struct turns *t, uint32_t a, uint32_t b)
{
	double x = t->out[a].index, y = t->out[b].index;
	if (x < y || x > y)
		return x > y;
	x = turns_sane (t->jobs[a].began);
	y = turns_sane (t->jobs[b].began);
	if (x < y || x > y)
		return x < y;
	return t->jobs[a].key < t->jobs[b].key;
}

static void
sift (struct turns *t, uint32_t at, uint32_t n)
{
	uint32_t moved = t->order[at];
	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && is_before (t, t->order[child], t->order[child + 1]))
			child++;
		if (!is_before (t, moved, t->order[child]))
			break;
		t->order[at] = t->order[child];
	}
	t->order[at] = moved;
}

/* Heapsort: bounded for every input, and in place. */
static void
sort (struct turns *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		t->order[i] = i;
	for (uint32_t i = t->n / 2; i-- > 0;)
		sift (t, i, t->n);
	for (uint32_t i = t->n; i-- > 1;) {
		uint32_t first = t->order[0];
		t->order[0] = t->order[i];
		t->order[i] = first;
		sift (t, 0, i);
	}
}

static void
add (const struct turns *t, struct sums *sum, const struct turns_shares *shares)
{
	for (uint32_t k = 0; k < t->station_count; k++)
		sum->of[k] += shares->of[k];
	if (shares->targets)
		turns_add_targets (sum->on, shares);
}

/* Of a station, in the mean of its targets. */
static double
load_of (const struct turns *t, const struct sums *sum, uint32_t k)
{
	uint32_t lane = k / LANE_STATIONS, i = k % LANE_STATIONS;
	int is_of_targets = k + 1 < t->station_count && i < TARGET_STATIONS;
	return sum->on && is_of_targets ? sum->of[k] + sum->on->of_lane[lane][i]
					: sum->of[k];
}

/* Of the fullest of a burst's targets. */
static double
load_of_targets (const struct sums *sum, const struct turns_shares *want, int i)
{
	double most = 0.0;
	for
		TURNS_EACH_TARGET (t, want)
	most = larger (most, sum->on->of[want->first_target + t][i]);
	return most + sum->of[LANE_STATIONS * want->lane + (uint32_t)i];
}

/* The part of a share that fits into a room; most: of the burst's fullest station. For a
 * little of another, it is not slowed down. */
static double
part_of (double share, double room, double most)
{
	int is_minor = share < 0.5 * most && share <= room + max_overfill;
	return share > 0.0 && !is_minor ? room / share : 1.0;
}

/* The part of what a job wants that fits alongside those that go already. */
static double
part_that_fits (const struct turns *t, const struct turns_shares *want, double most)
{
	double part = 1.0;
	for (uint32_t k = 0; k < t->station_count; k++)
		part = smaller (
		    part, part_of (want->of[k], 1.0 - load_of (t, &t->taken, k), most));
	for (int i = 0; want->targets && i < TARGET_STATIONS; i++)
		part = smaller (part,
				part_of (want->of_target[i],
					 1.0 - load_of_targets (&t->taken, want, i), most));
	return part;
}

/* Whether all bursts together want more than a station of this job has. */
static int
is_full (const struct turns *t, const struct turns_shares *want)
{
	int full = 0;
	for (uint32_t k = 0; k < t->station_count; k++)
		full |= want->of[k] > 0.0 && load_of (t, &t->wanted, k) > 1.0 + rounding;
	for (int i = 0; want->targets && i < TARGET_STATIONS; i++)
		full |= want->of_target[i] > 0.0
			&& load_of_targets (&t->wanted, want, i) > 1.0 + rounding;
	return full;
}

/* The speed of one of which so much fits. */
static double
pace_of (const struct turns *t, double part)
{
	double pace = part * t->settings->pace;
	return t->settings->pace > 0.0 && pace < 1.0 - rounding ? pace : 1.0;
}

/* Why a job on a full station goes on of which so much fits; BEHIND: it does not. */
static enum sluice_turn_reason
judge (const struct turns *t, const struct sluice_turns_job *job, double part)
{
	int fits = part >= t->settings->fit * (1.0 - rounding);
	if (is_short (t, job))
		return SLUICE_TURN_SHORT;
	if (part >= 1.0 - rounding || (fits && pace_of (t, part) >= 1.0))
		return SLUICE_TURN_IN_ORDER;
	if (job->flags & SLUICE_TURNS_EXEMPT)
		return SLUICE_TURN_EXEMPT;
	if (!(turns_sane (job->held) < budget_of (t, job) * (1.0 - rounding)))
		return SLUICE_TURN_BUDGET;
	if (fits)
		return SLUICE_TURN_PARTLY;
	return left_of_stretch (t, job) > 0.0 ? SLUICE_TURN_BEHIND : SLUICE_TURN_STRETCH;
}

static void
slow_down (const struct turns *t, uint32_t i, double share)
{
	const struct sluice_turns_job *job = &t->jobs[i];
	struct sluice_turn *turn = &t->out[i];
	turn->share = share;
	turn->until
	    = t->clock + (budget_of (t, job) - turns_sane (job->held)) / (1.0 - share);
}

/* Whether others wait for a short burst: only while such bursts take little. */
static int
takes_room (struct turns *t, const struct turns_shares *want)
{
	double most = t->settings->brief;
	for (uint32_t k = 0; k < t->station_count; k++)
		if (want->of[k] > 0.0 && load_of (t, &t->brief, k) + want->of[k] > most)
			return 0;
	for (int i = 0; want->targets && i < TARGET_STATIONS; i++)
		if (want->of_target[i] > 0.0
		    && load_of_targets (&t->brief, want, i) + want->of_target[i] > most)
			return 0;
	add (t, &t->brief, want);
	return 1;
}

/* Reserve what a burst takes at the speed of its verdict. Returns the clock at which that
 * may change. */
static double
reserve (struct turns *t, uint32_t i, struct turns_shares *want)
{
	const struct sluice_turns_job *job = &t->jobs[i];
	const struct sluice_turn *turn = &t->out[i];
	double level;
	double part = smaller (1.0, turn->share / want->speed);
	for (uint32_t k = 0; k < t->station_count; k++)
		want->of[k] *= part;
	for (int i = 0; want->targets && i < TARGET_STATIONS; i++) {
		want->of_lane[i] *= part;
		want->of_target[i] *= part;
	}
	if (turn->reason != SLUICE_TURN_SHORT || takes_room (t, want))
		add (t, &t->taken, want);
	left_of (job, t->settings->quantum, &level);
	double reached = turns_sane (job->done);
	if (turn->reason == SLUICE_TURN_SHORT) {
		level = short_until (t, job);
		reached = shown_length (t, job);
	}
	/* It may be slower than full speed: do not ask in ever shorter steps. That a burst
	 * is longer than expected, not over, is known a latency later. */
	double again = larger (level - reached, 0.02 * level) + t->settings->latency;
	if (turn->reason == SLUICE_TURN_STRETCH)
		again = smaller (again, larger (sluice_turns_respite (t->settings)
						    - turns_sane (job->went),
						0.0));
	return smaller (turn->until, t->clock + again);
}

/* Decide on the next in the order. Returns the clock at which its verdict may change. */
static double
decide_next (struct turns *t, uint32_t i)
{
	const struct sluice_turns_job *job = &t->jobs[i];
	struct sluice_turn *turn = &t->out[i];
	struct turns_shares want;

	double most = turns_want (t->storage, job, &want);
	turn->reason = SLUICE_TURN_NOT_FULL;
	if (!is_full (t, &want))
		return INFINITY;
	double part = part_that_fits (t, &want, most);
	turn->reason = judge (t, job, part);
	if (turn->reason == SLUICE_TURN_BEHIND) {
		slow_down (t, i, 0.0);
		return smaller (turn->until, t->clock + left_of_stretch (t, job));
	}
	if (turn->reason == SLUICE_TURN_PARTLY)
		slow_down (t, i, pace_of (t, part) * want.speed);
	return reserve (t, i, &want);
}

/* Put all in order, and sum up what they want. */
static void
sort_by_index (struct turns *t)
{
	struct turns_shares want;
	for (uint32_t i = 0; i < t->n; i++) {
		double level, share = turns_want (t->storage, &t->jobs[i], &want);
		double left = left_of (&t->jobs[i], t->settings->quantum, &level);
		t->out[i] = (struct sluice_turn){
			.index = index_of (&t->jobs[i], share, left),
			.share = 1.0,
			.until = INFINITY,
			.saving = NAN,
			.first = SLUICE_TURN_NO_BURST,
		};
	}
	sort (t);
	for (uint32_t k = 0; k < t->n; k++) {
		turns_want (t->storage, &t->jobs[t->order[k]], &want);
		add (t, &t->wanted, &want);
	}
}

/* ---- the ledger: which burst each hold is for, and what it saves ---- */

/* Of the bursts that go on a lane, the one that takes most. */
struct leader {
	uint32_t burst;
	double taken;
	double nodes; /* of all that go there */
};

static int
takes_more (const struct turns *t, struct leader a, struct leader b)
{
	if (b.burst == SLUICE_TURN_NO_BURST || a.taken > b.taken || a.taken < b.taken)
		return b.burst == SLUICE_TURN_NO_BURST || a.taken > b.taken;
	double x = t->out[a.burst].index, y = t->out[b.burst].index;
	return x > y || (!(x < y) && t->jobs[a.burst].key < t->jobs[b.burst].key);
}

struct leaders {
	struct leader of_lane[SLUICE_MAX_LANES];
	/* where targets are known: among those that write evenly, and of each target */
	struct leader even[SLUICE_MAX_LANES], of_target[SLUICE_TURNS_TARGETS];
};

static const struct leader no_leader = { .burst = SLUICE_TURN_NO_BURST };

static void
lead (const struct turns *t, struct leader one, struct leader *leader)
{
	one.nodes = leader->nodes + turns_sane (t->jobs[one.burst].nodes);
	if (takes_more (t, one, *leader))
		*leader = one;
	leader->nodes = one.nodes;
}

static void
lead_on_lanes (const struct turns *t, struct leader one,
	       struct leader leaders[SLUICE_MAX_LANES])
{
	uint32_t mask = t->jobs[one.burst].lane_mask;
	for (uint32_t rest = sluice_turns_lanes (t->storage, mask); rest; rest &= rest - 1U)
		lead (t, one, &leaders[__builtin_ctz (rest)]);
}

static void
find_leaders (const struct turns *t, struct leaders *leaders)
{
	struct turns_shares want;
	for (uint32_t k = 0; k < SLUICE_MAX_LANES; k++)
		leaders->of_lane[k] = leaders->even[k] = no_leader;
	for (uint32_t k = 0; t->wanted.on && k < SLUICE_TURNS_TARGETS; k++)
		leaders->of_target[k] = no_leader;
	for (uint32_t i = 0; i < t->n; i++) {
		struct leader one
		    = { i, turns_taken (t->storage, &t->jobs[i], &t->out[i]), 0.0 };
		if (!(one.taken > 0.0))
			continue;
		lead_on_lanes (t, one, leaders->of_lane);
		if (!t->wanted.on)
			continue;
		turns_want (t->storage, &t->jobs[i], &want);
		if (!want.targets)
			lead_on_lanes (t, one, leaders->even);
		else
			for
				TURNS_EACH_TARGET (k, &want)
		lead (t, one, &leaders->of_target[want.first_target + k]);
	}
}

static void
consider (const struct turns *t, struct leader here, uint32_t held, struct leader *most)
{
	if (here.burst != SLUICE_TURN_NO_BURST && here.burst != held
	    && takes_more (t, here, *most))
		*most = here;
}

static struct leader
leader_of (const struct turns *t, const struct leaders *leaders, uint32_t held)
{
	struct leader most = no_leader;
	struct turns_shares want;
	turns_want (t->storage, &t->jobs[held], &want);
	uint32_t lanes = sluice_turns_lanes (t->storage, t->jobs[held].lane_mask);
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		int lane = __builtin_ctz (rest);
		consider (t, want.targets ? leaders->even[lane] : leaders->of_lane[lane],
			  held, &most);
	}
	if (want.targets)
		for
			TURNS_EACH_TARGET (k, &want)
	consider (t, leaders->of_target[want.first_target + k], held, &most);
	return most;
}

/* By how much a station would be overloaded if one that has a share of what it wants had
 * all of it. */
static double
excess_with (const struct turns *t, const struct turns_shares *want, double share)
{
	double most = 0.0, more = 1.0 - share;
	for (uint32_t k = 0; k < t->station_count; k++)
		if (want->of[k] > 0.0)
			most = larger (most, load_of (t, &t->taken, k) + more * want->of[k]
						 - 1.0);
	for (int i = 0; want->targets && i < TARGET_STATIONS; i++)
		if (want->of_target[i] > 0.0)
			most = larger (most, load_of_targets (&t->taken, want, i)
						 + more * want->of_target[i] - 1.0);
	return most;
}

/*
 * Node-seconds that a hold saves. If the burst went as well, a station would be overloaded
 * by `excess`, and until the shorter rest is over it and those that go would lose as much
 * of their time. Held, it waits for the rest of the one that takes most.
 */
static double
saving_of (const struct turns *t, uint32_t held, const struct leader *first)
{
	const struct sluice_turns_job *a = &t->jobs[held], *b = &t->jobs[first->burst];
	const struct sluice_turn *turn = &t->out[held];
	double level, own = left_of (a, t->settings->quantum, &level),
		      other = left_of (b, t->settings->quantum, &level);
	struct turns_shares want;
	if (!(expected_of (a) > 0.0) || !(expected_of (b) > 0.0))
		return NAN;
	turns_want (t->storage, a, &want);
	double share = smaller (1.0, turn->share / want.speed);
	double nodes = turns_sane (a->nodes), sharing = first->nodes;
	if (!(turns_taken (t->storage, a, turn) > 0.0)) /* not yet among those that go */
		sharing += nodes;
	double waits = share > 0.0 ? smaller (other, own / share) : other;
	return sharing * smaller (own, other) * excess_with (t, &want, share)
	       - nodes * (1.0 - share) * waits;
}

/* A hold that is known to save nothing is none. */
static void
record_hold (const struct turns *t, uint32_t held, const struct leader *first)
{
	struct sluice_turn *turn = &t->out[held];
	double saving = saving_of (t, held, first);
	if (saving <= 0.0) {
		turn->reason = SLUICE_TURN_NO_GAIN;
		turn->share = 1.0;
		turn->until = INFINITY;
		return;
	}
	turn->first = first->burst;
	turn->saving = saving;
}

static void
record_holds (struct turns *t)
{
	struct leaders leaders;
	find_leaders (t, &leaders);
	for (uint32_t i = 0; i < t->n; i++) {
		if (!(t->out[i].share < 1.0))
			continue;
		struct leader first = leader_of (t, &leaders, i);
		if (first.burst != SLUICE_TURN_NO_BURST)
			record_hold (t, i, &first);
	}
}

double
sluice_turns_decide (const struct sluice_turns_settings *settings,
		     const struct sluice_turns_storage *storage,
		     const struct sluice_turns_job *jobs, uint32_t n, double clock,
		     uint32_t *scratch, struct sluice_turn *out)
{
	struct turns t = {
		.settings = settings,
		.storage = storage,
		.jobs = jobs,
		.order = scratch,
		.n = n,
		.out = out,
		.clock = clock,
		.station_count = turns_station_count (storage),
	};
	struct turns_target_sums on[3];
	double again = INFINITY;
	if (turns_know_targets (jobs, n)) {
		memset (on, 0, sizeof on);
		t.wanted.on = &on[0];
		t.taken.on = &on[1];
		t.brief.on = &on[2];
	}
	sort_by_index (&t);
	for (uint32_t k = 0; k < n; k++)
		again = smaller (again, decide_next (&t, t.order[k]));
	record_holds (&t);
	return again;
}

/* Mean of min (x r, y), r being uniform in 0..most. */
static double
mean_of_least (double x, double most, double y)
{
	double turning = y / x;
	if (turning >= most)
		return 0.5 * x * most;
	return y * (1.0 - 0.5 * turning / most);
}

double
sluice_turns_pair_share (struct sluice_turns_party a, struct sluice_turns_party b)
{
	if (!(a.burst > 0.0 && b.burst > 0.0))
		a.burst = b.burst = 1.0;
	/* One finds the other in its burst in proportion to how long that is. */
	double ordered = b.burst * mean_of_least (a.nodes, b.burst, b.nodes * a.burst)
			 + a.burst * mean_of_least (b.nodes, a.burst, a.nodes * b.burst);
	double shared = b.burst * mean_of_least (1.0, b.burst, a.burst)
			+ a.burst * mean_of_least (1.0, a.burst, b.burst);
	return ordered / ((a.nodes + b.nodes) * shared);
}
