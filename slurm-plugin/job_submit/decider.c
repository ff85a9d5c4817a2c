#include "decider.h"

#include <string.h>

int
decider_init (struct decider *decider)
{
	pthread_mutex_init (&decider->lock, NULL);
	decider->view = 0;
	decider->workspace = sluice_workspace_create ();
	return decider->workspace ? 0 : -1;
}

void
decider_destroy (struct decider *decider)
{
	sluice_workspace_destroy (decider->workspace);
	pthread_mutex_destroy (&decider->lock);
}

static int
is_last (const struct decider *decider, const struct view *view,
	 const struct sluice_submission *question, int64_t now)
{
	return decider->view == view->number && decider->now == now
	       && memcmp (&decider->question, question, sizeof *question) == 0;
}

int
decider_decide (struct decider *decider, const struct view *view,
		const struct sluice_submission *submission, int64_t now,
		struct sluice_decision *out)
{
	struct sluice_submission question;

	sluice_submission_question (submission, &question);
	pthread_mutex_lock (&decider->lock);
	int is_repeated = is_last (decider, view, &question, now);
	if (!is_repeated) {
		sluice_decide (decider->workspace, view->situation, &view->config,
			       submission, now, &decider->answer);
		decider->question = question;
		decider->view = view->number;
		decider->now = now;
	}
	*out = decider->answer;
	pthread_mutex_unlock (&decider->lock);
	return is_repeated;
}
