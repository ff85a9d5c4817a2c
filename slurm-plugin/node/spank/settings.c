#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vocabulary.h"

/* mfssetsclass(1): files made below inherit the storage class. */
static void
moosefs_words (const char *placement, const char *count, const char *words[])
{
	(void)count;
	words[0] = placement;
	words[1] = ".";
}

static int
is_list (const char *placement)
{
	return placement[0] >= '0' && placement[0] <= '9';
}

/* lfs-setstripe(1): files made below inherit the layout. No pool's name starts
 * with a digit here: then it is a list of OST indices. The stripe count stays
 * the file system's own; that of a block's list can be no other than its length. */
static void
lustre_words (const char *placement, const char *count, const char *words[])
{
	if (count && is_list (placement)) {
		*words++ = "setstripe";
		*words++ = "-c";
		*words++ = count;
	} else {
		*words++ = "setstripe";
	}
	*words++ = is_list (placement) ? "-o" : "-p";
	*words++ = placement;
	*words++ = ".";
}

enum { MOST_TARGETS = 8 * sizeof (struct sluice_turns_targets) };

/* The first of them from this one on; MOST_TARGETS: there is none. */
static uint32_t
next_target (const struct sluice_turns_targets *targets, uint32_t from)
{
	while (from < MOST_TARGETS && !(targets->bits[from / 64] >> from % 64 & 1))
		from++;
	return from;
}

/* 0: they are no aligned block. */
static uint32_t
block_of (const struct sluice_turns_targets *targets, uint32_t *first)
{
	uint32_t count = 0, t = *first = next_target (targets, 0);
	for (; t == *first + count && t < MOST_TARGETS; t = next_target (targets, t + 1))
		count++;
	int is_block = t == MOST_TARGETS && (count & (count - 1)) == 0
		       && *first % (count + !count) == 0;
	return is_block ? count : 0;
}

/* lctl-pool_new(8): a pool's name has at most 15 characters. */
enum { POOL_NAME_SIZE = 16 };

static int
named_block (const struct lane *lane, const struct sluice_turns_targets *targets,
	     struct placed_lane *out, size_t size)
{
	uint32_t first, count = block_of (targets, &first);
	int length = snprintf (out->placement, size, "%s-%" PRIu32 "-%" PRIu32,
			       lane->placement, first, count);
	return lane->has_named_blocks && count > 0 && length > 0 && (size_t)length < size
		   ? 0
		   : -1;
}

static int
moosefs_targets (const struct lane *lane, const struct sluice_turns_targets *targets,
		 struct placed_lane *out)
{
	return named_block (lane, targets, out, sizeof out->placement);
}

/* The number that a list such as 0,4-7 has at this place, from 0; -1: none. */
static int64_t
list_entry (const char *list, uint32_t place)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul (list, &end, 10), last = first;
		if (*end == '-')
			last = strtoul (end + 1, &end, 10);
		if (last < first || last > UINT32_MAX || (*end && *end != ','))
			return -1;
		if (place <= last - first)
			return (int64_t)(first + place);
		place -= (uint32_t)(last - first) + 1;
		list = *end ? end + 1 : end;
	}
	return -1;
}

/* A part of the lane's own list, which has to name as many OSTs as the lane has targets. */
static int
listed_targets (const struct lane *lane, const struct sluice_turns_targets *targets,
		struct placed_lane *out)
{
	size_t used = 0;

	if (list_entry (lane->placement, lane->targets - 1) < 0
	    || list_entry (lane->placement, lane->targets) >= 0)
		return -1;
	for (uint32_t t = next_target (targets, 0); t < MOST_TARGETS;
	     t = next_target (targets, t + 1)) {
		int64_t ost = list_entry (lane->placement, t);
		if (ost < 0 || used + 12 > sizeof out->placement)
			return -1;
		used += (size_t)sprintf (out->placement + used, "%s%" PRId64,
					 used ? "," : "", ost);
	}
	return used ? 0 : -1;
}

