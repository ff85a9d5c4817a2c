#include "turns_check.h"

#include <math.h>
#include <string.h>

#include "turns_stations.h"

static const double min_trial_seconds = 2.0; /* nodes report once a second */
static const double half_life_seconds
    = 28800.0;				   /* in which evidence loses half of its weight */
static const double max_trials = 16.0;	   /* of which evidence is the sum */
static const double min_noise = 0.05;	   /* of a speed that is measured */
static const double min_harm = 3.0;	   /* sd */
static const double min_pair_trials = 1.5; /* that may show harm */
static const double min_lane_trials = 3.5; /* likewise: its pairs differ */
static const double max_doubtful_trials = 6.0; /* without help by one sd */
static const double trial_pause
    = 20.0; /* lengths of a trial to the next one, if it helped */

enum { WAYS = 4 }; /* places of the table that a pair may have */

/* ---- evidence ---- */

static struct sluice_turns_evidence
faded (const struct sluice_turns_evidence *evidence, double clock)
{
	struct sluice_turns_evidence now = *evidence;
	double left = exp2 (-larger (0.0, clock - evidence->faded) / half_life_seconds);
	now.harm *= left;
	now.squares *= left;
	now.noise *= left;
	now.trials *= left;
	now.faded = clock;
	return now;
}

/* Harm, in its own sd: at least what measuring leaves, or as much as trials differ. */
static double
certainty (const struct sluice_turns_evidence *now)
{
	double noise = now->noise;
	if (now->trials > min_pair_trials) {
		double spread = now->squares - now->harm * now->harm / now->trials;
		noise = larger (noise, spread * now->trials / (now->trials - 1.0));
	}
	return noise > 0.0 ? now->harm / sqrt (noise) : 0.0;
}

int
sluice_turns_has_stopped (const struct sluice_turns_evidence *evidence, double clock)
{
	struct sluice_turns_evidence now = faded (evidence, clock);
	double sd = certainty (&now);
	return (now.trials >= min_pair_trials && sd > min_harm)
	       || (now.trials >= max_doubtful_trials && sd > -1.0);
}

/* Pairs differ: a lane stops only where its harm is sure. */
static int
lane_has_stopped (const struct sluice_turns_evidence *evidence, double clock)
{
	struct sluice_turns_evidence now = faded (evidence, clock);
	return now.trials >= min_lane_trials && certainty (&now) > min_harm;
}

static void
add_trial (struct sluice_turns_evidence *evidence, double harm, double noise, double clock,
	   double pause)
{
	struct sluice_turns_evidence now = faded (evidence, clock);
	now.harm += harm;
	now.squares += harm * harm;
	now.noise += noise * noise;
	now.trials += 1.0;
	double left = smaller (1.0, max_trials / now.trials);
	now.harm *= left;
	now.squares *= left;
	now.noise *= left;
	now.trials *= left;
	/* What harms is tried again at once. */
	now.due = harm > 0.0 ? clock : clock + pause * exp2 (now.trials - 1.0);
	*evidence = now;
}

/* ---- pairs of programs ---- */

static struct sluice_turns_pair *
set_of (struct sluice_turns_check *check, uint64_t first, uint64_t held)
{
	uint64_t both[2] = { first, held };
	uint64_t hash = sluice_hash_bytes (both, sizeof both, 0);
	return &check->pairs[hash % (SLUICE_TURNS_PAIRS / WAYS) * WAYS];
}

static struct sluice_turns_pair *
find_pair (struct sluice_turns_check *check, uint64_t first, uint64_t held)
{
	struct sluice_turns_pair *set = set_of (check, first, held);
	for (int i = 0; i < WAYS; i++)
		if (set[i].is_used && set[i].first == first && set[i].held == held)
			return &set[i];
	return NULL;
}

/* In place of the one of which least is known. */
static struct sluice_turns_pair *
make_pair (struct sluice_turns_check *check, uint64_t first, uint64_t held, double clock)
{
	struct sluice_turns_pair *set = set_of (check, first, held), *least = set;
	double fewest = INFINITY;
	for (int i = 0; i < WAYS; i++) {
		double trials = faded (&set[i].evidence, clock).trials;
		if (trials < fewest) {
			fewest = trials;
			least = &set[i];
		}
	}
	*least = (struct sluice_turns_pair){ .first = first, .held = held, .is_used = 1 };
	return least;
}

