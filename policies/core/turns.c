/*
 * One sort by index, then one walk in that order, in which each burst that goes takes its
 * shares of the stations. Sums are made in that order too, so that the order in which jobs
 * are listed does not show in the last bit.
 */
#include "turns.h"

#include <math.h>

#include "load.h"

enum { LANE_STATIONS = SLUICE_STATION_METADATA }; /* all but the metadata server */

static const double slack = 1e-9;	   /* of a share: rounding */
static const double little = 0.1;	   /* of a station: to be overfilled by */
static const double costly = 0.05;	   /* a switch_cost from which switching counts */
static const double lightest = 0.001;	   /* a weight; servers have few digits */
static const double smallest_share = 1e-6; /* of a station; keeps the index finite */
static const double shortest_left = 1e-6;  /* s */
static const double largest = 1e18;	   /* of any number that is given */

/* Shares taken of each station. */
struct stations {
	double lanes[SLUICE_MAX_LANES][LANE_STATIONS];
	double metadata;
};

struct turns {
	const struct sluice_turns_settings *settings;
	const struct sluice_turns_storage *storage;
	const struct sluice_turns_job *jobs;
	uint32_t *order;
	uint32_t n;
	struct sluice_turn *out;
	double clock;
	struct stations taken;	/* by those that go, so far */
	struct stations wanted; /* by all */
	double top;		/* index of the first whom a full station touches */
	uint32_t held;
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

/* A number that was given; nonsense counts as 0. */
static double
sane (double value)
{
	return value > 0.0 ? smaller (value, largest) : 0.0;
}

static uint32_t
lanes_of (const struct turns *t, const struct sluice_turns_job *job)
{
	uint32_t all = (1U << t->storage->lane_count) - 1U;
	return job->lane_mask & all ? job->lane_mask & all : all;
}

static double
capacity_of (const struct sluice_turns_lane *lane, int station)
{
	const double capacities[] = { lane->bytes, lane->operations, lane->links };
	return capacities[station];
}

/* s; 0: unknown. */
static double
expected_of (const struct sluice_turns_job *job)
{
	return job->expected >= shortest_left ? sane (job->expected) : 0.0;
}

static double
share_of (double demand, double capacity)
{
	return capacity > 0.0 ? smaller (sane (demand) / capacity, largest) : 0.0;
}

/* Set what a job takes of each station if nobody is in its way. Returns the largest. */
static double
want (const struct turns *t, const struct sluice_turns_job *job, struct stations *out)
{
	double targets = 0.0, most = 0.0;
	for (uint32_t rest = lanes_of (t, job); rest; rest &= rest - 1U)
		targets += sane (t->storage->lanes[__builtin_ctz (rest)].targets);
	for (uint32_t rest = lanes_of (t, job); rest; rest &= rest - 1U) {
		int lane = __builtin_ctz (rest);
		const struct sluice_turns_lane *here = &t->storage->lanes[lane];
		double part = targets > 0.0 ? sane (here->targets) / targets : 0.0;
		for (int i = 0; i < LANE_STATIONS; i++) {
			double share
			    = part * share_of (job->demand[i], capacity_of (here, i));
			out->lanes[lane][i] = share;
			most = larger (most, share);
		}
	}
	out->metadata
	    = share_of (job->demand[SLUICE_STATION_METADATA], t->storage->metadata);
	return larger (most, out->metadata);
}

static void
scale (struct stations *shares, uint32_t lanes, double factor)
{
	for (uint32_t rest = lanes; rest; rest &= rest - 1U)
		for (int i = 0; i < LANE_STATIONS; i++)
			shares->lanes[__builtin_ctz (rest)][i] *= factor;
	shares->metadata *= factor;
}

/* The same for a job that cannot take more than all: its fullest station bounds it. */
static double
want_at_most_all (const struct turns *t, const struct sluice_turns_job *job,
		  struct stations *out)
{
	double most = want (t, job, out);
	if (!(most > 1.0))
		return most;
	scale (out, lanes_of (t, job), 1.0 / most);
	return 1.0;
}

static void
add (struct stations *sum, const struct stations *shares, uint32_t lanes)
{
	for (uint32_t rest = lanes; rest; rest &= rest - 1U)
		for (int i = 0; i < LANE_STATIONS; i++)
			sum->lanes[__builtin_ctz (rest)][i]
			    += shares->lanes[__builtin_ctz (rest)][i];
	sum->metadata += shares->metadata;
}

/* Seconds at full speed that are left of a burst; *level: up to how much done that holds.
 */
static double
left_of (const struct sluice_turns_job *job, double quantum, double *level)
{
	double done = sane (job->done), expected = expected_of (job);
	if (expected > 0.0 && done < expected * (1.0 - slack)) {
		*level = expected;
		return larger (expected - done, 0.05 * expected);
	}
	double unit = expected > 0.0 ? expected : quantum;
	double ratio = done / unit * (1.0 + 2.0 * slack);
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
	double nodes = sane (job->nodes);
	return (nodes >= smallest_share ? nodes : 1.0)
	       / (larger (share, smallest_share) * larger (left, shortest_left));
}

/* s for which a burst may be held in all. It grows in steps: if it grew with what is done,
 * a burst whose budget ends would be released and held again without end. */
static double
budget_of (const struct turns *t, const struct sluice_turns_job *job)
{
	double level;
	left_of (job, t->settings->quantum, &level);
	return smaller (t->settings->budget * level, sane (job->most_held));
}

static int
is_short (const struct turns *t, const struct sluice_turns_job *job)
{
	double expected = expected_of (job);
	return expected > 0.0 && expected < t->settings->guard * t->settings->latency
	       && sane (job->done) < 2.0 * expected;
}

static int
is_before (const struct turns *t, uint32_t a, uint32_t b)
{
	double x = t->out[a].index, y = t->out[b].index;
	if (x < y || x > y)
		return x > y;
	x = sane (t->jobs[a].began);
	y = sane (t->jobs[b].began);
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

/* What a job finds alongside those who go already. */
struct room {
	double part; /* of what it wants, that fits; 1: all */
	double over; /* by how much it would overfill a station */
};

static void
find_room (struct room *room, double want, double taken)
{
	if (!(want > 0.0))
		return;
	room->part = smaller (room->part, (1.0 - taken) / want);
	room->over = larger (room->over, taken + want - 1.0);
}

static struct room
room_for (const struct turns *t, const struct stations *want, uint32_t lanes)
{
	struct room room = { 1.0, 0.0 };
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		int lane = __builtin_ctz (rest);
		for (int i = 0; i < LANE_STATIONS; i++)
			find_room (&room, want->lanes[lane][i], t->taken.lanes[lane][i]);
	}
	find_room (&room, want->metadata, t->taken.metadata);
	return room;
}

/* Whether all of what everybody wants fits where this job is. */
static int
is_full (const struct turns *t, const struct stations *want, uint32_t lanes)
{
	int full = want->metadata > 0.0 && t->wanted.metadata > 1.0 + slack;
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		int lane = __builtin_ctz (rest);
		for (int i = 0; i < LANE_STATIONS; i++)
			full |= want->lanes[lane][i] > 0.0
				&& t->wanted.lanes[lane][i] > 1.0 + slack;
	}
	return full;
}

