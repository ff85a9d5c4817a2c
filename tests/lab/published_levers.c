/*
 * Published ways to share a storage among bursts, as a sluice_turns_watch (bursts.h) that
 * puts their shares in place of the core's verdicts. Each sees what the core sees.
 *
 * A burst takes d_i[s] of station s at full speed, and goes at a share x_i of that, so that
 * sum_i d_i[s] x_i <= 1 at each station. Jobs are on all lanes.
 */
#include <math.h>
#include <stdint.h>

#include "bursts.h"

enum { MOST = 4096, BURSTS = 16 };

/* What a rule remembers of a job, by its key. */
struct account {
	double began[BURSTS], length[BURSTS]; /* of its bursts */
	double bursts;
	double period;	/* s from one burst to the next; 0: unknown */
	double balance; /* s of a station lent, or owed to it by coupons; < 0: it owes */
};

struct lever {
	uint32_t rule; /* enum rule */
	uint32_t reserved;
	struct account *accounts; /* by key */
	double clock;		  /* of the last call */
};

enum rule { SET_10, SET_10_FILLED, GIFT, ADAP_TBF, FORGETFUL, FTIO };

struct sharing {
	const struct sluice_turns_decided *decided;
	struct account *accounts[MOST];
	double demand[MOST][SLUICE_STATION_COUNT];
	double largest[MOST]; /* demand at its fullest station */
	double most[MOST];    /* share of full speed that it may have */
	double weight[MOST];
	double share[MOST];
	double left[SLUICE_STATION_COUNT];
	uint32_t count;
};

static void
read_bursts (const struct lever *lever, const struct sluice_turns_decided *decided,
	     struct sharing *all)
{
	all->decided = decided;
	all->count = decided->count < MOST ? decided->count : MOST;
	for (uint32_t i = 0; i < all->count; i++) {
		all->accounts[i] = &lever->accounts[decided->jobs[i].key];
		all->largest[i] = 0.0;
		all->most[i] = 1.0;
		for (int s = 0; s < SLUICE_STATION_COUNT; s++) {
			double demand = fmin (decided->jobs[i].demand[s], 1.0);
			all->demand[i][s] = demand;
			all->largest[i] = fmax (all->largest[i], demand);
		}
	}
}

/* The largest level at which no station is overfilled by those that still grow, each at
 * weight / largest a level. */
static double
next_level (const struct sharing *all, const uint8_t *grows, double level)
{
	double next = INFINITY;
	for (int s = 0; s < SLUICE_STATION_COUNT; s++) {
		double slope = 0.0;
		for (uint32_t i = 0; i < all->count; i++)
			if (grows[i])
				slope
				    += all->demand[i][s] * all->weight[i] / all->largest[i];
		if (slope > 0.0)
			next = fmin (next, level + fmax (all->left[s], 0.0) / slope);
	}
	for (uint32_t i = 0; i < all->count; i++)
		if (grows[i])
			next = fmin (next, all->most[i] * all->largest[i] / all->weight[i]);
	return next;
}

/* Weighted max-min shares of the fullest stations (dominant resource fairness) of what is
 * left, for those with a weight: what a job cannot use goes to the others. */
static void
grow (struct sharing *all)
{
	uint8_t grows[MOST];
	double level = 0.0;
	uint32_t growing = 0;
	for (uint32_t i = 0; i < all->count; i++) {
		grows[i]
		    = all->weight[i] > 0.0 && all->most[i] > 0.0 && all->largest[i] > 0.0;
		growing += grows[i];
	}
	while (growing > 0) {
		double next = next_level (all, grows, level);
		for (uint32_t i = 0; i < all->count; i++) {
			double more = (next - level) * all->weight[i] / all->largest[i];
			if (!grows[i])
				continue;
			all->share[i] += more;
			for (int s = 0; s < SLUICE_STATION_COUNT; s++)
				all->left[s] -= all->demand[i][s] * more;
		}
		level = next;
		for (uint32_t i = 0; i < all->count; i++) {
			int is_full = all->share[i] >= all->most[i] * (1.0 - 1e-9);
			for (int s = 0; s < SLUICE_STATION_COUNT; s++)
				is_full |= all->demand[i][s] > 0.0 && all->left[s] < 1e-9;
			if (grows[i] && is_full) {
				grows[i] = 0;
				growing--;
			}
		}
	}
}

/* What takes nothing of the storage goes. */
static void
begin (struct sharing *all)
{
	for (int s = 0; s < SLUICE_STATION_COUNT; s++)
		all->left[s] = 1.0;
	for (uint32_t i = 0; i < all->count; i++)
		all->share[i] = all->largest[i] > 0.0 ? 0.0 : 1.0;
}

