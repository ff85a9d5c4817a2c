/*
 * What is replayed: a machine, its jobs, and how Slurm would schedule them.
 *
 * Times are seconds since an origin of the caller's choice. A slot is what the
 * replay counts: a node, or a processor where a trace knows only those. Slots of
 * one group are interchangeable; a partition is a set of groups, so overlapping
 * partitions share groups. docs/reference/replay.md states the semantics in full.
 */
#ifndef SLUICE_WORKLOAD_H
#define SLUICE_WORKLOAD_H

#include "base.h"

enum {
	SLUICE_MAX_GROUPS = 64, /* bits of struct sluice_replay_partition.groups */
	SLUICE_REPLAY_PARTITIONS = 256,
	SLUICE_MAX_LICENSES = 64,
};

struct sluice_replay_partition {
	uint64_t groups; /* bit g: may use group g, lowest first */
	double factor;	 /* its part of a multifactor priority, 0..1 */
	uint32_t tier;	 /* PriorityTier: goes first, and may preempt lower ones */
	uint32_t reserved;
};

struct sluice_machine {
	uint32_t group_count;
	uint32_t partition_count;
	uint32_t license_count;
	uint32_t reserved;
	int32_t group_slots[SLUICE_MAX_GROUPS];
	int32_t licenses[SLUICE_MAX_LICENSES];
	struct sluice_replay_partition partitions[SLUICE_REPLAY_PARTITIONS];
};

/* Capacity out of circulation during [from, until): a licence lease of sluiced, or
 * nodes in a reservation. May exceed what is free: running jobs go on. */
struct sluice_lease {
	double from;
	double until;	  /* INFINITY: for good */
	uint32_t license; /* index; ignored for a group */
	uint32_t group;	  /* index + 1; 0: a licence */
	int32_t amount;
	uint32_t reserved;
};

struct sluice_license_need {
	uint32_t license;
	int32_t count;
};

enum sluice_dependency_kind {
	SLUICE_AFTER_START, /* after */
	SLUICE_AFTER_ANY,   /* afterany: ended in whatever way */
	SLUICE_AFTER_OK,    /* afterok: ran to its end, and its program succeeded */
	SLUICE_AFTER_NOT_OK /* afternotok */
};

struct sluice_dependency {
	double delay;  /* s after the other job's start or end: think time of SWF */
	uint32_t job;  /* index */
	uint32_t kind; /* enum sluice_dependency_kind */
};

struct sluice_replay_job {
	double submit;	/* ascending from job to job: their order is FIFO's */
	double begin;	/* earliest start; 0: none */
	double runtime; /* s, alone, without a limit */
	double limit;	/* s, >= 1, INFINITY: none. What the scheduler believes */
	int32_t slots;	/* >= 1 */
	uint32_t user;	/* index of an association (user in account) */
	uint32_t array; /* index + 1 into array_limits; 0: none */
	uint32_t first_license;
	uint32_t first_dependency;
	int32_t bonus; /* points added to a multifactor priority: QoS, nice */
	uint16_t license_count;
	uint16_t dependency_count;
	uint16_t partition;
	uint16_t fails; /* 1: its program fails (afterok is not met) */
};

struct sluice_association {
	uint32_t account;
	uint32_t reserved;
	double shares;	       /* alongside the others of its account */
	double account_shares; /* of its account alongside the other accounts */
};

enum sluice_backfill {
	SLUICE_BACKFILL_NONE, /* FCFS: a partition's first blocked job blocks the rest */
	SLUICE_BACKFILL_EASY, /* its first blocked job has a reservation */
	SLUICE_BACKFILL_CONSERVATIVE /* each job tested has one */
};

enum sluice_priority { SLUICE_PRIORITY_FIFO, SLUICE_PRIORITY_MULTIFACTOR };

enum sluice_preemption {
	SLUICE_PREEMPT_OFF,
	SLUICE_PREEMPT_REQUEUE, /* the victim waits again and starts anew */
	SLUICE_PREEMPT_CANCEL
};

