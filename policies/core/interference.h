/*
 * How much a job loses to others on shared targets.
 *
 * Every job presses on a target with a weight w and a demand d (its rate alone
 * as a share of the target's). While a set S of others is active, the targets
 * serve capacity * (a share by weight), as a fair-queueing server would:
 *
 *   rho_j(S) = min (1, max (K v_j / (d_j (v_j + sum_S v)), (K - sum_S d) / d_j))
 *
 * the guaranteed share or what the others leave over, whichever is more. K >= 1
 * because a mix uses more of a file system than one program (Shah S1).
 *
 * Sharing has two levels. Data that nobody waits for lie in a cache, and go on from
 * there in one queue, whosever they are. So streams share among each other by their
 * weights, but alongside writers that wait for each flush many streams are hardly more
 * than one: with s the streaming share and U = sum s w over j and S,
 *
 *   v = w (1 - s + s / (1 + kappa U))
 *
 * kappa = 0 is sharing by weights alone; for a large one all streams together weigh
 * 1 / kappa. More co-runners never help: v_j falls with U, and the others' sum rises.
 *
 * A weight is the sum of two parts, that of the bytes which are flushed and that of
 * those which stream, each with a logarithm that is linear in the physical features.
 * With s (unflushed bytes), k the share of writes that create a file, and
 * L = log2 (chunk / 1 MiB):
 *
 *   w    = (1 - s) f + s g
 *   ln f = k (q b0 + b1 L) + (1 - k) (q c0 + c1 L) + gamma ln (nprocs) - alpha ln e
 *   ln g = a0 + a1 L + delta ln (nprocs)
 *
 * The term in e (below) is there because a server that takes requests as they come
 * serves each program by how long its requests keep the queue busy: alone, a program
 * that flushes has nprocs * chunk bytes in a queue which it empties at its rate, so
 * at b1 = c1 = ln 2 and gamma = alpha = 1, f is the time of a round of its flushes, of
 * which a part, b0 or c0, is not the queue's but the journal's; a direct write has none,
 * so of those q = 1 - alpha direct_share. A
 * rate that is known tells it better than the kind of traffic does: a job that alone
 * gets a share r of the targets has max (r, e exp (-0.7)) for its e where the site has
 * measured. So one that gets more than its kind is as efficient as that; one that gets
 * about as much as its kind wants nothing more, so d = 1; and one that gets much less
 * could get more, so d < 1.
 *
 * Such programs do not wait for each other round by round: what bounds j decides what it
 * waits for. Who gets about as much as the target gives (e_j near 1) transfers in all of
 * its rounds. It fills the bandwidth that others leave while they wait for operations
 * or the journal, and a process with short rounds gets several of them done during a long
 * one of another's. Whose rounds are mostly operations (e_j near 0) needs little bandwidth:
 * each operation waits for what another has in the queue, less where that has few
 * processes, which now and then have nothing there; direct writes always have. So the
 * flushing part v_i of another's weight counts alongside j, n being nprocs, as
 *
 *   e_j^3 (1 - theta (1 - e_i)) v_i^(1 - epsilon) (n_i R_j / n_j)^epsilon
 *   + (1 - e_j^3) (1 - 3/4 theta e_i (1 - direct_share_i) / sqrt (n_i)) v_i
 *
 * R_j is all that j holds on with alone, v_j at U = s w: processes count in full, what
 * each has in the queue does not. At epsilon = theta = 0 that is v_i; every part of it
 * only adds to what the others press.
 *
 * The default coefficients are fitted to Shah et al. (SuperFrI 2019), S1 to S4
 * and S6, with alpha = epsilon = theta = beta = 0. A site's own measurements (`sluice
 * site calibrate`) replace them, and correct what the law does not hold: each measured kind
 * of traffic is a point x_i in the space of the features, and moves what is like it, by a
 * share that falls with the distance:
 *
 *   ln w += sum_i a_i c (x, x_i)
 *   ln h  = sum_i h_i c (x, x_i) - beta ln e    as a victim, it weighs w h instead of w
 *   ln e  = min (0, sum_i b_i c (x, x_i))
 *   c (x, y) = exp (-1/2 sum_k ((x_k - y_k) / scale_k)^2)
 *
 * h is there because what a job takes from others and what it keeps are two things:
 * a program that waits for each flush leaves a target idle in between, which does
 * not help it when others come. e is the efficiency: the rate that such a program
 * gets alone as a share of the target's bandwidth; small flushes are limited by
 * operations. Far from everything measured the law with the site's coefficients holds,
 * with the uncertainty of a site that did not measure.
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
 * what a fit to the published figures gives: tests/policies/test_published.py. */
