/*
 * Internal to the mean-field storage model: what its files share. mean_field.c moves time,
 * mean_field_place.c says where bursts go, mean_field_station.c solves the network of lanes
 * and mean_field_filling.c that of single targets, mean_field_load.c turns profiles into
 * loads, mean_field_turns.c lets bursts take turns.
 */
#ifndef SLUICE_MEAN_FIELD_STATE_H
#define SLUICE_MEAN_FIELD_STATE_H

#include "mean_field.h"
#include "placement.h"

enum {
	MEAN_FIELD_NO_SLOT = UINT32_MAX,
	TARGET_WORDS = SLUICE_TURNS_TARGETS / 64,
	MEAN_FIELD_GROUPS = 2 * SLUICE_MAX_TARGETS, /* targets and links, at most */
};

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
	double targets; /* of its lanes together; where it writes on single ones, these */
	double io, io_alone;
	double burst; /* s of the burst, alone on all lanes */
	double usual; /* s: that times what makes a burst differ is its length */
	struct burst turn;
	double wait; /* of single targets: s that a request waits at the fullest of them */
	double
	    level;   /* likewise 1 / level, where targets are fair (mean_field_station.c) */
	double rate; /* requests/s by the station that has decided on it */
	double was;  /* likewise by all, in the sweep before */
	struct sluice_block block; /* count 0: the allocator places its files */
	uint32_t group_count;	   /* that its burst loads */
	uint32_t target_count;	   /* of these, targets; they come before links */
	/* A burst of a file a process is a job a target, which has its own end. */
	uint32_t owner, first_stream, next_stream; /* slots or MEAN_FIELD_NO_SLOT */
	uint32_t most_streams;			   /* of its bursts */
	uint32_t mark;	   /* of the last solution that reached it */
	uint32_t is_fixed; /* in this solution */
	uint32_t mask;
	uint32_t phase; /* enum mean_field_phase */
	uint32_t bursts_left;
	uint32_t heap_at; /* its place in the heap */
};

/* A job in a burst at a group of targets, or at a link. */
struct mean_field_visit {
	double load; /* s of the station's time a request, where targets are single */
	uint32_t slot;
	uint32_t reserved;
};

/*
 * What bursts load. Where no placement is asked for, a group is a lane, with its targets
 * and servers as two stations. Else it is a single target or, from link_base on, the link
 * of a server: one station, for which the `target` members are used.
 */
