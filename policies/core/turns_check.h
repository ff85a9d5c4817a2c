/*
 * Whether holds help: verdicts of sluice_turns_decide, less the holds that do not.
 *
 * A hold is right only where the burst that it is for goes faster by it. Where
 * programs disturb each other less than their demands say, or where others take the room
 * that a hold leaves, it only loses. So now and then a held burst goes for a moment,
 * and what it does then is compared with what those lose that go before it:
 *
 *   harm = n_h (v_h - d) - sum n_j d_j
 *
 * n: nodes; v_h: the speed of the held burst while it goes, as a share of full speed;
 * d_j: the share of its speed that another loses meanwhile; d: their mean by what they take
 * of their stations, because the held burst waits for as much longer. Of two bursts that
 * share a station without loss, v_h is d, and harm is below 0: the hold helps.
 *
 * One trial says little: speeds are measured, and others come and go. Trials are summed up
 * for each pair of programs (the one that goes first, the one that is held), and for each
 * lane; harm has to be beyond the noise that trials show, and beyond a least noise.
 * Evidence fades, so that holds are tried again.
 *
 * A trial lasts from four settled moments: held, about to go, going, about to be
 * held again. What the held burst had cached is written before the first. A trial counts
 * only if the same others go all the time.
 *
 * Holds stop for a pair whose trials show harm, or after many show no help: off is the
 * answer to doubt. A pair without trials of its own follows its lane.
 *
 * State in, state out: no clock, no memory but the caller's, O(n). A verdict only ever
 * changes from held to going.
 */
#ifndef SLUICE_TURNS_CHECK_H
#define SLUICE_TURNS_CHECK_H

#include "turns.h"

enum {
	SLUICE_TURNS_PAIRS = 256,   /* that are remembered */
	SLUICE_TURNS_MEASURED = 32, /* bursts that a trial measures, at most */
	SLUICE_TURNS_MOMENTS = 4,   /* at which a trial measures */
};

/* s until what a burst has left in the cache of a client is written; all others are slower
 * until then. */
static const double sluice_turns_drained = 3.0;

/* What trials have shown. */
struct sluice_turns_evidence {
	double harm;	/* node-seconds a second, summed up over the trials */
	double squares; /* of these */
	double noise;	/* least variance of the sum */
	double trials;
	double faded; /* clock up to which they have */
	double due;   /* clock from which another trial is worth its loss */
};

struct sluice_turns_pair {
	uint64_t first, held; /* programs */
	uint32_t is_used, lane_mask;
	struct sluice_turns_evidence evidence;
};

/* A burst in a trial. */
struct sluice_turns_measured {
	uint64_t key;
	double nodes, share; /* of its fullest station */
	double moved[SLUICE_TURNS_MOMENTS];
};

/* One trial at a time. */
struct sluice_turns_trial {
	uint64_t held, first;		 /* keys */
	uint64_t others;		 /* a hash of the set of those that go */
	double began;			 /* clock */
	double at[SLUICE_TURNS_MOMENTS]; /* clocks of what was measured */
	uint32_t is_on, moments;
	uint32_t count, reserved;
	struct sluice_turns_measured
	    measured[SLUICE_TURNS_MEASURED]; /* the held one is the first */
};

struct sluice_turns_check {
	double lag;  /* s: `moved` of the jobs is of so long ago */
	double rest; /* clock before which no trial begins */
	struct sluice_turns_trial trial;
	struct sluice_turns_evidence lanes[SLUICE_MAX_LANES];
	struct sluice_turns_pair pairs[SLUICE_TURNS_PAIRS];
};

/* Nothing is known; lag: see struct sluice_turns_check. */
void sluice_turns_check_init (struct sluice_turns_check *check, double lag);

/*
 * Release in out[0..n), the verdicts of sluice_turns_decide on jobs at `clock`, those that
 * gain nothing by their hold, and the one that is on trial. Returns the clock at which to
 * decide again if nothing happens before; INFINITY: no trial is under way.
 */
double sluice_turns_check (const struct sluice_turns_settings *settings,
			   const struct sluice_turns_storage *storage,
			   const struct sluice_turns_job *jobs, uint32_t n, double clock,
			   struct sluice_turns_check *check, struct sluice_turn *out);

/* What programs are alike to storage, by their profiles: the pattern, and sizes of writes,
 * of what is flushed at once and of files, by factors of 8. Never 0. */
uint64_t sluice_turns_program (const struct sluice_profile *profile);

/* Whether holds have stopped at a clock, for want of help: on a lane, or for a pair. */
int sluice_turns_has_stopped (const struct sluice_turns_evidence *evidence, double clock);

#endif
