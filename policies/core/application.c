#include "application.h"

#include <math.h>

_Static_assert(SLUICE_PROFILE_FIELD_COUNT % 2 == 1, "agreement pads exponent");

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

int
sluice_application_check (const struct sluice_application *a, struct sluice_error *err)
{
	if (a->evidence == SLUICE_EVIDENCE_NONE || a->evidence == SLUICE_EVIDENCE_FOREST
	    || a->evidence >= SLUICE_EVIDENCE_CONFIRMED)
		return sluice_fail (err, "has evidence %u", (unsigned int)a->evidence);
	if (!is_size (a->size) || !is_size (a->smallest) || !is_size (a->largest)
	    || a->smallest > a->size || a->size > a->largest
	    || (a->size == 0.0) != (a->largest == 0.0)
	    || (a->size > 0.0 && a->smallest < 1.0))
		return sluice_fail (err, "is for sizes %g to %g, but its size is %g",
				    a->smallest, a->largest, a->size);
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++) {
		double exponent = a->exponent[i];
		if (!(fabs (exponent) <= (may_scale (i) ? steepest : 0.0)))
			return sluice_fail (err, "lets %s follow the size with exponent %g",
					    sluice_profile_field_name (i), exponent);
	}
	if (!(a->agreement >= 0.0f && a->agreement <= 1.0f))
		return sluice_fail (err, "is borne out by %g of its runs",
				    (double)a->agreement);
	return sluice_profile_check (&a->profile, err);
}

void
sluice_application_profile (const struct sluice_application *a, double size,
			    struct sluice_profile *out)
{
	*out = a->profile;
	if (size <= 0.0 || a->size <= 0.0)
		return;
	size
	    = fmax (a->smallest / octaves_beyond, fmin (a->largest * octaves_beyond, size));
	double octaves = log2 (size / a->size);
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++) {
		double *value = sluice_profile_field (out, i);
		if (a->exponent[i] != 0.0f && *value > 0.0)
			*value = fmin (*value * exp2 (octaves * a->exponent[i]),
				       sluice_profile_largest);
	}
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