/* X(name, default, low, high, unit, meaning) */
#define SLUICE_SCHEDULER_NUMBERS(X)                                                        \
	X (interval, 0.0, 0.0, 1e6, "s",                                                   \
	   "bf_interval; 0: backfill at each event instead of the main pass")              \
	X (window, INFINITY, 1.0, INFINITY, "s",                                           \
	   "bf_window: how far ahead a start is planned")                                  \
	X (resolution, 0.0, 0.0, 1e6, "s",                                                 \
	   "bf_resolution: planned times are rounded down to it; 0: exact")                \
	X (end_window, 0.0, 0.0, 1e6, "s",                                                 \
	   "a plan joins ends of running jobs: first window, doubling; 0: exact")          \
	X (depth, 0.0, 0.0, 1e9, "jobs", "bf_max_job_test: jobs looked at; 0: all")        \
	X (weight_age, 0.0, 0.0, 4e9, "points", "PriorityWeightAge")                       \
	X (weight_size, 0.0, 0.0, 4e9, "points", "PriorityWeightJobSize")                  \
	X (weight_fair_share, 0.0, 0.0, 4e9, "points", "PriorityWeightFairshare")          \
	X (weight_partition, 0.0, 0.0, 4e9, "points", "PriorityWeightPartition")           \
	X (max_age, 604800.0, 1.0, 1e9, "s", "PriorityMaxAge")                             \
	X (half_life, 604800.0, 1.0, 1e12, "s", "PriorityDecayHalfLife")                   \
	X (calc_period, 300.0, 1.0, 1e6, "s", "PriorityCalcPeriod")

/* X(name, default, highest, meaning) */
#define SLUICE_SCHEDULER_CHOICES(X)                                                        \
	X (backfill, SLUICE_BACKFILL_EASY, SLUICE_BACKFILL_CONSERVATIVE,                   \
	   "enum sluice_backfill")                                                         \
	X (priority, SLUICE_PRIORITY_FIFO, SLUICE_PRIORITY_MULTIFACTOR,                    \
	   "enum sluice_priority")                                                         \
	X (preemption, SLUICE_PREEMPT_OFF, SLUICE_PREEMPT_CANCEL,                          \
	   "enum sluice_preemption")                                                       \
	X (plan_licenses, 0, 1, "bf_licenses: licences are planned like slots")            \
	X (favor_small, 0, 1, "PriorityFavorSmall")

#define SLUICE_SCHEDULER_NUMBER(name, value, low, high, unit, text) double name;
#define SLUICE_SCHEDULER_CHOICE(name, value, high, text) uint32_t name;

struct sluice_scheduler {
	SLUICE_SCHEDULER_NUMBERS (SLUICE_SCHEDULER_NUMBER)
	SLUICE_SCHEDULER_CHOICES (SLUICE_SCHEDULER_CHOICE)
	uint32_t reserved;
};

/* Everything that a replay reads; nothing of it is changed. */
struct sluice_workload {
	struct sluice_machine machine;
	struct sluice_scheduler scheduler;
	const struct sluice_replay_job *jobs;
	const struct sluice_license_need *license_needs;
	const struct sluice_dependency *dependencies;
	const struct sluice_association *associations;
	const struct sluice_lease *leases;
	const uint32_t *array_limits; /* tasks of an array at the same time; 0: all */
	uint32_t job_count;
	uint32_t license_need_count;
	uint32_t dependency_count;
	uint32_t association_count;
	uint32_t lease_count;
	uint32_t array_count;
};

/* The defaults: EASY at each event, FIFO, nothing preempted. */
void sluice_scheduler_init (struct sluice_scheduler *scheduler);

/* 0, or -1 and err says which number of which job makes no sense. */
int sluice_workload_check (const struct sluice_workload *workload,
			   struct sluice_error *err);

#endif