static int
lustre_targets (const struct lane *lane, const struct sluice_turns_targets *targets,
		struct placed_lane *out)
{
	return is_list (lane->placement) ? listed_targets (lane, targets, out)
					 : named_block (lane, targets, out, POOL_NAME_SIZE);
}

static int
directory_targets (const struct lane *lane, const struct sluice_turns_targets *targets,
		   struct placed_lane *out)
{
	uint32_t first, count = block_of (targets, &first);
	int length
	    = snprintf (out->path, sizeof out->path, "%s/t%" PRIu32, lane->path, first);
	return count == 1 && length > 0 && (size_t)length < sizeof out->path ? 0 : -1;
}

static const struct backend backends[] = {
	{ "directory", NULL, NULL, directory_targets, 0 },
	{ "moosefs", "/usr/bin/mfssetsclass", moosefs_words, moosefs_targets, 0 },
	{ "lustre", "/usr/bin/lfs", lustre_words, lustre_targets, 1 },
};

static void
place_on_all (const struct lane *lane, struct placed_lane *out)
{
	memcpy (out->path, lane->path, sizeof out->path);
	memcpy (out->placement, lane->placement, sizeof out->placement);
	out->targets = lane->targets;
	out->is_block = 0;
}

int
lane_place_on (const struct settings *settings, const struct lane *lane,
	       const struct sluice_turns_targets *targets, struct placed_lane *out)
{
	uint32_t count = 0;

	place_on_all (lane, out);
	for (uint32_t t = next_target (targets, 0); t < MOST_TARGETS;
	     t = next_target (targets, t + 1)) {
		if (t >= lane->targets)
			return -1;
		count++;
	}
	if (count == 0 || settings->backend->targets (lane, targets, out) < 0)
		return -1;
	out->targets = count;
	out->is_block = 1;
	return 0;
}

void
lane_place (const struct settings *settings, const struct lane *lane, uint32_t first,
	    uint32_t count, struct placed_lane *out)
{
	struct sluice_turns_targets block = { { 0 } };

	for (uint32_t t = first; t - first < count && t < MOST_TARGETS; t++)
		block.bits[t / 64] |= 1ull << t % 64;
	if (count > MOST_TARGETS || first > MOST_TARGETS - count
	    || lane_place_on (settings, lane, &block, out) < 0)
		place_on_all (lane, out);
}

static const struct backend *
backend_named (const char *name)
{
	for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
		if (strcmp (backends[i].name, name) == 0)
			return &backends[i];
	return NULL;
}

void
backend_command (const struct settings *settings, const struct placed_lane *placed,
		 char count[16], const char *words[BACKEND_WORDS])
{
	memset (words, 0, BACKEND_WORDS * sizeof *words);
	if (!settings->backend->command)
		return;
	snprintf (count, 16, "%" PRIu32, placed->targets);
	words[0] = settings->command;
	settings->backend->words (placed->placement, placed->is_block ? count : NULL,
				  words + 1);
}

/* Of the text from an entry's colon on: absent is one, no number is none. */
static int
has_count (const char *text, size_t length)
{
	int positive = 0;
	if (length == 0)
		return 1;
	for (size_t i = 1; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		positive |= text[i] != '0';
	}
	return positive;
}

/* Whether name[0..length) is the lane's name, an underscore and a class. */
static int
is_token_of (const struct lane *lane, const char *name, size_t length)
{
	size_t head = strlen (lane->name);
	if (length <= head || strncmp (name, lane->name, head) != 0 || name[head] != '_')
		return 0;
	name += head + 1;
	length -= head + 1;
	for (unsigned int i = SLUICE_CLASS_NONE + 1; i < SLUICE_CLASS_COUNT; i++) {
		const char *klass = sluice_class_name (i);
		if (strlen (klass) == length && memcmp (klass, name, length) == 0)
			return 1;
	}
	return 0;
}

