/*
 * What may be plugged into the engine: storage that stretches jobs, and a policy
 * that decides about them. Both in C, so that no job costs a call of Python.
 */
#ifndef SLUICE_HOOKS_H
#define SLUICE_HOOKS_H

#include "workload.h"

struct sluice_replay_storage_end {
	double time;
	uint32_t job;
	uint32_t reserved;
};

/* The storage model that answers. Calls come in the order of time. */
struct sluice_replay_storage {
	void *self;
	/* A job starts on the lanes of lane_mask (0: all); -1: no memory. */
	int (*start) (void *self, double now, uint32_t job, uint32_t lane_mask);
	/* A job is killed or preempted. */
	void (*stop) (void *self, double now, uint32_t job);
	/* Run up to and including until: 1 at the first end of a job, 0 without one;
	 * called again after each 1. */
	int (*run) (void *self, double until, struct sluice_replay_storage_end *end);
};

enum { SLUICE_MAX_TOKENS = 4 };

/* What a policy wants of one job. */
struct sluice_choice {
	double not_before;    /* do not start earlier; at most now: start */
	double hold_until;    /* after now: not yet; see starting */
	double wake;	      /* the engine's own */
	uint32_t lane_mask;   /* lanes it will write to; 0: all */
	uint32_t token_count; /* licences that it takes next to its own */
	struct sluice_license_need tokens[SLUICE_MAX_TOKENS];
};

/* Who decides. Each function may be NULL. */
struct sluice_replay_policy {
	void *self;
	/* A job enters the queue; choice is empty. */
	void (*submitted) (void *self, double now, uint32_t job,
			   struct sluice_choice *choice);
	/* A job could start now; choice holds what was chosen so far. A not_before in the
	 * future takes it out of the queue until then. A hold_until in the future, or
	 * tokens that are not free, leave it where it is: it blocks nobody and has no
	 * reservation, as in Slurm a job that lacks a licence, and is asked about again
	 * whenever a job has ended, and at hold_until. */
	void (*starting) (void *self, double now, uint32_t job,
			  struct sluice_choice *choice);
	void (*started) (void *self, double now, uint32_t job);
	void (*ended) (void *self, double now, uint32_t job);
};

#endif
