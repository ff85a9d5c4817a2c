#include "submit_text.h"

#include <stddef.h>
#include <string.h>

/*
 * Arguments.
 */

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

/* Take the numbers of a word. */
static void
look_at (struct word word, unsigned int *found, struct sluice_arguments *out)
{
	const char *end
	    = word.start + (word.length < MAX_WORD_BYTES ? word.length : MAX_WORD_BYTES);
	for (const char *p = word.start; p < end;) {
		if (!is_digit (*p)) {
			p++;
			continue;
		}
		double number;
		p = read_number (p, end, &number);
		if (*found < SLUICE_MAX_NUMBERS)
			out->numbers[(*found)++] = number;
	}
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
	unsigned int words = 0;
	for (struct word word = first; word.length > 0 && words < MAX_WORDS;
	     word = next_word (behind (word), end), words++)
		look_at (word, &numbers, out);
}

/*
 * Scripts.
 */

enum {
	SCRIPT_BYTES = 16 * 1024,
	SCRIPT_WINDOW = 1024, /* looked through at a time */
	HASH_LANES = 4,
	HASH_BLOCK = HASH_LANES * sizeof (uint64_t),
};

static size_t
smaller (size_t a, size_t b)
{
	return a < b ? a : b;
}

static int
is_blank (char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The start of the first line from here on that is neither blank nor a comment; the
 * end where there is none. */
static size_t
next_code (const char *script, size_t from, size_t end)
{
	while (from < end) {
		size_t i = from;
		while (i < end && is_blank (script[i]))
			i++;
		if (i < end && script[i] != '\n' && script[i] != '#')
			return from;
		const char *newline = memchr (script + i, '\n', end - i);
		if (!newline)
			break;
		from = (size_t)(newline - script) + 1;
	}
	return end;
}

/*
 * Where lines end at which something may have to be left out: there is a blank in front
 * of the end, or a blank, an empty line or a comment behind. Most lines of most scripts
 * have none of this, and here many bytes are looked at in one instruction. A window at
 * a time, as a deep stack is dear (decide.h).
 */
struct line_ends {
	const char *script;
	size_t size;
	size_t window; /* its start */
	size_t next;   /* the start of the next one */
	char marks[SCRIPT_WINDOW];
};

static void
mark_window (struct line_ends *ends)
{
	const size_t first = ends->next, last = ends->size - 1;
	const size_t n = smaller (SCRIPT_WINDOW, ends->size - first);
	const size_t inner = smaller (n, last - first); /* with a byte behind */
	const unsigned char *p = (const unsigned char *)ends->script + first;
	char *restrict marks = ends->marks;

	ends->window = first;
	ends->next = first + n;
	marks[0] = 0; /* at the start of a script nothing has to be left out */
	for (size_t i = first == 0; i < inner; i++)
		marks[i] = (p[i] == '\n')
			   & ((p[(ptrdiff_t)i - 1] <= ' ') | (p[i + 1] <= ' ')
			      | (p[i + 1] == '#'));
	if (inner < n)
		marks[inner] = p[inner] == '\n';
}

/* The first one from here on; the script's size where there is none. */
static size_t
next_end (struct line_ends *ends, size_t from)
{
	while (from < ends->size) {
		if (from >= ends->next)
			mark_window (ends);
		if (from < ends->next) {
			const char *mark = memchr (ends->marks + (from - ends->window), 1,
						   ends->next - from);
			if (mark)
				return ends->window + (size_t)(mark - ends->marks);
			from = ends->next;
		}
	}
	return ends->size;
}

/* A script is long, and a processor multiplies several numbers at a time: so its words
 * go round lanes that do not wait for each other. */
struct long_hash {
	uint64_t lanes[HASH_LANES];
	size_t size;		  /* bytes so far */
	char pending[HASH_BLOCK]; /* size % HASH_BLOCK of them */
};

/* size: whole blocks. */
static void
hash_blocks (struct long_hash *h, const char *bytes, size_t size)
{
	const uint64_t multiplier = 0x9e3779b97f4a7c15u;
	uint64_t lanes[HASH_LANES]; /* in registers */

	memcpy (lanes, h->lanes, sizeof lanes);
	for (const char *p = bytes; p < bytes + size; p += HASH_BLOCK) {
		uint64_t words[HASH_LANES];
		memcpy (words, p, HASH_BLOCK);
		for (int i = 0; i < HASH_LANES; i++) {
			lanes[i] = (lanes[i] ^ words[i]) * multiplier;
			lanes[i] ^= lanes[i] >> 32;
		}
	}
	memcpy (h->lanes, lanes, sizeof lanes);
}

static void
hash_more (struct long_hash *h, const char *bytes, size_t size)
{
	size_t filled = h->size % HASH_BLOCK;
	h->size += size;
	if (filled > 0) {
		size_t part = HASH_BLOCK - filled < size ? HASH_BLOCK - filled : size;
		memcpy (h->pending + filled, bytes, part);
		if (filled + part < HASH_BLOCK)
			return;
		hash_blocks (h, h->pending, HASH_BLOCK);
		bytes += part;
		size -= part;
	}
	size_t rest = size % HASH_BLOCK;
	hash_blocks (h, bytes, size - rest);
	memcpy (h->pending, bytes + size - rest, rest);
}

static uint64_t
hash_end (struct long_hash *h)
{
	size_t filled = h->size % HASH_BLOCK;
	if (filled > 0) {
		memset (h->pending + filled, 0, HASH_BLOCK - filled);
		hash_blocks (h, h->pending, HASH_BLOCK);
	}
	return sluice_hash_bytes (h->lanes, sizeof h->lanes, h->size);
}

uint64_t
sluice_script_signature (const char *script, size_t size)
{
	struct long_hash hash = { .size = 0 };
	struct line_ends ends;
	if (!script)
		return 0;
	ends.script = script;
	ends.size = smaller (size, SCRIPT_BYTES);
	ends.next = 0;
	for (size_t run = next_code (script, 0, ends.size); run < ends.size;) {
		size_t stop = next_end (&ends, run), end = stop;
		while (is_blank (script[end - 1]))
			end--;
		if (end == stop && stop < ends.size) {
			hash_more (&hash, script + run, end + 1 - run);
		} else {
			hash_more (&hash, script + run, end - run);
			hash_more (&hash, "\n", 1);
		}
		run = next_code (script, stop + 1, ends.size);
	}
	return hash.size > 0 ? hash_end (&hash) : 0;
}
