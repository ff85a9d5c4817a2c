#include "loader.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "slurm_api.h"
#include "thread.h"

enum {
	/* Between polls of all files: soon enough for a snapshot a second, and for `sluice
	 * off`; a file that was refused is read again each time. */
	POLL_MS = 200,
	FIRST_POLL_MS = 1000, /* longest that slurmctld's start waits for the first poll */
};

static const char *const file_words[] = { "configuration", "model bundle", "snapshot" };

/*
 * What became of a file. The log gets a line when that changes, except for
 * snapshots that follow each other every second.
 */

static void
accept_file (struct loader *loader, enum file file, uint64_t checksum, int64_t created)
{
	struct file_status *status = &loader->status[file];

	int is_news = file != FILE_SNAPSHOT || !status->loaded || status->error[0];
	status->loaded = 1;
	status->checksum = checksum;
	status->created = created;
	status->since = time (NULL);
	status->error[0] = '\0';
	if (is_news)
		slurm_info ("sluice: %s %s loaded, checksum %016" PRIx64, file_words[file],
			    status->path, checksum);
}

static void
refuse_until_changed (struct loader *loader, enum file file, const char *reason)
{
	struct file_status *status = &loader->status[file];

	int is_news = strcmp (status->error, reason) != 0;
	sluice_copy_text (status->error, sizeof status->error, reason);
	if (file == FILE_CONFIG)
		status->loaded = 0;
	if (is_news)
		slurm_error ("sluice: %s %s refused: %s", file_words[file], status->path,
			     reason);
}

static void
refuse_file (struct loader *loader, enum file file, const char *reason)
{
	refuse_until_changed (loader, file, reason);
	/* whatever was wrong may be over soon, also without a new time stamp */
	watch_forget (&loader->watches[file]);
}

static void
unload_file (struct loader *loader, enum file file, const char *reason)
{
	struct file_status *status = &loader->status[file];

	int was_loaded = status->loaded;
	status->loaded = 0;
	status->checksum = 0;
	sluice_copy_text (status->error, sizeof status->error, reason);
	watch_forget (&loader->watches[file]);
	if (was_loaded)
		slurm_info ("sluice: %s %s unloaded%s%s", file_words[file], status->path,
			    reason[0] ? ": " : "", reason);
}

static void
set_path (struct loader *loader, enum file file, const char *path)
{
	sluice_copy_text (loader->status[file].path, SLUICE_PATH_SIZE, path);
}

/*
 * Each poll_ returns 1 when a new view is needed.
 */

static void
become_off (struct loader *loader)
{
	sluice_config_init (&loader->config);
	loader->config.mode = SLUICE_MODE_OFF;
	loader->config_checksum = 0;
}

static int
uid_of (const char *name, uint32_t *uid)
{
	char buffer[16 * 1024];
	struct passwd entry, *found = NULL;
	if (getpwnam_r (name, &entry, buffer, sizeof buffer, &found) != 0 || !found)
		return -1;
	*uid = entry.pw_uid;
	return 0;
}

static int
read_config (struct loader *loader, struct sluice_error *err)
{
	const char *path = loader->status[FILE_CONFIG].path;
	void *text;
	size_t size;

	if (sluice_read_trusted_file (path, geteuid (), SLUICE_CONFIG_MAX_BYTES, &text,
				      &size, err)
	    != 0)
		return -1;
	int result = sluice_config_parse (path, text, size, &loader->config, err);
	loader->config_checksum = sluice_crc64 (text, size);
	sluice_free (text);
	return result == 0 ? sluice_config_resolve_users (&loader->config, uid_of, err)
			   : -1;
}

static int
poll_config (struct loader *loader)
{
	struct sluice_error err;
	const char *path = loader->status[FILE_CONFIG].path;
	int was_loaded = loader->status[FILE_CONFIG].loaded;

	switch (watch_poll (&loader->watches[FILE_CONFIG], path)) {
	case WATCH_SAME:
		return 0;
	case WATCH_MISSING:
		unload_file (loader, FILE_CONFIG, strerror (errno));
		become_off (loader);
		return was_loaded;
	case WATCH_CHANGED:
		break;
	}
	if (read_config (loader, &err) != 0) {
		become_off (loader);
		refuse_file (loader, FILE_CONFIG, err.text);
		return was_loaded;
	}
	set_path (loader, FILE_BUNDLE, loader->config.bundle);
	set_path (loader, FILE_SNAPSHOT, loader->config.snapshot);
	accept_file (loader, FILE_CONFIG, loader->config_checksum, 0);
	return 1;
}