/* The lane that one entry is a token of, or NULL. */
static const struct lane *
entry_lane (const char *entry, size_t length, const struct settings *settings)
{
	const char *colon = memchr (entry, ':', length);
	size_t name = colon ? (size_t)(colon - entry) : length;

	if (!has_count (entry + name, length - name))
		return NULL;
	for (uint32_t i = 0; i < settings->lane_count; i++)
		if (is_token_of (&settings->lanes[i], entry, name))
			return &settings->lanes[i];
	return NULL;
}

const struct lane *
token_lane (const char *licenses, const struct settings *settings)
{
	const struct lane *held = NULL;

	if (!licenses || strchr (licenses, '|'))
		return NULL;
	for (const char *entry = licenses; *entry;) {
		size_t length = strcspn (entry, ",;");
		const struct lane *lane = entry_lane (entry, length, settings);
		if (lane && held && lane != held)
			return NULL;
		if (lane)
			held = lane;
		entry += length;
		entry += *entry != '\0';
	}
	return held;
}

void
token_remove (const char *licenses, const struct settings *settings, char *out)
{
	char *end = out;

	for (const char *entry = licenses; *entry;) {
		size_t length = strcspn (entry, ",;");
		if (length > 0 && !entry_lane (entry, length, settings)) {
			if (end > out)
				*end++ = ',';
			memcpy (end, entry, length);
			end += length;
		}
		entry += length;
		entry += *entry != '\0';
	}
	*end = '\0';
}

/* Replace %j and %%. The length, or -1: too long, or another letter. */
static int
expand (const char *text, uint32_t job_id, char out[IO_DIR_SIZE])
{
	char id[12];
	size_t used = 0;

	snprintf (id, sizeof id, "%" PRIu32, job_id);
	for (; *text; text++) {
		char plain[2] = { *text, '\0' };
		const char *piece = plain;
		if (*text == '%') {
			text++;
			if (*text == 'j')
				piece = id;
			else if (*text != '%')
				return -1;
		}
		if (used + strlen (piece) >= IO_DIR_SIZE)
			return -1;
		memcpy (out + used, piece, strlen (piece) + 1);
		used += strlen (piece);
	}
	return (int)used;
}

int
io_dir_parse (const char *text, uint32_t job_id, char out[IO_DIR_SIZE])
{
	char path[IO_DIR_SIZE];
	int length = expand (text, job_id, path);

	if (length <= 0 || path[0] != '/')
		return -1;
	while (length > 0 && path[length - 1] == '/')
		path[--length] = '\0';
	const char *slash = strrchr (path, '/');
	if (!slash || strcmp (slash, "/.") == 0 || strcmp (slash, "/..") == 0)
		return -1;
	if (out)
		memcpy (out, path, (size_t)length + 1);
	return 0;
}

enum {
	DEFAULT_TIMEOUT_S = 10,
	MAX_TIMEOUT_S = 600,
	MAX_TARGETS = 1000000,
	MAX_BOUND_S = 604800
};

/* A whole number from 1 to high, decimal digits only. */
static int
parse_count (const char *text, uint32_t high, uint32_t *out)
{
	uint64_t number = 0;
	if (!text[0])
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		number = number * 10 + (uint64_t)(*text - '0');
		if (number > high)
			return -1;
	}
	*out = (uint32_t)number;
	return number > 0 ? 0 : -1;
}

/* Copy what stands before the first colon, or all; *rest then points behind
 * it, or is NULL. -1: empty, or longer than out. */
static int
take_field (const char **rest, char *out, size_t size)
{
	size_t length = strcspn (*rest, ":");
	if (length == 0 || length >= size)
		return -1;
	memcpy (out, *rest, length);
	out[length] = '\0';
	*rest = (*rest)[length] ? *rest + length + 1 : NULL;
	return 0;
}

