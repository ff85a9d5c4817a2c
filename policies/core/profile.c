#include "load.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define NAME(name, unit, text) #name,
#define UNIT(name, unit, text) unit,
#define TEXT(name, unit, text) text,

static const char *const names[] = { SLUICE_PROFILE_FIELDS (NAME) };
static const char *const units[] = { SLUICE_PROFILE_FIELDS (UNIT) };
static const char *const texts[] = { SLUICE_PROFILE_FIELDS (TEXT) };

#define OFFSET(name, unit, text) offsetof (struct sluice_profile, name),
static const size_t offsets[] = { SLUICE_PROFILE_FIELDS (OFFSET) };

const char *
sluice_profile_field_name (unsigned int i)
{
	return i < SLUICE_PROFILE_FIELD_COUNT ? names[i] : NULL;
}

const char *
sluice_profile_field_unit (unsigned int i)
{
	return i < SLUICE_PROFILE_FIELD_COUNT ? units[i] : NULL;
}

const char *
sluice_profile_field_text (unsigned int i)
{
	return i < SLUICE_PROFILE_FIELD_COUNT ? texts[i] : NULL;
}

double *
sluice_profile_field (struct sluice_profile *profile, unsigned int i)
{
	return i < SLUICE_PROFILE_FIELD_COUNT
		   ? (double *)(void *)((char *)profile + offsets[i])
		   : NULL;
}

void
sluice_profile_init (struct sluice_profile *profile)
{
	memset (profile, 0, sizeof *profile);
#define FORGET(name, unit, text) profile->name = SLUICE_UNKNOWN;
	SLUICE_PROFILE_FIELDS (FORGET)
#undef FORGET
	profile->share[SLUICE_PATTERN_UNKNOWN] = 1.0f;
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++)
		profile->spread[i] = (float)SLUICE_UNKNOWN;
}

const double sluice_profile_largest = 1e30;
const float sluice_widest_spread = 64.0f;
const float sluice_wide_spread = 0.4214f; /* ln 2 / z of 0.95 */

static int
check_field (const char *name, const char *unit, double value, struct sluice_error *err)
{
	/* both "0..1" and "0/1": the mean of flags is a share */
	int is_share = unit[0] == '0';
	if (value == SLUICE_UNKNOWN)
		return 0;
	if (!(value >= 0.0 && value <= (is_share ? 1.0 : sluice_profile_largest)))
		return sluice_fail (err, "profile field %s is %g, outside its range", name,
				    value);
	return 0;
}

static int
check_spreads (const struct sluice_profile *profile, struct sluice_error *err)
{
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++) {
		double spread = (double)profile->spread[i];
		if (spread != SLUICE_UNKNOWN
		    && !(spread >= 0.0 && spread <= sluice_widest_spread))
			return sluice_fail (err,
					    "profile field %s has spread %g, outside 0..%g",
					    names[i], spread, sluice_widest_spread);
	}
	return 0;
}

