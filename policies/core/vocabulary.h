/*
 * The words Sluice uses for what it sees and what it decides.
 *
 * Each list exists once, here, as an X-macro; C expands it to an enum, and
 * Python reads the names and sentences back through the binding.  A value is
 * written into bundles, snapshots and decision records, so entries are only
 * ever appended, never reordered.
 */
#ifndef SLUICE_VOCABULARY_H
#define SLUICE_VOCABULARY_H

/*
 * X(NAME, json_name, sentence): what a job does to storage.
 * OWC, WS and AW are the write patterns of Shah et al. (SuperFrI 2019, sec. 3).
 */
#define SLUICE_PATTERNS(X)                                                                 \
	X (UNKNOWN, "unknown", "nothing is known about its I/O")                           \
	X (NONE, "none", "no significant I/O")                                             \
	X (OWC, "owc", "creates, writes and closes one file after the other")              \
	X (WS, "ws", "rewrites and flushes parts of a file")                               \
	X (AW, "aw", "appends to a file in one stream")                                    \
	X (READ, "read", "mostly reads")                                                   \
	X (METADATA, "metadata", "mostly opens, stats and unlinks")                        \
	X (MIXED, "mixed", "phases with different patterns")

/*
 * X(NAME, token_name, sentence): the few kinds of job that the interference
 * model tells apart.  token_name becomes part of the licence (`sl0_stream`).
 */
#define SLUICE_CLASSES(X)                                                                  \
	X (NONE, "none", "does not matter to storage")                                     \
	X (STREAM, "stream", "buffers writes (dirty data in cache)")                       \
	X (FLUSH, "flush", "flushes soon, and waits until the target has it")              \
	X (META, "meta", "loads the metadata server")

/* X(NAME, json_name, sentence): what Sluice would do with a job. */
#define SLUICE_ACTIONS(X)                                                                  \
	X (ABSTAIN, "abstain", "left to Slurm")                                            \
	X (LEAVE, "leave", "left to Slurm: its I/O does not matter")                       \
	X (COLOCATE, "colocate", "may run alongside the others")                           \
	X (DISJOINT, "disjoint", "confined to a lane of its own")                          \
	X (DELAY, "delay", "waits until the conflict is over")                             \
	X (TURNS, "turns", "runs alongside the others, in turns with their bursts")

/* X(NAME, json_name, sentence): why. One reason per decision. */
#define SLUICE_REASONS(X)                                                                  \
	X (NONE, "none", "no decision was made")                                           \
	X (NO_BUNDLE, "no_bundle", "no valid model bundle is loaded")                      \
	X (NO_SNAPSHOT, "no_snapshot",                                                     \
	   "no cluster snapshot is loaded, so the co-runners are unknown")                 \
	X (STALE_SNAPSHOT, "stale_snapshot",                                               \
	   "the cluster snapshot is too old to be believed")                               \
	X (SWITCHED_OFF, "switched_off", "Sluice is switched off")                         \
	X (MODE_OFF, "mode_off", "the site's mode for this job is off")                    \
	X (EXEMPT_RESERVATION, "exempt_reservation", "the job runs in a reservation")      \
	X (EXEMPT_DEADLINE, "exempt_deadline",                                             \
	   "the job has a deadline or a begin time of its own")                            \
	X (EXEMPT_PREEMPT, "exempt_preempt", "its partition or QoS may preempt others")    \
	X (EXEMPT_INTERACTIVE, "exempt_interactive",                                       \
	   "someone is waiting at a terminal for it")                                      \
	X (EXEMPT_CRON, "exempt_cron", "it is a cron job")                                 \
	X (EXEMPT_LICENSES, "exempt_licenses",                                             \
	   "its own licence request cannot be combined with a token")                      \
	X (OPTED_OUT, "opted_out", "the user opted out")                                   \
	X (HET_COMPONENT, "het_component",                                                 \
	   "a heterogeneous job is decided on its first component")                        \
	X (UNKNOWN_JOB, "unknown_job", "no earlier run resembles it closely enough")       \
	X (LOW_CONFIDENCE, "low_confidence",                                               \
	   "the prediction is less certain than the site asks for")                        \
	X (UNMEASURED, "unmeasured",                                                       \
	   "how this pattern interferes was never measured here")                          \
	X (INSIGNIFICANT, "insignificant", "too little of its run time is I/O to matter")  \
	X (NO_CORUNNERS, "no_corunners", "nothing else is writing now")                    \
	X (HARMLESS, "harmless", "nobody is predicted to lose noticeably")                 \
	X (SHARING_CHEAPEST, "sharing_cheapest",                                           \
	   "every way of keeping it apart costs more than it saves")                       \
	X (MARGIN, "margin",                                                               \
	   "keeping it apart saves less than the margin the site asks for")                \
	X (SEPARATION_PAYS, "separation_pays",                                             \
	   "a lane of its own loses fewer node-seconds than sharing")                      \
	X (DELAY_PAYS, "delay_pays",                                                       \
	   "waiting loses fewer node-seconds than running alongside the others")           \
	X (SLOW_LANE, "slow_lane",                                                         \
	   "storage targets are slow, so it is kept to faster ones")                       \
	X (OTHERS_ONLY, "others_only", "only other users' jobs match")                     \
	X (VOLUME_ONLY, "volume_only",                                                     \
	   "what earlier runs moved is known, how they write is not")                      \
	X (WIDE_SPREAD, "wide_spread",                                                     \
	   "earlier runs vary too much in size to choose an action")                       \
	X (ALONE_UNKNOWN, "alone_unknown",                                                 \
	   "it hardly ever ran undisturbed: what co-runners cost it is not known")         \
	X (FEW_BYTES, "few_bytes", "it moves too few bytes to matter")                     \
	X (TURNS_PAY, "turns_pay",                                                         \
	   "in turns fewer node-seconds are lost than by sharing without")                 \
	X (IGNORED, "ignored",                                                             \
	   "a review says that what is predicted of it does not count")                    \
	X (NEVER_DELAYED, "never_delayed",                                                 \
	   "a review says that it never waits for I/O reasons")                            \
	X (KEPT_APART, "kept_apart", "a review keeps it apart from a job that runs")       \
	X (LET_TOGETHER, "let_together",                                                   \
	   "a review lets it run together with a job that runs, and it harms no other")    \
	X (UNCONFIRMED, "unconfirmed", "no system counter confirms its I/O volume")        \
	X (LITTLE_IO, "little_io",                                                         \
	   "its pattern is uncertain, but in any pattern too little of its run time is "   \
	   "I/O")

