#include "site.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "agents.h"
#include "bundle.h"
#include "scope.h"
#include "slurm_file.h"

/* What was read at one moment. */
struct view {
	struct bursts_rules rules;
	struct sluice_policy policy;
	struct sluice_snapshot *snapshot;
	char error[SLUICE_ERROR_SIZE];
};

struct site {
	const char *config_path;
	int observes; /* whatever Mode is */
	struct sluice_config first;
	/* the thread's own */
	struct sluice_config config;
	struct sluice_policy policy; /* of the bundle, else of the settings */
	struct watch watches[3];
	int were_there[3];
	int64_t taken; /* of the snapshot that was read last; UTC s */
	int said_off, was_off, was_fresh;
	uint64_t views;
	int lock_fd;
	char status_path[SLUICE_PATH_SIZE + 32];
	char error[SLUICE_ERROR_SIZE];
	/* shared by the caller and the threads that poll and write */
	pthread_mutex_t lock;
	pthread_cond_t has_status;
	struct view *next; /* not fetched yet */
	char *status;	   /* not written yet */
	int64_t polled;	   /* ms */
	/* the caller's */
	struct view *current;
	struct bursts_rules stuck;
};

/* ---- reading ---- */

static int
load_config (struct site *site, struct sluice_error *err)
{
	void *text;
	size_t size;
	if (sluice_read_trusted_file (site->config_path, geteuid (),
				      SLUICE_CONFIG_MAX_BYTES, &text, &size, err)
	    < 0)
		return -1;
	int result
	    = sluice_config_parse (site->config_path, text, size, &site->config, err);
	sluice_free (text);
	return result;
}

/* Only the policy is kept in memory: the table is large, and decides elsewhere. */
static void
load_policy (struct site *site)
{
	struct sluice_bundle *bundle = NULL;
	struct sluice_error err = { "" };
	site->policy = site->config.policy;
	if (access (site->config.bundle, F_OK) != 0)
		return;
	if (sluice_bundle_load (site->config.bundle, geteuid (), &bundle, &err) == 0)
		site->policy = *sluice_bundle_policy (bundle);
	else
		sluice_copy_text (site->error, sizeof site->error, err.text);
	sluice_bundle_destroy (bundle);
}

static int
is_fresh (const struct site *site)
{
	int64_t age = (int64_t)time (NULL) - site->taken;
	return age >= -SLUICE_CLOCK_DIFFERENCE
	       && (double)age <= site->policy.max_snapshot_age;
}

/* Without a valid one, bursts are measured all the same. */
static struct sluice_snapshot *
load_snapshot (struct site *site)
{
	struct sluice_snapshot *snapshot = NULL;
	site->taken = 0;
	site->said_off = 0;
	if (sluice_snapshot_load (site->config.snapshot, geteuid (), &snapshot, NULL) < 0)
		return NULL;
	site->taken = sluice_snapshot_state (snapshot)->taken;
	site->said_off = (sluice_snapshot_state (snapshot)->flags & SLUICE_STATE_OFF) != 0;
	if (is_fresh (site))
		return snapshot;
	sluice_snapshot_destroy (snapshot);
	return NULL;
}

/* The default off file counts, too, as everywhere. */
static int
is_off (const struct site *site)
{
	struct sluice_config defaults;
	sluice_config_init (&defaults);
	return sluice_furthest_mode (&site->config) == SLUICE_MODE_OFF
	       || site->config.turns == SLUICE_TURNS_FOR_OFF
	       || access (site->config.off_file, F_OK) == 0
	       || access (defaults.off_file, F_OK) == 0
	       || (site->said_off && is_fresh (site));
}

static void
describe_lane (const struct sluice_lane *lane, const struct sluice_snapshot *snapshot,
	       struct sluice_turns_lane *out)
{
	double speed = snapshot ? sluice_snapshot_lane_speed (snapshot, lane->name) : 1.0;
	*out = (struct sluice_turns_lane){
		.targets = lane->targets,
		.bytes = lane->bandwidth * speed,
		.operations = lane->operations * speed,
	};
}