/* Licence names are made of these, so a lane's name is too. */
static int
is_name (const char *text)
{
	return text[strspn (text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789_-.")]
	       == '\0';
}

static int
parse_path (const char *text, char out[SETTINGS_PATH_SIZE], struct sluice_error *err)
{
	if (text[0] != '/' || strlen (text) >= SETTINGS_PATH_SIZE)
		return sluice_fail (err,
				    "give a path that starts with / and has at most "
				    "%d bytes",
				    SETTINGS_PATH_SIZE - 1);
	sluice_copy_text (out, SETTINGS_PATH_SIZE, text);
	return 0;
}

static int
take_prefix (const char **text, const char *prefix)
{
	size_t length = strlen (prefix);
	if (!*text || strncmp (*text, prefix, length) != 0)
		return 0;
	*text += length;
	return 1;
}

static int
parse_lane (const char *text, struct settings *settings, struct sluice_error *err)
{
	struct lane lane = { .targets = 0 };
	char path[SETTINGS_PATH_SIZE], targets[16];

	if (settings->lane_count == SLUICE_MAX_LANES)
		return sluice_fail (err, "more than %d lanes", SLUICE_MAX_LANES);
	if (take_field (&text, lane.name, sizeof lane.name) < 0 || !text
	    || take_field (&text, path, sizeof path) < 0 || !text
	    || take_field (&text, targets, sizeof targets) < 0)
		return sluice_fail (err, "write lane=NAME:PATH:TARGETS[:PLACEMENT]");
	if (!is_name (lane.name))
		return sluice_fail (err, "a lane's name is part of a licence's name: use "
					 "letters, digits, _, - and .");
	if (parse_path (path, lane.path, err) < 0)
		return -1;
	if (parse_count (targets, MAX_TARGETS, &lane.targets) < 0)
		return sluice_fail (err, "TARGETS is a number from 1 to %d", MAX_TARGETS);
	lane.has_named_blocks
	    = take_prefix (&text, "pool:") || take_prefix (&text, "class:");
	/* A leading - would be an option of the backend's command. */
	if (text
	    && (text[0] == '-'
		|| take_field (&text, lane.placement, sizeof lane.placement) < 0 || text))
		return sluice_fail (err,
				    "PLACEMENT is one word that does not start with -");
	for (uint32_t i = 0; i < settings->lane_count; i++)
		if (strcmp (settings->lanes[i].name, lane.name) == 0)
			return sluice_fail (err, "this lane is there already");
	settings->lanes[settings->lane_count++] = lane;
	return 0;
}

static int
parse_backend (const char *text, struct settings *settings, struct sluice_error *err)
{
	const struct backend *backend = backend_named (text);
	if (!backend)
		return sluice_fail (err,
				    "no such backend: use directory, moosefs or lustre");
	settings->backend = backend;
	return 0;
}

static int
parse_command (const char *text, struct settings *settings, struct sluice_error *err)
{
	return parse_path (text, settings->command, err);
}

/* LD_PRELOAD is a list with colons and blanks. */
static int
parse_turns (const char *text, struct settings *settings, struct sluice_error *err)
{
	if (strchr (text, ':'))
		return sluice_fail (err, "give a path without a colon");
	return parse_path (text, settings->turns, err);
}

static int
parse_turns_on (const char *text, struct settings *settings, struct sluice_error *err)
{
	char *path = settings->turns_on[settings->turns_on_count];

	if (settings->turns_on_count == SETTINGS_FILE_SYSTEMS)
		return sluice_fail (err, "more than %d file systems",
				    SETTINGS_FILE_SYSTEMS);
	if (parse_path (text, path, err) < 0)
		return -1;
	for (size_t length = strlen (path); length > 1 && path[length - 1] == '/';)
		path[--length] = '\0';
	settings->turns_on_count++;
	return 0;
}

static int
parse_turns_socket (const char *text, struct settings *settings, struct sluice_error *err)
{
	if (text[0] != '/' || strlen (text) >= sizeof settings->turns_socket)
		return sluice_fail (err,
				    "give a path that starts with / and has at most "
				    "%zu bytes",
				    sizeof settings->turns_socket - 1);
	sluice_copy_text (settings->turns_socket, sizeof settings->turns_socket, text);
	return 0;
}

static int
parse_place (const char *text, struct settings *settings, struct sluice_error *err)
{
	if (strcmp (text, "all") != 0)
		return sluice_fail (err, "write place=all, or leave it out");
	settings->places_all = 1;
	return 0;
}

/* RATE 0: any. */
static int
parse_stage (const char *text, struct settings *settings, struct sluice_error *err)
{
	char path[SETTINGS_PATH_SIZE], rate[24] = "0", bound[16] = "3600", *end;
	int is_whole = take_field (&text, path, sizeof path) == 0
		       && (!text || take_field (&text, rate, sizeof rate) == 0)
		       && (!text || take_field (&text, bound, sizeof bound) == 0) && !text;

	uint64_t bytes = strtoull (rate, &end, 10);
	if (!is_whole || rate[0] < '0' || rate[0] > '9' || *end
	    || parse_count (bound, MAX_BOUND_S, &settings->stage_bound_s) < 0)
		return sluice_fail (err,
				    "write stage=DIR[:RATE[:BOUND]], with bytes a second "
				    "and at most %d seconds",
				    MAX_BOUND_S);
	settings->stage_rate = bytes;
	return parse_path (path, settings->stage, err);
}

static int
parse_drain (const char *text, struct settings *settings, struct sluice_error *err)
{
	return parse_path (text, settings->drain, err);
}

static int
parse_timeout (const char *text, struct settings *settings, struct sluice_error *err)
{
	uint32_t seconds;
	if (parse_count (text, MAX_TIMEOUT_S, &seconds) < 0)
		return sluice_fail (err, "give seconds, 1 to %d", MAX_TIMEOUT_S);
	settings->timeout_s = seconds;
	return 0;
}

static const struct {
	const char *key; /* with its = */
	int (*parse) (const char *text, struct settings *settings,
		      struct sluice_error *err);
} keys[] = {
	{ "backend=", parse_backend },	 { "lane=", parse_lane },
	{ "command=", parse_command },	 { "turns=", parse_turns },
	{ "turns_on=", parse_turns_on }, { "turns_socket=", parse_turns_socket },
	{ "stage=", parse_stage },	 { "drain=", parse_drain },
	{ "place=", parse_place },	 { "timeout=", parse_timeout },
};

static int
parse_argument (const char *argument, struct settings *settings, struct sluice_error *err)
{
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		size_t length = strlen (keys[i].key);
		if (strncmp (argument, keys[i].key, length) == 0)
			return keys[i].parse (argument + length, settings, err);
	}
	return sluice_fail (err,
			    "unknown: use backend=, lane=, command=, turns=, turns_on=, "
			    "turns_socket=, place=, stage=, drain= or timeout=");
}

/* A lane whose placement and backend do not fit is taken out: a directory that
 * is not on the lane would be a promise broken. */
static void
drop_unfit_lanes (struct settings *settings, settings_complain *complain)
{
	int needs_placement = settings->backend->command != NULL;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < settings->lane_count; i++) {
		if ((settings->lanes[i].placement[0] != '\0') == needs_placement)
			settings->lanes[kept++] = settings->lanes[i];
		else
			complain (settings->lanes[i].name,
				  needs_placement ? "this backend needs a PLACEMENT"
						  : "this backend has no PLACEMENT");
	}
	settings->lane_count = kept;
}

void
settings_read (int argc, char **argv, struct settings *settings,
	       settings_complain *complain)
{
	struct sluice_error err;

	memset (settings, 0, sizeof *settings);
	settings->backend = backend_named ("directory");
	settings->timeout_s = DEFAULT_TIMEOUT_S;
	sluice_copy_text (settings->drain, sizeof settings->drain, "/usr/bin/sluice-drain");
	for (int i = 0; i < argc; i++)
		if (parse_argument (argv[i], settings, &err) < 0)
			complain (argv[i], err.text);
	if (settings->backend->command && !settings->command[0])
		sluice_copy_text (settings->command, sizeof settings->command,
				  settings->backend->command);
	drop_unfit_lanes (settings, complain);
}
