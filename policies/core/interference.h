/*
 * The interference law: the loss of a job to others on shared targets.
 *
 * Every job loads a target with a weight v and a demand d, its rate alone as a share of
 * the target's. While a set S of others is active, the targets serve
 * capacity * (a share by weight), as a fair-queueing server would:
 *
 *   rho_j(S) = min (1, max (K v_j / (d_j (v_j + sum_S v)), (K - sum_S d) / d_j))
 *
 * the guaranteed share or what the others leave over, whichever is more. K >= 1
 * because a mix uses more of a file system than one program (Shah S1).
 *
 * Written data that no process waits for lie in a cache, and go on from there in one
 * queue for all jobs. So streams share among each other by their weights, but alongside
 * writers that wait for each flush many streams are hardly more than one: with s the
 * streaming share, w the weight by itself and U = sum s w over j and S,
 *
 *   v = w (1 - s + s / (1 + kappa U))
 *
 * kappa = 0 is sharing by weights only; for a large one all streams together weigh
 * 1 / kappa. More co-runners never help: v_j falls with U, and the others' sum rises.
 *
 * A weight is the sum of the part of the bytes that are flushed and the part of those that
 * stream. With k the share of writes that create a file:
 *
 *   w    = (1 - s) f + s h
 *   ln f = (1 - k) c + r g + (k b + (1 - k) d) ln (chunk / (e 1 MiB)) + gamma ln (nprocs)
 *   ln h = a + gamma ln (nprocs)
 *   e    = 1 / (1 + (1 - s) (k p + (1 - k) q) 1 MiB / chunk)
 *
 * r is the share of the bytes that are read. Reads are waited for, so they weigh as
 * rewriting flushes of their size, but for g.
 *
 * A server that takes requests as they come serves each program by the time for which its
 * requests keep the queue busy. A program that flushes has nprocs * chunk bytes in the
 * queue, which it empties at its rate alone: at b = d = gamma = 1 and c = 0, f is the time
 * of a round of its flushes. e is that rate as a share of the target's: each flush of a new
 * file takes as long as p MiB more would, and of an old one as q MiB more.
 *
 * A known rate r replaces e where a site measured p and q: e is then max (r, e exp (-1)).
 * So a program that gets more than its kind is as efficient as that; one that gets about as
 * much as its kind wants no more, so d = 1; and one that gets much less could get more, so
 * d < 1.
 *
 * All of this is of means: one over targets hides hot ones, one over minutes hides peaks.
 * What a striped operation takes, its slowest target takes, and that has h times the load
 * of the mean one. A job whose rate alone is known keeps it busy for f of the time, and
 * others do so as far as they press as much. While both do, the job loses L of its rate:
 *
 *   rho_j(S) <= 1 - L f min (f, f sum_S d / d_j),   f = min (1, h d_j)
 *   L = (1 - r) L_w + r L_r
 *
 * Caches take up a part of what writes wait for. L = 0 is a site where means hide nothing,
 * such as one with a single target.
 *
 * The default coefficients are fitted to Shah et al. (SuperFrI 2019), S1 to S4 and S6. A
 * site's own measurements (`sluice site calibrate`) replace them. The parts that this law
 * had before, and what they were worth: docs/evidence/sessions.md.
 */
#ifndef SLUICE_INTERFERENCE_H
#define SLUICE_INTERFERENCE_H

#include "policy.h"
#include "profile.h"

enum {
	/* Co-runners whose on/off states are enumerated; 2^5 subsets. */
	SLUICE_EXACT_CORUNNERS = 5,
	/* Longest set that sluice_slowdown takes. */
	SLUICE_MAX_SET = 64,
};

/* X(name, default, meaning): the coefficients, in the order of the struct. The defaults are
 * what a fit to the published figures gives: tests/policies/test_published.py. None of
 * these has reads; h and L are those of a year of Edison: docs/evidence/production.md. */
#define SLUICE_INTERFERENCE_FIELDS(X)                                                      \
	X (stream_level, 0.832310651229136,                                                \
	   "a: ln of the weight of a stream of one process")                               \
	X (rewrite_level, 0.06643673283419294,                                             \
	   "c: ln of a rewriting, flushing weight at 1 MiB; of a creating one 0")          \
	X (create_exponent, 0.1189153333473675,                                            \
	   "b: how a creating, flushing weight grows with the chunk")                      \
	X (rewrite_exponent, 0.25054587327499167,                                          \
	   "d: how a rewriting, flushing weight grows with the chunk")                     \
	X (process_exponent, 0.35853837853295106,                                          \
	   "gamma: how weights grow with processes")                                       \
	X (create_overhead, 0.0, "p: MiB as long as a flush of a new file; 0: unknown")    \
	X (rewrite_overhead, 0.0, "q: MiB as long as a flush of an old file; 0: unknown")  \
	X (capacity, 1.19915958244719,                                                     \
	   "K: throughput of a mix over that of one program, >= 1")                        \
	X (pooling, 0.0, "kappa: how far streams weigh as one, >= 0; 0: by weights only")  \
	X (log_sd, 0.3010140367854036, "sd of ln w")                                       \
	X (hot_load, 2.5, "h: load of the slowest target over that of the mean one")       \
	X (hot_write_loss, 0.2, "L_w: share of the rate lost there, of writes; 0..1")      \
	X (hot_read_loss, 0.7, "L_r: likewise, of reads")                                  \
	X (read_level, 0.0, "g: ln of the weight of a read over that of a rewriting flush")

