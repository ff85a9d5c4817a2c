#include "swf.h"

#include <string.h>

uint64_t
sluice_swf_lines (const char *text, uint64_t size)
{
	uint64_t lines = 0;
	const char *end = text + size;
	while (text < end) {
		const char *stop = memchr (text, '\n', (size_t)(end - text));
		lines++;
		text = stop ? stop + 1 : end;
	}
	return lines;
}

static int
is_blank (char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static const char *
skip_blanks (const char *at, const char *end)
{
	while (at < end && is_blank (*at))
		at++;
	return at;
}

/* Digits at `at`, at least one and at most 15, so that a double holds them exactly. */
static const char *
read_digits (const char *at, const char *end, double *value, double *scale)
{
	const char *start = at;
	int64_t number = 0;
	*scale = 1;
	while (at < end && *at >= '0' && *at <= '9' && at - start < 15) {
		number = number * 10 + (*at++ - '0');
		*scale *= 10;
	}
	*value = (double)number;
	return at > start ? at : NULL;
}

/* [+-]digits[.digits], ended by a blank or the line's end. NULL: it is not that. */
static const char *
read_number (const char *at, const char *end, double *value)
{
	double fraction, scale;
	int is_negative = *at == '-';
	at = read_digits (at + (*at == '-' || *at == '+'), end, value, &scale);
	if (at && at < end && *at == '.') {
		at = read_digits (at + 1, end, &fraction, &scale);
		*value += fraction / scale;
	}
	if (is_negative)
		*value = -*value;
	return at && (at == end || is_blank (*at)) ? at : NULL;
}

/* Words from here on. */
static uint32_t
count_words (const char *at, const char *end)
{
	uint32_t count = 0;
	for (at = skip_blanks (at, end); at < end; at = skip_blanks (at, end)) {
		while (at < end && !is_blank (*at))
			at++;
		count++;
	}
	return count;
}

/* width: of the first row, 0 until there is one. Returns 1 when the line is a row, 0 when
 * it says nothing, -1 when it is broken. */
static int
read_line (const char *at, const char *end, double *row, uint32_t *width,
	   struct sluice_swf_problem *problem)
{
	at = skip_blanks (at, end);
	if (at == end || *at == ';')
		return 0;
	uint32_t field = 0;
	for (; at < end && field < SLUICE_SWF_FIELDS; at = skip_blanks (at, end)) {
		at = read_number (at, end, &row[field]);
		problem->field = ++field;
		problem->fault = SLUICE_SWF_NO_NUMBER;
		if (!at)
			return -1;
	}
	problem->fault = SLUICE_SWF_TOO_FEW_FIELDS;
	if (field < SLUICE_SWF_FIELDS)
		return -1;
	problem->field = field + count_words (at, end);
	problem->fault = SLUICE_SWF_TOO_MANY_FIELDS;
	if (*width == 0)
		*width = problem->field;
	return problem->field <= *width ? 1 : -1;
}

void
sluice_swf_read (struct sluice_swf_reader *reader)
{
	const char *at = reader->text, *end = at + reader->size;
	uint32_t width = 0;
	reader->row_count = reader->problem_count = 0;
	for (uint64_t line = 1; at < end && reader->row_count < reader->row_capacity;
	     line++) {
		const char *stop = memchr (at, '\n', (size_t)(end - at));
		if (!stop)
			stop = end;
		struct sluice_swf_problem problem = { .line = line };
		double *row = reader->rows + reader->row_count * SLUICE_SWF_FIELDS;
		int answer = read_line (at, stop, row, &width, &problem);
		if (answer > 0)
			reader->row_count++;
		if (answer < 0 && reader->problem_count++ < reader->problem_capacity)
			reader->problems[reader->problem_count - 1] = problem;
		at = stop < end ? stop + 1 : end;
	}
}
