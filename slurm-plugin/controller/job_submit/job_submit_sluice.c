/*
 * job_submit/sluice: what slurmctld calls, and how a job passes through.
 *
 * We fail open. Sluice is an optimisation and not a policy: whatever is wrong
 * with configuration, bundle, snapshot, disk, memory or sluiced, a job goes
 * through untouched, and nothing is said to its user.
 *
 *   init         always succeeds: a plugin that fails to load stops slurmctld
 *   job_submit   always succeeds; decides in microseconds, without a file, a
 *                socket or a lock that is ever held for long, because Slurm's
 *                own locks are held meanwhile
 *   job_modify   always succeeds: an error would break even `scontrol hold`
 *   fini         hardly ever called: only where the list of plugins changes (22.05), and
 *                by a slurmctld that is built to look for leaks
 *   exit         of the process saves what waits; a reconfiguration from 23.11 on ends
 *                the old process without it (spool.h)
 *
 * In `observe` a decision record goes into the ring and the job stays as it is, but
 * for tokens that its user wrote (enforce.c); in `enforce` the job also gets the tokens
 * that the decision asks for, and from `advise` on a note, where the site lets it. Three
 * threads of our own do the rest: loader.c reads the files, server.c hands out the
 * records, spool.c saves them for the next slurmctld.
 * slurmctld may fork at any time: the child executes something else at once and
 * never comes here, so threads and locks need no care.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "adapter.h"
#include "decider.h"
#include "enforce.h"
#include "loader.h"
#include "server.h"
#include "slurm_api.h"
#include "spool.h"
#include "thread.h"

#define EXPORT __attribute__ ((visibility ("default")))

EXPORT const char plugin_name[] = "Sluice: I/O-interference-aware scheduling";
EXPORT const char plugin_type[] = "job_submit/sluice";
EXPORT const uint32_t plugin_version = SLURM_VERSION_NUMBER;

struct job_record;

/* Everything the plugin has. Made by init, and never freed while a thread that
 * may still use it runs. */
struct plugin {
	uint64_t boot;
	pid_t pid;
	int stop_fd;
	struct library library;
	struct counters counters;
	struct decider decider;
	struct ring ring;
	struct loader loader;
	struct server server;
	struct spool spool;
	int has_loader;
	int has_server;
	int has_spool;
};

/* The API hands us no context, so there is one instance. NULL: not loaded. */
static struct plugin *plugin;

/* At the time of init; later it may be replaced under us. */
static const char *
slurms_config (void)
{
	return &slurm_conf && slurm_conf.slurm_conf ? slurm_conf.slurm_conf
						    : "/etc/slurm/slurm.conf";
}

/* $SLUICE_CONF, else sluice.conf next to slurm.conf. */
static void
find_config (char out[SLUICE_PATH_SIZE])
{
	const char *own = getenv ("SLUICE_CONF");
	const char *slurms = slurms_config ();
	const char *slash = strrchr (slurms, '/');

	if (own && own[0])
		sluice_copy_text (out, SLUICE_PATH_SIZE, own);
	else
		snprintf (out, SLUICE_PATH_SIZE, "%.*s/sluice.conf",
			  slash ? (int)(slash - slurms) : 1, slash ? slurms : ".");
}

static void
start (struct plugin *new)
{
	char config[SLUICE_PATH_SIZE];
	struct report_sources sources = {
		.library = &new->library,
		.counters = &new->counters,
		.loader = &new->loader,
		.ring = &new->ring,
		.spool = &new->spool,
	};

	while (new->boot == 0)
		if (getrandom (&new->boot, sizeof new->boot, GRND_NONBLOCK) < 0)
			new->boot = (uint64_t)time (NULL) << 32 | (uint32_t)getpid ();
	sources.boot = new->boot;
	new->pid = getpid ();
	library_identify (&new->library);
	ring_init (&new->ring);
	find_config (config);
	new->stop_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (decider_init (&new->decider) < 0 || new->stop_fd < 0)
		return;
	new->has_loader = loader_start (&new->loader, config, slurms_config (), &new->ring,
					new->stop_fd)
			  == 0;
	new->has_spool
	    = new->has_loader &&spool_start (&new->spool, &new->loader, &new->ring,
					     &new->counters, new->boot, new->stop_fd)
	      == 0;
	new->has_server
	    = new->has_spool &&server_start (&new->server, &sources, new->stop_fd) == 0;
}

EXPORT int
init (void)
{
	struct plugin *new = calloc (1, sizeof *new);
	if (new)
		start (new);
	if (!new || !new->has_server)
		slurm_error ("sluice: cannot start its threads, jobs pass unseen");
	plugin = new;
	return SLURM_SUCCESS;
}

/* End the threads, the one that saves after the one that takes records out. Returns
 * whether one still runs, because a file system hangs under it. */
static int
halt (const struct plugin *old)
{
	uint64_t one = 1;
	int is_running = 0;

	if (old->stop_fd >= 0 && write (old->stop_fd, &one, sizeof one) < 0)
		return 1;
	if (old->has_server)
		is_running |= thread_join (old->server.thread);
	if (old->has_spool)
		is_running |= thread_join (old->spool.thread);
	if (old->has_loader)
		is_running |= thread_join (old->loader.thread);
	return is_running;
}

static void
destroy (struct plugin *old)
{
	if (old->has_spool)
		spool_destroy (&old->spool);
	if (old->has_loader)
		loader_destroy (&old->loader);
	ring_destroy (&old->ring);
	decider_destroy (&old->decider);
	if (old->stop_fd >= 0)
		close (old->stop_fd);
	free (old);
}