/* X(NAME, json_name, sentence): what became of a decision in `enforce`. */
#define SLUICE_GRANTS(X)                                                                   \
	X (NONE, "none", "in this mode no job gets tokens")                                \
	X (TAKEN, "taken", "it takes a token of its class on each lane it may write to")   \
	X (NOT_NEEDED, "not_needed", "it was left to Slurm, so it needs no token")         \
	X (TEST_ONLY, "test_only", "it was only a test, so there is no job")               \
	X (NO_TOTALS, "no_totals",                                                         \
	   "this slurmctld does not tell which licenses it has, so no token is taken")     \
	X (UNDEFINED, "undefined",                                                         \
	   "slurm.conf defines no such token or fewer than 100,000, so none is taken")     \
	X (NO_MEMORY, "no_memory", "slurmctld had no memory left for its licenses")        \
	X (HELD_OUT, "held_out",                                                           \
	   "it was drawn for the holdout, so it is left alone to compare others with it")

/* X(NAME, word, sentence): which jobs take turns, the setting `Turns`. */
#define SLUICE_TURNS_SCOPES(X)                                                             \
	X (OFF, "off", "none, whatever they ask for")                                      \
	X (ASKED, "asked", "those with --io-turns")                                        \
	X (DECIDED, "decided", "also those whose bursts are predicted to matter")          \
	X (ALL, "all", "also those of which nothing is known")

/* X(NAME, json_name, sentence): whether a job takes turns. */
#define SLUICE_IN_TURNS(X)                                                                 \
	X (NONE, "none", "nobody takes turns here")                                        \
	X (NOT_ASKED, "not_asked", "its user did not ask for turns")                       \
	X (REFUSED, "refused", "its user wants no turns")                                  \
	X (EXEMPT, "exempt", "Sluice leaves this job alone")                               \
	X (NOT_NEEDED, "not_needed", "its I/O does not matter")                            \
	X (UNKNOWN, "unknown", "too little is known of its I/O")                           \
	X (ASKED, "asked", "its user asked for turns")                                     \
	X (PAYS, "pays", "in turns, it and those that write now lose less")                \
	X (MATTERS, "matters", "its bursts matter to those that come to write with it")    \
	X (ALL, "all", "the site lets all jobs take turns")

