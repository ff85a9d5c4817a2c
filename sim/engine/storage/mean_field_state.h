/*
 * Internal to the mean-field storage model: what its files share. mean_field.c moves time,
 * mean_field_station.c solves the network, mean_field_load.c turns profiles into loads,
 * mean_field_turns.c lets bursts take turns.
 */
#ifndef SLUICE_MEAN_FIELD_STATE_H
#define SLUICE_MEAN_FIELD_STATE_H

#include "mean_field.h"

enum mean_field_phase {
	MEAN_FIELD_FREE,      /* the slot has no job */
	MEAN_FIELD_COMPUTING, /* until `next` */
	MEAN_FIELD_WRITING    /* its burst ends at `next` if no rate changes before */
};

struct mean_field_job {
	struct sluice_mean_field_load load;
	uint64_t tag;
	uint64_t order; /* of starting: breaks ties of time */
	double started;
	double next;	      /* time of its next event */
	double compute_until; /* async: end of the computing of this cycle */
	double burst_began;
	double remaining; /* of the burst, in seconds alone, at `since` */
	double since;
	double alone;	/* requests/s alone on all lanes */
	double speed;	/* requests/s now, as a share of alone */
	double peak;	/* requests/s if nothing waited anywhere */
	double targets; /* of its lanes together */
	double io, io_alone;
	double burst; /* s of the burst, alone on all lanes */
	double usual; /* s: that times what makes a burst differ is its length */
	struct burst turn;
	uint32_t mask;
	uint32_t phase; /* enum mean_field_phase */
	uint32_t bursts_left;
	uint32_t heap_at; /* its place in the heap */
};

/* The jobs in a burst on one lane, and how long a request waits there. */
struct mean_field_lane {
	uint32_t *active; /* slots, in order of their bursts' beginning */
	uint32_t count, room;
	double target_peak; /* load of the targets if nothing waited anywhere */
	double server_peak; /* the same of the servers */
	double target_wait; /* SHARING_FIFO: s; else 1 / level (mean_field_station.c) */
	double server_wait; /* s */
};

/* What a job brings to a station while it is solved (mean_field_station.c). */
struct mean_field_term {
	double load, cap, outstanding, cycle, alongside, here, share;
};

enum mean_field_station { MEAN_FIELD_TARGET, MEAN_FIELD_SERVER, MEAN_FIELD_METADATA };

struct sluice_mean_field {
	struct sluice_mean_field_config config;
	double now;
	struct burst_control control;
	double metadata_wait; /* s */
	double metadata_peak; /* load of the metadata server if nothing waited */
	uint64_t orders;
	struct mean_field_job *jobs;
	struct mean_field_term *terms; /* scratch: one for each job at most */
	uint32_t *heap;		       /* slots by (next, order) */
	uint32_t *free;
	uint32_t room, heap_count, free_count;
	uint32_t dirty;	      /* lanes whose set of bursts has changed */
	uint32_t burst_count; /* bursts going on */
	uint32_t wide_count;  /* bursts on more than one lane: they tie lanes together */
	struct mean_field_lane lanes[SLUICE_MAX_LANES];
};

static inline uint32_t
mean_field_all_lanes (const struct sluice_mean_field *mean_field)
{
	return (1U << mean_field->config.lane_count) - 1U;
}

static inline uint32_t
mean_field_is_wide (uint32_t mask)
{
	return (mask & (mask - 1U)) != 0;
}

/* The lane that accounts for a job on several. */
static inline uint32_t
mean_field_home (uint32_t mask)
{
	return (uint32_t)__builtin_ctz (mask);
}

/* Requests/s of a job by the waits as they are. */
double mean_field_rate_of (const struct sluice_mean_field *mean_field,
			   const struct mean_field_job *job);

/* Seconds of a station's time (1: all of it) that a request of a job takes; of the
 * metadata server, counted on the job's home lane only. */
double mean_field_load_at (const struct sluice_mean_field *mean_field,
			   enum mean_field_station station, uint32_t lane,
			   const struct mean_field_job *job);

/* Set the wait of a station so that it is full at most, the other waits held.
 * Returns how far the wait has moved, relative to its size. */
double mean_field_fill_station (struct sluice_mean_field *mean_field,
				enum mean_field_station station, uint32_t lane,
				double full);

/* Solve the network for the dirty lanes and all that these reach, and set the
 * speed of every job there that changes. */
void mean_field_solve (struct sluice_mean_field *mean_field);

/* What differs between a job's bursts: the mean over them is 1. */
void mean_field_set_usual (struct sluice_mean_field *mean_field,
			   struct mean_field_job *job);
double mean_field_burst_length (const struct sluice_mean_field *mean_field,
				const struct mean_field_job *job, uint32_t bursts_left);

/* The storage, as decisions on turns see it. */
void mean_field_init_turns (struct sluice_mean_field *mean_field);

/* What turns know of a job: at its start, and after each of its bursts. */
void mean_field_expect (struct sluice_mean_field *mean_field, struct mean_field_job *job);
void mean_field_learn (struct sluice_mean_field *mean_field, struct mean_field_job *job);

/* Decide now, and let it take effect. */
void mean_field_take_turns (struct sluice_mean_field *mean_field);

/* Seconds alone that are left of a burst now. */
double mean_field_remaining (const struct sluice_mean_field *mean_field,
			     const struct mean_field_job *job);

/* From now on the burst of a job passes at this share of its rate alone. */
void mean_field_set_speed (struct sluice_mean_field *mean_field, struct mean_field_job *job,
			   double speed);

#endif
