/*
 * Drives job_submit_sluice.so as slurmctld would: loads it, calls init, hands
 * it job descriptions made by Slurm's own slurm_init_job_desc_msg, sets the
 * clock that it sees. Commands come by standard input, one a line, fields
 * separated by tabs; each is answered by one line.
 *
 *   job <field>=<value> ...       submit; answers
 *                                 <rc> <altered 0/1> <allocations> <licences>
 *                                 <licences for each task> <turns> <admin comment>
 *   modify <field>=<value> ...    job_modify by `uid`; answers
 *                                 <rc> <licences> <licences for each task>
 *   total <licence> <number>      so many of it are in the controller from now on
 *   operator <uid>                that user is one from now on
 *   repeat <threads> <count>      each thread submits count of the jobs so far,
 *                                 in turn; answers, in ns of thread CPU time,
 *                                 <calls> <median> <p99> <p99.9> <max>
 *   chilled <count>               the same figures for count calls as slurmctld makes
 *                                 them: each in a new thread, and after other work
 *
 *   stack                         every job so far once more, each in a new thread;
 *                                 answers the bytes of its stack that job_submit took
 *                                 at most
 *   spin <steps> <count>          the same figures for count loops of so much
 *                                 arithmetic: what the machine itself adds
 *   fork                          a child that exits at once; answers its exit status
 *   exit                          end as slurmctld does: exit without fini; no answer
 *
 * The fields are those of SLUICE_TEXTS and SLUICE_NUMBERS below, `io_dir`, `io_turns`,
 * `opt_out`, and `time`, the UTC second at which the
 * job is submitted. Licences are answered as `=` while they are what was asked for. In
 * values \n, \t and \\ stand for newline, tab and backslash. The end of input unloads the
 * plugin.
 *
 *   usage: harness PLUGIN.so      with SLUICE_CONF and SLURM_CONF in the environment
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

extern void slurm_xfree (void **memory);
extern char *slurm_xstrdup (const char *text);
extern void *slurm_xcalloc (size_t count, size_t size, bool clear, bool may_fail,
			    const char *file, int line, const char *function);
extern slurm_conf_t slurm_conf;

enum { MAX_JOBS = 20000, MAX_OPTIONS = 8 };

/* X(field, member) */
#define SLUICE_TEXTS(X)                                                                    \
	X (name, name)                                                                     \
	X (account, account)                                                               \
	X (partition, partition)                                                           \
	X (qos, qos)                                                                       \
	X (array, array_inx)                                                               \
	X (licenses, licenses)                                                             \
	X (tres_per_task, tres_per_task)                                                   \
	X (reservation, reservation)                                                       \
	X (script, script)                                                                 \
	X (submit_line, submit_line)                                                       \
	X (job_id_str, job_id_str)                                                         \
	X (admin_comment, admin_comment)

#define SLUICE_NUMBERS(X)                                                                  \
	X (uid, user_id)                                                                   \
	X (nodes, min_nodes)                                                               \
	X (tasks, num_tasks)                                                               \
	X (cpus_per_task, cpus_per_task)                                                   \
	X (time_limit, time_limit)                                                         \
	X (immediate, immediate)                                                           \
	X (begin, begin_time)                                                              \
	X (deadline, deadline)                                                             \
	X (has_command, argc)                                                              \
	X (memory_node_mib, pn_min_memory)

typedef int submit_function (job_desc_msg_t *, uint32_t, char **);
typedef int modify_function (job_desc_msg_t *, void *, uint32_t);

static struct job {
	job_desc_msg_t description;
	time_t time;
} jobs[MAX_JOBS];
static size_t job_count;

static submit_function *submit;
static modify_function *modify;

/* The plugin's calls of time() come here: the executable's symbol is first. */
static _Thread_local time_t clock_of_trace;

time_t
time (time_t *out)
{
	struct timespec now;
	clock_gettime (CLOCK_REALTIME, &now);
	time_t seconds = clock_of_trace ? clock_of_trace : now.tv_sec;
	if (out)
		*out = seconds;
	return seconds;
}

/* What the plugin asks slurmctld; weak there, so these are exported too. */
static struct license {
	char name[128];
	uint32_t total;
} licenses[64];
static size_t license_count;
static uint32_t operator_uid = NO_VAL;