static void
fill (struct sharing *all)
{
	begin (all);
	grow (all);
}

/*
 * IO-Sets, heuristic Set-10 (Boito et al., IEEE TPDS 2023): a job is in the set of the
 * order of magnitude of the time between the beginnings of its I/O phases. In a set one
 * job writes at a time, first come first served; sets share by priorities of 10^-set.
 *
 * The paper's jobs can each use the whole storage. Where they cannot, SET_10_FILLED lets
 * the next of each set use what the first ones leave, and so on.
 */
static int
set_of (const struct account *account)
{
	return account->period > 1.0 ? (int)lround (log10 (account->period)) : 0;
}

/* How many of its set began to write before a job. */
static uint32_t
rank_of (const struct sharing *all, const int *sets, uint32_t i)
{
	const struct sluice_turns_job *jobs = all->decided->jobs;
	uint32_t rank = 0;
	for (uint32_t k = 0; k < all->count; k++) {
		int is_tie
		    = jobs[k].began >= jobs[i].began && jobs[k].began <= jobs[i].began;
		int is_before
		    = is_tie ? jobs[k].key < jobs[i].key : jobs[k].began < jobs[i].began;
		rank += is_before && sets[k] == sets[i] && all->largest[k] > 0.0;
	}
	return rank;
}

static void
share_by_sets (struct sharing *all, uint32_t ranks)
{
	int sets[MOST];
	uint32_t rank[MOST];
	for (uint32_t i = 0; i < all->count; i++)
		sets[i] = set_of (all->accounts[i]);
	for (uint32_t i = 0; i < all->count; i++)
		rank[i] = rank_of (all, sets, i);
	begin (all);
	for (uint32_t r = 0; r < ranks && r < all->count; r++) {
		for (uint32_t i = 0; i < all->count; i++)
			all->weight[i] = rank[i] == r ? pow (10.0, -sets[i]) : 0.0;
		grow (all);
	}
}

/*
 * AdapTBF (Rashid and Dai, arXiv 2602.22409): tokens by nodes; what a job does not use is
 * lent to the others; one that lent gets it back, from those that borrowed, when it needs
 * more than its own. At most half of a borrower's tokens go back at a time.
 */
static const double reclaim_seconds = 10.0;
static const double most_reclaimed = 0.5;

static void
share_by_tokens (struct sharing *all, double seconds)
{
	double nodes = 0.0, wanted = 0.0, owed = 0.0;
	double own[MOST];
	for (uint32_t i = 0; i < all->count; i++)
		nodes += all->decided->jobs[i].nodes;
	for (uint32_t i = 0; i < all->count; i++) {
		struct account *account = all->accounts[i];
		double last = all->decided->jobs[i].allowed * all->largest[i];
		own[i] = all->decided->jobs[i].nodes / nodes;
		account->balance += (own[i] - last) * seconds;
		if (account->balance > 0.0 && all->largest[i] > own[i])
			wanted += account->balance / reclaim_seconds;
		if (account->balance < 0.0)
			owed += fmin (-account->balance / reclaim_seconds,
				      most_reclaimed * own[i]);
	}
	double moved = fmin (wanted, owed);
	for (uint32_t i = 0; i < all->count; i++) {
		double balance = all->accounts[i]->balance;
		all->weight[i] = own[i];
		if (balance > 0.0 && all->largest[i] > own[i])
			all->weight[i] += moved * balance / reclaim_seconds / wanted;
		if (balance < 0.0)
			all->weight[i]
			    -= moved
			       * fmin (-balance / reclaim_seconds, most_reclaimed * own[i])
			       / owed;
	}
	fill (all);
}

/*
 * GIFT (Patel et al., FAST 2020): jobs share equally, each at the same progress on all that
 * it uses. A job is throttled where that lets the others move more bytes than it loses;
 * it gets a coupon for what it lost, and is first while it has one.
 */
static const double throttled = 0.5; /* of its fair share at least */

static double
bytes_of (const struct sharing *all)
{
	double bytes = 0.0;
	for (uint32_t i = 0; i < all->count; i++)
		bytes += all->share[i] * all->demand[i][SLUICE_STATION_BYTES];
	return bytes;
}

