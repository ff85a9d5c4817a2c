#include "job_request.h"

#include <string.h>

#include "submit_text.h"

static size_t
bounded_length (const char *text)
{
	const char *end = memchr (text, '\0', SLUICE_TEXT_LIMIT);
	return end ? (size_t)(end - text) : SLUICE_TEXT_LIMIT;
}

static const char *
read_number (const char *p, const char *end, uint64_t *number)
{
	*number = 0;
	for (; p < end && *p >= '0' && *p <= '9'; p++)
		if (*number <= UINT32_MAX)
			*number = *number * 10 + (uint64_t)(*p - '0');
	return p;
}

/* `first`, `first-last` or `first-last:step`. */
static uint64_t
tasks_of_range (const char *p, const char *end)
{
	uint64_t first, last, step = 1;
	p = read_number (p, end, &first);
	last = first;
	if (p < end && *p == '-')
		p = read_number (p + 1, end, &last);
	if (p < end && *p == ':')
		read_number (p + 1, end, &step);
	return last < first || step == 0 ? 0 : (last - first) / step + 1;
}

/* Of "0-15:4,20%2" 5; 0 for NULL; 1 where the text makes no sense (Slurm will refuse it).
 */
static uint32_t
array_tasks (const char *array)
{
	if (!array)
		return 0;
	uint64_t tasks = 0;
	const char *end = array + bounded_length (array);
	const char *limit = memchr (array, '%', (size_t)(end - array));
	if (limit)
		end = limit;
	for (const char *p = array; p < end;) {
		const char *comma = memchr (p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end;
		tasks += tasks_of_range (p, stop);
		p = stop + 1;
	}
	if (tasks == 0)
		return 1;
	return tasks < UINT32_MAX ? (uint32_t)tasks : UINT32_MAX;
}

typedef int word_test (const char *word, size_t length, const char *wanted);

/* Whether any blank-separated word of the line passes the test. */
static int
has_word (const char *line, word_test *test, const char *wanted)
{
	if (!line)
		return 0;
	const char *end = line + bounded_length (line);
	for (const char *p = line; p < end;) {
		const char *blank = memchr (p, ' ', (size_t)(end - p));
		const char *stop = blank ? blank : end;
		if (test (p, (size_t)(stop - p), wanted))
			return 1;
		p = stop + 1;
	}
	return 0;
}

/* `--option` or `--option=value`. */
static int
is_option (const char *word, size_t length, const char *option)
{
	size_t wanted = strlen (option);
	return length >= wanted && memcmp (word, option, wanted) == 0
	       && (length == wanted || word[wanted] == '=');
}

/* `-I` or `-I5`; a compiler's `-I/usr/include` is none. */
static int
is_flag_with_number (const char *word, size_t length, const char *flag)
{
	if (length < 2 || memcmp (word, flag, 2) != 0)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (word[i] < '0' || word[i] > '9')
			return 0;
	return 1;
}

static int
has_option (const char *line, const char *option)
{
	return has_word (line, is_option, option);
}

/* With a number of seconds the command itself gives up, and Slurm is not told. */
static int
is_immediate (const struct sluice_request *request)
{
	return request->immediate
	       || has_word (request->submit_line, is_option, "--immediate")
	       || has_word (request->submit_line, is_flag_with_number, "-I");
}

/* Whether the line's first word is a program of this name, in whatever directory. */
static int
runs_program (const char *line, const char *program)
{
	if (!line)
		return 0;
	size_t length = bounded_length (line);
	const char *blank = memchr (line, ' ', length);
	if (blank)
		length = (size_t)(blank - line);
	size_t wanted = strlen (program);
	return length >= wanted && memcmp (line + length - wanted, program, wanted) == 0
	       && (length == wanted || line[length - wanted - 1] == '/');
}

/* In 22.05 only srun sends a command; in 24.11 salloc does as well. */
static uint32_t
launcher_of (const struct sluice_request *request)
{
	if (request->script)
		return SLUICE_LAUNCHER_SBATCH;
	if (!request->has_command || runs_program (request->submit_line, "salloc"))
		return SLUICE_LAUNCHER_SALLOC;
	return SLUICE_LAUNCHER_SRUN;
}

static int
contains (const char *text, const char *part)
{
	if (!text)
		return 0;
	size_t length = strlen (part);
	const char *end = text + bounded_length (text);
	for (const char *p = text; (size_t)(end - p) >= length; p++)
		if (memcmp (p, part, length) == 0)
			return 1;
	return 0;
}

static int
is_no (const char *value)
{
	return strcmp (value, "no") == 0;
}

static uint32_t
flags_of (const struct sluice_request *request)
{
	const struct {
		int is_set;
		uint32_t flag;
	} rules[] = {
		{ is_immediate (request), SLUICE_SUBMIT_IMMEDIATE },
		{ has_option (request->submit_line, "--pty"), SLUICE_SUBMIT_PTY },
		{ request->cron != 0, SLUICE_SUBMIT_CRON },
		{ request->reservation && request->reservation[0],
		  SLUICE_SUBMIT_RESERVATION },
		{ request->begin != 0 || request->deadline != 0, SLUICE_SUBMIT_DEADLINE },
		{ request->array != NULL, SLUICE_SUBMIT_ARRAY },
		{ request->het_component > 0, SLUICE_SUBMIT_HET },
		{ request->het_component > 1, SLUICE_SUBMIT_HET_LATER },
		{ contains (request->licenses, "|")
		      || contains (request->tres_per_task, "license"),
		  SLUICE_SUBMIT_OR_LICENSES },
		{ request->opt_out != 0, SLUICE_SUBMIT_OPT_OUT },
		{ request->io_dir != 0, SLUICE_SUBMIT_IO_DIR },
		{ request->io_turns && !is_no (request->io_turns), SLUICE_SUBMIT_IO_TURNS },
		{ request->io_turns && is_no (request->io_turns), SLUICE_SUBMIT_NO_TURNS },
		{ has_option (request->submit_line, "--test-only"),
		  SLUICE_SUBMIT_TEST_ONLY },
	};
	uint32_t flags = 0;
	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
		if (rules[i].is_set)
			flags |= rules[i].flag;
	return flags;
}

/* MiB a node: what was asked per CPU, times the CPUs a node will have. */
static uint64_t
memory_of (const struct sluice_request *request)
{
	if (request->memory_node_mib > 0 || request->memory_cpu_mib == 0)
		return request->memory_node_mib;
	uint64_t nodes = request->nodes ? request->nodes : 1;
	uint64_t tasks = request->tasks ? request->tasks : 1;
	uint64_t cpus = request->cpus_per_task ? request->cpus_per_task : 1;
	return request->memory_cpu_mib * cpus * ((tasks + nodes - 1) / nodes);
}

void
sluice_submission_of (const struct sluice_request *request, struct sluice_submission *out)
{
	const char *script = request->script;
	const char *line = request->submit_line;

	memset (out, 0, sizeof *out);
	out->uid = request->uid;
	out->launcher = launcher_of (request);
	out->flags = flags_of (request);
	out->nodes = request->nodes;
	out->tasks = request->tasks;
	out->cpus_per_task = request->cpus_per_task;
	out->time_limit = request->time_limit;
	out->array_tasks = array_tasks (request->array);
	out->license_length
	    = request->licenses ? (uint32_t)bounded_length (request->licenses) : 0;
	out->memory_mib = memory_of (request);
	out->script_signature
	    = script ? sluice_script_signature (script, bounded_length (script)) : 0;
	if (line) {
		size_t length = bounded_length (line);
		out->submit_line_hash = sluice_hash_bytes (line, length, 0);
		sluice_arguments_of (line, length, &out->arguments);
	}
	sluice_copy_text (out->name, sizeof out->name, request->name);
	sluice_copy_text (out->account, sizeof out->account, request->account);
	sluice_copy_text (out->partition, sizeof out->partition, request->partition);
	sluice_copy_text (out->qos, sizeof out->qos, request->qos);
}
