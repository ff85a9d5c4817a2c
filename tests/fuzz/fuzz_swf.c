/*
 * Any bytes as a trace in the Standard Workload Format: every row read and every
 * problem named lies where there is room, and each line is one or the other or blank.
 */
#include <stdlib.h>

#include "swf.h"

enum { NAMED = 3 };

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct sluice_swf_problem problems[NAMED];
	uint64_t lines = sluice_swf_lines (text, size);
	struct sluice_swf_reader reader = {
		.text = text,
		.size = size,
		.problems = problems,
		.problem_capacity = NAMED,
		.row_capacity = lines,
	};
	reader.rows = calloc (lines + 1, SLUICE_SWF_FIELDS * sizeof *reader.rows);
	if (!reader.rows)
		return 0;
	sluice_swf_read (&reader);
	if (reader.row_count + reader.problem_count > lines)
		abort ();
	for (uint64_t i = 0; i < reader.problem_count && i < NAMED; i++)
		if (problems[i].line < 1 || problems[i].line > lines
		    || problems[i].field > size
		    || problems[i].fault > SLUICE_SWF_TOO_MANY_FIELDS)
			abort ();
	free (reader.rows);
	return 0;
}