int
sluice_profile_check (const struct sluice_profile *profile, struct sluice_error *err)
{
#define CHECK(name, unit, text)                                                            \
	if (check_field (#name, unit, profile->name, err) < 0)                             \
		return -1;
	SLUICE_PROFILE_FIELDS (CHECK)
#undef CHECK
	if (!(profile->log_sd >= 0.0 && profile->log_sd <= sluice_profile_largest))
		return sluice_fail (err, "profile field log_sd is %g, not a deviation",
				    profile->log_sd);
	if (!(profile->confidence >= 0.0 && profile->confidence <= 1.0))
		return sluice_fail (err, "profile field confidence is %g, outside 0..1",
				    profile->confidence);
	if (profile->pattern >= SLUICE_PATTERN_COUNT)
		return sluice_fail (err, "profile field pattern is %u, which is none",
				    (unsigned int)profile->pattern);

	double sum = 0.0;
	for (int i = 0; i < SLUICE_PATTERN_COUNT; i++) {
		if (!(profile->share[i] >= 0.0f && profile->share[i] <= 1.0f))
			return sluice_fail (err, "profile share of %s is %g, outside 0..1",
					    sluice_pattern_name ((unsigned int)i),
					    (double)profile->share[i]);
		sum += (double)profile->share[i];
	}
	if (fabs (sum - 1.0) > 1e-3)
		return sluice_fail (err, "profile shares add up to %g, not 1", sum);
	return check_spreads (profile, err);
}

/* How long I/O takes alone, and what part of the run it is. */
static int
is_time (unsigned int field)
{
	const size_t io_share
	    = offsetof (struct sluice_profile, io_share) / sizeof (double);
	return field == io_share || units[field][0] == 's';
}

/* Whether the rate is less certain than the volume. */
static int
is_rate_least_certain (const struct sluice_profile *p)
{
	const size_t rate = offsetof (struct sluice_profile, rate) / sizeof (double);
	const size_t write
	    = offsetof (struct sluice_profile, write_bytes) / sizeof (double);
	const size_t read = offsetof (struct sluice_profile, read_bytes) / sizeof (double);
	return p->spread[rate] > p->spread[write] && p->spread[rate] > p->spread[read];
}

void
sluice_profile_shift (const struct sluice_profile *profile, double spreads,
		      struct sluice_profile *out)
{
	double of_times = is_rate_least_certain (profile) ? -spreads : spreads;

	*out = *profile;
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++) {
		double *value = sluice_profile_field (out, i);
		double most = units[i][0] == '0' ? 1.0 : sluice_profile_largest;
		double by = (is_time (i) ? of_times : spreads) * (double)profile->spread[i];
		if (*value > 0.0 && profile->spread[i] > 0.0f)
			*value = fmin (*value * exp (by), most);
	}
}

static double
cached_reads (const struct sluice_profile *p)
{
	return larger (0.0, p->read_bytes) * larger (0.0, p->read_cached_share);
}

double
sluice_profile_served_share (const struct sluice_profile *p)
{
	double bytes = larger (0.0, p->write_bytes) + larger (0.0, p->read_bytes);
	return bytes > 0.0 ? 1.0 - cached_reads (p) / bytes : 1.0;
}

double
sluice_profile_reading_share (const struct sluice_profile *p)
{
	double reads = p->read_bytes - cached_reads (p);
	double bytes = reads + p->write_bytes;
	if (is_known (p->read_bytes) && is_known (p->write_bytes) && bytes > 0.0)
		return reads / bytes;
	return p->pattern == SLUICE_PATTERN_READ ? 1.0
						 : (double)p->share[SLUICE_PATTERN_READ];
}

double
sluice_profile_streaming_share (const struct sluice_profile *p)
{
	double s = -1.0;
	if (is_known (p->chunk_bytes) && is_known (p->bytes_per_flush)
	    && p->bytes_per_flush > 0.0)
		s = clip (1.0 - p->chunk_bytes / p->bytes_per_flush);
	if (is_known (p->chunk_bytes) && is_known (p->unflushed_bytes)) {
		double outstanding = p->unflushed_bytes + p->chunk_bytes;
		s = fmax (s, outstanding > 0.0 ? p->unflushed_bytes / outstanding : 0.0);
	}
	if (s < 0.0) {
		double aw = (double)p->share[SLUICE_PATTERN_AW];
		double flushing = (double)p->share[SLUICE_PATTERN_OWC]
				  + (double)p->share[SLUICE_PATTERN_WS];
		s = aw > 0.0 ? aw / (aw + flushing) : 0.0;
	}
	s *= 1.0 - sluice_profile_reading_share (p);
	return is_known (p->direct_share) ? s * (1.0 - clip (p->direct_share)) : s;
}

double
sluice_profile_creating_share (const struct sluice_profile *p)
{
	double writes = 1.0 - sluice_profile_reading_share (p);
	if (is_known (p->creates_per_mib) && is_known (p->chunk_bytes))
		return writes * clip (p->creates_per_mib * p->chunk_bytes / 1048576.0);
	double owc = (double)p->share[SLUICE_PATTERN_OWC];
	return owc > 0.0 ? writes * (owc / (owc + (double)p->share[SLUICE_PATTERN_WS]))
			 : 0.0;
}
