#include "decider.h"

#include <string.h>

#include "enforce.h"

int
decider_init (struct decider *decider)
{
	memset (decider, 0, sizeof *decider);
	pthread_mutex_init (&decider->lock, NULL);
	decider->workspace = sluice_workspace_create ();
	return decider->workspace ? 0 : -1;
}

void
decider_destroy (struct decider *decider)
{
	sluice_workspace_destroy (decider->workspace);
	pthread_mutex_destroy (&decider->lock);
}

/* Returns whether it was the last answer. */
static int
answer (struct decider *decider, const struct view *view, struct sluice_record *record)
{
	struct sluice_submission question;

	sluice_submission_question (&record->submission, &question);
	int is_repeated = decider->view == view->number && decider->now == record->now
			  && memcmp (&decider->question, &question, sizeof question) == 0;
	if (!is_repeated) {
		sluice_decide (decider->workspace, view->situation, &view->config,
			       &record->submission, record->now, &decider->answer);
		decider->question = question;
		decider->view = view->number;
		decider->now = record->now;
	}
	record->decision = decider->answer;
	return is_repeated;
}

/* Forget the first of those that got a block after the snapshot. */
static void
forget_oldest (struct decider *decider)
{
	decider->since_count--;
	memmove (decider->since, decider->since + 1,
		 decider->since_count * sizeof *decider->since);
	memmove (decider->since_at, decider->since_at + 1,
		 decider->since_count * sizeof *decider->since_at);
}

static void
remember (struct decider *decider, const struct sluice_record *record)
{
	if (decider->since_count == SLUICE_MAX_SINCE)
		forget_oldest (decider);
	decider->since[decider->since_count] = record->place.job;
	decider->since_at[decider->since_count++] = record->now;
}

static void
place (struct decider *decider, const struct view *view, struct sluice_record *record)
{
	struct sluice_place *place = &record->place;

	while (decider->since_count > 0 && view->snapshot
	       && decider->since_at[0] < sluice_snapshot_state (view->snapshot)->taken)
		forget_oldest (decider);
	place->turn = decider->placed;
	place->since_count = decider->since_count;
	memcpy (place->since, decider->since,
		decider->since_count * sizeof *decider->since);
	sluice_decide_block (decider->workspace, view->situation, &view->config,
			     record->mode, &record->submission, &record->decision, place);
	decider->placed += place->job.block.count > 0;
	if (place->job.block.count && record->grant.outcome == SLUICE_GRANT_TAKEN)
		remember (decider, record);
}

int
decider_decide (struct decider *decider, const struct view *view,
		struct sluice_record *record)
{
	pthread_mutex_lock (&decider->lock);
	int is_repeated = answer (decider, view, record);
	sluice_record_set_mode (&view->config, view_policy (view), record);
	enforce_grant (view, record);
	if (view->has_blocks)
		place (decider, view, record);
	pthread_mutex_unlock (&decider->lock);
	return is_repeated;
}
