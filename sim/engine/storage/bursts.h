/*
 * Bursts of jobs as both storage models have them: by how much those of a job differ in
 * length, and the control that lets them take turns (turns.h).
 *
 * Control learns of a burst `latency` after it begins, and its end likewise. It knows how
 * far each burst is, and how long the job's last one took, by a measurement; of the first
 * one, and of what a job takes of the stations, what it is told until a burst has ended.
 * Bursts of jobs that are not covered cannot be held; where the storage does not count
 * what each job writes, they are not known either.
 */
#ifndef SLUICE_BURSTS_H
#define SLUICE_BURSTS_H

#include "base.h"
#include "turns_check.h"

/* Whether bursts take turns, and what lies between them and control. */
struct sluice_turns_config {
	struct sluice_turns_settings settings;
	double demand_error; /* what is taken for a job's demand, over what it is */
	double noise;	     /* sd of ln of a burst's length as it is measured */
	uint32_t is_on;
	uint32_t reserved;
};

void sluice_turns_config_init (struct sluice_turns_config *config); /* off */
int sluice_turns_config_check (const struct sluice_turns_config *config,
			       struct sluice_error *err);

/* What turns can do about a job. */
enum sluice_coverage {
	SLUICE_COVERED, /* its bursts are known and may be held */
	SLUICE_SEEN,	/* they are known */
	SLUICE_UNSEEN
};

/* What turns are decided from, and what came out: tests do the same with it as control
 * does with real bursts, or put the shares of another rule in place of these. */
struct sluice_turns_decided {
	const struct sluice_turns_settings *settings;
	const struct sluice_turns_storage *storage;
	const struct sluice_turns_job *jobs;
	const struct sluice_turns_check *check; /* before the call */
	struct sluice_turn *turns;
	double clock, again;
	uint32_t count;
	uint32_t reserved;
};
typedef void sluice_turns_watch (void *watcher, const struct sluice_turns_decided *decided);

/* What control knows of a job's bursts, and what it does about the present one. */
struct burst {
	double expected;		     /* s; 0: unknown */
	double demand[SLUICE_STATION_COUNT]; /* shares of all lanes */
	double allowed;	      /* share of its rate alone that turns allow it */
	double charged;	      /* time up to which it is charged for being held */
	double stretch, went; /* as in struct sluice_turns_job */
	double held;	      /* s of this burst */
	double held_in_all;
	double most_held; /* s for which its run may be held */
	double saving;	  /* node-s that its holds save, as predicted; NAN: none yet */
	double saving_in_all;
};

struct burst_control {
	struct sluice_turns_config config;
	struct sluice_turns_storage storage; /* as it is configured */
	struct sluice_turns_memory memory;
	struct sluice_turns_check check;
	uint64_t seed;		   /* of what differs between bursts, and of noise */
	double at;		   /* when control decides next; INFINITY: by no event */
	sluice_turns_watch *watch; /* NULL: none */
	void *watcher;
	struct sluice_turns_job *jobs; /* the bursts that it knows */
	struct sluice_turn *turns;     /* its verdicts on them */
	uint32_t *slots;	       /* their jobs, by the model's numbers */
	uint32_t *order;	       /* scratch */
	uint32_t count;
	uint32_t is_blind; /* a burst has begun that it does not know yet */
};

/* Normally distributed, by a seed and a number. */
double sluice_normal (uint64_t seed, uint64_t number);

/* Uniform in (0, 1), by a seed, a job, and how many were drawn for it. */
double burst_uniform (uint64_t seed, uint64_t key, uint32_t number);

/* By how much the length of a job's burst differs from its usual one (a factor), where
 * that varies by sd; number: of the burst. */
double burst_factor (uint64_t seed, uint64_t key, uint32_t number, double sd);

/* That times burst_factor are lengths whose mean over all bursts of a job is `mean`. */
double burst_usual (uint64_t seed, uint64_t key, uint32_t bursts, double sd, double mean);

void burst_control_init (struct burst_control *control,
			 const struct sluice_turns_config *config, uint64_t seed);
int burst_control_grow (struct burst_control *control, uint32_t room); /* -1: no memory */
void burst_control_free (struct burst_control *control);

/* What control expects of a job at its start; most_held: s for which its run may be
 * held. */
void burst_expect (const struct burst_control *control, struct burst *burst,
		   double most_held, double expected,
		   const double demand[SLUICE_STATION_COUNT]);

/* What it learns from a burst of so many seconds alone that has ended. */
void burst_learn (const struct burst_control *control, struct burst *burst, uint64_t key,
		  uint32_t number, double seconds,
		  const double demand[SLUICE_STATION_COUNT]);

void burst_begin (struct burst *burst, double now);
/* It is held no more. */
void burst_end (const struct burst_control *control, struct burst *burst, double now);

/* A burst begins or ends: decide when that is known. */
void burst_control_ask (struct burst_control *control, double now);

/*
 * Decide: begin, report each burst that goes on (its key, nodes, done, began, speed,
 * program and lanes), decide, and let each job follow its verdict. Returns 1 where that
 * changes anything.
 */
void burst_control_begin (struct burst_control *control);
void burst_control_report (struct burst_control *control, double now, uint32_t slot,
			   const struct burst *burst, uint32_t coverage,
			   const struct sluice_turns_job *job);
void burst_control_decide (struct burst_control *control, double now);
int burst_follow (const struct burst_control *control, struct burst *burst,
		  const struct sluice_turn *turn, double now);

#endif
