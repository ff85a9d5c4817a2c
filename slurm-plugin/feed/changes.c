/*
 * Slurm knows no change on condition. So a job's record is read immediately
 * before its licences are written: what a user or an operator changed since
 * sluiced's last poll stands, and only a change within that round trip to the
 * controller is overwritten.
 */
#include "changes.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "jobs.h"
#include "slurm_api.h"

/* sluice/slurm/queue.py packs it so, and has the same numbers. */
struct change {
	uint32_t job_id; /* the record that has to be as it was */
	uint32_t target; /* the job, or the array as a whole */
	uint32_t is_pending;
	char *before; /* its licences */
	char *after;
};

enum outcome { DONE, CHANGED, REFUSED };

struct reader {
	const unsigned char *bytes;
	size_t left;
};

static void
take (struct reader *reader, void *out, size_t size)
{
	if (size > reader->left)
		errx (1, "a change cut short");
	memcpy (out, reader->bytes, size);
	reader->bytes += size;
	reader->left -= size;
}

/* A text behind its length; free() it. */
static char *
take_text (struct reader *reader)
{
	uint32_t length;
	take (reader, &length, sizeof length);
	if (length > reader->left)
		errx (1, "a change cut short");
	char *text = calloc (1, (size_t)length + 1);
	if (!text)
		errx (1, "out of memory");
	take (reader, text, length);
	return text;
}

static struct change
take_change (struct reader *reader)
{
	struct change change = { 0 };
	take (reader, &change.job_id, sizeof change.job_id);
	take (reader, &change.target, sizeof change.target);
	take (reader, &change.is_pending, sizeof change.is_pending);
	change.before = take_text (reader);
	change.after = take_text (reader);
	return change;
}

static void
write_outcome (const struct change *change, enum outcome outcome, const char *why)
{
	frame_begin (FRAME_CHANGE);
	frame_u32 (change->job_id);
	frame_u32 (outcome);
	frame_text (why);
	frame_end ();
	frame_flush ();
}

static int
is_as_seen (const struct change *change, const slurm_job_info_t *job)
{
	uint32_t base = job->job_state & JOB_STATE_BASE;
	if (change->is_pending ? base != JOB_PENDING
			       : base != JOB_RUNNING && base != JOB_SUSPENDED)
		return 0;
	return strcmp (job->licenses ? job->licenses : "", change->before) == 0;
}

/* Whether one of the records is the job, as sluiced saw it. */
static int
is_unchanged (const struct change *change, const job_info_msg_t *answer)
{
	for (uint32_t i = 0; i < answer->record_count; i++)
		if (JOB_ID (&answer->job_array[i]) == change->job_id)
			return is_as_seen (change, &answer->job_array[i]);
	return 0;
}

/* Slurm's errno for the tasks of an array; 0 when it refused only those that have ended. */
static uint32_t
error_of_tasks (const job_array_resp_msg_t *answer)
{
	for (uint32_t i = 0; answer && i < answer->job_array_count; i++) {
		uint32_t error = answer->error_code[i];
		if (error && error != ESLURM_JOB_FINISHED && error != ESLURM_ALREADY_DONE)
			return error;
	}
	return 0;
}

/* 0, or Slurm's errno. */
static uint32_t
update (const struct change *change)
{
	char name[16];
	job_desc_msg_t description;
	job_array_resp_msg_t *answer = NULL;
	snprintf (name, sizeof name, "%u", change->target);
	slurm_init_job_desc_msg (&description);
	description.job_id_str = name;
	description.licenses = change->after;
	if (slurm_update_job2 (&description, &answer) != SLURM_SUCCESS)
		return errno ? (uint32_t)errno : SLURM_ERROR;
	uint32_t error = error_of_tasks (answer);
	slurm_free_job_array_resp (answer);
	return error;
}

static void
make_one (const struct change *change)
{
	job_info_msg_t *answer = NULL;
	if (job_load (&answer, change->target) != 0) {
		int is_gone = errno == ESLURM_INVALID_JOB_ID;
		write_outcome (change, is_gone ? CHANGED : REFUSED, slurm_strerror (errno));
		return;
	}
	int may = is_unchanged (change, answer);
	slurm_free_job_info_msg (answer);
	if (!may) {
		write_outcome (change, CHANGED, "the job was changed or started meanwhile");
		return;
	}
	uint32_t error = update (change);
	write_outcome (change, error ? REFUSED : DONE,
		       error ? slurm_strerror ((int)error) : NULL);
}

void
changes_make (const unsigned char *payload, size_t size)
{
	struct reader reader = { payload, size };
	while (reader.left > 0) {
		struct change change = take_change (&reader);
		make_one (&change);
		free (change.before);
		free (change.after);
	}
}
