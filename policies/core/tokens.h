/*
 * Tokens: the licences by which Slurm itself makes jobs wait.
 *
 * A token is called <lane>_<class> (`sl0_stream`); a site without lanes has one
 * that is called `all` (`all_stream`). A job takes one token of its class on
 * each lane that it may write to. slurm.conf defines a huge number of each;
 * sluiced imposes the gate, so a job that only takes tokens never waits.
 *
 * What users wrote is only ever read as far as it has to be: a text in which
 * nothing is ours stays byte for byte. What Slurm refuses is left for Slurm to refuse, but
 * no length and no form keeps a token.
 */
#ifndef SLUICE_TOKENS_H
#define SLUICE_TOKENS_H

#include "decide.h"

enum {
	/* A job's licences with their end: Slurm refuses more than 1,024 bytes. */
	SLUICE_LICENSES_SIZE = 1024,
	SLUICE_TOKEN_SIZE = SLUICE_NAME_SIZE + 16,
	/* With fewer in slurm.conf the token counts as undefined: it could make
	 * jobs wait, or have them refused, without sluiced. */
	SLUICE_MIN_TOTAL = 100000,
};

/* A total that slurmctld does not tell. */
#define SLUICE_TOTAL_UNKNOWN UINT32_MAX

/* One token of the class on each lane of the mask; mask 0: none. */
struct sluice_tokens {
	uint32_t klass; /* enum sluice_class */
	uint32_t lane_mask;
};

/* A choice among the tokens of a policy: a bit a lane, by class. */
struct sluice_token_set {
	uint32_t lanes[SLUICE_CLASS_COUNT];
};

/* What became of a decision: in `enforce` of its tokens, and whether the job's bursts take
 * turns. */
struct sluice_grant {
	uint32_t outcome;  /* enum sluice_grant_outcome; tokens are taken if TAKEN */
	uint32_t in_turns; /* enum sluice_in_turns */
	struct sluice_tokens tokens; /* that the decision asks for */
	/* of these tokens, by lane, in the controller when it was decided: an
	 * input, so that the grant can be made again; 0: not asked for */
	uint32_t totals[SLUICE_MAX_LANES];
};

/* The tokens that a decision asks for. policy may be NULL if it abstains. */
void sluice_tokens_of (const struct sluice_policy *policy,
		       const struct sluice_decision *decision, struct sluice_tokens *out);

/* What becomes of a decision: whether the job gets the tokens that it asks for, given its
 * lot and how many of each the controller has, and whether it takes turns. mode is enum
 * sluice_mode, turns enum sluice_turns_scope. */
void sluice_tokens_grant (uint32_t mode, uint32_t turns, const struct sluice_policy *policy,
			  const struct sluice_submission *submission,
			  const struct sluice_decision *decision,
			  const uint32_t totals[SLUICE_MAX_LANES],
			  struct sluice_grant *out);

/* Whether in_turns, enum sluice_in_turns, is of a job that takes them. */
int sluice_takes_turns (uint32_t in_turns);

/* Whether a job that has the tokens `held` should exchange them for those that a new
 * decision asks for: they save more than the margin; two lanes alike keep it where it
 * is. */
int sluice_tokens_exchange (const struct sluice_policy *policy,
			    const struct sluice_tokens *held,
			    const struct sluice_decision *decision);

/* The name of a token; out holds SLUICE_TOKEN_SIZE bytes. */
void sluice_token_name (const struct sluice_policy *policy, uint32_t lane, uint32_t klass,
			char *out);

/* Whether the tokens fit behind licences of this length. */
int sluice_tokens_fit (const struct sluice_policy *policy,
		       const struct sluice_tokens *tokens, uint32_t length);

/* Add tokens behind a user's licences; text holds SLUICE_LICENSES_SIZE bytes.
 * 0, or -1 when they do not fit: then the text stays as it was. */
int sluice_licenses_append (const struct sluice_policy *policy,
			    const struct sluice_tokens *tokens, char *text);

/* What sluice_licenses_strip found. */
struct sluice_stripped {
	uint32_t items; /* taken off */
	uint32_t lanes; /* whose granted token the text names */
};

/* The two texts in which a user may ask for licences. */
enum sluice_wish {
	SLUICE_WISH_LICENSES,  /* `a:2,b;c@srv:1` */
	SLUICE_WISH_FOR_TASKS, /* `gres/gpu:1,license/a:1`: --tres-per-task, from 23.02 */
};

/*
 * Take lane tokens off a user's own text, of any length, in place. A token is what
 * slurmctld of any version from 22.05 to 26.05 reads as that licence (_build_license_list
 * in licenses.c, slurm_get_next_tres in slurm_protocol_defs.c). Only those in reserved are
 * taken off (NULL: all of the policy's). Those in granted (may be NULL), which Sluice gave
 * the job before, may be named once each, without a count or with `:1`; another count goes.
 */
struct sluice_stripped sluice_licenses_strip (const struct sluice_policy *policy,
					      const struct sluice_token_set *reserved,
					      const struct sluice_tokens *granted,
					      enum sluice_wish wish, char *text);

/* Whether there is anything to take off, were all of the policy's tokens reserved. */
int sluice_licenses_name_token (const struct sluice_policy *policy, enum sluice_wish wish,
				char *text);

#endif
