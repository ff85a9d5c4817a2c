/*
 * The settings by which Sluice decides. They come from sluice.conf and travel
 * in the bundle, so that a decision can be replayed from bundle and record.
 */
#ifndef SLUICE_POLICY_H
#define SLUICE_POLICY_H

#include "base.h"

/* A named set of storage targets to which jobs can be confined. */
struct sluice_lane {
	char name[SLUICE_NAME_SIZE];
	double bandwidth;  /* B/s of all its targets; 0: unknown */
	double operations; /* writes and flushes a second of all its targets; 0: unknown */
	uint32_t targets;  /* number of storage targets, >= 1 */
	uint32_t has_blocks; /* 1: jobs are placed on blocks of its targets (placement.h) */
};

/*
 * X(Key, member, default, low, high, meaning): numeric settings. The key is
 * the word in sluice.conf; the docs and the parser are made from this list.
 */
#define SLUICE_POLICY_SETTINGS(X)                                                          \
	X (MinConfidence, min_confidence, 0.7, 0.0, 1.0,                                   \
	   "abstain when the prediction is less certain than this")                        \
	X (Tolerance, tolerance, 1.25, 1.0, 1000.0,                                        \
	   "largest predicted job slowdown that a gate may admit")                         \
	X (MinSaving, min_saving, 60.0, 0.0, 1e9,                                          \
	   "act only if at least this many node-seconds are saved; below 60, jobs that "   \
	   "write less than 100 MiB matter in proportion")                                 \
	X (WaitPrice, wait_price, 0.2, 0.0, 1000.0,                                        \
	   "node-seconds that one node-second of added wait costs")                        \
	X (TurnsGain, turns_gain, 0.0, 0.0, 1.0,                                           \
	   "share of what the best order of bursts saves that turns save here; 0: no "     \
	   "turns")                                                                        \
	X (MaxDelay, max_delay, 1800.0, 0.0, 604800.0,                                     \
	   "longest wait in seconds for I/O reasons")                                      \
	X (MinIoShare, min_io_share, 0.02, 0.0, 1.0,                                       \
	   "jobs with a smaller share of I/O in their run time are left alone")            \
	X (MetadataCapacity, metadata_capacity, 20000.0, 1.0, 1e12,                        \
	   "creates, opens and stats a second that the metadata server serves")            \
	X (MaxSnapshotAge, max_snapshot_age, 60.0, 1.0, 86400.0,                           \
	   "seconds after which a cluster snapshot is no longer used")                     \
	X (Holdout, holdout, 0.0, 0.0, 1.0,                                                \
	   "share of the jobs that enforce would act on which are left alone, drawn by "   \
	   "lot, so that `sluice report` can compare")

/* The quantile of the predicted slowdown that gates keep within Tolerance: one in ten
 * exceeds it. Closer to 1 the model's tail decides, of which a site sees too few co-runs.
 */
extern const double sluice_quantile;

/* Slowdowns up to this are called harmless: runs alone differ by as much. */
extern const double sluice_harmless_slowdown;

#define SLUICE_POLICY_MEMBER(key, member, def, low, high, text) double member;

struct sluice_policy {
	SLUICE_POLICY_SETTINGS (SLUICE_POLICY_MEMBER)
	uint32_t lane_count; /* 0: one undivided file system */
	uint32_t reserved;
	struct sluice_lane lanes[SLUICE_MAX_LANES];
};

void sluice_policy_init (struct sluice_policy *policy); /* the defaults */
int sluice_policy_check (const struct sluice_policy *policy, struct sluice_error *err);

/* Add the other policy's lanes behind the policy's own, which keep their numbers, as far as
 * there is room. An undivided file system counts as a lane called `all`. */
void sluice_policy_join_lanes (struct sluice_policy *policy,
			       const struct sluice_policy *other);

/* Whether an alternative of this cost is so much cheaper that it is worth acting. */
int sluice_saves_enough (const struct sluice_policy *policy, double cost, double cheaper);

/* Jobs that write fewer bytes a run are left alone, unless metadata-heavy. */
double sluice_few_bytes (const struct sluice_policy *policy);

/* The lanes of a policy: an undivided file system is one, called all. */
uint32_t sluice_lane_count (const struct sluice_policy *policy);
const char *sluice_lane_name (const struct sluice_policy *policy, uint32_t lane);

#endif
