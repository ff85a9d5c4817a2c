#include "adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job_request.h"

/* sbatch and srun have a handful of these; a forged request could have many. */
enum { MAX_SPANK_ENTRIES = 256 };

#define OPTION(name) "_SLURM_SPANK_OPTION_sluice_" name "="

/* What Slurm puts where the user gave nothing, or asked for no limit. */
static uint32_t
given (uint32_t number)
{
	return number == NO_VAL || number == INFINITE ? 0 : number;
}

static uint32_t
given16 (uint16_t number)
{
	return number == NO_VAL16 || number == INFINITE16 ? 0 : number;
}

static void
read_memory (uint64_t memory, struct sluice_request *out)
{
	if (memory == NO_VAL64 || memory == INFINITE64)
		return;
	if (memory & MEM_PER_CPU)
		out->memory_cpu_mib = memory & ~MEM_PER_CPU;
	else
		out->memory_node_mib = memory;
}

/* Of a SPANK option the value, as its user typed it, or NULL. It travels as
 * _SLURM_SPANK_OPTION_<plugin>_<option>=<value>. */
static const char *
option_of (const job_desc_msg_t *job, const char *option)
{
	size_t length = strlen (option);
	if (!job->spank_job_env)
		return NULL;
	for (uint32_t i = 0; i < job->spank_job_env_size && i < MAX_SPANK_ENTRIES; i++)
		if (job->spank_job_env[i]
		    && strncmp (job->spank_job_env[i], option, length) == 0)
			return job->spank_job_env[i] + length;
	return NULL;
}

void
adapter_read (const job_desc_msg_t *job, uint32_t submit_uid, struct sluice_submission *out)
{
	struct sluice_request request = {
		.uid = job->user_id == NO_VAL ? submit_uid : job->user_id,
		.nodes = given (job->min_nodes),
		.tasks = given (job->num_tasks),
		.cpus_per_task = given16 (job->cpus_per_task),
		.time_limit = given (job->time_limit),
		.het_component
		= job->het_job_offset == NO_VAL ? 0 : job->het_job_offset + 1,
		.immediate = job->immediate == 1,
		.cron = (job->bitflags & CRON_JOB) != 0,
		.opt_out = option_of (job, OPTION ("no_sluice")) != NULL,
		.io_dir = option_of (job, OPTION ("io_dir")) != NULL,
		.io_turns = option_of (job, OPTION ("io_turns")),
		.has_command = job->argc > 0,
		.begin = job->begin_time,
		.deadline = job->deadline,
		.name = job->name,
		.account = job->account,
		.partition = job->partition,
		.qos = job->qos,
		.array = job->array_inx,
		.licenses = job->licenses,
		.tres_per_task = job->tres_per_task,
		.reservation = job->reservation,
		.script = job->script,
		.submit_line = SUBMIT_LINE (job),
	};
	read_memory (job->pn_min_memory, &request);
	sluice_submission_of (&request, out);
}

/* Where the variable stands among what sbatch sent, else behind the last one. */
static uint32_t
find_variable (const job_desc_msg_t *job, const char *name)
{
	size_t length = strlen (name);
	uint32_t i = 0;
	while (i < job->env_size
	       && (strncmp (job->environment[i], name, length) != 0
		   || job->environment[i][length] != '='))
		i++;
	return i;
}

int
adapter_set_variable (job_desc_msg_t *job, const char *name, const char *text)
{
	char variable[64];
	uint32_t at;

	if (!job->environment || job->env_size == 0)
		return -1;
	at = find_variable (job, name);
	snprintf (variable, sizeof variable, "%s=%s", name, text);
	if (at < job->env_size)
		return adapter_set_text (&job->environment[at], variable);
	char **longer = slurm_xcalloc (job->env_size + 2, sizeof *longer, true, true,
				       __FILE__, __LINE__, __func__);
	if (!longer)
		return -1;
	memcpy (longer, job->environment, job->env_size * sizeof *longer);
	if (adapter_set_text (&longer[at], variable) < 0) {
		slurm_xfree ((void **)&longer);
		return -1;
	}
	slurm_xfree ((void **)&job->environment);
	job->environment = longer;
	job->env_size++;
	return 0;
}

uint32_t
adapter_job_id (const job_desc_msg_t *change)
{
	/* "4711", "4711_3", "4711_[1-5]", "4711+0" */
	return change->job_id_str ? (uint32_t)strtoul (change->job_id_str, NULL, 10)
				  : JOB_ID (change);
}

int
adapter_set_text (char **place, const char *text)
{
	size_t size = strlen (text) + 1;
	char *copy = slurm_xcalloc (1, size, false, true, __FILE__, __LINE__, __func__);
	if (!copy)
		return -1;
	memcpy (copy, text, size);
	slurm_xfree ((void **)place);
	*place = copy;
	return 0;
}