static int32_t
size_class (double value)
{
	return value > 0.0 ? (int32_t)lround (log2 (value) / 3.0) : INT32_MIN;
}

uint64_t
sluice_turns_program (const struct sluice_profile *profile)
{
	const int32_t kind[] = {
		(int32_t)profile->pattern,
		size_class (profile->chunk_bytes),
		size_class (profile->bytes_per_flush),
		size_class (profile->creates_per_mib),
	};
	return sluice_hash_bytes (kind, sizeof kind, 0) | 1U;
}

/* ---- the bursts ---- */

struct bursts {
	const struct sluice_turns_settings *settings;
	const struct sluice_turns_storage *storage;
	const struct sluice_turns_job *jobs;
	uint32_t n;
	double clock;
	struct sluice_turns_check *check;
	struct sluice_turn *out;
};

enum { NOT_FOUND = SLUICE_TURN_NO_BURST };

static int
is_held (const struct bursts *b, uint32_t i)
{
	return b->out[i].share < 1.0;
}

static int
is_before (const struct bursts *b, uint32_t i, uint32_t other)
{
	double x = b->out[i].index, y = b->out[other].index;
	return x > y || (!(x < y) && b->jobs[i].key < b->jobs[other].key);
}

static uint32_t
lanes_of (const struct bursts *b, uint32_t i)
{
	return sluice_turns_lanes (b->storage, b->jobs[i].lane_mask);
}

static double
share_of (const struct bursts *b, uint32_t i)
{
	struct turns_shares want;
	return turns_want (b->storage, &b->jobs[i], &want);
}

static int
has_stopped (const struct bursts *b, uint32_t first, uint32_t held)
{
	const struct sluice_turns_pair *pair
	    = find_pair (b->check, b->jobs[first].program, b->jobs[held].program);
	if (pair && faded (&pair->evidence, b->clock).trials >= 0.5)
		return sluice_turns_has_stopped (&pair->evidence, b->clock);
	uint32_t lanes = lanes_of (b, first) & lanes_of (b, held);
	for (uint32_t rest = lanes; rest; rest &= rest - 1U)
		if (lane_has_stopped (&b->check->lanes[__builtin_ctz (rest)], b->clock))
			return 1;
	return 0;
}

/* ---- a trial ---- */

static double
length_of (const struct sluice_turns_settings *settings)
{
	return larger (settings->trial * settings->latency, min_trial_seconds);
}

/* Clock of a moment of the trial; the held burst goes from moment 1 to moment 3. */
static double
moment_at (const struct bursts *b, uint32_t moment)
{
	double length = length_of (b->settings), latency = b->settings->latency;
	double settled = moment < 2 ? 0.0 : larger (latency, turns_settling);
	return b->check->trial.began + larger (latency, sluice_turns_drained) + settled
	       + (moment + 1U) / 2U * length;
}

/* Whether a trial of a burst measures another. */
static int
is_other (const struct bursts *b, uint32_t i, uint32_t held)
{
	return i != held && turns_meet (b->storage, &b->jobs[i], &b->jobs[held])
	       && turns_taken (b->storage, &b->jobs[i], &b->out[i]) > 0.0;
}

static uint64_t
others_of (const struct bursts *b, uint32_t held)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < b->n; i++)
		if (is_other (b, i, held))
			sum += sluice_hash_bytes (&b->jobs[i].key, sizeof b->jobs[i].key,
						  0);
	return sum;
}

/* -1: there are too many, or it is not known how far one is. */
static int
add_measured (const struct bursts *b, uint32_t i)
{
	struct sluice_turns_trial *trial = &b->check->trial;
	if (trial->count == SLUICE_TURNS_MEASURED || !(b->jobs[i].moved >= 0.0))
		return -1;
	trial->measured[trial->count++] = (struct sluice_turns_measured){
		.key = b->jobs[i].key,
		.nodes = larger (turns_sane (b->jobs[i].nodes), 1.0),
		.share = share_of (b, i),
	};
	return 0;
}

