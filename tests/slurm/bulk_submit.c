/*
 * Submits many held batch jobs through libslurm, as fast as slurmctld takes
 * them; a thousand processes of sbatch would measure the processes.
 *
 *   bulk_submit COUNT [NAME[,NAME...] [ADMIN_COMMENT [SPANK_OPTION]]]
 *
 * Jobs take the names in turn, each with a number behind it.
 * Prints the seconds it took. Fails at the first refused job and at the first
 * one whose submission prints a message for its user.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

static double
seconds (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The i-th job's: of the names in turn, with a number behind. */
static void
name_of (int i, const char *names, char *out, size_t size)
{
	int count = 1;
	for (const char *p = names; *p; p++)
		count += *p == ',';
	for (int skip = i % count; skip > 0; skip--)
		names = strchr (names, ',') + 1;
	snprintf (out, size, "%.*s%d", (int)strcspn (names, ","), names, i % 50);
}

static int
submit (int i, const char *names, char *admin_comment, char *spank_option)
{
	static char *environment[] = { "PATH=/usr/bin:/bin", NULL };
	char own_name[64];
	job_desc_msg_t job;
	submit_response_msg_t *answer = NULL;

	name_of (i, names, own_name, sizeof own_name);
	slurm_init_job_desc_msg (&job);
	job.name = own_name;
	job.script = "#!/bin/sh\nsleep 1\n";
	job.submit_line = "sbatch app.sh";
	job.work_dir = "/tmp";
	job.std_out = "/dev/null";
	job.user_id = getuid ();
	job.group_id = getgid ();
	job.min_nodes = 1;
	job.num_tasks = 1;
	job.time_limit = 10;
	job.priority = 0; /* held */
	job.environment = environment;
	job.env_size = 1;
	job.admin_comment = admin_comment && admin_comment[0] ? admin_comment : NULL;
	job.spank_job_env = &spank_option;
	job.spank_job_env_size = spank_option ? 1 : 0;

	if (slurm_submit_batch_job (&job, &answer) != SLURM_SUCCESS) {
		fprintf (stderr, "job %d: %s\n", i, slurm_strerror (errno));
		return -1;
	}
	int is_silent = !answer->job_submit_user_msg;
	if (!is_silent)
		fprintf (stderr, "job %d: message: %s\n", i, answer->job_submit_user_msg);
	slurm_free_submit_response_response_msg (answer);
	return is_silent ? 0 : -1;
}

int
main (int argc, char **argv)
{
	if (argc < 2 || argc > 5) {
		fputs ("usage: bulk_submit COUNT [NAMES [ADMIN_COMMENT [SPANK_OPTION]]]\n",
		       stderr);
		return 2;
	}
	int count = atoi (argv[1]);
	slurm_init (NULL);
	double start = seconds ();
	for (int i = 0; i < count; i++)
		if (submit (i, argc > 2 ? argv[2] : "app", argc > 3 ? argv[3] : NULL,
			    argc > 4 ? argv[4] : NULL)
		    != 0)
			return 1;
	printf ("%.6f\n", seconds () - start);
	return 0;
}