uint32_t
get_total_license_cnt (char *name)
{
	for (size_t i = 0; i < license_count; i++)
		if (strcmp (licenses[i].name, name) == 0)
			return licenses[i].total;
	return 0;
}

bool
validate_operator (uid_t uid)
{
	return uid == 0 || uid == operator_uid;
}

/* Allocations of this thread, counted where no sanitizer or valgrind takes the
 * place of malloc. */
static _Thread_local unsigned long allocations;

#ifdef COUNT_ALLOCATIONS
extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *old, size_t size);

void *
malloc (size_t size)
{
	allocations++;
	return __libc_malloc (size);
}

void *
calloc (size_t n, size_t size)
{
	allocations++;
	return __libc_calloc (n, size);
}

void *
realloc (void *old, size_t size)
{
	allocations++;
	return __libc_realloc (old, size);
}
#endif

static void
die (const char *what, const char *why)
{
	fprintf (stderr, "harness: %s: %s\n", what, why);
	exit (2);
}

static void *
find (void *plugin, const char *symbol)
{
	void *address = dlsym (plugin, symbol);
	if (!address)
		die (symbol, dlerror ());
	return address;
}

static void
unescape (char *text)
{
	char *out = text;
	for (char *p = text; *p; p++) {
		if (*p == '\\' && p[1])
			*out++ = *++p == 'n' ? '\n'
				 : *p == 't' ? '\t'
				 : *p == 'r' ? '\r'
					     : *p;
		else
			*out++ = *p;
	}
	*out = '\0';
}

