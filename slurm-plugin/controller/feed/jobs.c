#include "jobs.h"

#include <err.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "slurm_api.h"

enum { LONGEST = 20 }; /* seconds between two answers that tell all */

static double
clock_seconds (clockid_t clock)
{
	struct timespec now;
	clock_gettime (clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double
clock_offset (void)
{
	return clock_seconds (CLOCK_REALTIME) - clock_seconds (CLOCK_MONOTONIC);
}

time_t
since_ask (const struct since *since)
{
	double passed = clock_seconds (CLOCK_MONOTONIC) - since->asked;
	double stepped = fabs (clock_offset () - since->offset);
	return passed >= LONGEST || stepped > 0.5 ? 0 : since->last_update;
}

void
since_told (struct since *since, time_t last_update)
{
	since->last_update = last_update;
	since->asked = clock_seconds (CLOCK_MONOTONIC);
	since->offset = clock_offset ();
}

/* Slurm's words for states and reasons, as its commands print them. */

/* src/common/slurm_protocol_defs.h: all reasons, under its name up to 23.11 and
 * that of later versions. No public header declares it. */
extern char *slurm_job_reason_string (uint32_t reason) __attribute__ ((weak));
extern char *slurm_job_state_reason_string (uint32_t reason) __attribute__ ((weak));

/* In the order in which Slurm's commands let one cover another and the base. */
static const struct {
	uint32_t flag;
	const char *word;
} covering[] = {
	{ JOB_COMPLETING, "COMPLETING" },
	{ JOB_STAGE_OUT, "STAGE_OUT" },
	{ JOB_CONFIGURING, "CONFIGURING" },
	{ JOB_RESIZING, "RESIZING" },
	{ JOB_REQUEUE, "REQUEUED" },
	{ JOB_REQUEUE_FED, "REQUEUE_FED" },
	{ JOB_REQUEUE_HOLD, "REQUEUE_HOLD" },
	{ JOB_SPECIAL_EXIT, "SPECIAL_EXIT" },
	{ JOB_STOPPED, "STOPPED" },
	{ JOB_REVOKED, "REVOKED" },
	{ JOB_RESV_DEL_HOLD, "RESV_DEL_HOLD" },
	{ JOB_SIGNALING, "SIGNALING" },
};

static const char *const bases[] = {
	[JOB_PENDING] = "PENDING",     [JOB_RUNNING] = "RUNNING",
	[JOB_SUSPENDED] = "SUSPENDED", [JOB_COMPLETE] = "COMPLETED",
	[JOB_CANCELLED] = "CANCELLED", [JOB_FAILED] = "FAILED",
	[JOB_TIMEOUT] = "TIMEOUT",     [JOB_NODE_FAIL] = "NODE_FAIL",
	[JOB_PREEMPTED] = "PREEMPTED", [JOB_BOOT_FAIL] = "BOOT_FAIL",
	[JOB_DEADLINE] = "DEADLINE",   [JOB_OOM] = "OUT_OF_MEMORY",
};

/* Those that Sluice acts on; the rest is for people to read. */
static const struct {
	uint32_t reason;
	const char *word;
} reasons[] = {
	{ WAIT_NO_REASON, "None" },	   { WAIT_PRIORITY, "Priority" },
	{ WAIT_DEPENDENCY, "Dependency" }, { WAIT_DEP_INVALID, "DependencyNeverSatisfied" },
	{ WAIT_RESOURCES, "Resources" },   { WAIT_LICENSES, "Licenses" },
	{ WAIT_TIME, "BeginTime" },	   { WAIT_HELD, "JobHeldAdmin" },
	{ WAIT_HELD_USER, "JobHeldUser" },
};

static const char *
state_word (uint32_t state)
{
	uint32_t base = state & JOB_STATE_BASE;
	for (size_t i = 0; i < sizeof covering / sizeof covering[0]; i++)
		if (state & covering[i].flag)
			return covering[i].word;
	return base < sizeof bases / sizeof bases[0] ? bases[base] : "?";
}

static const char *
reason_word (uint32_t reason)
{
	for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
		if (reason == reasons[i].reason)
			return reasons[i].word;
	if (slurm_job_state_reason_string)
		return slurm_job_state_reason_string (reason);
	return slurm_job_reason_string ? slurm_job_reason_string (reason) : "?";
}

enum { FLAGS = SHOW_ALL | SHOW_LOCAL, NOTE_BYTES = 4096 };

struct entry {
	uint32_t job_id; /* 0: free */
	int is_there;
	int is_told;
	uint32_t priority;
	uint32_t reason;
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

/* sluice/slurm/queue.py reads the fields in this order. Priority and reason are told apart:
 * those of all jobs change as they wait. When a waiting job may start, Slurm guesses again
 * and again: none is reported. */
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
		job->exit_code,
	};
	int is_pending = (job->job_state & JOB_STATE_BASE) == JOB_PENDING;
	const int64_t times[]
	    = { job->submit_time, job->eligible_time, is_pending ? 0 : job->start_time,
		is_pending ? 0 : job->end_time };
	const char *texts[] = {
		state_word (job->job_state),
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
	*entry = (struct entry){
		.job_id = JOB_ID (job),
		.priority = job->priority,
		.reason = job->state_reason,
		.digest = digest (payload, size),
	};
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

static void
write_priorities (const struct table *now)
{
	frame_begin (FRAME_PRIORITIES);
	for (size_t i = 0; i < now->slots; i++) {
		const struct entry *entry = &now->entries[i];
		if (!entry->job_id)
			continue;
		const struct entry *before = entry_of (&known, entry->job_id);
		if (before && before->job_id && before->priority == entry->priority)
			continue;
		frame_u32 (entry->job_id);
		frame_u32 (entry->priority);
	}
	frame_end ();
}

static void
write_reason (uint32_t reason)
{
	frame_begin (FRAME_REASON);
	frame_text (reason_word (reason));
}

/* A frame for each reason, of which there are few. */
static void
write_reasons (struct table *now)
{
	for (size_t i = 0; i < now->slots; i++) {
		struct entry *entry = &now->entries[i];
		const struct entry *before = entry_of (&known, entry->job_id);
		entry->is_told
		    = !entry->job_id
		      || (before && before->job_id && before->reason == entry->reason);
	}
	for (size_t i = 0; i < now->slots; i++) {
		uint32_t reason = now->entries[i].reason;
		if (now->entries[i].is_told)
			continue;
		write_reason (reason);
		for (size_t k = i; k < now->slots; k++) {
			struct entry *entry = &now->entries[k];
			if (entry->is_told || entry->reason != reason)
				continue;
			frame_u32 (entry->job_id);
			entry->is_told = 1;
		}
		frame_end ();
	}
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
	write_priorities (&now);
	write_reasons (&now);
	free (known.entries);
	known = now;
	since_told (&since, answer->last_update);
	slurm_free_job_info_msg (answer);
	malloc_trim (
	    0); /* the records of a long queue are several times what is kept of them */
	return 0;
}

/* One job, or all records of an array or heterogeneous job. 0, or -1 with Slurm's errno. */
static int
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
		write_reason (answer->job_array[i].state_reason);
		frame_u32 (JOB_ID (&answer->job_array[i]));
		frame_end ();
	}
	slurm_free_job_info_msg (answer);
	return 0;
}

/*
 * Slurm knows no change on condition. So a job's record is read immediately
 * before its licences are written: what a user or an operator changed since
 * sluiced's last poll stands, and only a change within that round trip to the
 * controller is overwritten.
 */

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