#define SLUICE_INTERFERENCE_FIELDS(X)                                                      \
	X (stream_level, 0.5175644032447415, "ln w of a streaming writer at 1 MiB (a0)")   \
	X (stream_slope, 0.02878792078035681,                                              \
	   "its change for each doubling of the chunk (a1)")                               \
	X (create_level, -0.29181258721347597,                                             \
	   "ln w of a creating, flushing writer at 1 MiB (b0)")                            \
	X (create_slope, 0.10439944387325215,                                              \
	   "its change for each doubling of the chunk (b1)")                               \
	X (rewrite_level, -0.2257518160312651,                                             \
	   "ln w of a rewriting, flushing writer at 1 MiB (c0)")                           \
	X (rewrite_slope, 0.19756558496607723,                                             \
	   "its change for each doubling of the chunk (c1)")                               \
	X (process_exponent, 0.34199523920113395,                                          \
	   "gamma: how a flushing weight grows with processes")                            \
	X (stream_exponent, 0.34199523920113395,                                           \
	   "delta: how a streaming weight grows with processes")                           \
	X (queueing, 0.0, "alpha: how far a flushing weight is a time: 0 not, 1 wholly")   \
	X (endurance, 0.0, "beta: how far it holds on the more, the less it gets alone")   \
	X (interleaving, 0.0,                                                              \
	   "epsilon: how far short rounds slip in during long ones, < 1")                  \
	X (filling, 0.0, "theta: how far each uses what others' flushes leave, 0 to 1")    \
	X (capacity, 1.19915958244719,                                                     \
	   "K: throughput of a mix over that of one program, >= 1")                        \
	X (pooling, 0.0, "kappa: how far streams weigh as one, >= 0; 0: by weights alone") \
	X (log_sd, 0.2995661415276404, "sd of ln w where the site did not measure")        \
	X (site_log_sd, 0.0, "sd of ln w where it did")

#define SLUICE_INTERFERENCE_MEMBER(name, def, text) double name;

enum {
	SLUICE_TRAFFIC_FEATURES = 4,
	SLUICE_MAX_SITE_POINTS = 256,
};

/* One kind of traffic that the site measured. */
struct sluice_site_point {
	double at[SLUICE_TRAFFIC_FEATURES]; /* sluice_traffic_features */
	double weight;			    /* a_i */
	double hold;			    /* h_i */
	double efficiency;		    /* b_i */
};

struct sluice_interference {
	SLUICE_INTERFERENCE_FIELDS (SLUICE_INTERFERENCE_MEMBER)
	double scale[SLUICE_TRAFFIC_FEATURES]; /* > 0 where there are points */
	uint32_t point_count;		       /* 0: the published figures alone */
	uint32_t reserved;
	struct sluice_site_point points[SLUICE_MAX_SITE_POINTS];
};

void sluice_interference_init (struct sluice_interference *model); /* the defaults */
int sluice_interference_check (const struct sluice_interference *model,
			       struct sluice_error *err);

/* Where a profile lies among the kinds of traffic: s, k, L and log2 (nprocs). */
void sluice_traffic_features (const struct sluice_profile *profile,
			      double features[SLUICE_TRAFFIC_FEATURES]);

/* A kind of traffic, and how far it differs at a site from what the law says. */
struct sluice_traffic {
	double features[SLUICE_TRAFFIC_FEATURES];
	double direct;	       /* share of direct writes */
	double log_weight;     /* to add to ln w */
	double log_hold;       /* to add to ln h */
	double log_efficiency; /* ln e */
	double log_sd;	       /* of ln w */
};

/* c (x, y) of interference for each of n points x and m points y; the rows of out are
 * those of x. */
void sluice_likeness (const double scale[SLUICE_TRAFFIC_FEATURES], const double *x,
		      uint32_t n, const double *y, uint32_t m, double *out);

/* Set what the site's measured points say of each of n kinds of traffic: its logarithms,
 * by its features. */
void sluice_traffic_at_site (const struct sluice_interference *model,
			     struct sluice_traffic *traffic, uint32_t n);

/* What a job presses on the targets it is spread over. */
struct sluice_pressure {
	double weight;	     /* w, on each of its targets */
	double streaming;    /* s: the share of it that counts as a stream */
	double log_hold;     /* ln h: as a victim it weighs w h */
	double alone;	     /* w, its streams being pooled with each other */
	double transfer;     /* e^3: how far its rounds are transfers, not operations */
	double idle;	     /* theta (1 - e): bandwidth that its flushes leave */
	double gaps;	     /* how far others' operations slip in between its flushes */
	double interleaving; /* epsilon of the model */
	double log_nprocs;   /* ln (nprocs) */
	double log_sd;	     /* sd of ln w */
	double demand;	     /* d, 0..1 of the targets' rate, while in a burst */
	double metadata;     /* share of the metadata server, while in a burst */
	double io_share;     /* phi: share of time in bursts */
	double burst;	     /* s; 0: much shorter than others' bursts */
	double period;	     /* s; 0: unknown */
	double confined;     /* rate left on these targets even alone, 0 < c <= 1: they are
			      * fewer, or slow */
	double async_io;     /* 1: computes while it writes */
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
 * What becomes of a pressure where targets are slow: speed is the rate of the slowest
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

/* For a fit: what each of n kinds of traffic presses that writes all the time, and wants
 * all that its targets have. */
void sluice_pressures_of_traffic (const struct sluice_interference *model,
				  const struct sluice_traffic *traffic, uint32_t n,
				  struct sluice_pressure *out);

/*
 * The logarithm of the guaranteed share, ln (K v_j / (v_j + sum_S v)), in each of n sets of
 * such. The first sizes[0] members, as indices of pressures, are the first set, the next
 * sizes[1] the second; in each the first is the victim. Where K = 1 that is ln rho; for a
 * larger one it has a slope also where rho is bounded by 1 or by what others leave over.
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