static void
share_by_coupons (struct sharing *all, double seconds)
{
	double fair[MOST];
	for (uint32_t i = 0; i < all->count; i++) {
		double balance = all->accounts[i]->balance;
		all->weight[i] = balance > 0.0 ? 1.0 + balance / reclaim_seconds : 1.0;
	}
	fill (all);
	double bytes = bytes_of (all);
	for (uint32_t i = 0; i < all->count; i++)
		fair[i] = all->share[i];
	for (uint32_t i = 0; i < all->count; i++) {
		struct account *account = all->accounts[i];
		if (account->balance > 0.0)
			account->balance -= (all->weight[i] - 1.0) / all->weight[i]
					    * fair[i] * all->largest[i] * seconds;
		all->most[i] = throttled * fair[i];
		fill (all);
		if (bytes_of (all) > bytes * 1.001) {
			bytes = bytes_of (all);
			account->balance
			    += (fair[i] - all->share[i]) * all->largest[i] * seconds;
		} else {
			all->most[i] = 1.0;
		}
	}
	fill (all);
}

/*
 * FTIO (Tarraf et al., IPDPS 2024): the frequency at which the Fourier transform of a job's
 * I/O so far has by far the most power is that of its bursts. The time in bursts over the
 * number of periods is then the length of the next one.
 */
static const double outstanding = 3.0; /* sd above the mean of the powers */

static double
power_at (const struct account *account, int bursts, double span, int k)
{
	double omega = 2.0 * 3.14159265358979 * k / span, real = 0.0, imaginary = 0.0;
	for (int i = 0; i < bursts; i++) {
		double from = omega * (account->began[i] - account->began[0]);
		double to = from + omega * account->length[i];
		real += sin (to) - sin (from);
		imaginary += cos (to) - cos (from);
	}
	return (real * real + imaginary * imaginary) / ((double)k * k);
}

double
length_by_frequency (const struct account *account, int bursts)
{
	double span = account->began[bursts] - account->began[0], busy = 0.0;
	double sum = 0.0, squares = 0.0, most = 0.0;
	int frequencies = 4 * BURSTS, best = 0;
	if (bursts < 2 || !(span > 0.0))
		return 0.0;
	for (int i = 0; i < bursts; i++)
		busy += account->length[i];
	for (int k = 1; k <= frequencies; k++) {
		double power = power_at (account, bursts, span, k);
		sum += power;
		squares += power * power;
		if (power > most) {
			most = power;
			best = k;
		}
	}
	double mean = sum / frequencies;
	double sd = sqrt (fmax (0.0, squares / frequencies - mean * mean));
	return most > mean + outstanding * sd ? busy / best : 0.0;
}

/* A burst that begins ends the one before, of which `expected` is the length. */
static void
note_burst (struct account *account, const struct sluice_turns_job *job)
{
	int bursts = (int)account->bursts;
	if (bursts > 0 && job->began <= account->began[bursts - 1])
		return;
	if (bursts > 0)
		account->length[bursts - 1] = job->expected;
	if (bursts < BURSTS) {
		account->began[bursts] = job->began;
		account->bursts++;
	}
}

/* The core's own verdicts with other lengths of bursts: unknown, or by FTIO. */
static void
decide_by_lengths (const struct lever *lever, const struct sluice_turns_decided *decided)
{
	static _Thread_local struct sluice_turns_job jobs[MOST];
	static _Thread_local uint32_t order[MOST];
	uint32_t count = decided->count < MOST ? decided->count : MOST;
	for (uint32_t i = 0; i < count; i++) {
		struct account *account = &lever->accounts[decided->jobs[i].key];
		jobs[i] = decided->jobs[i];
		jobs[i].expected = 0.0;
		if (lever->rule == FTIO) {
			note_burst (account, &decided->jobs[i]);
			jobs[i].expected
			    = length_by_frequency (account, (int)account->bursts - 1);
		}
	}
	sluice_turns_decide (decided->settings, decided->storage, jobs, count,
			     decided->clock, order, decided->turns);
}

void
published_lever (void *watcher, const struct sluice_turns_decided *decided)
{
	static _Thread_local struct sharing all;
	struct lever *lever = watcher;
	double seconds = fmin (decided->clock - lever->clock, reclaim_seconds);
	lever->clock = decided->clock;
	if (lever->rule == FORGETFUL || lever->rule == FTIO) {
		decide_by_lengths (lever, decided);
		return;
	}
	read_bursts (lever, decided, &all);
	if (lever->rule == SET_10 || lever->rule == SET_10_FILLED)
		share_by_sets (&all, lever->rule == SET_10 ? 1 : MOST);
	else if (lever->rule == GIFT)
		share_by_coupons (&all, seconds);
	else
		share_by_tokens (&all, seconds);
	for (uint32_t i = 0; i < all.count; i++)
		decided->turns[i].share = fmin (fmax (all.share[i], 0.0), 1.0);
}
