/*
 * What the coordinator reads and writes on disk: settings, bundle, snapshot, the off file,
 * and its own status. Threads of their own do, because any of these may hang.
 *
 * While the one that reads is stuck, so that `sluice off` has no effect, no job is held.
 */
#ifndef SLUICE_SITE_H
#define SLUICE_SITE_H

#include "bursts.h"
#include "config.h"

enum { SITE_POLL_MS = 250, SITE_PATIENCE_MS = 1500 };

struct site;

/* Everything is read once before this returns. -1: the settings cannot be used. */
int site_start (const char *config_path, int observes, struct site **out,
		struct sluice_error *err);
/* As at the start. */
const struct sluice_config *site_config (const struct site *site);
/* What to follow now; `now` is CLOCK_MONOTONIC in ms. For one thread, until its next call.
 */
const struct bursts_rules *site_rules (struct site *site, int64_t now);
/* What is wrong with the files; empty: nothing. Likewise. */
const char *site_error (struct site *site);
/* Have this text written next to the snapshot, as it is read by sluice/slurm/status.py. */
void site_publish (struct site *site, const char *text);

#endif
