#include "arguments.h"

#include <string.h>

enum {
	MAX_WORDS = 32,	      /* arguments that are looked at one by one, */
	MAX_WORD_BYTES = 256, /* and so many bytes of each */
};

const double sluice_largest_number = 1e18;

struct word {
	const char *start;
	size_t length;
};

/* The next word before end; of length 0 at the end. */
static struct word
next_word (const char *from, const char *end)
{
	while (from < end && *from == ' ')
		from++;
	struct word word = { from, 0 };
	while (from + word.length < end && from[word.length] != ' ')
		word.length++;
	return word;
}

static const char *
behind (struct word word)
{
	return word.start + word.length;
}

/* Options of sbatch, srun and salloc, and Sluice's own, that the next word is no value of.
 */
static int
is_flag (const char *name, size_t length)
{
	static const char *const flags[]
	    = { "bell",	      "contiguous",    "disable-status", "exact",
		"exclusive",  "get-user-env",  "help",		 "hold",
		"ignore-pbs", "immediate",     "io-dir",	 "label",
		"multi-prog", "no-allocate",   "no-bell",	 "no-kill",
		"no-requeue", "no-shell",      "no-sluice",	 "overcommit",
		"overlap",    "oversubscribe", "parsable",	 "preserve-env",
		"propagate",  "pty",	       "quiet",		 "reboot",
		"requeue",    "share",	       "spread-job",	 "test-only",
		"unbuffered", "usage",	       "use-min-nodes",	 "verbose",
		"version",    "wait",	       "whole" };
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
		if (strlen (flags[i]) == length && memcmp (flags[i], name, length) == 0)
			return 1;
	return 0;
}

/* Whether the word behind an option is its value. */
static int
takes_value (struct word option)
{
	if (option.length == 2)
		return memchr ("EHIKOQVWXZhklsuv", option.start[1], 16) == NULL;
	if (option.start[1] != '-' || memchr (option.start, '=', option.length))
		return 0;
	return !is_flag (option.start + 2, option.length - 2);
}

/* Behind the script or the program, which is the first word that is neither an option nor
 * the value of one. */
static const char *
behind_program (const char *line, const char *end)
{
	struct word word = next_word (line, end); /* sbatch, srun, salloc */
	while (word.length > 0) {
		word = next_word (behind (word), end);
		if (word.length == 2 && memcmp (word.start, "--", 2) == 0)
			word = next_word (behind (word), end);
		else if (word.length > 1 && word.start[0] == '-') {
			if (takes_value (word))
				word = next_word (behind (word), end);
			continue;
		}
		break;
	}
	return behind (word);
}

static int
is_digit (char c)
{
	return c >= '0' && c <= '9';
}

/* 1024 to the power that a unit stands for: `K`, `MB`, `GiB`; 1 for any other word. */
static double
unit_at (const char *p, const char *end)
{
	static const char units[] = "KMGT";
	const char *unit = p < end ? memchr (units, *p & ~0x20, 4) : NULL;
	if (!unit)
		return 1.0;
	p++;
	if (p < end && *p == 'i')
		p++;
	if (p < end && (*p == 'B' || *p == 'b'))
		p++;
	if (p < end && ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z'))
		return 1.0;
	double factor = 1024.0;
	for (const char *u = units; u < unit; u++)
		factor *= 1024.0;
	return factor;
}

/* Reads digits, and what stands behind a point. Returns where they end. */
static const char *
read_number (const char *p, const char *end, double *out)
{
	double value = 0.0, digit = 1.0;
	for (; p < end && is_digit (*p); p++)
		value = value * 10.0 + (*p - '0');
	if (p + 1 < end && *p == '.' && is_digit (p[1]))
		for (p++; p < end && is_digit (*p); p++) {
			digit /= 10.0;
			value += digit * (*p - '0');
		}
	value *= unit_at (p, end);
	*out = value < sluice_largest_number ? value : sluice_largest_number;
	return p;
}

/* Take the numbers of a word, and its bucket by what is left. */
static void
look_at (struct word word, unsigned int *found, struct sluice_arguments *out)
{
	char rest[MAX_WORD_BYTES];
	size_t n = 0;
	const char *end
	    = word.start + (word.length < MAX_WORD_BYTES ? word.length : MAX_WORD_BYTES);
	for (const char *p = word.start; p < end;) {
		if (!is_digit (*p)) {
			rest[n++] = *p++;
			continue;
		}
		double number;
		p = read_number (p, end, &number);
		rest[n++] = '#';
		if (*found < SLUICE_MAX_NUMBERS)
			out->numbers[(*found)++] = number;
	}
	out->words |= 1u << sluice_hash_bytes (rest, n, 0) % SLUICE_WORD_BUCKETS;
	out->count++;
}

void
sluice_arguments_of (const char *line, size_t size, struct sluice_arguments *out)
{
	const char *end = line + size;
	unsigned int numbers = 0;

	memset (out, 0, sizeof *out);
	while (end > line && end[-1] == ' ')
		end--;
	struct word first = next_word (behind_program (line, end), end);
	out->hash = sluice_hash_bytes (first.start, (size_t)(end - first.start), 1);
	if (out->hash == 0)
		out->hash = 1;
	for (struct word word = first; word.length > 0 && out->count < MAX_WORDS;
	     word = next_word (behind (word), end))
		look_at (word, &numbers, out);
}
