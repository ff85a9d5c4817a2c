/*
 * The mean-field storage model as the storage of a replay (engine.h): jobs end when their
 * computing and their bursts are done, which others delay.
 */
#ifndef SLUICE_CONTENDED_H
#define SLUICE_CONTENDED_H

#include "discrete_event.h"
#include "engine.h"
#include "mean_field.h"

/* What storage did to the last run of a job, in seconds of the job. */
struct sluice_contention {
	double alone;	 /* its run time alone on all lanes */
	double io;	 /* inside bursts */
	double io_alone; /* the same, alone on all lanes */
	double held;	 /* of that for which turns held its bursts */
	double saving;	 /* node-s that these holds were to save */
};

struct sluice_contended;

/* loads: one a job. lanes: the lanes of each where a policy chooses none (0: all);
 * NULL: all for all. All must outlive it. NULL without memory or with a wrong
 * configuration; err says which. */
struct sluice_contended *
sluice_contended_new (const struct sluice_mean_field_config *config,
		      const struct sluice_mean_field_load *loads, const uint32_t *lanes,
		      uint32_t job_count, struct sluice_error *err);
/* The same in the discrete-event storage model: one program a job (see
 * sluice_contended_programs), which must outlive it. */
struct sluice_contended *sluice_contended_by_request (const struct sluice_storage *storage,
						      const struct sluice_program *programs,
						      const uint32_t *lanes,
						      uint32_t job_count,
						      struct sluice_error *err);
void sluice_contended_destroy (struct sluice_contended *contended); /* NULL is fine */

/* The table for sluice_engine_new; valid as long as contended. */
const struct sluice_replay_storage *
sluice_contended_storage (struct sluice_contended *contended);

/* Bytes on a target: sluice_mean_field_written. */
const double *sluice_contended_written (const struct sluice_contended *contended,
					uint32_t target);

/* One element a job, zeros for a job that never ran; valid as long as contended. */
const struct sluice_contention *
sluice_contended_results (const struct sluice_contended *contended);

/* Watch the turns of its storage. */
void sluice_contended_watch (struct sluice_contended *contended, sluice_turns_watch *watch,
			     void *watcher);

/* The loads of count jobs: job i is of kinds[kind[i]], but with its own I/O share and
 * period (0: its kind's), and times[i] its kind's processes, rate and metadata rate, on
 * nodes[i] nodes for runtime[i] s alone. See sluice_mean_field_load_of. The demand that
 * turns start from is the one that the core predicts of the profile. */
void sluice_contended_loads (const struct sluice_profile *kinds, const uint32_t *kind,
			     const double *io_share, const double *period,
			     const double *times, const double *nodes,
			     const double *runtime, uint32_t count, uint32_t max_bursts,
			     const struct sluice_mean_field_config *config,
			     struct sluice_mean_field_load *out);

/* Hold each of count loads to node_rate B/s a node at its source: its bursts are longer
 * by as much as it is slower alone. -1 without memory or with a wrong configuration. */
int sluice_contended_limit (const struct sluice_mean_field_config *config, double node_rate,
			    struct sluice_mean_field_load *loads, uint32_t count,
			    struct sluice_error *err);

/*
 * The same storage and jobs for the discrete-event model; grain: requests, commits and
 * creates that one of the simulation stands for. -1 and the reason where that model
 * cannot say what the configuration says.
 */
int sluice_contended_storage_of (const struct sluice_mean_field_config *config,
				 double grain, struct sluice_storage *out,
				 struct sluice_error *err);
void sluice_contended_programs (const struct sluice_profile *kinds, const uint32_t *kind,
				const double *times,
				const struct sluice_mean_field_load *loads, uint32_t count,
				double grain, const struct sluice_mean_field_config *config,
				struct sluice_program *out);

/* Of each load: sluice_mean_field_shares. */
void sluice_contended_shares (const struct sluice_mean_field_load *loads, uint32_t count,
			      const struct sluice_mean_field_config *config, double *out);

#endif