static void
begin_trial (const struct bursts *b, uint32_t held, uint32_t first)
{
	struct sluice_turns_trial *trial = &b->check->trial;
	int failed;
	trial->count = trial->moments = 0;
	failed = add_measured (b, held) < 0;
	for (uint32_t i = 0; i < b->n && !failed; i++)
		failed = is_other (b, i, held) && add_measured (b, i) < 0;
	if (failed || trial->count < 2)
		return;
	trial->held = b->jobs[held].key;
	trial->first = b->jobs[first].key;
	trial->others = others_of (b, held);
	trial->began = b->clock;
	trial->is_on = 1;
}

static uint32_t
find_key (const struct bursts *b, uint64_t key)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (b->jobs[i].key == key)
			return i;
	return NOT_FOUND;
}

/* Measure all. -1: one is gone. */
static int
measure (const struct bursts *b)
{
	struct sluice_turns_trial *trial = &b->check->trial;
	trial->at[trial->moments] = b->clock - b->check->lag;
	for (uint32_t k = 0; k < trial->count; k++) {
		uint32_t i = find_key (b, trial->measured[k].key);
		if (i == NOT_FOUND || !(b->jobs[i].moved >= 0.0))
			return -1;
		trial->measured[k].moved[trial->moments] = b->jobs[i].moved;
	}
	trial->moments++;
	return 0;
}

static double
speed_of (const struct sluice_turns_trial *trial, uint32_t k, int moment)
{
	double seconds = trial->at[moment + 1] - trial->at[moment];
	const double *moved = trial->measured[k].moved;
	double speed = (moved[moment + 1] - moved[moment]) / larger (seconds, 1e-6);
	return smaller (turns_sane (speed), 1.0);
}

/* The harm that the hold does, node-seconds a second; *noise: its sd. */
static double
harm_of (const struct sluice_turns_trial *trial, double *noise)
{
	double lost = 0.0, slowed = 0.0, shares = 0.0, nodes = 0.0;
	for (uint32_t k = 1; k < trial->count; k++) {
		const struct sluice_turns_measured *one = &trial->measured[k];
		double before = speed_of (trial, k, 0), after = speed_of (trial, k, 2);
		double part = before > 0.0 ? 1.0 - after / before : 0.0;
		part = larger (part, -1.0);
		lost += one->nodes * part;
		slowed += one->share * part;
		shares += one->share;
		nodes += one->nodes * one->nodes;
	}
	const struct sluice_turns_measured *held = &trial->measured[0];
	double won = speed_of (trial, 0, 2) - speed_of (trial, 0, 0);
	*noise = min_noise * sqrt (2.0 * held->nodes * held->nodes + nodes);
	return held->nodes * (won - slowed / shares) - lost;
}

static void
judge (const struct bursts *b)
{
	struct sluice_turns_check *check = b->check;
	const struct sluice_turns_trial *trial = &check->trial;
	uint32_t held = find_key (b, trial->held), first = find_key (b, trial->first);
	if (held == NOT_FOUND || first == NOT_FOUND)
		return;
	double noise, harm = harm_of (trial, &noise), length = length_of (b->settings);
	uint64_t goes = b->jobs[first].program, waits = b->jobs[held].program;
	struct sluice_turns_pair *pair = find_pair (check, goes, waits);
	if (!pair)
		pair = make_pair (check, goes, waits, b->clock);
	pair->lane_mask = lanes_of (b, first) & lanes_of (b, held);
	add_trial (&pair->evidence, harm, noise, b->clock, trial_pause * length);
	for (uint32_t rest = pair->lane_mask; rest; rest &= rest - 1U)
		add_trial (&check->lanes[__builtin_ctz (rest)], harm, noise, b->clock, 0.0);
	if (harm <= 0.0)
		check->rest = b->clock + 2.0 * length;
}

/* Whether the held burst of the trial goes now. */
static int
is_on_trial (const struct bursts *b, uint32_t i)
{
	const struct sluice_turns_trial *trial = &b->check->trial;
	return trial->is_on && b->jobs[i].key == trial->held && b->clock >= moment_at (b, 1)
	       && b->clock < moment_at (b, 3);
}