static int
is_costly (const struct turns *t, uint32_t lanes)
{
	for (uint32_t rest = lanes; rest; rest &= rest - 1U)
		if (t->storage->lanes[__builtin_ctz (rest)].switch_cost >= costly)
			return 1;
	return 0;
}

static int
is_weighed (const struct turns *t, uint32_t lanes)
{
	int can = t->settings->weigh > 0.5;
	for (uint32_t rest = lanes; rest; rest &= rest - 1U)
		can &= t->storage->lanes[__builtin_ctz (rest)].can_weigh != 0;
	return can;
}

/* Whether one that finds so much room goes at full speed all the same: it disturbs the
 * others but little, or would hardly be slowed. */
static int
is_unpaced (const struct turns *t, struct room room)
{
	return !(t->settings->pace > 0.0) || room.over <= little
	       || room.part * t->settings->pace >= 1.0 - slack;
}

/* Why a job on a full station goes on that finds so much room; BEHIND: it does not. */
static enum sluice_turn_reason
judge (const struct turns *t, const struct sluice_turns_job *job, struct room room)
{
	uint32_t lanes = lanes_of (t, job);
	double fit = is_costly (t, lanes) ? t->settings->fit_costly : t->settings->fit;
	int fits = room.part >= fit * (1.0 - slack);
	if (is_weighed (t, lanes))
		return SLUICE_TURN_WEIGHED;
	if (room.part >= 1.0 - slack || (fits && is_unpaced (t, room)))
		return SLUICE_TURN_IN_ORDER;
	if (job->flags & SLUICE_TURNS_EXEMPT)
		return SLUICE_TURN_EXEMPT;
	if (is_short (t, job))
		return SLUICE_TURN_SHORT;
	if (!(sane (job->held) < budget_of (t, job) * (1.0 - slack)))
		return SLUICE_TURN_BUDGET;
	return fits ? SLUICE_TURN_PARTLY : SLUICE_TURN_BEHIND;
}

