/*
 * The state of the cluster that sluiced publishes for the plugin: what runs and
 * waits with which I/O, and what Slurm fills in when a user gives nothing.
 */
#ifndef SLUICE_SNAPSHOT_H
#define SLUICE_SNAPSHOT_H

#include "container.h"
#include "placement.h"
#include "policy.h"
#include "profile.h"
#include "review.h"

enum sluice_snapshot_section {
	SLUICE_SECTION_STATE = 1,
	SLUICE_SECTION_CORUNNER,
	SLUICE_SECTION_PARTITION,
	SLUICE_SECTION_USER,
	SLUICE_SECTION_HOLDER,
	SLUICE_SECTION_QOS,
	SLUICE_SECTION_LANE,
	SLUICE_SECTION_PLACED,
	SLUICE_SECTION_TARGET,
};

enum {
	SLUICE_MAX_CORUNNERS = 256, /* explicit ones in a snapshot */
	SLUICE_MAX_PARTITIONS = 1024,
	SLUICE_MAX_USERS = 1 << 20,
	SLUICE_MAX_HOLDERS = 1 << 20,
	SLUICE_MAX_QOS = 1024,
	SLUICE_MAX_PLACED = 1 << 16,
	SLUICE_MAX_SEEN = SLUICE_MAX_LANES * SLUICE_MAX_TARGETS,
	SLUICE_MAX_SNAPSHOT_BYTES = 160 << 20,
};

enum sluice_state_flags {
	SLUICE_STATE_OFF = 1 << 0, /* the kill switch */
};

enum sluice_partition_flags {
	SLUICE_PARTITION_DEFAULT = 1 << 0,
	SLUICE_PARTITION_PREEMPTS = 1 << 1,
};

struct sluice_state {
	uint64_t sequence; /* of this snapshot, rising */
	int64_t taken;	   /* UTC seconds when Slurm was asked */
	uint32_t flags;	   /* enum sluice_state_flags */
	uint32_t running;  /* jobs, all of them */
	uint32_t pending;
	uint32_t unknown; /* running jobs without a prediction */
};

/* A running job that matters to storage. */
struct sluice_corunner {
	uint32_t job_id;
	uint32_t nodes;
	uint32_t lane_mask; /* lanes it may write to; 0: all */
	uint32_t klass;
	int64_t expected_end;	   /* UTC seconds, by its time limit or history */
	struct sluice_block block; /* of its one lane; count 0: all targets of its lanes */
	uint32_t reserved;
	struct sluice_identity identity;
	struct sluice_profile profile;
};

struct sluice_partition {
	char name[SLUICE_NAME_SIZE];
	char qos[SLUICE_NAME_SIZE]; /* the partition's QoS; empty: none */
	uint32_t flags;		    /* enum sluice_partition_flags */
	uint32_t reserved;
};

/* Sorted by uid. */
struct sluice_user {
	uint32_t uid;
	uint32_t reserved;
	char account[SLUICE_NAME_SIZE]; /* default account */
	char qos[SLUICE_NAME_SIZE];	/* default QoS; empty: none */
};

/* A job, running or waiting, that Sluice gave tokens which it still has: what
 * its user may keep when changing its licences. Sorted by job_id; an array or
 * a heterogeneous job is there once, by the id that sbatch printed. */
struct sluice_holder {
	uint32_t job_id;
	uint32_t klass;
	uint32_t lane_mask; /* of the policy's lanes */
	uint32_t waited;    /* s for which its tokens may have kept it (control.h) */
};

/* A QoS whose jobs may preempt those of others. */
struct sluice_qos {
	char name[SLUICE_NAME_SIZE];
};

/* A lane that gives less than its peers: a target of it is slow. Others are
 * not there. */
struct sluice_lane_speed {
	char name[SLUICE_NAME_SIZE];
	double speed; /* its rate as a share of its peers', 0 < speed <= 1 */
};

struct sluice_snapshot; /* validated, in memory of its own, read-only */

int sluice_snapshot_parse (const void *bytes, size_t size, struct sluice_snapshot **out,
			   struct sluice_error *err);
int sluice_snapshot_load (const char *path, uint32_t owner_uid,
			  struct sluice_snapshot **out, struct sluice_error *err);
void sluice_snapshot_destroy (struct sluice_snapshot *snapshot);

/* For a simulator: a snapshot of nothing but this state, which the caller keeps and may
 * change between decisions. NULL: no memory. */
struct sluice_snapshot *sluice_snapshot_of_state (const struct sluice_state *state);

/* 0: it was made of a state alone. */
uint64_t sluice_snapshot_checksum (const struct sluice_snapshot *snapshot);
/* Changes when what decisions are made alongside does: the co-runners, and slow lanes. */
uint64_t sluice_snapshot_version (const struct sluice_snapshot *snapshot);
const struct sluice_state *sluice_snapshot_state (const struct sluice_snapshot *snapshot);
/* Seconds by which a file may be ahead of its reader's clock. */
enum { SLUICE_CLOCK_DIFFERENCE = 5 };

/* Whether it was taken after now (UTC seconds), so that a clock is wrong. */
int sluice_snapshot_is_from_future (const struct sluice_snapshot *snapshot, int64_t now);
/* Whether it is young enough to be used at time now; from the future none is. */
int sluice_snapshot_is_fresh (const struct sluice_snapshot *snapshot,
			      const struct sluice_policy *policy, int64_t now);
uint32_t sluice_snapshot_corunner_count (const struct sluice_snapshot *snapshot);
const struct sluice_corunner *
sluice_snapshot_corunner (const struct sluice_snapshot *snapshot, uint32_t i);
/* NULL when it is not published. An empty name asks for the default partition. */
const struct sluice_partition *
sluice_snapshot_partition (const struct sluice_snapshot *snapshot, const char *name);
const struct sluice_user *sluice_snapshot_user (const struct sluice_snapshot *snapshot,
						uint32_t uid);
/* Whether the jobs of a QoS may preempt others. */
int sluice_snapshot_preempts (const struct sluice_snapshot *snapshot, const char *qos);
/* 1 for a lane of which nothing is published. */
double sluice_snapshot_lane_speed (const struct sluice_snapshot *snapshot,
				   const char *lane);
/* Jobs with a block that are no co-runners: those that wait, and running ones beyond
 * SLUICE_MAX_CORUNNERS. */
uint32_t sluice_snapshot_placed_count (const struct sluice_snapshot *snapshot);
const struct sluice_placed_job *
sluice_snapshot_placed (const struct sluice_snapshot *snapshot, uint32_t i);
/* Targets of lanes with blocks of which something is known. */
uint32_t sluice_snapshot_target_count (const struct sluice_snapshot *snapshot);
const struct sluice_target *sluice_snapshot_target (const struct sluice_snapshot *snapshot,
						    uint32_t i);
uint32_t sluice_snapshot_holder_count (const struct sluice_snapshot *snapshot);
const struct sluice_holder *
sluice_snapshot_holder_at (const struct sluice_snapshot *snapshot, uint32_t i);
/* NULL when the job has no tokens. */
const struct sluice_holder *sluice_snapshot_holder (const struct sluice_snapshot *snapshot,
						    uint32_t job_id);

#endif
