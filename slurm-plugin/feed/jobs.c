#include "jobs.h"

#include <err.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "frame.h"
#include "since.h"
#include "slurm_api.h"
#include "words.h"

enum { FLAGS = SHOW_ALL | SHOW_LOCAL, NOTE_BYTES = 4096 };

struct entry {
	uint32_t job_id; /* 0: free */
	int is_there;
	uint64_t digest;
};

/* By job id; the number of slots is a power of two. */
struct table {
	struct entry *entries;
	size_t slots;
};

static struct table known;
static struct since since;

static struct table
table_for (size_t count)
{
	struct table table = { .slots = 16 };
	while (table.slots < 2 * count)
		table.slots *= 2;
	table.entries = calloc (table.slots, sizeof *table.entries);
	if (!table.entries)
		errx (1, "out of memory");
	return table;
}

/* The job's entry, or the free one where it belongs; NULL in an empty table. */
static struct entry *
entry_of (const struct table *table, uint32_t job_id)
{
	if (!table->slots)
		return NULL;
	size_t at = job_id * 0x9E3779B1u & (table->slots - 1);
	while (table->entries[at].job_id && table->entries[at].job_id != job_id)
		at = (at + 1) & (table->slots - 1);
	return &table->entries[at];
}

/* Tasks of an array that the record stands for: `4-9,12`, or one number. */
static const char *
tasks_of (const slurm_job_info_t *job, char one[16])
{
	if (!job->array_job_id)
		return NULL;
	if (job->array_task_str)
		return job->array_task_str;
	snprintf (one, 16, "%u", job->array_task_id);
	return job->array_task_id == NO_VAL ? NULL : one;
}

/* Sluice's marks in the comment. The plugin appends them, and the rest may be long. */
static const char *
notes_of (const slurm_job_info_t *job)
{
	const char *text = job->admin_comment ? job->admin_comment : "";
	size_t length = strlen (text);
	return strstr (length > NOTE_BYTES ? text + length - NOTE_BYTES : text, "sluice(");
}

/* sluice/slurm/queue.py reads the fields in this order. */
static void
put_job (const slurm_job_info_t *job)
{
	char one[16];
	const uint32_t numbers[] = {
		JOB_ID (job),
		job->array_job_id,
		job->het_job_id ? job->het_job_offset : NO_VAL,
		job->restart_cnt,
		job->user_id,
		job->num_nodes,
		job->num_tasks,
		job->num_cpus,
		job->time_limit,
		job->priority,
		job->exit_code,
	};
	const int64_t times[]
	    = { job->submit_time, job->eligible_time, job->start_time, job->end_time };
	const char *texts[] = {
		state_word (job->job_state),
		reason_word (job->state_reason),
		job->account,
		job->partition,
		job->qos,
		job->licenses,
		tasks_of (job, one),
		notes_of (job),
		job->name,
	};
	frame_bytes (numbers, sizeof numbers);
	frame_bytes (times, sizeof times);
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		frame_u32 (texts[i] ? (uint32_t)strlen (texts[i]) : 0);
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		frame_bytes (texts[i], texts[i] ? strlen (texts[i]) : 0);
}

/* Write the job unless it is as it was; remember it. */
static void
write_if_changed (const slurm_job_info_t *job, struct table *now)
{
	struct entry *before = entry_of (&known, JOB_ID (job));
	struct entry *entry = entry_of (now, JOB_ID (job));
	size_t size;
	frame_begin (FRAME_JOB);
	put_job (job);
	const unsigned char *payload = frame_payload (&size);
	*entry = (struct entry){ .job_id = JOB_ID (job), .digest = digest (payload, size) };
	if (before && before->job_id)
		before->is_there = 1;
	if (before && before->job_id && before->digest == entry->digest)
		frame_drop ();
	else
		frame_end ();
}

static void
write_gone (void)
{
	frame_begin (FRAME_GONE);
	for (size_t i = 0; i < known.slots; i++)
		if (known.entries[i].job_id && !known.entries[i].is_there)
			frame_u32 (known.entries[i].job_id);
	frame_end ();
}

int
jobs_write_changes (void)
{
	job_info_msg_t *answer = NULL;
	if (slurm_load_jobs (since_ask (&since), &answer, FLAGS) != SLURM_SUCCESS)
		return errno == SLURM_NO_CHANGE_IN_DATA ? 0 : -1;
	struct table now = table_for (answer->record_count);
	for (uint32_t i = 0; i < answer->record_count; i++)
		write_if_changed (&answer->job_array[i], &now);
	write_gone ();
	free (known.entries);
	known = now;
	since_told (&since, answer->last_update);
	slurm_free_job_info_msg (answer);
	malloc_trim (
	    0); /* the records of a long queue are several times what is kept of them */
	return 0;
}

int
job_load (job_info_msg_t **answer, uint32_t job_id)
{
#ifdef LOADS_JOB_OF_STEP
	slurm_step_id_t asked
	    = { .job_id = job_id, .step_het_comp = NO_VAL, .step_id = NO_VAL };
#else
	uint32_t asked = job_id;
#endif
	return slurm_load_job (answer, asked, FLAGS) == SLURM_SUCCESS ? 0 : -1;
}

int
jobs_write_one (uint32_t job_id)
{
	job_info_msg_t *answer = NULL;
	if (job_load (&answer, job_id) != 0)
		return errno == ESLURM_INVALID_JOB_ID ? 0 : -1;
	for (uint32_t i = 0; i < answer->record_count; i++) {
		frame_begin (FRAME_JOB);
		put_job (&answer->job_array[i]);
		frame_end ();
	}
	slurm_free_job_info_msg (answer);
	return 0;
}