/* Whether the same bursts go and wait as when the trial began; after its end that does not
 * matter any more. */
static int
is_undisturbed (const struct bursts *b)
{
	const struct sluice_turns_trial *trial = &b->check->trial;
	uint32_t held = find_key (b, trial->held);
	return b->clock >= moment_at (b, 3)
	       || (held != NOT_FOUND && is_held (b, held)
		   && others_of (b, held) == trial->others);
}

static void
abandon (const struct bursts *b)
{
	if (b->clock >= moment_at (b, 1))
		b->check->rest = b->clock + trial_pause * length_of (b->settings);
	b->check->trial.is_on = 0;
}

/* Returns the clock at which something is due. */
static double
continue_trial (const struct bursts *b)
{
	struct sluice_turns_trial *trial = &b->check->trial;
	double lag = b->check->lag, again = INFINITY;
	int is_invalid = !is_undisturbed (b);
	while (!is_invalid && trial->moments < SLUICE_TURNS_MOMENTS
	       && b->clock >= moment_at (b, trial->moments) + lag)
		is_invalid = measure (b) < 0;
	if (is_invalid) {
		abandon (b);
		return INFINITY;
	}
	if (trial->moments == SLUICE_TURNS_MOMENTS) {
		judge (b);
		trial->is_on = 0;
		return INFINITY;
	}
	for (uint32_t moment = 1; moment < SLUICE_TURNS_MOMENTS; moment += 2)
		if (b->clock < moment_at (b, moment))
			again = smaller (again, moment_at (b, moment));
	return smaller (again, moment_at (b, trial->moments) + lag);
}

/* ---- all together ---- */

static int
is_due (const struct bursts *b, uint32_t held)
{
	uint32_t first = b->out[held].first;
	if (b->out[held].reason != SLUICE_TURN_BEHIND || first == NOT_FOUND
	    || has_stopped (b, first, held))
		return 0;
	const struct sluice_turns_pair *pair
	    = find_pair (b->check, b->jobs[first].program, b->jobs[held].program);
	return !pair || b->clock >= pair->evidence.due;
}

/* Try the next in the order of those that are due. */
static double
begin_next (const struct bursts *b)
{
	uint32_t next = NOT_FOUND;
	if (b->clock < b->check->rest)
		return INFINITY;
	for (uint32_t i = 0; i < b->n; i++)
		if (is_held (b, i) && (next == NOT_FOUND || is_before (b, i, next))
		    && is_due (b, i))
			next = i;
	if (next == NOT_FOUND)
		return INFINITY;
	begin_trial (b, next, b->out[next].first);
	return b->check->trial.is_on ? continue_trial (b) : INFINITY;
}

static void
release (const struct bursts *b, uint32_t i, enum sluice_turn_reason reason)
{
	struct sluice_turn *turn = &b->out[i];
	turn->reason = reason;
	turn->share = 1.0;
	turn->until = INFINITY;
	turn->saving = NAN;
	turn->first = NOT_FOUND;
}

static void
release_all (const struct bursts *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t first = b->out[i].first;
		if (first == NOT_FOUND)
			continue;
		if (is_on_trial (b, i))
			release (b, i, SLUICE_TURN_TRIAL);
		else if (has_stopped (b, first, i))
			release (b, i, SLUICE_TURN_NO_HELP);
	}
}

void
sluice_turns_check_init (struct sluice_turns_check *check, double lag)
{
	memset (check, 0, sizeof *check);
	check->lag = lag;
	check->rest = -INFINITY;
}

double
sluice_turns_check (const struct sluice_turns_settings *settings,
		    const struct sluice_turns_storage *storage,
		    const struct sluice_turns_job *jobs, uint32_t n, double clock,
		    struct sluice_turns_check *check, struct sluice_turn *out)
{
	struct bursts b = {
		.settings = settings,
		.storage = storage,
		.jobs = jobs,
		.n = n,
		.clock = clock,
		.check = check,
		.out = out,
	};
	double again = INFINITY;
	if (!(settings->trial > 0.0))
		return again;
	if (check->trial.is_on)
		again = continue_trial (&b);
	if (!check->trial.is_on)
		again = begin_next (&b);
	release_all (&b);
	return again;
}
