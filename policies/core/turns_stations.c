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
	return larger (most, share);
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
