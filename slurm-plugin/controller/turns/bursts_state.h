/* Internal to bursts.h: the table of jobs, and what its modules do for each other. */
#ifndef SLUICE_TURNS_BURSTS_STATE_H
#define SLUICE_TURNS_BURSTS_STATE_H

#include "bursts.h"
#include "load.h"
#include "placement.h"

enum {
	BUCKETS = 1 << 15,
	MAX_REPORTS = 6, /* of a part that are kept; they reach back by more than the lag */
};

static const double bursts_silence = 3.0; /* s without a report that end a burst */
/* s by which trials and learning look back, so that nodes have reported (trials.c) */
static const double bursts_report_lag = 1.2;
static const double bursts_backlog
    = 1.0; /* s at a burst's begin that do not show its rate */
static const double bursts_min_clean = 3.0; /* s alone, from which a rate is known */

/* Bytes and operations, or rates of these. */
struct volume {
	double bytes, operations;
};

/* What a part had written when it reported. */
struct progress {
	double clock;
	struct volume volume;
};

/* A job on one agent. */
struct burst_part {
	struct burst_job *job;
	struct bursts_agent *agent;
	struct burst_part *next_of_job, **link_of_job;
	struct burst_part *next_of_agent, **link_of_agent;
	uint32_t is_active;
	uint32_t flags; /* enum wire_burst_flags, of the newest report */
	uint32_t writers;
	double reported;
	struct progress reports[MAX_REPORTS]; /* the newest first */
	uint64_t sent;			      /* agent's clock of the newest report */
	uint64_t bytes, operations, uncovered_bytes, refused, exhausted, may_hold;
	/* at the last report before the job's window began */
	uint64_t window_sent, window_bytes, window_operations;
};

struct burst_job {
	uint32_t id, nodes;
	struct burst_job *next_in_bucket;
	struct burst_part *parts;
	uint32_t active_parts;
	uint32_t slot; /* among those in a burst, from 1; 0: it is in none */
	/* the burst */
	double began;
	double reported; /* clock of its first report */
	double settled;	 /* clock from which its rate is its own, but for other jobs */
	struct volume done;
	double held, charged, share; /* in observe, as it would have been */
	double stretch, went;	     /* as in struct sluice_turns_job */
	double waited;		     /* of that, what it was */
	uint32_t first, first_nodes; /* job that it was last held for; 0: none */
	uint32_t is_out_of_budget, burst_holds;
	const char *ended; /* why it was last released */
	uint32_t reason;   /* of its verdict */
	double saving, since;
	uint32_t is_decided; /* its nodes have a verdict on this burst */
	struct wire_word word;
	/* the rate it is measured at */
	double window_began;
	uint32_t is_window_clean;
	struct volume clean; /* rates while no other job wrote on its lanes */
	double clean_seconds;
	struct volume pace;   /* rate by which trials measure it, the same in a burst */
	struct volume best;   /* highest rates */
	struct volume recent; /* rate in its last window */
	/* the burst before */
	struct volume last;
	/* of its profile; 0: unknown */
	uint64_t rules; /* number of those that it was predicted under */
	double predicted[SLUICE_STATION_COUNT], burst_seconds;
	uint64_t program;
	uint32_t lane_mask;
	uint32_t width; /* targets that it needs */
	/* placing.c */
	uint32_t
	    placed_slot; /* among those that follow `targets`, from 1; 0: it does not */
	struct sluice_turns_targets block;    /* of its admin comment; none: unknown */
	uint32_t is_in_blocks;		      /* its targets can be no others */
	struct sluice_turns_targets targets;  /* of its new files; none: anywhere */
	double targets_said, targets_changed; /* clocks */
	/* for the status */
	double known_since;
};

struct bursts {
	bursts_send *send;
	bursts_send_place *send_place;
	void *sender;
	bursts_record *record; /* NULL: none */
	void *recorder;
	struct bursts_counts counts;
	uint32_t job_count, part_count, active_count, holding_count, placed_count;
	int have_changed, holds;
	double searched; /* clock of the last search for silent parts */
	double respite;	 /* s: sluice_turns_respite */
	struct burst_job *buckets[BUCKETS];
	struct burst_job *active[BURSTS_MAX_JOBS];
	struct burst_job *placed[BURSTS_MAX_JOBS];
	struct sluice_turns_job described[BURSTS_MAX_JOBS];
	struct sluice_turn turns[BURSTS_MAX_JOBS];
	uint32_t order[BURSTS_MAX_JOBS];
	struct sluice_turns_check check;
	struct sluice_turns_memory learned;
	struct sluice_turns_storage storage; /* as it was learned to be */
	double changed[SLUICE_MAX_LANES]; /* clock since which the same jobs write there */
};

/* bursts.c */
struct burst_job *bursts_find_job (struct bursts *bursts, uint32_t job_id);
void bursts_add_placed (struct bursts *bursts, struct burst_job *job);
void bursts_remove_job (struct bursts *bursts, struct burst_job *job);
struct burst_part *bursts_find_part (const struct bursts_agent *agent, uint32_t job_id);
struct burst_part *bursts_make_part (struct bursts *bursts, struct bursts_agent *agent,
				     uint32_t job_id); /* NULL: no room */
void bursts_unlink_part (struct burst_part *part);

/* reports.c */
void bursts_charge (struct bursts *bursts, struct burst_job *job, double clock);
void bursts_end_silent (struct bursts *bursts, double clock);

/* learning.c */
uint64_t bursts_rise (uint64_t before, uint64_t now);
void bursts_begin_window (struct burst_job *job, double clock);
void bursts_record_change (struct bursts *bursts, const struct burst_job *job,
			   double clock);
double bursts_last_change (const struct bursts *bursts, const struct burst_job *job);
double bursts_settled_at (const struct bursts *bursts, const struct burst_job *job);
void bursts_learn (struct bursts *bursts, const struct bursts_rules *rules, double clock);
void bursts_learn_burst (struct burst_job *job, double clock); /* it has ended */

/* prediction.c */
void bursts_predict (struct burst_job *job, const struct bursts_rules *rules);
struct volume bursts_full_rate (const struct burst_job *job);
double bursts_seconds (struct volume volume, struct volume rate);
void bursts_describe (const struct bursts *bursts, struct burst_job *job, double clock,
		      struct sluice_turns_job *out);
/* Set *storage to that of the rules, less the mean of jobs that do not report. */
void bursts_subtract_unreported (struct bursts *bursts, const struct bursts_rules *rules,
				 struct sluice_turns_storage *storage);

/* trials.c */
double bursts_progress (struct burst_job *job, struct volume rate, double clock);
double bursts_speed (const struct bursts *bursts, const struct burst_job *job,
		     double clock);

/* placing.c */
/* Targets of its lane to which its files go, as far as is known; NULL: anywhere. */
const struct sluice_turns_targets *bursts_targets_of (const struct burst_job *job);
/* Say where new files go. Returns the clock at which to call again if no burst
 * begins or ends before. */
double bursts_place (struct bursts *bursts, const struct bursts_rules *rules, double clock);

/* verdicts.c */
void bursts_release (struct bursts *bursts, struct burst_job *job);

#endif
