/*
 * sluice.conf: one file for plugin, daemon and command line, one parser.
 *
 *   Key=value        one a line; `#` starts a comment
 *   Lane=sl0 Targets=4 Bandwidth=20G
 *
 * Unknown keys, values out of range and repeated keys are errors that name the
 * line and the remedy. docs/guide/operating.md explains each key; it is checked
 * against these lists.
 */
#ifndef SLUICE_CONFIG_H
#define SLUICE_CONFIG_H

#include "policy.h"
#include "vocabulary.h"

/* The steps of trust. */
#define SLUICE_MODES(X)                                                                    \
	X (OFF, "off", "leave alone; where no job has another mode, load nothing")         \
	X (OBSERVE, "observe", "predict and record; touch nothing")                        \
	X (ADVISE, "advise", "also append a note to the admin comment")                    \
	X (ENFORCE, "enforce", "also take tokens, so that Slurm makes jobs wait")

#define SLUICE_ENUM_MODE(name, word, text) SLUICE_MODE_##name,
enum sluice_mode { SLUICE_MODES (SLUICE_ENUM_MODE) SLUICE_MODE_COUNT };

enum {
	SLUICE_PATH_SIZE = 256,
	SLUICE_LIST_SIZE = 1024,	   /* a comma-separated list, with its end */
	SLUICE_CONFIG_MAX_BYTES = 1 << 20, /* of the file */
	SLUICE_MAX_RULES = 16,
	SLUICE_RULE_LIST_SIZE = 256, /* a list of a rule, with its end */
};

/* X(Word, member, BIT, ground): what a rule can name of a job. Users are uids or names,
 * which sluice_config_resolve_users turns into uids once the file is read; lanes are those
 * that the job may write to, by what was decided. */
#define SLUICE_MODE_SELECTORS(X)                                                           \
	X (Users, users, USER, "its user")                                                 \
	X (Accounts, accounts, ACCOUNT, "its account")                                     \
	X (Qos, qos, QOS, "its QoS")                                                       \
	X (Partitions, partitions, PARTITION, "its partition")                             \
	X (Lanes, lanes, LANE, "its lanes")

#define SLUICE_MODE_SELECTOR_MEMBER(word, member, bit, ground)                             \
	char member[SLUICE_RULE_LIST_SIZE];
#define SLUICE_ENUM_MODE_SELECTOR(word, member, bit, ground) SLUICE_MODE_SELECTOR_##bit,
#define SLUICE_ENUM_MODE_BY(word, member, bit, ground)                                     \
	SLUICE_MODE_BY_##bit = 1 << SLUICE_MODE_SELECTOR_##bit,

enum sluice_mode_selector {
	SLUICE_MODE_SELECTORS (SLUICE_ENUM_MODE_SELECTOR) SLUICE_MODE_SELECTOR_COUNT
};
enum sluice_mode_by { SLUICE_MODE_SELECTORS (SLUICE_ENUM_MODE_BY) };

/* One line of ModeOf or Controlled: a job fits that is in each of the lists; an empty one
 * names all. */
struct sluice_rule {
	uint32_t mode; /* enum sluice_mode, of ModeOf */
	uint32_t by;   /* enum sluice_mode_by: lists that are not empty */
	SLUICE_MODE_SELECTORS (SLUICE_MODE_SELECTOR_MEMBER)
};

/* X(Key, member, default, meaning): paths. */
#define SLUICE_CONFIG_PATHS(X)                                                             \
	X (Bundle, bundle, "/var/lib/sluice/model.bundle",                                 \
	   "the model bundle that `sluice model publish` writes")                          \
	X (Snapshot, snapshot, "/run/sluice/cluster.snapshot",                             \
	   "the cluster snapshot that sluiced writes")                                     \
	X (Socket, socket, "/run/sluice/plugin.sock",                                      \
	   "where the plugin hands its decision records to sluiced")                       \
	X (History, history, "/var/lib/sluice/history.db", "the SQLite history")           \
	X (OffFile, off_file, "/run/sluice/off",                                           \
	   "while this file exists, Sluice is switched off")

/* X(Key, member, meaning): comma-separated lists. */
#define SLUICE_CONFIG_LISTS(X)                                                             \
	X (DarshanLogs, darshan_logs,                                                      \
	   "directories in which Darshan leaves its logs, for sluice-learn")               \
	X (LaneOsts, lane_osts,                                                            \
	   "Lustre's targets of each lane, as in sl0:0-3,8,sl1:4-7, so that what logs "    \
	   "tell of a slow target counts for its lane; with Place=blocks, in the order "   \
	   "of their numbers, and for its blocks")                                         \
	X (Include, include,                                                               \
	   "kinds of job exempt by default that are included after all: "                  \
	   "reservation, deadline, preempt, salloc, interactive, immediate, cron")

