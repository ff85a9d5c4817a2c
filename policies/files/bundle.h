/*
 * The model bundle: everything a decision needs that was learned or configured.
 *
 *   section             elements
 *   POLICY              1 struct sluice_policy
 *   INTERFERENCE        1 struct sluice_interference
 *   APPLICATION         struct sluice_application
 *   APPLICATION_INDEX   uint32_t: open-addressing table, a power of two at
 *                       least twice as long; 0: free, else application + 1;
 *                       probing starts at key modulo length and goes up by one
 *   TEXT                char: JSON about the training, for people
 *   REVIEW              struct sluice_review, those that count before others first
 *   AGEING              1 struct sluice_ageing
 */
#ifndef SLUICE_BUNDLE_H
#define SLUICE_BUNDLE_H

#include "container.h"
#include "interference.h"
#include "policy.h"
#include "profile.h"
#include "review.h"
#include "submission.h"

struct sluice_bundle; /* validated, in memory of its own, read-only */

/*
 * What was learned about one key of the application table, and how it is
 * carried over to a job of another size.
 *
 * A size is a number of processes; see sluice_submission_size. Each that a user asked
 * for has an entry of its own, found by sluice_application_size_key. To others, where the
 * runs show that a number of their profile follows a power of the size, it is carried over:
 * value(n) = value(size) (n / size)^exponent.
 *
 * The same holds for a number among the arguments of the submit line, which may say
 * how much is written: argument_place is its place among them, from 1. What runs with
 * the same words do has an entry of its own under SLUICE_EVIDENCE_USER_ARGUMENTS.
 */

struct sluice_application {
	uint64_t key;
	uint32_t evidence; /* enum sluice_evidence */
	uint32_t id;	   /* row in the history that lists the runs behind it */
	double size;	   /* that the profile is for; 0: unknown, nothing scales */
	double smallest;   /* of the runs behind it, <= size */
	double largest;	   /* >= size */
	float exponent[SLUICE_PROFILE_FIELD_COUNT]; /* 0: does not follow the size */
	/* Of the runs behind it, and of those that left no trace of I/O: the share that
	 * bears its pattern out. 0 where it is not known. */
	float agreement;
	uint16_t argument_place; /* from 1 to SLUICE_MAX_NUMBERS; 0: none */
	uint16_t is_confirmed;	 /* 1: system counters bear out what the logs claim */
	double argument;	 /* that the profile is for; 0: it follows no argument */
	double least;		 /* of the runs behind it, <= argument */
	double greatest;	 /* >= argument */
	float argument_exponent[SLUICE_PROFILE_FIELD_COUNT];
	int64_t newest; /* when the newest run behind it ended; 0: it does not age */
	struct sluice_profile profile; /* profile.confidence, profile.runs */
};

/*
 * How much less is known of the next run the longer the newest one behind an entry is past:
 * by what spreads are multiplied, by age and field. A site's own runs show it.
 */
enum { SLUICE_AGES = 8 };
extern const int64_t sluice_ages[SLUICE_AGES - 1]; /* seconds, up to which each counts */
struct sluice_ageing {
	float widening[SLUICE_AGES][SLUICE_PROFILE_FIELD_COUNT];
};

/* The profile expected at the size and the arguments of a submission at now (UTC seconds;
 * 0: at once); what it does not say scales nothing. A power law counts up to one octave
 * beyond what was seen. */
void sluice_application_profile (const struct sluice_bundle *bundle,
				 const struct sluice_application *application,
				 const struct sluice_submission *submission, int64_t now,
				 struct sluice_profile *out);

/* Processes as far as the user said: tasks, else nodes, else 0. */
double sluice_submission_size (const struct sluice_submission *submission);

/* Key of the entry for this very size, for the key of all sizes; 0 when there is no key or
 * no size. */
uint64_t sluice_application_size_key (uint64_t key, double size);

enum sluice_bundle_section {
	SLUICE_SECTION_POLICY = 1,
	SLUICE_SECTION_INTERFERENCE,
	SLUICE_SECTION_APPLICATION,
	SLUICE_SECTION_APPLICATION_INDEX,
	SLUICE_SECTION_TEXT,
	SLUICE_SECTION_REVIEW,
	SLUICE_SECTION_AGEING,
};

enum {
	SLUICE_MAX_APPLICATIONS = 1 << 18,
	SLUICE_MAX_TEXT = 1 << 20,
	SLUICE_MAX_BUNDLE_BYTES = 128 << 20,
};

/* Validate a bundle in memory and copy it. 0, or -1 with the reason. */
int sluice_bundle_parse (const void *bytes, size_t size, struct sluice_bundle **out,
			 struct sluice_error *err);
/* The same from a file that sluice_read_trusted_file accepts. */
int sluice_bundle_load (const char *path, uint32_t owner_uid, struct sluice_bundle **out,
			struct sluice_error *err);
void sluice_bundle_destroy (struct sluice_bundle *bundle);

uint64_t sluice_bundle_checksum (const struct sluice_bundle *bundle);
int64_t sluice_bundle_created (const struct sluice_bundle *bundle);
const struct sluice_policy *sluice_bundle_policy (const struct sluice_bundle *bundle);
const struct sluice_interference *
sluice_bundle_interference (const struct sluice_bundle *bundle);
uint32_t sluice_bundle_application_count (const struct sluice_bundle *bundle);
const struct sluice_application *
sluice_bundle_application (const struct sluice_bundle *bundle, uint32_t i);
/* NULL when the key is not there. */
const struct sluice_application *sluice_bundle_find (const struct sluice_bundle *bundle,
						     uint64_t key);
const char *sluice_bundle_text (const struct sluice_bundle *bundle, size_t *size);
const struct sluice_review *sluice_bundle_reviews (const struct sluice_bundle *bundle,
						   uint32_t *count);
/* The first review with one of the rulings (bits by enum sluice_ruling) that is in force at
 * now (UTC seconds) and is about the job; NULL: there is none. */
const struct sluice_review *
sluice_bundle_review_of (const struct sluice_bundle *bundle, uint32_t rulings,
			 const struct sluice_submission *submission, int64_t now);

#endif