static void
describe_storage (const struct site *site, const struct sluice_snapshot *snapshot,
		  struct sluice_turns_storage *out)
{
	memset (out, 0, sizeof *out);
	out->metadata = site->policy.metadata_capacity;
	out->lane_count = site->policy.lane_count;
	for (uint32_t i = 0; i < out->lane_count; i++)
		describe_lane (&site->policy.lanes[i], snapshot, &out->lanes[i]);
}

static struct view *
make_view (struct site *site)
{
	struct view *view = calloc (1, sizeof *view);
	if (!view)
		return NULL;
	view->snapshot = load_snapshot (site);
	view->rules.number = ++site->views;
	view->rules.snapshot = view->snapshot;
	view->policy = site->policy;
	view->rules.policy = &view->policy;
	view->rules.is_off = site->was_off = is_off (site);
	site->was_fresh = is_fresh (site);
	/* jobs that the site does not enforce for do not come here: scope.h */
	view->rules.holds = sluice_furthest_mode (&site->config) == SLUICE_MODE_ENFORCE
			    && !site->observes;
	sluice_turns_settings_init (&view->rules.settings);
	view->rules.settings.latency = site->config.turns_latency_ms / 1e3;
	view->rules.settings.hold = site->config.turns_hold;
	/* A restart clears all that is learned: no hold would follow for long after it.
	 */
	view->rules.settings.rare = 0.0;
	describe_storage (site, view->snapshot, &view->rules.storage);
	sluice_copy_text (view->error, sizeof view->error, site->error);
	return view;
}

static void
destroy_view (struct view *view)
{
	if (view)
		sluice_snapshot_destroy (view->snapshot);
	free (view);
}

enum { CONFIG, BUNDLE, SNAPSHOT };

/* Whether a file is another than at the last poll, or is gone. */
static int
has_changed (struct site *site, int which, const char *path)
{
	enum watch_result seen = watch_poll (&site->watches[which], path);
	int was_there = site->were_there[which];
	site->were_there[which] = seen != WATCH_MISSING;
	return seen == WATCH_CHANGED || (seen == WATCH_MISSING && was_there);
}

/* A refused file of settings leaves the last good one in force. */
static int
poll_config (struct site *site)
{
	struct sluice_config before = site->config;
	struct sluice_error err = { "" };
	if (!has_changed (site, CONFIG, site->config_path))
		return 0;
	if (load_config (site, &err) < 0)
		site->config = before;
	sluice_copy_text (site->error, sizeof site->error, err.text);
	watch_forget (&site->watches[BUNDLE]);
	watch_forget (&site->watches[SNAPSHOT]);
	load_policy (site);
	return 1;
}

static void
set_next (struct site *site, struct view *view)
{
	struct view *before = NULL;
	pthread_mutex_lock (&site->lock);
	if (view) {
		before = site->next;
		site->next = view;
	}
	site->polled = agents_milliseconds ();
	pthread_mutex_unlock (&site->lock);
	destroy_view (before);
}

static void
poll_files (struct site *site)
{
	int changed = poll_config (site);
	if (has_changed (site, BUNDLE, site->config.bundle)) {
		load_policy (site);
		changed = 1;
	}
	changed |= has_changed (site, SNAPSHOT, site->config.snapshot);
	changed |= is_off (site) != site->was_off || is_fresh (site) != site->was_fresh;
	set_next (site, changed || !site->views ? make_view (site) : NULL);
}

/* ---- writing ---- */

