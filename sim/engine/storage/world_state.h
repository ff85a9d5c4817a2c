/*
 * Internal to the fast world: what its files share. world.c moves time,
 * world_rates.c solves the network, world_station.c one station of it, world_load.c turns
 * profiles into loads, world_turns.c lets bursts take turns.
 */
#ifndef SLUICE_WORLD_STATE_H
#define SLUICE_WORLD_STATE_H

#include "world.h"

enum world_phase {
	WORLD_FREE,	 /* the slot has no job */
	WORLD_COMPUTING, /* until `next` */
	WORLD_QUEUED,	 /* another job of its set is in a burst */
	WORLD_WRITING	 /* its burst ends at `next` if no rate changes before */
};

struct world_job {
	struct sluice_world_load load;
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
	double burst;	  /* s of the burst, alone on all lanes */
	double usual;	  /* s: that times what makes a burst differ is its length */
	double allowed;	  /* share of its rate alone that turns let it have */
	double weight;	  /* at fair targets */
	double expected;  /* s that the burst is taken to have; 0: unknown */
	double demand[3]; /* shares that it is taken to take of targets, links, metadata */
	double charged;	  /* time up to which it is charged for being held */
	double held;	  /* s of this burst */
	double held_in_all;
	uint32_t mask;
	uint32_t phase; /* enum world_phase */
	uint32_t bursts_left;
	uint32_t heap_at; /* its place in the heap */
	uint32_t behind;  /* QUEUED: who comes next in its set; NOBODY */
};

enum { WORLD_NOBODY = UINT32_MAX };

/* Jobs of which one may be in a burst: slots, or NOBODY. */
struct world_set {
	uint32_t writing, first, last; /* first and last: of those that are queued */
};

/* The jobs in a burst on one lane, and how long a request waits there. */
struct world_lane {
	uint32_t *active; /* slots, in order of their bursts' beginning */
	uint32_t count, room;
	double target_peak; /* load of the targets if nothing waited anywhere */
	double server_peak; /* the same of the servers */
	double target_wait; /* SHARING_FIFO: s; else 1 / level (world_rates.c) */
	double server_wait; /* s */
};

/* What a job brings to a station while it is solved (world_station.c). */
struct world_term {
	double load, cap, outstanding, cycle, beside, here, share;
};

enum world_station { WORLD_TARGET, WORLD_SERVER, WORLD_METADATA };

struct sluice_world {
	struct sluice_world_config config;
	double now;
	double control_at;    /* when turns are decided on next; INFINITY: by no event */
	double metadata_wait; /* s */
	double metadata_peak; /* load of the metadata server if nothing waited */
	uint64_t orders;
	struct world_job *jobs;
	struct world_term *terms; /* scratch: one for each job at most */
	struct sluice_turns_storage turns_storage;
	struct sluice_turns_job *turn_jobs; /* scratch, as all that follow */
	struct sluice_turn *turns;
	uint32_t *turn_slots, *turn_order;
	sluice_world_watch *watch; /* NULL: nobody watches turns */
	void *watcher;
	uint32_t *heap; /* slots by (next, order) */
	uint32_t *free;
	uint32_t room, heap_count, free_count;
	uint32_t dirty;	      /* lanes whose set of bursts has changed */
	uint32_t burst_count; /* bursts going on */
	uint32_t wide_count;  /* bursts on more than one lane: they tie lanes together */
	struct world_lane lanes[SLUICE_MAX_LANES];
	struct world_set sets[SLUICE_WORLD_SETS];
};

static inline uint32_t
world_all_lanes (const struct sluice_world *world)
{
	return (1U << world->config.lane_count) - 1U;
}

static inline uint32_t
world_is_wide (uint32_t mask)
{
	return (mask & (mask - 1U)) != 0;
}

/* The lane that accounts for a job on several. */
static inline uint32_t
world_home (uint32_t mask)
{
	return (uint32_t)__builtin_ctz (mask);
}

/* Requests/s of a job by the waits as they are. */
double world_rate_of (const struct sluice_world *world, const struct world_job *job);

/* Seconds of a station's time (1: all of it) that a request of a job takes; of the
 * metadata server, counted on the job's home lane only. */
double world_load_at (const struct sluice_world *world, enum world_station station,
		      uint32_t lane, const struct world_job *job);

/* Set the wait of a station so that it is full at most, the other waits held.
 * Returns how far the wait has moved, relative to its size. */
double world_fill_station (struct sluice_world *world, enum world_station station,
			   uint32_t lane, double full);

/* Solve the network for the dirty lanes and all that these reach, and set the
 * speed of every job there that changes. */
void world_solve (struct sluice_world *world);

/* Let a job into its burst, or queue it behind its set. Returns 1 when it may go on. */
int world_take_turn (struct sluice_world *world, struct world_job *job);

/* Give the turn of a job, which wrote or was queued, to the next of its set. Returns
 * that one, which may go on now; NULL: there is none. */
struct world_job *world_give_turn (struct sluice_world *world, struct world_job *job);

/* Nobody writes and nobody is queued. */
void world_init_sets (struct sluice_world *world);

/* Normally distributed, by a seed and a number. */
double world_normal (uint64_t seed, uint64_t counter);

/* What differs between a job's bursts: the mean over them is 1. */
void world_set_usual (struct sluice_world *world, struct world_job *job);
double world_burst_length (const struct sluice_world *world, const struct world_job *job,
			   uint32_t bursts_left);

/* What the storage is to who decides on turns. */
void world_init_turns (struct sluice_world *world);

/* What turns know of a job: at its start, and after each of its bursts. */
void world_expect (struct sluice_world *world, struct world_job *job);
void world_learn (struct sluice_world *world, struct world_job *job);

/* A burst begins or ends: decide when that is seen. */
void world_ask_for_turns (struct sluice_world *world);

/* Decide now, and let it take effect. */
void world_take_turns (struct sluice_world *world);

/* The burst of a job ends: it is held no more. */
void world_end_hold (struct sluice_world *world, struct world_job *job);

/* Seconds alone that are left of a burst now. */
double world_remaining (const struct sluice_world *world, const struct world_job *job);

/* From now on the burst of a job passes at this share of its rate alone. */
void world_set_speed (struct sluice_world *world, struct world_job *job, double speed);

#endif