#define SLUICE_INTERFERENCE_MEMBER(name, def, text) double name;

struct sluice_interference {
	SLUICE_INTERFERENCE_FIELDS (SLUICE_INTERFERENCE_MEMBER)
};

void sluice_interference_init (struct sluice_interference *model); /* the defaults */
int sluice_interference_check (const struct sluice_interference *model,
			       struct sluice_error *err);

enum { SLUICE_TRAFFIC_FEATURES = 5 };

/* Physical features of a profile: s, k, log2 (chunk / 1 MiB), log2 (nprocs) and r. */
void sluice_traffic_features (const struct sluice_profile *profile,
			      double features[SLUICE_TRAFFIC_FEATURES]);

/* ln e of a profile by its kind of traffic: its rate alone over that of its targets. */
double sluice_log_efficiency (const struct sluice_profile *profile,
			      const struct sluice_interference *model);

/* Load of a job on the targets it is spread over. */
struct sluice_pressure {
	double weight;	  /* w, on each of its targets */
	double streaming; /* the share of w that counts as a stream */
	double log_sd;	  /* sd of ln w */
	double demand;	  /* d, 0..1 of the targets' rate, while in a burst */
	double metadata;  /* share of the metadata server, while in a burst */
	double io_share;  /* phi: share of time in bursts */
	double burst;	  /* s; 0: much shorter than others' bursts */
	double period;	  /* s; 0: unknown */
	double confined;  /* rate left on these targets even without co-runners, 0 < c <= 1:
			   * they are fewer, or slow */
	double hot;	  /* L f f, of a victim; 0 at an unknown rate */
	double async_io;  /* 1: computes while it writes */
};

/* The pressure of a profile that is spread over the lanes in lane_mask (bit i
 * for lane i; ignored when the policy has none; 0: all). A rate above that of all
 * lanes together is a cache's: the targets are then busy for longer, at theirs.
 *
 * s is the larger of 1 - chunk / bytes_per_flush and unflushed / (unflushed +
 * chunk), less direct_share; k is creates_per_mib * chunk. What was not measured
 * is taken from the shares of the patterns (AW streams, OWC creates, WS
 * rewrites), a chunk of 1 MiB, one process. At an unknown rate a job presses
 * with all that its lanes have. log_sd joins profile and model. */
void sluice_pressure_of (const struct sluice_profile *profile,
			 const struct sluice_interference *model,
			 const struct sluice_policy *policy, uint32_t lane_mask,
			 struct sluice_pressure *out);

/*
 * A pressure on slow targets: speed is the rate of the slowest
 * of its lanes as a share of its peers', 0 < speed <= 1, and bounds a striped
 * operation. Alone the job gets no more than that, and it fills what it gets.
 * On its other lanes it presses less than that; this is not told apart. At speed 1
 * nothing changes.
 */
void sluice_pressure_slow_down (struct sluice_pressure *pressure, double speed);

/* Several loads as one that is always on and presses on any victim no less than they do
 * together, each z sd of its ln w heavier. */
void sluice_pressure_merge (const struct sluice_pressure *const *loads, uint32_t n,
			    double z, struct sluice_pressure *out);

/* rho of victim while all n others are active; in (0, 1]. z >= 0 shifts every
 * ln w by z sd against the victim. */
double sluice_rate_share (const struct sluice_pressure *victim,
			  const struct sluice_pressure *const *others, uint32_t n,
			  const struct sluice_interference *model, double z);

/*
 * For a fit: the logarithm of the guaranteed share, ln (K v_j / (v_j + sum_S v)), in each
 * of n sets. The first sizes[0] members, as indices of pressures, are the first set, the
 * next sizes[1] the second; in each the first is the victim. Where K = d = 1 that is ln
 * rho; for others it has a slope also where rho is bounded by 1 or by what others leave
 * over.
 */
void sluice_guaranteed_shares (const struct sluice_interference *model,
			       const struct sluice_pressure *pressures,
			       const uint32_t *members, const uint32_t *sizes, uint32_t n,
			       double *log_shares);

/* Share of the victim's stretched I/O time during which other is active, over
 * unknown offsets; with (nearly) equal periods, over the worst one. */
double sluice_overlap (const struct sluice_pressure *victim,
		       const struct sluice_pressure *other,
		       const struct sluice_interference *model, double z);

/* I of victim among n <= SLUICE_MAX_SET others, >= 1: 1 / sum_S w_S rho(S).
 * The SLUICE_EXACT_CORUNNERS that weigh most are on and off by their overlap,
 * the rest count as always on: never less than exact, a function of the set and
 * not of its order, and never smaller for a superset. With the overlaps held
 * and no more others than are enumerated, it grows with everything that they
 * press. Excludes confinement. */
double sluice_io_factor (const struct sluice_pressure *victim,
			 const struct sluice_pressure *const *others, uint32_t n,
			 const struct sluice_interference *model, double z);

/* Slowdown of the whole job, >= 1, against alone on all targets: confinement
 * and interference through its I/O share, max (C, A I) / max (C, A) if it
 * computes while it writes. */
double sluice_job_slowdown (const struct sluice_pressure *victim, double io_factor);

/* Class of a profile by its numbers; NONE when it does not matter. */
uint32_t sluice_class_of (const struct sluice_profile *profile,
			  const struct sluice_policy *policy);

/* z of a quantile in [0.5, 0.999]: the normal quantile function. */
double sluice_normal_quantile (double quantile);

#endif