static int
poll_bundle (struct loader *loader)
{
	struct sluice_error err;
	struct sluice_bundle *fresh;
	const char *path = loader->config.bundle;
	int was_loaded = loader->bundle != NULL;

	switch (watch_poll (&loader->watches[FILE_BUNDLE], path)) {
	case WATCH_SAME:
		return 0;
	case WATCH_MISSING:
		loader->bundle = NULL;
		unload_file (loader, FILE_BUNDLE, strerror (errno));
		return was_loaded;
	case WATCH_CHANGED:
		break;
	}
	if (sluice_bundle_load (path, geteuid (), &fresh, &err) != 0) {
		refuse_file (loader, FILE_BUNDLE, err.text);
		return 0;
	}
	loader->bundle = fresh;
	accept_file (loader, FILE_BUNDLE, sluice_bundle_checksum (fresh),
		     sluice_bundle_created (fresh));
	return 1;
}

static int
poll_snapshot (struct loader *loader)
{
	struct sluice_error err;
	struct sluice_snapshot *fresh;
	const char *path = loader->config.snapshot;
	int was_loaded = loader->snapshot != NULL;

	switch (watch_poll (&loader->watches[FILE_SNAPSHOT], path)) {
	case WATCH_SAME:
		return 0;
	case WATCH_MISSING:
		loader->snapshot = NULL;
		unload_file (loader, FILE_SNAPSHOT, strerror (errno));
		return was_loaded;
	case WATCH_CHANGED:
		break;
	}
	if (sluice_snapshot_load (path, geteuid (), &fresh, &err) != 0) {
		refuse_file (loader, FILE_SNAPSHOT, err.text);
		return 0;
	}
	if (sluice_snapshot_is_from_future (fresh, time (NULL))) {
		/* when its time comes it only looks fresh: it is as old as the file */
		sluice_snapshot_destroy (fresh);
		refuse_until_changed (loader, FILE_SNAPSHOT,
				      "it is dated in the future; compare this clock with "
				      "that of sluiced's machine");
		return 0;
	}
	loader->snapshot = fresh;
	accept_file (loader, FILE_SNAPSHOT, sluice_snapshot_checksum (fresh),
		     sluice_snapshot_state (fresh)->taken);
	return 1;
}

static int
poll_off_file (struct loader *loader)
{
	int was_off = loader->switched_off;
	loader->switched_off = access (loader->config.off_file, F_OK) == 0;
	if (loader->switched_off != was_off)
		slurm_info ("sluice: switched %s by %s", was_off ? "on" : "off",
			    loader->config.off_file);
	return loader->switched_off != was_off;
}

static int
poll_slurm_file (struct loader *loader, int is_new_policy)
{
	int changed = slurm_file_poll (&loader->slurm_file);
	if (changed || is_new_policy)
		slurm_file_totals (&loader->slurm_file,
				   loader->bundle ? sluice_bundle_policy (loader->bundle)
						  : &loader->config.policy,
				   loader->promised);
	return changed;
}

/* Mode off loads nothing. */
static int
unload_models (struct loader *loader)
{
	int changed = loader->bundle || loader->snapshot;
	loader->bundle = NULL;
	loader->snapshot = NULL;
	unload_file (loader, FILE_BUNDLE, "");
	unload_file (loader, FILE_SNAPSHOT, "");
	return changed;
}

static int
poll_files (struct loader *loader)
{
	int changed = poll_config (loader);
	if (sluice_furthest_mode (&loader->config) == SLUICE_MODE_OFF)
		return unload_models (loader) | changed;
	if (ring_reserve (loader->ring) != 0 && changed)
		slurm_error ("sluice: no memory for decision records, they are dropped");
	return poll_bundle (loader) | poll_snapshot (loader) | changed;
}

/*
 * From what the thread has loaded to what job_submit sees.
 */

const struct sluice_policy *
view_policy (const struct view *view)
{
	return view->bundle ? sluice_bundle_policy (view->bundle) : &view->config.policy;
}

static void
view_destroy (struct view *view)
{
	if (view)
		sluice_situation_destroy (view->situation);
	free (view);
}

