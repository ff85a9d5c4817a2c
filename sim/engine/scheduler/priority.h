/*
 * Who goes first: FIFO, or Slurm's multifactor priority with a Fair Tree.
 *
 * Usage is slot-seconds, halved every half_life, counted up at each calc_period;
 * factors hold from one period to the next, as in slurmctld.
 */
#ifndef SLUICE_PRIORITY_H
#define SLUICE_PRIORITY_H

#include "workload.h"

struct share {
	double usage;  /* decayed, up to the last period */
	double mark;   /* sum of slots * start over what runs: see priority.c */
	double busy;   /* slots that run now */
	double factor; /* 0..1 */
};

/* Shares over usage, both normalised: the larger goes first. */
struct standing {
	double account_level;
	double level;
	uint32_t user;
};

struct priority {
	const struct sluice_workload *workload;
	double total_slots;
	double period_end;	/* of the current period */
	double decay;		/* of usage in one period */
	struct share *shares;	/* one an association */
	double *account_usage;	/* one an account */
	double *account_shares; /* of the associations of an account together */
	double all_shares;
	struct standing *standings; /* scratch */
	uint32_t account_count;
	int is_stale; /* factors do not follow usage yet */
};

int priority_init (struct priority *p, const struct sluice_workload *w, double origin);
void priority_release (struct priority *p);

/* The rank of a waiting job: less goes first. eligible: s when it entered the queue. */
uint64_t priority_rank (struct priority *p, uint32_t job, double eligible, double now);

void priority_started (struct priority *p, uint32_t job, double now);
void priority_ended (struct priority *p, uint32_t job, double now);

/* Close all periods up to now. */
void priority_advance (struct priority *p, double now);

#endif
