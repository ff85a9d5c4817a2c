/*
 * What an administrator ruled on programs: a bundle carries it, decisions obey it.
 *
 * A selector is an identity in which 0 means any, so a match is five comparisons. Of two
 * reviews that match a job, the one that stands first in the bundle counts.
 */
#ifndef SLUICE_REVIEW_H
#define SLUICE_REVIEW_H

#include "submission.h"
#include "vocabulary.h"

enum {
	SLUICE_MAX_REVIEWS = 512,
	SLUICE_MAX_PAIRINGS = 32, /* pairs that one job is a part of: the first ones */
};

/* What reviews tell jobs apart by. 0: not known; in a selector: any. */
struct sluice_identity {
	uint64_t user;	    /* uid + 1 */
	uint64_t script;    /* sluice_script_signature */
	uint64_t name;	    /* hash of the name's stem */
	uint64_t account;   /* hash */
	uint64_t partition; /* hash; 0 for a job that names several */
};

struct sluice_review {
	uint32_t number;  /* that people call it by */
	uint32_t ruling;  /* enum sluice_ruling */
	int64_t until;	  /* UTC seconds; 0: it has no end */
	uint32_t pattern; /* TREAT: what the jobs are treated as; else 0 */
	uint32_t reserved;
	struct sluice_identity of;
	struct sluice_identity with; /* APART and TOGETHER: the others; else all 0 */
};

/* One pair that a job is a part of, seen from the job. */
struct sluice_pairing {
	uint32_t ruling;
	const struct sluice_identity *other; /* a selector */
};

/* 0 if it says what its ruling needs and nothing else; else -1 and what is wrong. */
int sluice_review_check (const struct sluice_review *review, struct sluice_error *err);

void sluice_identity_of (const struct sluice_submission *submission,
			 struct sluice_identity *out);
int sluice_identity_matches (const struct sluice_identity *selector,
			     const struct sluice_identity *identity);

/* Whether a review is in force at now (UTC seconds) and about the job, on either side of a
 * pair. */
int sluice_review_is_about (const struct sluice_review *review,
			    const struct sluice_identity *identity, int64_t now);

/* The first review with one of the rulings (bits by enum sluice_ruling) that is in force at
 * now (UTC seconds) and is about the job; NULL: there is none. */
const struct sluice_review *sluice_review_find (const struct sluice_review *reviews,
						uint32_t n, uint32_t rulings,
						const struct sluice_identity *identity,
						int64_t now);

/* The pairs in force at now that the job is a part of. Returns how many there are. */
uint32_t sluice_review_pairings (const struct sluice_review *reviews, uint32_t n,
				 const struct sluice_identity *identity, int64_t now,
				 struct sluice_pairing out[SLUICE_MAX_PAIRINGS]);

#endif