static struct view *
view_create (struct loader *loader)
{
	struct view *view = calloc (1, sizeof *view);
	if (!view)
		return NULL;
	view->number = ++loader->views;
	view->config = loader->config;
	view->reserves_tokens = sluice_furthest_mode (&loader->config) != SLUICE_MODE_OFF;
	if (loader->switched_off) {
		view->config.mode = SLUICE_MODE_OFF;
		view->config.mode_rule_count = 0;
	}
	view->is_off = sluice_furthest_mode (&view->config) == SLUICE_MODE_OFF;
	view->config_checksum = loader->config_checksum;
	view->bundle = loader->bundle;
	view->snapshot = loader->snapshot;
	memcpy (view->promised, loader->promised, sizeof view->promised);
	view->reserved = *view_policy (view);
	sluice_policy_join_lanes (&view->reserved, &view->config.policy);
	if (!view->bundle)
		return view;
	view->situation = sluice_situation_create (view->bundle, view->snapshot);
	if (!view->situation) {
		view_destroy (view);
		return NULL;
	}
	for (uint32_t lane = 0; lane < view_policy (view)->lane_count; lane++)
		view->has_blocks |= view_policy (view)->lanes[lane].has_blocks != 0;
	return view;
}

static int
publish (struct loader *loader)
{
	struct view *fresh = view_create (loader);
	if (!fresh)
		return -1;
	pthread_rwlock_wrlock (&loader->view_lock);
	struct view *old = loader->view;
	loader->view = fresh;
	memcpy (loader->told, loader->status, sizeof loader->told);
	pthread_rwlock_unlock (&loader->view_lock);
	view_destroy (old);
	return 0;
}

/* What changes no view, as a file that is refused. */
static void
tell_status (struct loader *loader)
{
	if (memcmp (loader->told, loader->status, sizeof loader->told) == 0)
		return;
	pthread_rwlock_wrlock (&loader->view_lock);
	memcpy (loader->told, loader->status, sizeof loader->told);
	pthread_rwlock_unlock (&loader->view_lock);
}

static void
poll_once (struct loader *loader)
{
	struct sluice_bundle *old_bundle = loader->bundle;
	struct sluice_snapshot *old_snapshot = loader->snapshot;
	int changed = poll_files (loader);
	changed |= poll_off_file (loader);
	changed |= poll_slurm_file (loader, changed && loader->bundle != old_bundle);
	if (!changed)
		return;

	struct sluice_bundle *unused_bundle = old_bundle;
	struct sluice_snapshot *unused_snapshot = old_snapshot;
	if (publish (loader) != 0) {
		/* no memory: stay with the old view and try again */
		unused_bundle = loader->bundle;
		unused_snapshot = loader->snapshot;
		loader->bundle = old_bundle;
		loader->snapshot = old_snapshot;
		for (int file = 0; file < FILE_COUNT; file++)
			watch_forget (&loader->watches[file]);
	}
	if (unused_bundle != loader->bundle)
		sluice_bundle_destroy (unused_bundle);
	if (unused_snapshot != loader->snapshot)
		sluice_snapshot_destroy (unused_snapshot);
}

static void *
run (void *data)
{
	struct loader *loader = data;
	do {
		poll_once (loader);
		tell_status (loader);
		loader->has_polled = 1;
	} while (!thread_sleep (loader->stop_fd, loader->slurm_file.wake_fd, POLL_MS));
	return NULL;
}

int
loader_start (struct loader *loader, const char *config_path, const char *slurm_conf_path,
	      struct ring *ring, int stop_fd)
{
	memset (loader, 0, sizeof *loader);
	loader->ring = ring;
	loader->stop_fd = stop_fd;
	pthread_rwlock_init (&loader->view_lock, NULL);
	become_off (loader);
	set_path (loader, FILE_CONFIG, config_path);
	tell_status (loader);
	slurm_file_init (&loader->slurm_file, slurm_conf_path);
	if (thread_start (&loader->thread, "sluice-loader", run, loader) < 0)
		return -1;
	for (int ms = 0; ms < FIRST_POLL_MS && !loader->has_polled; ms++)
		thread_sleep (stop_fd, -1, 1);
	return 0;
}

void
loader_destroy (struct loader *loader)
{
	view_destroy (loader->view);
	sluice_bundle_destroy (loader->bundle);
	sluice_snapshot_destroy (loader->snapshot);
	slurm_file_destroy (&loader->slurm_file);
	pthread_rwlock_destroy (&loader->view_lock);
}

const struct view *
loader_acquire (struct loader *loader)
{
	pthread_rwlock_rdlock (&loader->view_lock);
	return loader->view;
}

void
loader_release (struct loader *loader)
{
	pthread_rwlock_unlock (&loader->view_lock);
}

const struct file_status *
loader_status (const struct loader *loader)
{
	return loader->told;
}