#if SLURM_AT_LEAST(25, 11)
EXPORT void
fini (void)
#else
EXPORT int
fini (void)
#endif
{
	struct plugin *old = plugin;
	plugin = NULL;
	/* the library stays mapped too (-z nodelete), so leave a thread what it uses */
	if (old && !halt (old))
		destroy (old);
#if !SLURM_AT_LEAST(25, 11)
	return SLURM_SUCCESS;
#endif
}

/* slurmctld exits without fini, a few milliseconds after SIGTERM. Its other threads may
 * still be here, so nothing is freed; and a child that could not execute anything may
 * come here too, with a copy of everything but the threads. */
__attribute__ ((destructor)) static void
save_at_exit (void)
{
	if (plugin && plugin->pid == getpid ())
		halt (plugin);
}

/*
 * The submit path.
 */

static uint64_t
thread_cpu_ns (void)
{
	struct timespec now;
	clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Inputs and decision; what is not known is 0, so that equal decisions are
 * equal bytes. */
static void
decide (const struct view *view, const job_desc_msg_t *job, uint32_t submit_uid,
	struct sluice_record *out)
{
	memset (out, 0, sizeof *out);
	out->version = SLUICE_RECORD_VERSION;
	out->size = sizeof *out;
	out->boot = plugin->boot;
	out->now = time (NULL);
	out->config_checksum = view->config_checksum;
	if (view->bundle)
		out->bundle_checksum = sluice_bundle_checksum (view->bundle);
	if (view->snapshot) {
		out->snapshot_checksum = sluice_snapshot_checksum (view->snapshot);
		out->snapshot_sequence = sluice_snapshot_state (view->snapshot)->sequence;
	}
	/* the caller holds the read lock of Slurm's configuration */
	if (&slurm_conf)
		sluice_copy_text (out->cluster, sizeof out->cluster,
				  slurm_conf.cluster_name);
	adapter_read (job, submit_uid, &out->submission);
	out->submission.lot = sluice_submission_lot (&out->submission, out->now);
	sluice_submission_complete (&out->submission, view->snapshot);
	if (decider_decide (&plugin->decider, view, out))
		count (&plugin->counters.repeated);
}

/* A prediction that came from the user's own runs only; else others' were asked. */
static int
is_known (const struct view *view, const struct sluice_prediction *prediction)
{
	return (prediction->evidence == SLUICE_EVIDENCE_USER_SCRIPT
		|| prediction->evidence == SLUICE_EVIDENCE_USER_NAME
		|| prediction->evidence == SLUICE_EVIDENCE_USER_ARGUMENTS
		|| prediction->evidence == SLUICE_EVIDENCE_USER_SIZE)
	       && prediction->profile.confidence
		      >= sluice_bundle_policy (view->bundle)->min_confidence;
}

static void
count_decision (const struct sluice_record *record)
{
	struct counters *counters = &plugin->counters;

	count (&counters->decided);
	count (&counters->actions[record->decision.action]);
	count (&counters->reasons[record->decision.reason]);
	if (record->mode == SLUICE_MODE_ENFORCE)
		count (&counters->grants[record->grant.outcome]);
}

static void
count_time (const struct view *view, const struct sluice_prediction *prediction,
	    uint64_t cpu_ns)
{
	struct counters *counters = &plugin->counters;

	histogram_add (&counters->all, cpu_ns);
	if (is_known (view, prediction))
		histogram_add (&counters->known, cpu_ns);
}

static void
consider (const struct view *view, job_desc_msg_t *job, uint32_t submit_uid, int is_timed)
{
	struct sluice_record record;
	char note[NOTE_SIZE];
	uint64_t start = is_timed ? thread_cpu_ns () : 0;

	ring_expect (&plugin->ring);
	decide (view, job, submit_uid, &record);
	enforce_take (view, job, &record);
	count_decision (&record); /* before it is saved: the counters are saved with it */
	ring_push (&plugin->ring, &record);
	enforce_tell_nodes (view, job, &record);
	if (note_is_wanted (view, job, &record)) {
		note_format (view, &record, note);
		if (adapter_set_text (&job->admin_comment, note) == 0)
			count (&plugin->counters.notes);
	}
	if (is_timed)
		count_time (view, &record.decision.prediction, thread_cpu_ns () - start);
}

EXPORT int
job_submit (job_desc_msg_t *job, uint32_t submit_uid, char **err_msg)
{
	(void)err_msg;
	if (!plugin || !plugin->has_loader)
		return SLURM_SUCCESS;
	int is_timed = count (&plugin->counters.submissions) % TIMED_ONE_IN == 0;
	const struct view *view = loader_acquire (&plugin->loader);
	if (view)
		enforce_strip (view, job, &plugin->counters);
	if (view && !view->is_off)
		consider (view, job, submit_uid, is_timed);
	loader_release (&plugin->loader);
	return SLURM_SUCCESS;
}

#if SLURM_AT_LEAST(23, 2)
EXPORT int
job_modify (job_desc_msg_t *job, struct job_record *old, uint32_t submit_uid,
	    char **err_msg)
{
	(void)err_msg;
#else
EXPORT int
job_modify (job_desc_msg_t *job, struct job_record *old, uint32_t submit_uid)
{
#endif
	(void)old; /* its layout is private to slurmctld */
	if (!plugin || !plugin->has_loader)
		return SLURM_SUCCESS;
	count (&plugin->counters.modifications);
	const struct view *view = loader_acquire (&plugin->loader);
	if (view)
		enforce_modify (view, job, submit_uid, &plugin->counters);
	loader_release (&plugin->loader);
	return SLURM_SUCCESS;
}