struct mean_field_group {
	struct mean_field_visit *active; /* in order of their bursts' beginning */
	uint32_t count;
	uint32_t is_dirty; /* its set of bursts has changed */
	double targets, servers;
	double target_peak; /* load of the targets if nothing waited anywhere */
	double server_peak; /* the same of the servers */
	double target_wait; /* SHARING_FIFO: s; else 1 / level (mean_field_station.c) */
	double server_wait; /* s */
	double written;	    /* B */
	uint32_t mark;	    /* of the last solution that reached it */
	uint32_t is_stale;
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
	uint32_t dirty;	      /* the set of bursts of a group has changed */
	uint32_t burst_count; /* bursts going on */
	uint32_t wide_count;  /* bursts on more than one lane: they tie lanes together */
	uint32_t group_count;
	uint32_t link_base;  /* group of the first link; group_count: none can be full */
	uint32_t link_count; /* target t is behind link t % link_count */
	uint32_t promised;   /* slots kept for streams of jobs that have none now */
	uint16_t *places;    /* groups of each job, group_count each */
	double link_seconds; /* of server_seconds, over what one link takes for it */
	/* Of the allocator, and of placement at create. */
	uint32_t pointer;
	uint32_t creates;		    /* random numbers drawn for those of others */
	double pointed;			    /* when */
	struct sluice_placement *placement; /* NULL: lanes are stations */
	/* Scratch of placing, and of a solution: its groups and jobs. */
	uint32_t mark, reached_groups, reached_jobs;
	uint16_t candidates[SLUICE_MAX_TARGETS];
	uint16_t files[MEAN_FIELD_GROUPS]; /* on each target; targets behind each link */
	uint16_t reached[MEAN_FIELD_GROUPS];
	uint32_t *slots; /* one for each job at most */
	uint64_t *bits;	 /* TARGET_WORDS for each job: its targets, for turns */
	struct mean_field_group groups[MEAN_FIELD_GROUPS];
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

/* The groups that a job's burst loads: targets, then links. */
static inline uint16_t *
mean_field_groups_of (const struct sluice_mean_field *w, const struct mean_field_job *job)
{
	return &w->places[(size_t)(job - w->jobs) * w->group_count];
}

/* The first group of a job's burst accounts for it. */
static inline int
mean_field_is_home (const struct sluice_mean_field *w, uint32_t group,
		    const struct mean_field_job *job)
{
	return mean_field_groups_of (w, job)[0] == group;
}

/* Requests/s of a job by the waits as they are. */
double mean_field_rate_of (const struct sluice_mean_field *mean_field,
			   const struct mean_field_job *job);

/* Seconds of a station's time (1: all of it) that a request of a job takes; of the
 * metadata server, counted on the job's home group only. */
double mean_field_load_at (const struct sluice_mean_field *mean_field,
			   enum mean_field_station station, uint32_t group,
			   const struct mean_field_job *job);

/* Set the wait of a station so that it is full at most, the other waits held.
 * Returns how far the wait has moved, relative to its size. */
double mean_field_fill_station (struct sluice_mean_field *mean_field,
				enum mean_field_station station, uint32_t group,
				double full);

/* What a job brings to a target or link on which it has that load, its wait elsewhere being
 * known. */
struct mean_field_term mean_field_term_of_target (const struct sluice_mean_field *w,
						  enum mean_field_station station,
						  const struct mean_field_job *job,
						  double load);

/* The wait at which the terms fill a station, found from the one that did so before. */
double mean_field_wait_of (const struct mean_field_term *terms, uint32_t count, double full,
			   double before);

/* The part of a group's time that is not lost between programs. */
double mean_field_capacity (const struct sluice_mean_field *mean_field,
			    const struct mean_field_group *group);

/* Whether a station needs no look: it was not full, and would not be if no job
 * waited anywhere, by more than the rounding of its sum. */
int mean_field_is_idle (double peak, double wait, double full);

/* Solve the network for the dirty groups and all that these reach, and set the
 * speed of every job there that changes. */
void mean_field_solve (struct sluice_mean_field *mean_field);
void mean_field_solve_targets (struct sluice_mean_field *mean_field);

/* A burst of the job has begun or ended, or goes at another speed. */
void mean_field_mark_dirty (struct sluice_mean_field *mean_field,
			    const struct mean_field_job *job);

/* Let the burst of a job go on at so many requests/s. */
void mean_field_set_rate (struct sluice_mean_field *mean_field, struct mean_field_job *job,
			  double rate);

/* The groups by the configuration. -1: no memory. */
int mean_field_init_groups (struct sluice_mean_field *mean_field);

/* Say which groups a job's bursts load: once where groups are lanes, else at each burst.
 * mean_field_place leaves in w->files how many files are on each target, and how many
 * targets behind each link; mean_field_placed clears that. */
void mean_field_place_on_lanes (struct sluice_mean_field *mean_field,
				struct mean_field_job *job);
void mean_field_place (struct sluice_mean_field *mean_field, struct mean_field_job *job);
void mean_field_placed (struct sluice_mean_field *mean_field,
			const struct mean_field_job *job);

/* The requests/s alone of the stream on each target of a burst (w->files), each by itself.
 * Returns by how much they are slower together, on their links and the metadata server. */
double mean_field_streams_alone (const struct sluice_mean_field *mean_field,
				 const struct mean_field_job *job,
				 double alone[SLUICE_MAX_TARGETS]);

/* Tell placement how full a target is. */
void mean_field_show_filling (struct sluice_mean_field *mean_field, uint32_t target);

/* So many targets may the files of a job's burst be on. */
uint32_t mean_field_most_streams (const struct sluice_mean_field *mean_field,
				  const struct sluice_mean_field_load *load);

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
