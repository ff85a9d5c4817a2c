#include "turns_stations.h"

#include <string.h>

static const double least_taken = 0.05; /* of a station */

static double
times_a_byte (double bytes)
{
	return bytes > 0.0 ? 1.0 / bytes : 0.0;
}

static double
creates_a_byte (const struct sluice_profile *profile)
{
	return larger (profile->creates_per_mib, 0.0) / (1 << 20);
}

static double
operations_a_byte (const struct sluice_profile *profile)
{
	double writes = times_a_byte (profile->chunk_bytes);
	double flushes = times_a_byte (profile->bytes_per_flush);
	double joined = flushes + larger (profile->direct_share, 0.0) * writes
			+ 1.0 / SLUICE_TURNS_JOINED;
	return creates_a_byte (profile) + flushes + smaller (writes, joined);
}

void
sluice_turns_demand (const struct sluice_profile *profile,
		     double demand[SLUICE_STATION_COUNT])
{
	double rate = larger (profile->rate, 0.0) * sluice_profile_served_share (profile);
	demand[SLUICE_STATION_BYTES] = demand[SLUICE_STATION_LINKS] = rate;
	demand[SLUICE_STATION_OPERATIONS] = rate * operations_a_byte (profile);
	demand[SLUICE_STATION_METADATA] = larger (larger (profile->metadata_rate, 0.0),
						  rate * creates_a_byte (profile));
}

uint32_t
sluice_turns_lanes (const struct sluice_turns_storage *storage, uint32_t lane_mask)
{
	uint32_t all = (1U << storage->lane_count) - 1U;
	return lane_mask & all ? lane_mask & all : all;
}

static double
share_of (double demand, double capacity)
{
	return capacity > 0.0 ? turns_sane (turns_sane (demand) / capacity) : 0.0;
}

double
sluice_turns_targets (const struct sluice_turns_storage *storage, uint32_t lanes)
{
	double targets = 0.0;
	for (uint32_t rest = lanes; rest; rest &= rest - 1U)
		targets += turns_sane (storage->lanes[__builtin_ctz (rest)].targets);
	return targets;
}

/* -1: it writes evenly, or it is not said in a way that makes sense. */
static int
find_targets (const struct sluice_turns_storage *storage,
	      const struct sluice_turns_job *job, struct turns_shares *out)
{
	uint32_t lanes = sluice_turns_lanes (storage, job->lane_mask), count = 0;
	out->targets = NULL;
	if (!job->targets || (lanes & (lanes - 1U)) != 0)
		return -1;
	out->lane = (uint32_t)__builtin_ctz (lanes);
	double all = turns_sane (storage->lanes[out->lane].targets);
	double first = sluice_turns_targets (storage, lanes - 1U);
	if (first + all > SLUICE_TURNS_TARGETS)
		return -1;
	out->first_target = (uint32_t)first;
	out->targets = job->targets;
	for
		TURNS_EACH_TARGET (t, out)
		{
			if (t >= all)
				count = SLUICE_TURNS_TARGETS;
			count++;
		}
	if (count > 0 && count < all)
		return (int)count;
	out->targets = NULL;
	return -1;
}

int
turns_know_targets (const struct sluice_turns_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (jobs[i].targets)
			return 1;
	return 0;
}

uint32_t
turns_next_target (const struct turns_shares *want, uint32_t from)
{
	for (uint32_t i = from / 64; i < SLUICE_TURNS_TARGETS / 64; i++) {
		uint64_t rest = want->targets[i];
		if (i == from / 64)
			rest &= ~0ull << from % 64;
		if (rest)
			return 64 * i + (uint32_t)__builtin_ctzll (rest);
	}
	return SLUICE_TURNS_TARGETS;
}

/* What it takes of its lane is what its targets have of it. Returns its fullest. */
static double
want_of_targets (const struct sluice_turns_storage *storage,
		 const struct sluice_turns_job *job, struct turns_shares *out)
{
	int count = find_targets (storage, job, out);
	double most = 0.0;
	for (int i = 0; i < TARGET_STATIONS && count > 0; i++) {
		double *of = &out->of[LANE_STATIONS * out->lane + (uint32_t)i];
		double all = turns_sane (storage->lanes[out->lane].targets);
		out->of_lane[i] = *of;
		out->of_target[i] = *of * all / count;
		*of = 0.0;
		most = larger (most, out->of_target[i]);
	}
	return most;
}

void
turns_add_targets (struct turns_target_sums *sums, const struct turns_shares *want)
{
	for (int i = 0; i < TARGET_STATIONS; i++)
		sums->of_lane[want->lane][i] += want->of_lane[i];
	for
		TURNS_EACH_TARGET (t, want)
	for (int i = 0; i < TARGET_STATIONS; i++)
		sums->of[want->first_target + t][i] += want->of_target[i];
}

int
turns_meet (const struct sluice_turns_storage *storage, const struct sluice_turns_job *a,
	    const struct sluice_turns_job *b)
{
	struct turns_shares x, y;
	if (!(sluice_turns_lanes (storage, a->lane_mask)
	      & sluice_turns_lanes (storage, b->lane_mask)))
		return 0;
	if (find_targets (storage, a, &x) < 0 || find_targets (storage, b, &y) < 0)
		return 1;
	for (int i = 0; i < SLUICE_TURNS_TARGETS / 64; i++)
		if (x.targets[i] & y.targets[i])
			return 1;
	return 0;
}

/* The same, but for what exceeds all of a station. */
static double
want_freely (const struct sluice_turns_storage *storage, const struct sluice_turns_job *job,
	     struct turns_shares *out)
{
	uint32_t lanes = sluice_turns_lanes (storage, job->lane_mask);
	double targets = sluice_turns_targets (storage, lanes), most = 0.0;
	for (uint32_t rest = lanes; rest; rest &= rest - 1U) {
		int lane = __builtin_ctz (rest);
		const struct sluice_turns_lane *here = &storage->lanes[lane];
		double part = targets > 0.0 ? turns_sane (here->targets) / targets : 0.0;
		const double capacity[] = { here->bytes, here->operations, here->links };
		for (int i = 0; i < LANE_STATIONS; i++) {
			double share = part * share_of (job->demand[i], capacity[i]);
			out->of[LANE_STATIONS * lane + i] = share;
			most = larger (most, share);
		}
	}
	double share = share_of (job->demand[SLUICE_STATION_METADATA], storage->metadata);
	out->of[turns_station_count (storage) - 1] = share;
	most = larger (most, share);
	return larger (most, want_of_targets (storage, job, out));
}

double
turns_want (const struct sluice_turns_storage *storage, const struct sluice_turns_job *job,
	    struct turns_shares *out)
{
	uint32_t count = turns_station_count (storage);
	memset (out->of, 0, count * sizeof out->of[0]);
	double most = want_freely (storage, job, out);
	out->speed = most > 1.0 ? 1.0 / most : 1.0;
	if (!(most > 1.0))
		return most;
	for (uint32_t k = 0; k < count; k++)
		out->of[k] /= most;
	for (int i = 0; i < TARGET_STATIONS && out->targets; i++) {
		out->of_lane[i] /= most;
		out->of_target[i] /= most;
	}
	return 1.0;
}

double
turns_taken (const struct sluice_turns_storage *storage, const struct sluice_turns_job *job,
	     const struct sluice_turn *turn)
{
	struct turns_shares want;
	if (turn->reason == SLUICE_TURN_NOT_FULL || !(turn->share > 0.0))
		return 0.0;
	double taken = turns_want (storage, job, &want) * turn->share;
	return taken >= least_taken ? taken : 0.0;
}