static void
slow_down (const struct turns *t, uint32_t i, double share)
{
	const struct sluice_turns_job *job = &t->jobs[i];
	struct sluice_turn *turn = &t->out[i];
	turn->action = share > 0.0 ? SLUICE_TURN_TRICKLE : SLUICE_TURN_HOLD;
	turn->share = share;
	turn->until = t->clock + (budget_of (t, job) - sane (job->held)) / (1.0 - share);
}

static double
weight_of (const struct turns *t, double index)
{
	return larger (lightest, pow (index / t->top, t->settings->exponent));
}

/* Decide on the next in the order. Returns the clock at which its verdict may change. */
static double
give_turn (struct turns *t, uint32_t i)
{
	const struct sluice_turns_job *job = &t->jobs[i];
	struct sluice_turn *turn = &t->out[i];
	struct stations want;
	double level;

	want_at_most_all (t, job, &want);
	turn->reason = SLUICE_TURN_NOT_FULL;
	if (!is_full (t, &want, lanes_of (t, job)))
		return INFINITY;
	t->top = t->top > 0.0 ? t->top : turn->index;
	struct room room = room_for (t, &want, lanes_of (t, job));
	turn->reason = judge (t, job, room);
	if (turn->reason == SLUICE_TURN_WEIGHED)
		turn->weight = weight_of (t, turn->index);
	if (turn->reason == SLUICE_TURN_BEHIND) {
		slow_down (t, i, 0.0);
		t->held++;
		return turn->until;
	}
	if (turn->reason == SLUICE_TURN_PARTLY) {
		slow_down (t, i, room.part * t->settings->pace);
		scale (&want, lanes_of (t, job), turn->share);
	}
	add (&t->taken, &want, lanes_of (t, job));
	left_of (job, t->settings->quantum, &level);
	/* It may be slower than full speed: do not ask in ever shorter steps. That a burst
	 * is longer than expected, not over, is seen a latency later. */
	double crossing = larger (level - sane (job->done), 0.02 * level);
	return smaller (turn->until, t->clock + crossing + t->settings->latency);
}

/* Leave a little to those who are held, in equal shares of what they fill. */
static void
trickle (struct turns *t)
{
	struct stations want;
	for (uint32_t k = 0; k < t->n && t->held && t->settings->trickle > 0.0; k++) {
		const struct sluice_turns_job *job = &t->jobs[k];
		struct sluice_turn *turn = &t->out[k];
		if (turn->action != SLUICE_TURN_HOLD || is_costly (t, lanes_of (t, job)))
			continue;
		double most = larger (want_at_most_all (t, job, &want), smallest_share);
		slow_down (t, k, smaller (0.999, t->settings->trickle / t->held / most));
	}
}

/* Put all in order, and sum up what they want. */
static void
line_up (struct turns *t)
{
	struct stations want;
	for (uint32_t i = 0; i < t->n; i++) {
		double level, share = want_at_most_all (t, &t->jobs[i], &want);
		double left = left_of (&t->jobs[i], t->settings->quantum, &level);
		t->out[i] = (struct sluice_turn){
			.index = index_of (&t->jobs[i], share, left),
			.share = 1.0,
			.weight = 1.0,
			.until = INFINITY,
		};
	}
	sort (t);
	for (uint32_t k = 0; k < t->n; k++) {
		const struct sluice_turns_job *job = &t->jobs[t->order[k]];
		want_at_most_all (t, job, &want);
		add (&t->wanted, &want, lanes_of (t, job));
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
	};
	double again = INFINITY;
	line_up (&t);
	for (uint32_t k = 0; k < n; k++)
		again = smaller (again, give_turn (&t, t.order[k]));
	trickle (&t);
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
