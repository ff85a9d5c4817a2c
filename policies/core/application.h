/*
 * What was learned about one key of the application table, and how it is
 * carried over to a job of another size.
 *
 * A size is a number of processes; see sluice_submission_size. Where the runs
 * of one application show that a number of their profile follows a power of
 * the size, value(n) = value(size) (n / size)^exponent. Where they do not
 * (other things are done at other sizes), sizes an octave wide have entries of
 * their own, found by sluice_application_size_key.
 *
 * The same holds for a number among the arguments of the submit line, which may say
 * how much is written: argument_place is its place among them, from 1. What runs with
 * the same words do has an entry of its own under SLUICE_EVIDENCE_USER_ARGUMENTS.
 */
#ifndef SLUICE_APPLICATION_H
#define SLUICE_APPLICATION_H

#include "profile.h"
#include "submission.h"

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
	double argument; /* that the profile is for; 0: it follows no argument */
	double least;	 /* of the runs behind it, <= argument */
	double greatest; /* >= argument */
	float argument_exponent[SLUICE_PROFILE_FIELD_COUNT];
	uint32_t argument_place;       /* from 1 to SLUICE_MAX_NUMBERS; 0: none */
	struct sluice_profile profile; /* profile.confidence, profile.runs */
};

/* 0 if every number is in its range; else -1 and what is not. The key is the
 * caller's to check. */
int sluice_application_check (const struct sluice_application *application,
			      struct sluice_error *err);

/* The profile expected at the size and the arguments of a submission; what it does not say
 * scales nothing. A power law is believed up to one octave beyond what was seen. */
void sluice_application_profile (const struct sluice_application *application,
				 const struct sluice_submission *submission,
				 struct sluice_profile *out);

/* Processes as far as the user said: tasks, else nodes, else 0. */
double sluice_submission_size (const struct sluice_submission *submission);

/* Key of the entry for sizes of this octave, for the key of all sizes; 0 when
 * there is no key or no size. */
uint64_t sluice_application_size_key (uint64_t key, double size);

#endif