static int
set_text (job_desc_msg_t *job, const char *field, const char *value)
{
#define SET_TEXT(key, member)                                                              \
	if (strcmp (field, #key) == 0) {                                                   \
		job->member = slurm_xstrdup (value);                                       \
		return 1;                                                                  \
	}
	SLUICE_TEXTS (SET_TEXT)
	return 0;
}

static int
set_number (job_desc_msg_t *job, const char *field, long long value)
{
#define SET_NUMBER(key, member)                                                            \
	if (strcmp (field, #key) == 0) {                                                   \
		job->member = (__typeof__ (job->member))value;                             \
		return 1;                                                                  \
	}
	SLUICE_NUMBERS (SET_NUMBER)
	return 0;
}

/* Options travel as SPANK hands them on; what follows the first is added. */
static int
set_option (job_desc_msg_t *job, const char *field, const char *value)
{
	static const struct {
		const char *field, *option, *value; /* NULL: as given */
	} options[] = {
		{ "io_dir", "io_dir", "/fast/%j" },
		{ "opt_out", "no_sluice", "(null)" },
		{ "io_turns", "io_turns", NULL },
	};
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		char entry[4096];
		if (strcmp (field, options[i].field) != 0)
			continue;
		snprintf (entry, sizeof entry, "_SLURM_SPANK_OPTION_sluice_%s=%s",
			  options[i].option, options[i].value ? options[i].value : value);
		if (!job->spank_job_env)
			job->spank_job_env = calloc (MAX_OPTIONS, sizeof (char *));
		if (!job->spank_job_env || job->spank_job_env_size == MAX_OPTIONS)
			die ("too many options", field);
		job->spank_job_env[job->spank_job_env_size++] = slurm_xstrdup (entry);
		return 1;
	}
	return 0;
}

static void
set_field (struct job *job, const char *field, char *value)
{
	job_desc_msg_t *description = &job->description;
	char *end;
	unescape (value);
	if (set_text (description, field, value) || set_option (description, field, value))
		return;
	if (strcmp (field, "environment") == 0) {
		description->environment = calloc (1, sizeof (char *));
		description->environment[0] = slurm_xstrdup (value);
		description->env_size = 1;
		return;
	}
	long long number = strtoll (value, &end, 10);
	if (*end)
		die (field, value);
	if (set_number (description, field, number))
		return;
	if (strcmp (field, "time") == 0)
		job->time = number;
	else if (strcmp (field, "memory_cpu_mib") == 0)
		description->pn_min_memory = (uint64_t)number | MEM_PER_CPU;
	else if (strcmp (field, "het_component") == 0)
		description->het_job_offset = (uint32_t)number - 1;
	else if (strcmp (field, "cron") == 0)
		description->bitflags |= CRON_JOB;
	else
		die ("no such field", field);
}

/* What became of one call of job_submit. */
struct outcome {
	int rc;
	int is_altered; /* anything but the texts below, or a message */
	unsigned long allocations;
	uint64_t ns; /* thread CPU time */
	char *comment;
	char *licenses;
	char *tres_per_task;
	char *turns; /* as the nodes are told by a variable */
};

static uint64_t
thread_cpu_ns (void)
{
	struct timespec now;
	clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Read the script, as slurmctld has done when it unpacked the request. */
static void
touch (const job_desc_msg_t *job)
{
	volatile size_t length = job->script ? strlen (job->script) : 0;
	(void)length;
}

static char *
copy_of (const char *text)
{
	return text ? slurm_xstrdup (text) : NULL;
}

static void
outcome_free (struct outcome *outcome)
{
	slurm_xfree ((void **)&outcome->comment);
	slurm_xfree ((void **)&outcome->licenses);
	slurm_xfree ((void **)&outcome->tres_per_task);
	slurm_xfree ((void **)&outcome->turns);
}

static void
copy_environment (job_desc_msg_t *job)
{
	char **own = job->environment;
	if (!own)
		return;
	job->environment = slurm_xcalloc (job->env_size + 1, sizeof *own, true, false,
					  __FILE__, __LINE__, __func__);
	for (uint32_t i = 0; i < job->env_size; i++)
		job->environment[i] = slurm_xstrdup (own[i]);
}

/* Of the copied environment, which ends here. */
static void
take_turns (job_desc_msg_t *job, struct outcome *out)
{
	static const char name[] = "SLUICE_TURNS_DECIDED=";
	out->turns = NULL;
	for (uint32_t i = 0; i < job->env_size; i++) {
		if (strncmp (job->environment[i], name, sizeof name - 1) == 0) {
			if (out->turns)
				die ("set twice", name);
			out->turns = slurm_xstrdup (job->environment[i] + sizeof name - 1);
		}
		slurm_xfree ((void **)&job->environment[i]);
	}
	slurm_xfree ((void **)&job->environment);
}

/* Submit a copy, so that the job can be submitted again. */
static void
submit_once (const struct job *job, struct outcome *out)
{
	job_desc_msg_t copy = job->description;
	char *message = NULL;

	copy.admin_comment = copy_of (copy.admin_comment);
	copy.licenses = copy_of (copy.licenses);
	copy.tres_per_task = copy_of (copy.tres_per_task);
	copy_environment (&copy);
	clock_of_trace = job->time;
	touch (&copy);
	unsigned long before = allocations;
	uint64_t start = thread_cpu_ns ();
	out->rc = submit (&copy, copy.user_id, &message);
	out->ns = thread_cpu_ns () - start;
	out->allocations = allocations - before;
	out->comment = copy.admin_comment;
	out->licenses = copy.licenses;
	out->tres_per_task = copy.tres_per_task;
	copy.admin_comment = job->description.admin_comment;
	copy.licenses = job->description.licenses;
	copy.tres_per_task = job->description.tres_per_task;
	take_turns (&copy, out);
	copy.environment = job->description.environment;
	copy.env_size = job->description.env_size;
	out->is_altered = message || memcmp (&copy, &job->description, sizeof copy) != 0;
}

static void
read_job (char *fields, struct job *out)
{
	char *field;

	slurm_init_job_desc_msg (&out->description);
	/* as slurmctld does for a job that is not heterogeneous */
	out->description.het_job_offset = NO_VAL;
	while ((field = strsep (&fields, "\t"))) {
		char *equals = strchr (field, '=');
		if (!equals)
			die ("no value", field);
		*equals = '\0';
		set_field (out, field, equals + 1);
	}
}

/* Of the text that was asked for `=`, else what became of it, escaped, and a tab. */
static void
print_change (const char *before, const char *after)
{
	if (before && after ? strcmp (before, after) == 0 : before == after)
		putchar ('=');
	else
		for (const char *p = after ? after : ""; *p; p++) {
			char escape = *p == '\n'   ? 'n'
				      : *p == '\t' ? 't'
				      : *p == '\r' ? 'r'
						   : *p;
			if (escape != *p || *p == '\\' || *p == '=')
				putchar ('\\');
			putchar (escape);
		}
	putchar ('\t');
}

static void
add_and_submit (char *fields)
{
	struct job *job = &jobs[job_count];
	const job_desc_msg_t *asked = &job->description;
	struct outcome outcome;

	if (job_count++ == MAX_JOBS)
		die ("too many jobs", "see MAX_JOBS");
	read_job (fields, job);
	submit_once (job, &outcome);
	printf ("%d\t%d\t%lu\t", outcome.rc, outcome.is_altered, outcome.allocations);
	print_change (asked->licenses, outcome.licenses);
	print_change (asked->tres_per_task, outcome.tres_per_task);
	printf ("%s\t%s\n", outcome.turns ? outcome.turns : "",
		outcome.comment ? outcome.comment : "");
	outcome_free (&outcome);
}

static void
read_and_modify (char *fields)
{
	struct job job;

	read_job (fields, &job);
	job_desc_msg_t change = job.description;
	change.licenses = copy_of (change.licenses);
	change.tres_per_task = copy_of (change.tres_per_task);
	int rc = modify (&change, NULL, change.user_id);
	printf ("%d\t", rc);
	print_change (job.description.licenses, change.licenses);
	print_change (job.description.tres_per_task, change.tres_per_task);
	putchar ('\n');
	slurm_xfree ((void **)&change.licenses);
	slurm_xfree ((void **)&change.tres_per_task);
	slurm_xfree ((void **)&job.description.licenses);
	slurm_xfree ((void **)&job.description.tres_per_task);
	slurm_xfree ((void **)&job.description.job_id_str);
}

/* <licence> <number> */
static void
set_total (char *arguments)
{
	struct license *license = licenses;
	char *name = strsep (&arguments, "\t");

	while (license < licenses + license_count && strcmp (license->name, name) != 0)
		license++;
	if (license == licenses + sizeof licenses / sizeof *licenses || !arguments)
		die ("total", name);
	if (license == licenses + license_count)
		license_count++;
	snprintf (license->name, sizeof license->name, "%s", name);
	license->total = (uint32_t)strtoul (arguments, NULL, 10);
	puts ("0");
}

/*
 * Many calls from many threads.
 */

struct worker {
	pthread_t thread;
	size_t first;
	size_t count;
	uint64_t *ns;
};

static void *
work (void *data)
{
	struct worker *worker = data;
	struct outcome outcome;

	for (size_t i = 0; i < worker->count; i++) {
		submit_once (&jobs[(worker->first + i) % job_count], &outcome);
		if (outcome.rc != SLURM_SUCCESS || outcome.is_altered)
			die ("job_submit", "refused or altered a job");
		worker->ns[i] = outcome.ns;
		outcome_free (&outcome);
	}
	return NULL;
}

/* Fills the caches of its core first, those of addresses too. */
static void *
work_chilled (void *data)
{
	enum { BYTES = 16 << 20, CACHE_LINE = 64 };
	static volatile char others[BYTES];

	for (size_t i = 0; i < BYTES; i += CACHE_LINE)
		others[i]++;
	return work (data);
}

static int
compare_ns (const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Print the figures of calls that took so long; sorts them. */
static void
print_timing (uint64_t *ns, size_t calls)
{
	qsort (ns, calls, sizeof *ns, compare_ns);
	printf ("%zu\t%lu\t%lu\t%lu\t%lu\n", calls, ns[calls / 2], ns[calls * 99 / 100],
		ns[calls * 999 / 1000], ns[calls - 1]);
}

static void
spin (const char *arguments)
{
	size_t steps, count;
	if (sscanf (arguments, "%zu\t%zu", &steps, &count) != 2 || count == 0)
		die ("spin", arguments);
	uint64_t *ns = malloc (count * sizeof *ns);
	volatile uint64_t sink; /* what nobody reads would not be computed */
	uint64_t product = 1;
	for (size_t i = 0; i < count; i++) {
		uint64_t start = thread_cpu_ns ();
		/* in registers, each step waiting for the one before */
		for (size_t k = 0; k < steps; k++)
			product = product * 0x9e3779b97f4a7c15u + k;
		sink = product;
		ns[i] = thread_cpu_ns () - start;
	}
	(void)sink;
	print_timing (ns, count);
	free (ns);
}

/* Repetitions go on with the jobs where the last command stopped. */
static size_t next;

static void
repeat (const char *arguments)
{
	size_t threads, count;
	if (sscanf (arguments, "%zu\t%zu", &threads, &count) != 2 || threads == 0
	    || count == 0 || job_count == 0)
		die ("repeat", arguments);

	size_t calls = threads * count;
	uint64_t *ns = malloc (calls * sizeof *ns);
	struct worker *workers = calloc (threads, sizeof *workers);
	for (size_t t = 0; t < threads; t++) {
		workers[t] = (struct worker){ .first = next + t * job_count / threads,
					      .count = count,
					      .ns = ns + t * count };
		pthread_create (&workers[t].thread, NULL, work, &workers[t]);
	}
	for (size_t t = 0; t < threads; t++)
		pthread_join (workers[t].thread, NULL);
	next += count;
	print_timing (ns, calls);
	free (workers);
	free (ns);
}

enum { STACK = 1 << 20 };

/* Where the stack stood when job_submit was called. */
static void *
submit_on_own_stack (void *data)
{
	struct outcome outcome;
	char *here = __builtin_frame_address (0);

	submit_once (data, &outcome);
	outcome_free (&outcome);
	return here;
}

static void
measure_stack (void)
{
	static const char paint = 0x5a;
	char *stack = aligned_alloc (4096, STACK);
	size_t most = 0;

	for (size_t i = 0; i < job_count; i++) {
		pthread_attr_t attributes;
		pthread_t thread;
		void *from;
		size_t untouched = 0;

		memset (stack, paint, STACK);
		pthread_attr_init (&attributes);
		pthread_attr_setstack (&attributes, stack, STACK);
		pthread_create (&thread, &attributes, submit_on_own_stack, &jobs[i]);
		pthread_join (thread, &from);
		pthread_attr_destroy (&attributes);
		while (stack[untouched] == paint)
			untouched++;
		size_t used = (size_t)((char *)from - stack) - untouched;
		most = used > most ? used : most;
	}
	printf ("%zu\n", most);
	free (stack);
}

static void
repeat_chilled (const char *argument)
{
	size_t count = strtoul (argument, NULL, 10);
	if (count == 0 || job_count == 0)
		die ("chilled", argument);
	uint64_t *ns = malloc (count * sizeof *ns);
	for (size_t i = 0; i < count; i++) {
		struct worker worker = { .first = next++, .count = 1, .ns = ns + i };
		pthread_create (&worker.thread, NULL, work_chilled, &worker);
		pthread_join (worker.thread, NULL);
	}
	print_timing (ns, count);
	free (ns);
}

/* As a child of slurmctld that could not execute its program. */
static void
fork_and_exit (void)
{
	int status;
	pid_t child = fork ();
	if (child == 0)
		exit (0);
	if (child < 0 || waitpid (child, &status, 0) != child)
		die ("fork", strerror (errno));
	printf ("%d\n", status);
}

int
main (int argc, char **argv)
{
	if (argc != 2)
		die ("usage", "harness PLUGIN.so");
	slurm_conf.cluster_name = "harness";
	slurm_conf.slurm_conf = getenv ("SLURM_CONF");
	void *plugin = dlopen (argv[1], RTLD_LAZY);
	if (!plugin)
		die (argv[1], dlerror ());
	int (*start) (void) = find (plugin, "init");
	int (*stop) (void) = find (plugin, "fini");
	submit = find (plugin, "job_submit");
	modify = find (plugin, "job_modify");
	if (start () != SLURM_SUCCESS)
		die ("init", "failed");

	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	while ((length = getline (&line, &size, stdin)) > 0) {
		line[length - 1] = '\0';
		if (strncmp (line, "job\t", 4) == 0)
			add_and_submit (line + 4);
		else if (strncmp (line, "repeat\t", 7) == 0)
			repeat (line + 7);
		else if (strncmp (line, "chilled\t", 8) == 0)
			repeat_chilled (line + 8);
		else if (strcmp (line, "stack") == 0)
			measure_stack ();
		else if (strncmp (line, "spin\t", 5) == 0)
			spin (line + 5);
		else if (strcmp (line, "fork") == 0)
			fork_and_exit ();
		else if (strcmp (line, "exit") == 0)
			exit (0);
		else if (strncmp (line, "modify\t", 7) == 0)
			read_and_modify (line + 7);
		else if (strncmp (line, "total\t", 6) == 0)
			set_total (line + 6);
		else if (strncmp (line, "operator\t", 9) == 0)
			printf ("%d\n",
				(operator_uid = (uint32_t)strtoul (line + 9, NULL, 10))
				    == 0);
		else
			die ("no such command", line);
		fflush (stdout);
	}
	free (line);
	stop ();
	dlclose (plugin);
	return 0;
}
