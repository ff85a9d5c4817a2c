/*
 * Internal to the core: what decide.c needs of bundle and snapshot, made ready
 * by situation.c when either changes.
 */
#ifndef SLUICE_SITUATION_H
#define SLUICE_SITUATION_H

#include "decide.h"
#include "load.h"

enum {
	/* Co-runners of a lane that are looked at singly: the strongest. */
	SLUICE_KEPT = SLUICE_EXACT_CORUNNERS,
	SLUICE_MAX_MEMBERS = SLUICE_MAX_LANES * (SLUICE_KEPT + 1),
};

/* A co-runner, or the mean of several (job_id 0). */
struct sluice_situation_member {
	uint32_t job_id;
	double nodes;
	double end; /* UTC seconds */
	struct sluice_identity identity;
	struct sluice_pressure pressure;
	struct sluice_load against; /* as one of the others */
	struct sluice_load victim;
};

/* What a kept co-runner is on a lane. */
struct sluice_lane_member {
	uint32_t member;	 /* index into members */
	int is_here;		 /* 0: only its metadata reach this lane */
	struct sluice_load load; /* what it puts on this lane */
	/* As a victim of the other kept ones of the lane, in their order: */
	double overlaps[SLUICE_KEPT - 1];
	struct sluice_load_sets others;
	double rates[SLUICE_MAX_SETS]; /* sluice_load_rates alongside the background */
};

/* A co-runner as reviews of pairs ask for it, whether or not a lane keeps it. */
struct sluice_situation_presence {
	double end;	    /* UTC seconds */
	uint32_t lane_mask; /* 0: all */
	struct sluice_identity identity;
};

struct sluice_situation_lane {
	uint32_t original; /* the first lane with the same co-runners: all else is there */
	uint32_t count;
	struct sluice_lane_member kept[SLUICE_KEPT];
	struct sluice_load_sets sets;  /* of the kept ones */
	struct sluice_load background; /* of all others, in the mean of their time */
	/* Those that no lane keeps lose too; their mean stands for them, and what it
	 * puts on the lane is a part of the background. */
	int has_rest;
	uint32_t rest; /* index into members */
};

struct sluice_situation {
	const struct sluice_bundle *bundle;
	const struct sluice_snapshot *snapshot; /* may be NULL */
	const struct sluice_policy *policy;
	const struct sluice_interference *model;
	uint32_t corunner_count; /* of present */
	uint32_t member_count;
	uint32_t lane_count;		 /* at least 1: the undivided file system */
	double slowest;			 /* of the speeds */
	double speeds[SLUICE_MAX_LANES]; /* sluice_snapshot_lane_speed */
	struct sluice_situation_member members[SLUICE_MAX_MEMBERS];
	struct sluice_situation_lane lanes[SLUICE_MAX_LANES];
	struct sluice_situation_presence present[SLUICE_MAX_CORUNNERS];
	/* All that the snapshot has, on its targets; NULL: the lane has no blocks. */
	struct sluice_placement *placements[SLUICE_MAX_LANES];
};

#endif