/* X(NAME, json_name, sentence): the evidence behind a prediction. */
#define SLUICE_EVIDENCE(X)                                                                 \
	X (NONE, "none", "no evidence")                                                    \
	X (USER_SCRIPT, "user_script", "earlier runs of this script by this user")         \
	X (USER_NAME, "user_name", "earlier runs of this job name by this user")           \
	X (NAME, "name", "earlier runs of this job name by others")                        \
	X (CONFIRMED, "confirmed", "earlier runs by this user, and others' agree")         \
	X (USER_ARGUMENTS, "user_arguments",                                               \
	   "earlier runs with these arguments by this user")                               \
	X (USER_SIZE, "user_size", "earlier runs of this very size by this user")          \
	X (REVIEW, "review", "a review says how to treat it")                              \
	X (IGNORED, "ignored", "earlier runs, which a review says do not count")           \
	X (UNCONFIRMED, "unconfirmed",                                                     \
	   "earlier runs by this user, whose I/O no system counter confirms")

/* X(NAME, json_name, sentence): what an administrator may rule on programs. */
#define SLUICE_RULINGS(X)                                                                  \
	X (NONE, "none", "nothing was ruled")                                              \
	X (NEVER_DELAY, "never_delay", "they never wait for I/O reasons")                  \
	X (IGNORE, "ignore", "what is predicted of them does not count")                   \
	X (TREAT, "treat", "they are treated as jobs of this pattern")                     \
	X (APART, "apart", "the two are kept apart")                                       \
	X (TOGETHER, "together", "the two may run together, whatever is predicted")

#define SLUICE_ENUM_PATTERN(name, json, text) SLUICE_PATTERN_##name,
#define SLUICE_ENUM_CLASS(name, json, text) SLUICE_CLASS_##name,
#define SLUICE_ENUM_ACTION(name, json, text) SLUICE_ACTION_##name,
#define SLUICE_ENUM_REASON(name, json, text) SLUICE_REASON_##name,
#define SLUICE_ENUM_GRANT(name, json, text) SLUICE_GRANT_##name,
#define SLUICE_ENUM_TURNS_SCOPE(name, json, text) SLUICE_TURNS_FOR_##name,
#define SLUICE_ENUM_IN_TURNS(name, json, text) SLUICE_IN_TURNS_##name,
#define SLUICE_ENUM_EVIDENCE(name, json, text) SLUICE_EVIDENCE_##name,
#define SLUICE_ENUM_RULING(name, json, text) SLUICE_RULING_##name,

enum sluice_pattern { SLUICE_PATTERNS (SLUICE_ENUM_PATTERN) SLUICE_PATTERN_COUNT };
enum sluice_class { SLUICE_CLASSES (SLUICE_ENUM_CLASS) SLUICE_CLASS_COUNT };
enum sluice_action { SLUICE_ACTIONS (SLUICE_ENUM_ACTION) SLUICE_ACTION_COUNT };
enum sluice_reason { SLUICE_REASONS (SLUICE_ENUM_REASON) SLUICE_REASON_COUNT };
enum sluice_grant_outcome { SLUICE_GRANTS (SLUICE_ENUM_GRANT) SLUICE_GRANT_COUNT };
enum sluice_turns_scope {
	SLUICE_TURNS_SCOPES (SLUICE_ENUM_TURNS_SCOPE) SLUICE_TURNS_FOR_COUNT
};
enum sluice_in_turns { SLUICE_IN_TURNS (SLUICE_ENUM_IN_TURNS) SLUICE_IN_TURNS_COUNT };
enum sluice_evidence { SLUICE_EVIDENCE (SLUICE_ENUM_EVIDENCE) SLUICE_EVIDENCE_COUNT };
enum sluice_ruling { SLUICE_RULINGS (SLUICE_ENUM_RULING) SLUICE_RULING_COUNT };

/* The JSON name and the sentence of a value; "?" when it is out of range. */
const char *sluice_pattern_name (unsigned int pattern);
const char *sluice_pattern_text (unsigned int pattern);
const char *sluice_class_name (unsigned int klass);
const char *sluice_class_text (unsigned int klass);
const char *sluice_action_name (unsigned int action);
const char *sluice_action_text (unsigned int action);
const char *sluice_reason_name (unsigned int reason);
const char *sluice_reason_text (unsigned int reason);
const char *sluice_grant_name (unsigned int outcome);
const char *sluice_grant_text (unsigned int outcome);
const char *sluice_turns_scope_name (unsigned int scope);
const char *sluice_turns_scope_text (unsigned int scope);
const char *sluice_in_turns_name (unsigned int in_turns);
const char *sluice_in_turns_text (unsigned int in_turns);
const char *sluice_evidence_name (unsigned int evidence);
const char *sluice_evidence_text (unsigned int evidence);
const char *sluice_ruling_name (unsigned int kind);
const char *sluice_ruling_text (unsigned int kind);

#endif