static int
write_file (const char *path, const char *text, struct sluice_error *err)
{
	char draft[SLUICE_PATH_SIZE + 64];
	size_t size = strlen (text);
	snprintf (draft, sizeof draft, "%s.%d", path, (int)getpid ());
	int fd = open (draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return sluice_fail (err, "%.150s: %s", draft, strerror (errno));
	errno = ENOSPC; /* what a short write does not say */
	int failed = write (fd, text, size) != (ssize_t)size;
	failed |= close (fd) != 0;
	if (!failed && rename (draft, path) == 0)
		return 0;
	sluice_fail (err, "%.150s: %s", path, strerror (errno));
	unlink (draft);
	return -1;
}

static char *
await_status (struct site *site)
{
	pthread_mutex_lock (&site->lock);
	while (!site->status)
		pthread_cond_wait (&site->has_status, &site->lock);
	char *text = site->status;
	site->status = NULL;
	pthread_mutex_unlock (&site->lock);
	return text;
}

static void *
write_status (void *data)
{
	struct site *site = data;
	struct sluice_error err;
	for (;;) {
		char *text = await_status (site);
		if (write_file (site->status_path, text, &err) < 0)
			fprintf (stderr, "sluice-turns: no status: %s\n", err.text);
		free (text);
	}
	return NULL;
}

static void *
poll_forever (void *data)
{
	const struct timespec pause = { 0, SITE_POLL_MS * 1000000l };
	for (;;) {
		nanosleep (&pause, NULL);
		poll_files (data);
	}
	return NULL;
}

/* ---- for the caller ---- */

/* Held until the process ends: one coordinator for one snapshot. */
static int
acquire_lock (struct site *site, struct sluice_error *err)
{
	char path[sizeof site->status_path];
	snprintf (site->status_path, sizeof site->status_path, "%s.turns.status",
		  site->config.snapshot);
	snprintf (path, sizeof path, "%s.turns.lock", site->config.snapshot);
	site->lock_fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (site->lock_fd < 0)
		return sluice_fail (err, "%.200s: %s", path, strerror (errno));
	if (flock (site->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return sluice_fail (err,
				    "another sluice-turns holds %.120s; stop it first, or "
				    "give this one its own Snapshot",
				    path);
	return 0;
}

int
site_start (const char *config_path, int observes, struct site **out,
	    struct sluice_error *err)
{
	struct site *site = calloc (1, sizeof *site);
	if (!site)
		return sluice_fail (err, "no memory");
	site->config_path = config_path;
	site->observes = observes;
	pthread_mutex_init (&site->lock, NULL);
	pthread_cond_init (&site->has_status, NULL);
	has_changed (site, CONFIG, config_path);
	if (load_config (site, err) < 0 || acquire_lock (site, err) < 0)
		return -1;
	site->first = site->config;
	load_policy (site);
	poll_files (site);
	pthread_t poller, writer;
	int error = pthread_create (&poller, NULL, poll_forever, site);
	if (!error)
		error = pthread_create (&writer, NULL, write_status, site);
	if (error)
		return sluice_fail (err, "no thread: %s", strerror (error));
	*out = site;
	return 0;
}

const struct sluice_config *
site_config (const struct site *site)
{
	return &site->first;
}

const struct bursts_rules *
site_rules (struct site *site, int64_t now)
{
	struct view *before = NULL;
	pthread_mutex_lock (&site->lock);
	int is_stuck = now - site->polled > SITE_PATIENCE_MS;
	if (site->next) {
		before = site->current;
		site->current = site->next;
		site->next = NULL;
	}
	pthread_mutex_unlock (&site->lock);
	destroy_view (before);
	if (!is_stuck && site->current)
		return &site->current->rules;
	site->stuck = (struct bursts_rules){ .is_off = 1 };
	return &site->stuck;
}

const char *
site_error (struct site *site)
{
	return site->current ? site->current->error : "no memory";
}

void
site_publish (struct site *site, const char *text)
{
	char *copy = strdup (text);
	pthread_mutex_lock (&site->lock);
	char *before = site->status;
	site->status = copy;
	pthread_cond_signal (&site->has_status);
	pthread_mutex_unlock (&site->lock);
	free (before);
}
