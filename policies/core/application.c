#include "application.h"

#include <math.h>

_Static_assert(SLUICE_PROFILE_FIELD_COUNT % 2 == 1,
	       "agreement pads exponent, argument_place argument_exponent");

static const double octaves_beyond = 2.0; /* a factor: one octave */
static const double steepest = 4.0;	  /* no quantity grows faster than size^4 */

static int
is_size (double size)
{
	return size >= 0.0 && size <= 4294967295.0;
}

/* Shares and flags do not grow with anything. */
static int
may_scale (unsigned int field)
{
	return sluice_profile_field_unit (field)[0] != '0';
}

/* Whether entries of the table have this kind of evidence. */
static int
is_kept (uint32_t evidence)
{
	return evidence != SLUICE_EVIDENCE_NONE && evidence != SLUICE_EVIDENCE_FOREST
	       && evidence != SLUICE_EVIDENCE_CONFIRMED && evidence < SLUICE_EVIDENCE_COUNT;
}

static int
check_exponents (const float *exponents, const char *what, struct sluice_error *err)
{
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++) {
		double exponent = (double)exponents[i];
		if (!(fabs (exponent) <= (may_scale (i) ? steepest : 0.0)))
			return sluice_fail (err, "lets %s follow the %s with exponent %g",
					    sluice_profile_field_name (i), what, exponent);
	}
	return 0;
}

static int
check_argument (const struct sluice_application *a, struct sluice_error *err)
{
	int is_none = a->argument_place == 0;
	if (a->argument_place > SLUICE_MAX_NUMBERS
	    || (is_none ? a->argument != 0.0 || a->least != 0.0 || a->greatest != 0.0
			: !(a->least > 0.0 && a->least <= a->argument
			    && a->argument <= a->greatest
			    && a->greatest <= sluice_largest_number)))
		return sluice_fail (err, "follows number %u from %g to %g, but is for %g",
				    (unsigned int)a->argument_place, a->least, a->greatest,
				    a->argument);
	return check_exponents (a->argument_exponent, "argument", err);
}

int
sluice_application_check (const struct sluice_application *a, struct sluice_error *err)
{
	if (!is_kept (a->evidence))
		return sluice_fail (err, "has evidence %u", (unsigned int)a->evidence);
	if (!is_size (a->size) || !is_size (a->smallest) || !is_size (a->largest)
	    || a->smallest > a->size || a->size > a->largest
	    || (a->size == 0.0) != (a->largest == 0.0)
	    || (a->size > 0.0 && a->smallest < 1.0))
		return sluice_fail (err, "is for sizes %g to %g, but its size is %g",
				    a->smallest, a->largest, a->size);
	if (check_exponents (a->exponent, "size", err) < 0 || check_argument (a, err) < 0)
		return -1;
	if (!(a->agreement >= 0.0f && a->agreement <= 1.0f))
		return sluice_fail (err, "is borne out by %g of its runs",
				    (double)a->agreement);
	return sluice_profile_check (&a->profile, err);
}

/* Carry numbers over from one value of what they follow to another. */
static void
follow (struct sluice_profile *profile, const float *exponents, double from, double least,
	double greatest, double to)
{
	if (to <= 0.0 || from <= 0.0)
		return;
	to = fmax (least / octaves_beyond, fmin (greatest * octaves_beyond, to));
	double octaves = log2 (to / from);
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++) {
		double *value = sluice_profile_field (profile, i);
		if (exponents[i] != 0.0f && *value > 0.0)
			*value = fmin (*value * exp2 (octaves * (double)exponents[i]),
				       sluice_profile_largest);
	}
}

void
sluice_application_profile (const struct sluice_application *a,
			    const struct sluice_submission *submission,
			    struct sluice_profile *out)
{
	*out = a->profile;
	follow (out, a->exponent, a->size, a->smallest, a->largest,
		sluice_submission_size (submission));
	if (a->argument_place > 0)
		follow (out, a->argument_exponent, a->argument, a->least, a->greatest,
			submission->arguments.numbers[a->argument_place - 1]);
}

double
sluice_submission_size (const struct sluice_submission *submission)
{
	return submission->tasks > 0 ? submission->tasks : submission->nodes;
}

uint64_t
sluice_application_size_key (uint64_t key, double size)
{
	if (key == 0 || size <= 0.0)
		return 0;
	int32_t octave = (int32_t)lround (log2 (size));
	uint64_t sized = sluice_hash_bytes (&octave, sizeof octave, key);
	return sized ? sized : 1; /* 0 means: no key */
}
