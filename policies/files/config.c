#include "config.h"

#include <stdio.h>
#include <string.h>

#define REMEDY "remove the line or see sluice.conf(5)"

enum {
	KIND_MODE,
	KIND_SCOPE,
	KIND_PATH,
	KIND_LIST,
	KIND_NUMBER,
	KIND_SETTING,
	KIND_LANE,
	KIND_RULE,
	KIND_CONTROLLED
};

static const char *const kind_names[]
    = { "mode", "mode", "path", "list", "number", "setting", "lane", "rule", "rule" };

/* Everything that can stand before a `=`, once. */
struct key {
	const char *key;
	const char *text;
	const char *fallback;
	const char *member; /* of struct sluice_config, and its offset there */
	size_t offset;
	double low, high;
	int kind;
};

#define MEMBER(member) #member, offsetof(struct sluice_config, member)
#define PATH_KEY(key, member, def, text)                                                   \
	{ #key, text, def, MEMBER (member), 0, 0, KIND_PATH },
#define LIST_KEY(key, member, text) { #key, text, "", MEMBER (member), 0, 0, KIND_LIST },
#define NUMBER_KEY(key, member, def, low, high, text)                                      \
	{ #key, text, #def, MEMBER (member), low, high, KIND_NUMBER },
#define SETTING_KEY(key, member, def, low, high, text)                                     \
	{ #key, text, #def, MEMBER (policy.member), low, high, KIND_SETTING },

static const struct key keys[] = {
	{ "Mode", "what Sluice may do: off, observe, advise or enforce", "observe",
	  MEMBER (mode), 0, 0, KIND_MODE },
	{ "ModeOf",
	  "the mode of some jobs, in place of Mode; one line a rule, as in "
	  "ModeOf=enforce Accounts=phys Partitions=long,short, with any of Users, "
	  "Accounts, Qos, Partitions and Lanes; of several that fit, the most careful",
	  "", MEMBER (mode_rules), 0, 0, KIND_RULE },
	{ "Controlled",
	  "jobs that write only where Sluice puts them, so that one lane can do, as each "
	  "job with --io-dir; one line a rule, as in Controlled=Users=ci Partitions=burst, "
	  "with any of Users, Accounts, Qos and Partitions",
	  "", MEMBER (controlled), 0, 0, KIND_CONTROLLED },
	{ "Turns",
	  "which jobs take turns where TurnsPort is set: off, asked (those with "
	  "--io-turns), decided (also those whose bursts are predicted to matter) or all; "
	  "they wait in Mode=enforce alone",
	  "asked", MEMBER (turns), 0, 0, KIND_SCOPE },
	SLUICE_CONFIG_PATHS (PATH_KEY) SLUICE_CONFIG_LISTS (LIST_KEY)
	    SLUICE_CONFIG_NUMBERS (NUMBER_KEY) SLUICE_POLICY_SETTINGS (SETTING_KEY){
		"Lane",
		"a set of storage targets to which jobs can be confined; one line a lane, "
		"as in Lane=sl0 Targets=4 Bandwidth=20G; with Operations=N, the writes and "
		"flushes a second that all its targets take, turns know when small ones "
		"fill it; with Place=blocks, jobs that write only where Sluice puts them "
		"get "
		"targets of their own within it",
		"", MEMBER (policy.lanes), 0, 0, KIND_LANE },
};

enum { KEYS = sizeof keys / sizeof keys[0] };

int
sluice_config_describe (unsigned int i, struct sluice_config_key *out)
{
	if (i >= KEYS)
		return 0;
	out->key = keys[i].key;
	out->member = keys[i].member;
	out->kind = kind_names[keys[i].kind];
	out->text = keys[i].text;
	sluice_copy_text (out->fallback, sizeof out->fallback, keys[i].fallback);
	return 1;
}

#define MODE_NAME(name, word, text) word,
static const char *const mode_names[] = { SLUICE_MODES (MODE_NAME) };

const char *
sluice_mode_name (unsigned int mode)
{
	return mode < SLUICE_MODE_COUNT ? mode_names[mode] : "?";
}

#define MODE_GROUND(word, member, bit, ground) ground,

const char *
sluice_mode_by_text (unsigned int selector)
{
	static const char *const grounds[] = { SLUICE_MODE_SELECTORS (MODE_GROUND) };
	return selector < SLUICE_MODE_SELECTOR_COUNT ? grounds[selector] : NULL;
}

uint32_t
sluice_turns_scope (const struct sluice_config *config)
{
	return config->turns_port ? config->turns : SLUICE_TURNS_FOR_OFF;
}

void
sluice_config_init (struct sluice_config *config)
{
	memset (config, 0, sizeof *config);
	config->mode = SLUICE_MODE_OBSERVE;
	config->turns = SLUICE_TURNS_FOR_ASKED;
#define SET_PATH(key, member, def, text)                                                   \
	sluice_copy_text (config->member, sizeof config->member, def);
#define SET_NUMBER(key, member, def, low, high, text) config->member = def;
	SLUICE_CONFIG_PATHS (SET_PATH)
	SLUICE_CONFIG_NUMBERS (SET_NUMBER)
	sluice_policy_init (&config->policy);
}

/* A piece of the file: text is not terminated. */
struct span {
	const char *text;
	size_t length;
};

static int
is_blank (char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct span
trimmed (struct span s)
{
	while (s.length > 0 && is_blank (s.text[0]))
		s.text++, s.length--;
	while (s.length > 0 && is_blank (s.text[s.length - 1]))
		s.length--;
	return s;
}

/* Cut off and return what stands before the first separator. */
static struct span
take_until (struct span *rest, char separator)
{
	const char *end
	    = rest->length ? memchr (rest->text, separator, rest->length) : NULL;
	struct span head = *rest;
	if (end) {
		head.length = (size_t)(end - rest->text);
		rest->text = end + 1;
		rest->length -= head.length + 1;
	} else {
		rest->text += rest->length;
		rest->length = 0;
	}
	return head;
}

/* The same at blanks: the next word, and what stands behind it. */
static struct span
take_word (struct span *rest)
{
	struct span word = trimmed (*rest);
	*rest = word;
	word.length = 0;
	while (word.length < rest->length && !is_blank (rest->text[word.length]))
		word.length++;
	rest->text += word.length;
	rest->length -= word.length;
	*rest = trimmed (*rest);
	return word;
}

static char
lower (char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* As Slurm does, keys and words are compared without case. */
static int
is_word (struct span s, const char *word)
{
	size_t i = 0;
	while (i < s.length && word[i] && lower (s.text[i]) == lower (word[i]))
		i++;
	return i == s.length && !word[i];
}

/* B and /s, which say no more: `GiB/s`. A small b would be bits. */
static int
is_unit_of_bytes (const char *s, size_t length)
{
	static const char *const ends[] = { "", "B", "iB", "/s", "B/s", "iB/s" };
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (strlen (ends[i]) == length && memcmp (s, ends[i], length) == 0)
			return 1;
	return 0;
}

/*
 * A plain decimal number, perhaps with K, M, G or T (powers of 1024), as in 200G or
 * 200GB/s. strtod would depend on the locale of the process. Up to 15 digits and ten to the
 * 22nd are exact doubles, so that the one division rounds correctly.
 */
static int
parse_number (struct span s, double *out)
{
	double digits = 0.0, scale = 1.0, unit = 1.0;
	int count = 0, point = 0;
	size_t i = 0;

	for (; i < s.length; i++) {
		char c = s.text[i];
		if (c == '.' && !point) {
			point = 1;
		} else if (c >= '0' && c <= '9' && count < 15) {
			digits = digits * 10.0 + (c - '0');
			count++;
			if (point)
				scale *= 10.0;
		} else {
			break;
		}
	}
	if (i < s.length && count > 0) {
		const char *units = "kmgt", *unit_at = strchr (units, lower (s.text[i]));
		if (!unit_at || !*unit_at)
			return -1;
		for (const char *u = units; u <= unit_at; u++)
			unit *= 1024.0;
		i++;
		if (!is_unit_of_bytes (s.text + i, s.length - i))
			return -1;
	} else if (count == 0) {
		return -1;
	}
	*out = digits / scale * unit;
	return 0;
}

static int
parse_ranged (const struct key *key, struct span value, double *out,
	      struct sluice_error *err)
{
	if (parse_number (value, out) < 0 || *out < key->low || *out > key->high)
		return sluice_fail (err, "%s=%.*s; give a number between %.15g and %.15g",
				    key->key, (int)(value.length > 40 ? 40 : value.length),
				    value.text, key->low, key->high);
	return 0;
}

static int
parse_mode (struct span value, uint32_t *mode, struct sluice_error *err)
{
	for (uint32_t i = 0; i < SLUICE_MODE_COUNT; i++)
		if (is_word (value, mode_names[i])) {
			*mode = i;
			return 0;
		}
	return sluice_fail (err, "no such mode; give off, observe, advise or enforce");
}

static int
parse_scope (struct span value, uint32_t *scope, struct sluice_error *err)
{
	for (uint32_t i = 0; i < SLUICE_TURNS_FOR_COUNT; i++)
		if (is_word (value, sluice_turns_scope_name (i))) {
			*scope = i;
			return 0;
		}
	return sluice_fail (err, "Turns is off, asked, decided or all");
}

static int
parse_path (const struct key *key, struct span value, char *path, struct sluice_error *err)
{
	if (value.length == 0 || value.text[0] != '/')
		return sluice_fail (err, "%s needs a path that starts with /", key->key);
	if (value.length >= SLUICE_PATH_SIZE)
		return sluice_fail (err, "%s is longer than %d bytes; use a shorter path",
				    key->key, SLUICE_PATH_SIZE - 1);
	memcpy (path, value.text, value.length);
	return 0;
}

/* Kept without blanks: `a, b` becomes `a,b`. */
static int
parse_list (const char *key, struct span value, char *list, size_t size,
	    struct sluice_error *err)
{
	size_t used = 0;
	while (value.length > 0) {
		struct span item = trimmed (take_until (&value, ','));
		if (item.length == 0)
			return sluice_fail (err, "%s has an empty item; remove a comma",
					    key);
		if (used + (used > 0) + item.length >= size)
			return sluice_fail (err, "%s is longer than %zu bytes; shorten it",
					    key, size - 1);
		if (used > 0)
			list[used++] = ',';
		memcpy (list + used, item.text, item.length);
		used += item.length;
	}
	return 0;
}

static const char *const include_words[] = {
	"reservation", "deadline", "preempt", "salloc", "interactive", "immediate", "cron",
};

static int
parse_include (struct span rest, uint32_t *kinds, struct sluice_error *err)
{
	while (rest.length > 0) {
		struct span item = trimmed (take_until (&rest, ','));
		unsigned int i = 0;
		while (i < sizeof include_words / sizeof include_words[0]
		       && !is_word (item, include_words[i]))
			i++;
		if (i == sizeof include_words / sizeof include_words[0])
			return sluice_fail (
			    err,
			    "Include=%.*s is no kind of job; use reservation, "
			    "deadline, preempt, salloc, interactive, "
			    "immediate, cron",
			    (int)(item.length > 40 ? 40 : item.length), item.text);
		*kinds |= 1u << i;
	}
	return 0;
}

/* `sl0 Targets=4 Bandwidth=20G` */
static int
parse_lane (struct span value, struct sluice_policy *policy, struct sluice_error *err)
{
	static const struct key targets_key = { .key = "Targets", .low = 1, .high = 1e6 };
	static const struct key bandwidth_key
	    = { .key = "Bandwidth", .low = 1, .high = 1e18 };
	static const struct key operations_key
	    = { .key = "Operations", .low = 1, .high = 1e15 };

	if (policy->lane_count == SLUICE_MAX_LANES)
		return sluice_fail (err, "more than %d lanes; remove one",
				    SLUICE_MAX_LANES);
	struct sluice_lane *lane = &policy->lanes[policy->lane_count];
	struct span name = take_word (&value);
	if (name.length >= SLUICE_NAME_SIZE)
		return sluice_fail (err,
				    "the lane's name is longer than %d bytes; shorten it",
				    SLUICE_NAME_SIZE - 1);
	memcpy (lane->name, name.text, name.length);

	double targets = 0.0;
	while (value.length > 0) {
		struct span word = take_word (&value);
		struct span key = take_until (&word, '=');
		if (is_word (key, "Targets") && targets == 0.0) {
			if (parse_ranged (&targets_key, word, &targets, err) < 0)
				return -1;
		} else if (is_word (key, "Bandwidth") && lane->bandwidth == 0.0) {
			if (parse_ranged (&bandwidth_key, word, &lane->bandwidth, err) < 0)
				return -1;
		} else if (is_word (key, "Operations") && lane->operations == 0.0) {
			if (parse_ranged (&operations_key, word, &lane->operations, err)
			    < 0)
				return -1;
		} else if (is_word (key, "Place") && is_word (word, "blocks")) {
			lane->has_blocks = 1;
		} else {
			return sluice_fail (err,
					    "after Lane=NAME only one each of Targets=N, "
					    "Bandwidth=N, Operations=N and Place=blocks "
					    "may follow");
		}
	}
	lane->targets = (uint32_t)targets;
	if (lane->targets != targets || lane->targets == 0)
		return sluice_fail (err, "the lane needs Targets=N, a whole number");
	policy->lane_count++;
	return sluice_policy_check (policy, err);
}

#define SELECTOR(word, member, bit, ground)                                                \
	{ #word, offsetof (struct sluice_rule, member) },

/* `Accounts=phys,chem`: one list of a rule. */
static int
parse_selector (struct span word, struct sluice_rule *rule, struct sluice_error *err)
{
	static const struct {
		const char *word;
		size_t offset;
	} selectors[] = { SLUICE_MODE_SELECTORS (SELECTOR) };
	struct span key = take_until (&word, '=');

	for (uint32_t i = 0; i < SLUICE_MODE_SELECTOR_COUNT; i++) {
		if (!is_word (key, selectors[i].word) || rule->by >> i & 1)
			continue;
		rule->by |= 1u << i;
		if (word.length == 0)
			break;
		return parse_list (selectors[i].word, word,
				   (char *)rule + selectors[i].offset,
				   SLUICE_RULE_LIST_SIZE, err);
	}
	return sluice_fail (err, "a rule names its jobs by one each of Users=, Accounts=, "
				 "Qos=, Partitions= and Lanes=, with a list");
}

/* `Accounts=phys,chem Partitions=long` */
static int
parse_jobs (const char *key, struct span value, struct sluice_rule *rule,
	    struct sluice_error *err)
{
	while (value.length > 0)
		if (parse_selector (take_word (&value), rule, err) < 0)
			return -1;
	if (rule->by == 0)
		return sluice_fail (err,
				    "%s names no jobs; add Users=, Accounts=, Qos= or "
				    "Partitions=",
				    key);
	return 0;
}

static int
fail_full (const char *key, struct sluice_error *err)
{
	return sluice_fail (err, "more than %d lines of %s; remove one", SLUICE_MAX_RULES,
			    key);
}

/* `enforce Accounts=phys,chem Partitions=long` */
static int
parse_rule (struct span value, struct sluice_config *config, struct sluice_error *err)
{
	if (config->mode_rule_count == SLUICE_MAX_RULES)
		return fail_full ("ModeOf", err);
	struct sluice_rule *rule = &config->mode_rules[config->mode_rule_count++];
	if (parse_mode (take_word (&value), &rule->mode, err) < 0
	    || parse_jobs ("ModeOf", value, rule, err) < 0)
		return -1;
	if (rule->mode == SLUICE_MODE_OFF && rule->by & SLUICE_MODE_BY_LANE)
		return sluice_fail (err,
				    "ModeOf=off cannot name Lanes, which Sluice chooses "
				    "for a job; use ModeOf=observe");
	return 0;
}

static int
parse_controlled (struct span value, struct sluice_config *config, struct sluice_error *err)
{
	if (config->controlled_count == SLUICE_MAX_RULES)
		return fail_full ("Controlled", err);
	struct sluice_rule *rule = &config->controlled[config->controlled_count++];
	if (parse_jobs ("Controlled", value, rule, err) < 0)
		return -1;
	if (rule->by & SLUICE_MODE_BY_LANE)
		return sluice_fail (err,
				    "Controlled cannot name Lanes; it is for these jobs "
				    "that Sluice chooses one");
	return 0;
}

static int
parse_value (const struct key *key, struct span value, struct sluice_config *config,
	     struct sluice_error *err)
{
	void *member = (char *)config + key->offset;
	double number;

	switch (key->kind) {
	case KIND_MODE:
		return parse_mode (value, member, err);
	case KIND_SCOPE:
		return parse_scope (value, member, err);
	case KIND_PATH:
		return parse_path (key, value, member, err);
	case KIND_LIST:
		if (member == config->include
		    && parse_include (value, &config->include_kinds, err) < 0)
			return -1;
		return parse_list (key->key, value, member, SLUICE_LIST_SIZE, err);
	case KIND_RULE:
		return parse_rule (value, config, err);
	case KIND_CONTROLLED:
		return parse_controlled (value, config, err);
	case KIND_LANE:
		return parse_lane (value, &config->policy, err);
	case KIND_SETTING:
		return parse_ranged (key, value, member, err);
	default:
		if (parse_ranged (key, value, &number, err) < 0)
			return -1;
		if (number != (uint32_t)number)
			return sluice_fail (err, "%s needs a whole number", key->key);
		*(uint32_t *)member = (uint32_t)number;
		return 0;
	}
}

enum { LONGEST_KEY = 40 };

/* Letters to change, add or leave out until the word is the key. */
static size_t
edits_between (struct span word, const char *key)
{
	size_t row[LONGEST_KEY + 1], length = strlen (key);

	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 0; i < word.length; i++) {
		size_t diagonal = row[0];
		row[0] = i + 1;
		for (size_t j = 0; j < length; j++) {
			size_t change = diagonal + (lower (word.text[i]) != lower (key[j]));
			size_t other = 1 + (row[j] < row[j + 1] ? row[j] : row[j + 1]);
			diagonal = row[j + 1];
			row[j + 1] = change < other ? change : other;
		}
	}
	return row[length];
}

const char *
sluice_config_nearest_key (const char *word, size_t length)
{
	const char *nearest = NULL;
	size_t fewest = LONGEST_KEY;

	if (length > LONGEST_KEY)
		return NULL;
	for (unsigned int i = 0; i < KEYS; i++) {
		struct span given = { word, length };
		size_t edits = edits_between (given, keys[i].key);
		if (edits * 3 <= strlen (keys[i].key) && edits < fewest) {
			nearest = keys[i].key;
			fewest = edits;
		}
	}
	return nearest;
}

static int
fail_unknown (struct span word, struct sluice_error *err)
{
	const char *nearest = sluice_config_nearest_key (word.text, word.length);
	return sluice_fail (err, "unknown key %.*s; %s%s%s" REMEDY,
			    (int)(word.length > LONGEST_KEY ? LONGEST_KEY : word.length),
			    word.text, nearest ? "did you mean " : "",
			    nearest ? nearest : "", nearest ? "? Or " : "");
}

/* One line; *seen has a bit for each key that an earlier line gave. */
static int
parse_line (struct span line, uint64_t *seen, struct sluice_config *config,
	    struct sluice_error *err)
{
	line = trimmed (take_until (&line, '#'));
	if (line.length == 0)
		return 0;
	if (memchr (line.text, '\0', line.length))
		return sluice_fail (err, "a NUL byte; this is not a text file");
	if (!memchr (line.text, '=', line.length))
		return sluice_fail (err, "no `=`; write Key=value");

	struct span word = trimmed (take_until (&line, '='));
	unsigned int i = 0;
	while (i < KEYS && !is_word (word, keys[i].key))
		i++;
	if (i == KEYS)
		return fail_unknown (word, err);
	if (keys[i].kind < KIND_LANE && *seen & (uint64_t)1 << i)
		return sluice_fail (err, "%s is there twice; remove one", keys[i].key);
	*seen |= (uint64_t)1 << i;
	/* A path, list or lane replaces the default as a whole. */
	if (keys[i].kind == KIND_PATH)
		memset ((char *)config + keys[i].offset, 0, SLUICE_PATH_SIZE);
	return parse_value (&keys[i], trimmed (line), config, err);
}

int
sluice_config_parse (const char *name, const char *text, size_t size,
		     struct sluice_config *config, struct sluice_error *err)
{
	_Static_assert(KEYS <= 64, "one bit for each key");
	struct span rest = { text, size };
	struct sluice_error why;
	uint64_t seen = 0;
	unsigned int number = 0;

	sluice_config_init (config);
	while (rest.length > 0) {
		number++;
		if (parse_line (take_until (&rest, '\n'), &seen, config, &why) < 0)
			goto error;
	}
	return 0;

error:
	sluice_config_init (config);
	return sluice_fail (err, "%.100s:%u: %.140s", name, number, why.text);
}

/* A whole number that fits a uid; -1 for anything else. */
static int
parse_uid (struct span s, uint32_t *uid)
{
	uint64_t number = 0;
	if (s.length == 0 || s.length > 10)
		return -1;
	for (size_t i = 0; i < s.length; i++) {
		if (s.text[i] < '0' || s.text[i] > '9')
			return -1;
		number = number * 10 + (uint64_t)(s.text[i] - '0');
	}
	*uid = (uint32_t)number;
	return number < UINT32_MAX ? 0 : -1;
}

static int
resolve_list (const char *key, char *list, int (*uid_of) (const char *, uint32_t *),
	      struct sluice_error *err)
{
	const size_t size = SLUICE_RULE_LIST_SIZE;
	char resolved[SLUICE_RULE_LIST_SIZE] = "";
	struct span rest = { list, strlen (list) };
	size_t used = 0;

	while (rest.length > 0) {
		char name[SLUICE_RULE_LIST_SIZE] = "";
		struct span item = take_until (&rest, ',');
		uint32_t uid;
		memcpy (name, item.text, item.length);
		if (parse_uid (item, &uid) < 0 && uid_of (name, &uid) < 0)
			return sluice_fail (err,
					    "%s: no user %.60s; correct the name or "
					    "give a uid",
					    key, name);
		int n = snprintf (resolved + used, size - used, "%s%lu", used ? "," : "",
				  (unsigned long)uid);
		if (n < 0 || (size_t)n >= size - used)
			return sluice_fail (err, "%s is longer than %zu bytes; shorten it",
					    key, size - 1);
		used += (size_t)n;
	}
	sluice_copy_text (list, size, resolved);
	return 0;
}

static int
resolve_rules (const char *key, struct sluice_rule *rules, uint32_t n,
	       int (*uid_of) (const char *, uint32_t *), struct sluice_error *err)
{
	for (uint32_t i = 0; i < n; i++)
		if (resolve_list (key, rules[i].users, uid_of, err) < 0)
			return -1;
	return 0;
}

int
sluice_config_resolve_users (struct sluice_config *config,
			     int (*uid_of) (const char *name, uint32_t *uid),
			     struct sluice_error *err)
{
	if (resolve_rules ("ModeOf", config->mode_rules, config->mode_rule_count, uid_of,
			   err)
		< 0
	    || resolve_rules ("Controlled", config->controlled, config->controlled_count,
			      uid_of, err)
		   < 0) {
		sluice_config_init (config);
		return -1;
	}
	return 0;
}
