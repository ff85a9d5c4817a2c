#include "words.h"

#include "slurm_api.h"

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

const char *
state_word (uint32_t state)
{
	uint32_t base = state & JOB_STATE_BASE;
	for (size_t i = 0; i < sizeof covering / sizeof covering[0]; i++)
		if (state & covering[i].flag)
			return covering[i].word;
	return base < sizeof bases / sizeof bases[0] ? bases[base] : "?";
}

const char *
reason_word (uint32_t reason)
{
	for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
		if (reason == reasons[i].reason)
			return reasons[i].word;
	if (slurm_job_state_reason_string)
		return slurm_job_state_reason_string (reason);
	return slurm_job_reason_string ? slurm_job_reason_string (reason) : "?";
}