/* X(Key, member, default, low, high, meaning): whole numbers. */
#define SLUICE_CONFIG_NUMBERS(X)                                                           \
	X (FollowInterval, follow_ms, 1000, 100, 60000,                                    \
	   "milliseconds between sluiced's polls of the controller")                       \
	X (LearnInterval, learn_seconds, 60, 1, 86400,                                     \
	   "seconds between two polls of sluice-learn for logs and accounting")            \
	X (KeepDays, keep_days, 0, 0, 36500,                                               \
	   "days after which sluice-learn forgets runs, jobs and decisions, but for the "  \
	   "newest runs of each application; 0: never")                                    \
	X (ReviewModels, review_models, 0, 0, 1,                                           \
	   "1: a model that sluice-learn fitted anew is used once it is published; "       \
	   "0: at once")                                                                   \
	X (LeaseSeconds, lease_seconds, 120, 5, 3600,                                      \
	   "seconds for which a gate stays closed without sluiced")                        \
	X (TurnsPort, turns_port, 0, 0, 65535,                                             \
	   "TCP port on which sluice-turns listens to the agents of nodes; 0: it does "    \
	   "not start")                                                                    \
	X (TurnsLatency, turns_latency_ms, 500, 10, 60000,                                 \
	   "milliseconds from what happens to a burst until a verdict on it is in "        \
	   "effect; bursts shorter than 20 times this are not held")                       \
	X (TurnsHold, turns_hold, 60, 1, 86400,                                            \
	   "seconds for which a burst is held at a stretch; then it writes for a moment, " \
	   "so that a program that is watched shows progress")                             \
	X (AdminComment, admin_comment, 0, 0, 1,                                           \
	   "1: from advise on, note decisions in empty admin comments of jobs; not where " \
	   "other tools use these")

#define SLUICE_CONFIG_PATH_MEMBER(key, member, def, text) char member[SLUICE_PATH_SIZE];
#define SLUICE_CONFIG_LIST_MEMBER(key, member, text) char member[SLUICE_LIST_SIZE];
#define SLUICE_CONFIG_NUMBER_MEMBER(key, member, def, low, high, text) uint32_t member;

struct sluice_config {
	uint32_t mode;	/* enum sluice_mode */
	uint32_t turns; /* enum sluice_turns_scope, as it was given */
	uint32_t mode_rule_count;
	uint32_t controlled_count;
	struct sluice_rule mode_rules[SLUICE_MAX_RULES];
	struct sluice_rule controlled[SLUICE_MAX_RULES];
	SLUICE_CONFIG_NUMBERS (SLUICE_CONFIG_NUMBER_MEMBER)
	uint32_t include_kinds; /* enum sluice_include: `include`, parsed */
	SLUICE_CONFIG_PATHS (SLUICE_CONFIG_PATH_MEMBER)
	SLUICE_CONFIG_LISTS (SLUICE_CONFIG_LIST_MEMBER)
	struct sluice_policy policy; /* published with the next bundle */
};

enum sluice_include {
	SLUICE_INCLUDE_RESERVATION = 1 << 0,
	SLUICE_INCLUDE_DEADLINE = 1 << 1,
	SLUICE_INCLUDE_PREEMPT = 1 << 2,
	SLUICE_INCLUDE_SALLOC = 1 << 3,
	SLUICE_INCLUDE_INTERACTIVE = 1 << 4,
	SLUICE_INCLUDE_IMMEDIATE = 1 << 5,
	SLUICE_INCLUDE_CRON = 1 << 6,
};

void sluice_config_init (struct sluice_config *config); /* the defaults */

/* Parse a whole file in memory over the defaults. name is for messages. On an
 * error config holds the defaults and err names file, line and remedy. */
int sluice_config_parse (const char *name, const char *text, size_t size,
			 struct sluice_config *config, struct sluice_error *err);

/* Replace the names of users in the rules by uids, so that a decision compares
 * numbers. uid_of looks one up: 0, or -1 when there is no such user. The core
 * cannot, and looking up names may hang: never under slurmctld's locks. On an
 * error config holds the defaults and err names key, user and remedy. */
int sluice_config_resolve_users (struct sluice_config *config,
				 int (*uid_of) (const char *name, uint32_t *uid),
				 struct sluice_error *err);

/* The i-th key with its kind ("path", "list", "number", "setting", "mode",
 * "lane", "rule"), default and meaning, for docs and `sluice config`; 0 at the end. */
struct sluice_config_key {
	const char *key;
	const char *member; /* of struct sluice_config; "policy.x": of its policy */
	const char *kind;
	const char *text;
	char fallback[SLUICE_PATH_SIZE];
};
int sluice_config_describe (unsigned int i, struct sluice_config_key *out);

/* The key that may have been meant; NULL: none is near. */
const char *sluice_config_nearest_key (const char *word, size_t length);

const char *sluice_mode_name (unsigned int mode);

/* What the bit of enum sluice_mode_by stands for: `its account`; NULL at the end. */
const char *sluice_mode_by_text (unsigned int selector);

/* Which jobs take turns: none where no coordinator listens (TurnsPort=0). */
uint32_t sluice_turns_scope (const struct sluice_config *config);

#endif
