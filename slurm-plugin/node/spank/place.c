#include "place.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "directory.h"
#include "options.h"
#include "page.h"
#include "settings.h"
#include "stage.h"

#define LOAD(member, order) __atomic_load_n (&(member), order)

/* The process ends when this is closed; -1: there is none. A slurmstepd serves one step. */
static int process_fd = -1;
static uint32_t tasks_left;

/* The job's block of its lane, from init_post_opt on. */
static uint32_t first_target, target_count;

int
place_is_wanted (spank_t spank, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (strcmp (argv[i], "place=all") == 0)
			return 1;
	return options_io_place (spank);
}

/* A script's step follows for all steps in it; else the first node of each step does. */
static int
is_first (spank_t spank)
{
	uint32_t step, node;
	char kind[8];

	if (spank_get_item (spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS
	    && step == SLURM_BATCH_SCRIPT)
		return 1;
	return spank_get_item (spank, S_JOB_NODEID, &node) == ESPANK_SUCCESS && node == 0
	       && (spank_getenv (spank, "ENVIRONMENT", kind, sizeof kind) != ESPANK_SUCCESS
		   || strcmp (kind, "BATCH") != 0);
}

uint32_t
place_flags (spank_t spank, const struct settings *settings, const struct holding *known)
{
	struct sluice_turns_targets last = { { 0 } };
	struct placed_lane placed;
	const struct lane *lane
	    = known && known->job_id ? token_lane (known->licenses, settings) : NULL;
	uint32_t t = lane ? lane->targets - 1 : 0;

	if (!lane || !settings->backend->is_followed || !is_first (spank)
	    || t / 64 >= sizeof last.bits / sizeof last.bits[0])
		return 0;
	last.bits[t / 64] = 1ull << t % 64;
	if (lane_place_on (settings, lane, &last, &placed) < 0)
		return 0;
	first_target = known->first_target;
	target_count = known->target_count;
	return SLUICE_TURNS_PLACED
	       | (lane->has_named_blocks ? (uint32_t)SLUICE_TURNS_IN_BLOCKS : 0);
}

/* ---- the process ---- */

struct following {
	const struct settings *settings;
	const struct lane *lane;
	const struct sluice_turns_words *words;
	struct placed_lane placed;	 /* where the job is put when nothing is said */
	struct sluice_turns_targets set; /* what the directory has now; none: as placed */
	struct placed_lane now;		 /* the same */
	char count[16];
};

static uint64_t
now_ns (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* -1: they change at this moment. */
static int
read_targets (const struct sluice_turns_words *words, struct sluice_turns_targets *out)
{
	uint64_t until = LOAD (words->place_until, __ATOMIC_ACQUIRE);

	memset (out, 0, sizeof *out);
	if (until > now_ns ())
		for (size_t i = 0; i < sizeof out->bits / sizeof out->bits[0]; i++)
			out->bits[i] = LOAD (words->place.bits[i], __ATOMIC_RELAXED);
	__atomic_thread_fence (__ATOMIC_ACQUIRE);
	return LOAD (words->place_until, __ATOMIC_RELAXED) == until ? 0 : -1;
}

static int
next_command (void *data, const char *words[])
{
	static const struct sluice_turns_targets none;
	struct following *f = data;
	struct sluice_turns_targets wanted;

	if (read_targets (f->words, &wanted) < 0
	    || memcmp (&wanted, &f->set, sizeof wanted) == 0)
		return 0;
	f->set = wanted;
	f->now = f->placed;
	if (memcmp (&wanted, &none, sizeof wanted) != 0
	    && lane_place_on (f->settings, f->lane, &wanted, &f->now) < 0)
		return 0;
	backend_command (f->settings, &f->now, f->count, words);
	return 1;
}

/* ---- the step ---- */

static void
keep_quiet (const char *argument, const char *why)
{
	(void)argument;
	(void)why;
}

static const struct lane *
lane_named (const struct settings *settings, const char *name)
{
	for (uint32_t i = 0; i < settings->lane_count; i++)
		if (strcmp (settings->lanes[i].name, name) == 0)
			return &settings->lanes[i];
	return NULL;
}

void
place_start (spank_t spank, int argc, char **argv, int words_fd)
{
	struct following f = { .words = NULL };
	struct settings settings;
	char name[SLUICE_NAME_SIZE], path[IO_DIR_SIZE];

	settings_read (argc, argv, &settings, keep_quiet);
	if (spank_getenv (spank, grant_names[GRANT_LANE], name, sizeof name)
		!= ESPANK_SUCCESS
	    || (spank_getenv (spank, STAGED_TO_VARIABLE, path, sizeof path)
		    != ESPANK_SUCCESS
		&& spank_getenv (spank, grant_names[GRANT_DIR], path, sizeof path)
		       != ESPANK_SUCCESS)
	    || !(f.lane = lane_named (&settings, name)))
		return;
	void *words = mmap (NULL, sizeof *f.words, PROT_READ, MAP_SHARED, words_fd, 0);
	if (words == MAP_FAILED)
		return;
	f.settings = &settings;
	f.words = words;
	lane_place (&settings, f.lane, first_target, target_count, &f.placed);
	const struct directory_following following = {
		.uid = geteuid (),
		.path = path,
		.timeout_s = settings.timeout_s,
		.next = next_command,
		.data = &f,
	};
	if (spank_get_item (spank, S_JOB_LOCAL_TASK_COUNT, &tasks_left) == ESPANK_SUCCESS)
		process_fd = directory_follow (&following);
	munmap (words, sizeof *f.words);
}

void
place_end (void)
{
	if (process_fd < 0 || --tasks_left > 0)
		return;
	close (process_fd);
	process_fd = -1;
}
