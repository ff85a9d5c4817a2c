/*
 * Placement: the storage targets to which a job's output goes.
 *
 * A striped operation takes its slowest target, so what matters is who else writes on any
 * of a job's targets. Jobs i and j that share a target both do I/O for a share d_i d_j of
 * the time, and then both wait. What job j costs on a block, in nodes (node-seconds
 * lost a second), is a sum over all jobs i that share a target with it:
 *
 *	d_j (sum of d_i n_i + n_j sum of d_i)
 *
 * with d the share of its time in which a job does I/O, and n its nodes. Both sums are kept
 * for every block, and do not depend on the order in which jobs were added. Counting pairs
 * is an approximation from below: three jobs that meet lose more.
 *
 * Blocks are aligned in the site's numbering of targets, which goes across servers: a block
 * within one server is bound by its link.
 */
#ifndef SLUICE_PLACEMENT_H
#define SLUICE_PLACEMENT_H

#include "profile.h"

enum {
	SLUICE_MAX_TARGETS = 512,
	SLUICE_PLACEMENT_NODES = 2 * SLUICE_MAX_TARGETS, /* blocks of all sizes */
};

/* count is a power of two and first a multiple of it; count 0: every target. */
struct sluice_block {
	uint16_t first, count;
};

/* Whether it is a block within so many targets. */
int sluice_is_block (struct sluice_block block, uint32_t targets);

/* A job on its targets. A slow target is one with the missing share of its rate as duty,
 * no nodes and a block of 1. */
struct sluice_placed {
	double duty;  /* 0..1: share of the time in which it does I/O */
	double nodes; /* that wait for its I/O */
	struct sluice_block block;
};

/* The same on a lane, whose targets are numbered from 0. */
struct sluice_placed_job {
	uint32_t lane;
	struct sluice_block block;
	double duty;
	double nodes;
};

/* What is seen of a target of a lane. */
struct sluice_target {
	uint32_t lane, target;
	double used, capacity; /* as sluice_placement_fill takes them */
	double missing;	       /* share of its rate: it is slow */
	uint32_t is_closed;    /* 1: it is down */
	uint32_t reserved;
};

/* Of every block, the root at 1 and the children of i at 2 i and 2 i + 1; the targets are
 * the leaves, from SLUICE_MAX_TARGETS on. */
struct sluice_placement {
	uint32_t targets;
	uint32_t reserved;
	double duty[SLUICE_PLACEMENT_NODES];	 /* sum of d_i */
	double waiting[SLUICE_PLACEMENT_NODES];	 /* sum of d_i n_i */
	double fullest[SLUICE_PLACEMENT_NODES];	 /* of its targets */
	double filled[SLUICE_PLACEMENT_NODES];	 /* sum over its targets */
	uint16_t closed[SLUICE_PLACEMENT_NODES]; /* targets */
};

struct sluice_placement_choice {
	struct sluice_block block;
	double cost;	  /* nodes, of the block */
	double mean_cost; /* of all blocks without a closed target: what chance costs */
	double next_cost; /* of the next best among them; SLUICE_UNKNOWN: there is none */
	uint32_t considered; /* blocks of this size without a closed target */
	uint32_t reserved;
};

/* Targets with a larger share of their capacity used get no more output. */
extern const double sluice_full_share;

/* No jobs, nothing filled, all open. Of more than SLUICE_MAX_TARGETS the first count. */
void sluice_placement_init (struct sluice_placement *p, uint32_t targets);

/* A job starts or ends; remove takes what add got. */
void sluice_placement_add (struct sluice_placement *p, const struct sluice_placed *job);
void sluice_placement_remove (struct sluice_placement *p, const struct sluice_placed *job);

/* So much of a target's capacity is used, in one unit for all; capacity 0: not known, and
 * all alike. Beyond sluice_full_share it closes by itself. */
void sluice_placement_fill (struct sluice_placement *p, uint32_t target, double used,
			    double capacity);

/* A target that is down, or not to be used; no block that has it is chosen. */
void sluice_placement_close (struct sluice_placement *p, uint32_t target, int is_closed);

/* All of that; what is missing of its rate counts once for each call. */
void sluice_placement_see (struct sluice_placement *p, const struct sluice_target *target);

/*
 * The block of so many targets on which a job costs least. Among those that cost the same
 * it is the turn-th, counted round: a caller counts turns up, or draws them. Blocks with
 * a target that is a fifth fuller than the mean are taken only where there are no others.
 * -1: no such block is open.
 */
int sluice_placement_choose (const struct sluice_placement *p, uint32_t count, double duty,
			     double nodes, uint32_t turn,
			     struct sluice_placement_choice *out);

/*
 * How many targets a job needs, as a power of two: those of earlier runs, and at least what
 * its rate alone fills of the rate of a target (B/s; 0: unknown). Too few are dear, too
 * many cheap: where earlier runs say no number of targets, or the larger number is vague,
 * it is twice as many. 0: nothing is known, or there would be no two blocks to choose from.
 */
uint32_t sluice_placement_need (const struct sluice_profile *profile, double target_rate,
				uint32_t targets);

/*
 * So many open targets on which the fewest write now, rising; of equal ones those that are
 * less full, then round from the turn-th on. writers has a number for each target. Returns
 * how many: fewer where fewer are open.
 */
uint32_t sluice_placement_at_create (const struct sluice_placement *p,
				     const uint16_t *writers, uint32_t count, uint32_t turn,
				     uint16_t *out);

#endif
