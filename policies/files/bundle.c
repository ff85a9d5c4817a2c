#include "bundle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "submission.h"
#include "submit_text.h"

_Static_assert(SLUICE_PROFILE_FIELD_COUNT % 2 == 0,
	       "neither exponent nor argument_exponent needs to be padded");

static const double octaves_beyond = 2.0; /* a factor: one octave */
static const double steepest = 4.0;	  /* no quantity grows faster than size^4 */

struct sluice_bundle {
	struct sluice_loaded loaded;
	const struct sluice_policy *policy;
	const struct sluice_interference *interference;
	const struct sluice_application *applications;
	const uint32_t *index;
	const char *text;
	const struct sluice_review *reviews;
	const struct sluice_ageing *ageing;
	uint64_t application_count, index_size, text_size, review_count;
};

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
	return (evidence > SLUICE_EVIDENCE_NONE && evidence <= SLUICE_EVIDENCE_NAME)
	       || evidence == SLUICE_EVIDENCE_USER_ARGUMENTS
	       || evidence == SLUICE_EVIDENCE_USER_SIZE;
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

/* 0 if every number is in its range; else -1 and what is not. */
static int
check_numbers (const struct sluice_application *a, struct sluice_error *err)
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
	if (a->newest < 0)
		return sluice_fail (err, "ended before 1970");
	if (a->is_confirmed > 1)
		return sluice_fail (err, "is confirmed %u times",
				    (unsigned int)a->is_confirmed);
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

const int64_t sluice_ages[SLUICE_AGES - 1]
    = { 600, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400, 28 * 86400 };

/* Widen spreads by how long the newest run is past. */
static void
age (struct sluice_profile *profile, const struct sluice_ageing *ageing, int64_t seconds)
{
	unsigned int i = 0;
	while (i < SLUICE_AGES - 1 && seconds > sluice_ages[i])
		i++;
	for (unsigned int k = 0; k < SLUICE_PROFILE_FIELD_COUNT; k++)
		if (profile->spread[k] > 0.0f)
			profile->spread[k]
			    = fminf (profile->spread[k] * ageing->widening[i][k],
				     sluice_widest_spread);
}

void
sluice_application_profile (const struct sluice_bundle *bundle,
			    const struct sluice_application *a,
			    const struct sluice_submission *submission, int64_t now,
			    struct sluice_profile *out)
{
	*out = a->profile;
	if (now > 0 && a->newest > 0)
		age (out, bundle->ageing, now - a->newest);
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
	uint64_t sized = sluice_hash_bytes (&size, sizeof size, key);
	return sized ? sized : 1; /* 0 means: no key */
}

static int
find_sections (struct sluice_bundle *b, struct sluice_error *err)
{
	uint64_t one;
#define FIND(member, ID, max, count)                                                       \
	(b->member = sluice_container_section (b->loaded.bytes, SLUICE_SECTION_##ID,       \
					       sizeof *b->member, max, count, err))
	if (!FIND (policy, POLICY, 1, &one) || one != 1
	    || !FIND (interference, INTERFERENCE, 1, &one) || one != 1)
		return sluice_fail (err,
				    "one policy and one interference model are needed");
	if (!FIND (ageing, AGEING, 1, &one) || one != 1)
		return sluice_fail (err, "it is not told how evidence ages");
	if (!FIND (applications, APPLICATION, SLUICE_MAX_APPLICATIONS,
		   &b->application_count)
	    || !FIND (index, APPLICATION_INDEX, 4 * SLUICE_MAX_APPLICATIONS, &b->index_size)
	    || !FIND (text, TEXT, SLUICE_MAX_TEXT, &b->text_size)
	    || !FIND (reviews, REVIEW, SLUICE_MAX_REVIEWS, &b->review_count))
		return -1;
#undef FIND
	return 0;
}

static int
check_index (const struct sluice_bundle *b, struct sluice_error *err)
{
	uint64_t size = b->index_size, used = 0;
	if (size == 0 || (size & (size - 1)) != 0 || size / 2 < b->application_count)
		return sluice_fail (err, "an index of %llu slots for %llu applications",
				    (unsigned long long)size,
				    (unsigned long long)b->application_count);
	for (uint64_t i = 0; i < size; i++) {
		if (b->index[i] > b->application_count)
			return sluice_fail (err, "index slot %llu points nowhere",
					    (unsigned long long)i);
		used += b->index[i] != 0;
	}
	/* Half the slots are free, so that every probe ends. */
	if (used != b->application_count)
		return sluice_fail (err, "%llu index slots are used for %llu applications",
				    (unsigned long long)used,
				    (unsigned long long)b->application_count);
	return 0;
}

static int
check_application (const struct sluice_bundle *b, uint32_t i, struct sluice_error *err)
{
	const struct sluice_application *a = &b->applications[i];
	struct sluice_error why;

	if (a->key == 0 || sluice_bundle_find (b, a->key) != a)
		return sluice_fail (err, "application %u is not found by its key",
				    (unsigned int)i);
	if (check_numbers (a, &why) < 0)
		return sluice_fail (err, "application %u: %.200s", (unsigned int)i,
				    why.text);
	return 0;
}

static int
check_review (const struct sluice_bundle *b, uint32_t i, struct sluice_error *err)
{
	struct sluice_error why;
	if (sluice_review_check (&b->reviews[i], &why) < 0)
		return sluice_fail (err, "review %u: %.200s",
				    (unsigned int)b->reviews[i].number, why.text);
	return 0;
}

static int
check_ageing (const struct sluice_ageing *ageing, struct sluice_error *err)
{
	for (unsigned int i = 0; i < SLUICE_AGES; i++)
		for (unsigned int k = 0; k < SLUICE_PROFILE_FIELD_COUNT; k++) {
			float by = ageing->widening[i][k];
			if (!(by > 0.0f && by <= sluice_widest_spread))
				return sluice_fail (err, "evidence ages by a factor of %g",
						    (double)by);
		}
	return 0;
}

/* Well-formed UTF-8 (RFC 3629) without NUL. */
static int
is_text (const char *text, uint64_t size)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + size;
	while (p < end) {
		static const uint32_t least[] = { 1, 0x80, 0x800, 0x10000 };
		int more = *p < 0x80   ? 0
			   : *p < 0xc0 ? -1
			   : *p < 0xe0 ? 1
			   : *p < 0xf0 ? 2
				       : 3;
		if (more < 0 || *p > 0xf4 || end - p <= more)
			return 0;
		uint32_t c = more ? *p & (0x3fu >> more) : *p;
		for (int i = 1; i <= more; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (p[i] & 0x3f);
		}
		if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return 0;
		p += more + 1;
	}
	return 1;
}

static int
check_content (void *object, struct sluice_error *err)
{
	struct sluice_bundle *b = object;
	if (find_sections (b, err) < 0)
		return -1;
	if (sluice_policy_check (b->policy, err) < 0
	    || sluice_interference_check (b->interference, err) < 0)
		return -1;
	if (check_ageing (b->ageing, err) < 0 || check_index (b, err) < 0)
		return -1;
	for (uint32_t i = 0; i < b->application_count; i++)
		if (check_application (b, i, err) < 0)
			return -1;
	for (uint32_t i = 0; i < b->review_count; i++)
		if (check_review (b, i, err) < 0)
			return -1;
	if (!is_text (b->text, b->text_size))
		return sluice_fail (err, "the text is not UTF-8");
	return 0;
}

static const struct sluice_loadable type = {
	.kind = SLUICE_KIND_BUNDLE,
	.version = SLUICE_BUNDLE_VERSION,
	.max_bytes = SLUICE_MAX_BUNDLE_BYTES,
	.object_size = sizeof (struct sluice_bundle),
	.check = check_content,
};

int
sluice_bundle_parse (const void *bytes, size_t size, struct sluice_bundle **out,
		     struct sluice_error *err)
{
	void *object;
	if (sluice_container_parse (&type, bytes, size, &object, err) < 0)
		return -1;
	*out = object;
	return 0;
}

int
sluice_bundle_load (const char *path, uint32_t owner_uid, struct sluice_bundle **out,
		    struct sluice_error *err)
{
	void *object;
	if (sluice_container_load (&type, path, owner_uid, &object, err) < 0)
		return -1;
	*out = object;
	return 0;
}

void
sluice_bundle_destroy (struct sluice_bundle *bundle)
{
	sluice_container_destroy (bundle);
}

uint64_t
sluice_bundle_checksum (const struct sluice_bundle *bundle)
{
	return bundle->loaded.header->checksum;
}

int64_t
sluice_bundle_created (const struct sluice_bundle *bundle)
{
	return bundle->loaded.header->created;
}

const struct sluice_policy *
sluice_bundle_policy (const struct sluice_bundle *bundle)
{
	return bundle->policy;
}

const struct sluice_interference *
sluice_bundle_interference (const struct sluice_bundle *bundle)
{
	return bundle->interference;
}

uint32_t
sluice_bundle_application_count (const struct sluice_bundle *bundle)
{
	return (uint32_t)bundle->application_count;
}

const struct sluice_application *
sluice_bundle_application (const struct sluice_bundle *bundle, uint32_t i)
{
	return i < bundle->application_count ? &bundle->applications[i] : NULL;
}

const struct sluice_application *
sluice_bundle_find (const struct sluice_bundle *bundle, uint64_t key)
{
	uint64_t mask = bundle->index_size - 1;
	for (uint64_t i = key & mask; bundle->index[i] != 0; i = (i + 1) & mask) {
		const struct sluice_application *a
		    = &bundle->applications[bundle->index[i] - 1];
		if (a->key == key)
			return a;
	}
	return NULL;
}

const char *
sluice_bundle_text (const struct sluice_bundle *bundle, size_t *size)
{
	*size = bundle->text_size;
	return bundle->text;
}

const struct sluice_review *
sluice_bundle_reviews (const struct sluice_bundle *bundle, uint32_t *count)
{
	*count = (uint32_t)bundle->review_count;
	return bundle->reviews;
}

const struct sluice_review *
sluice_bundle_review_of (const struct sluice_bundle *bundle, uint32_t rulings,
			 const struct sluice_submission *submission, int64_t now)
{
	struct sluice_identity identity;
	if (bundle->review_count == 0)
		return NULL;
	sluice_identity_of (submission, &identity);
	return sluice_review_find (bundle->reviews, (uint32_t)bundle->review_count, rulings,
				   &identity, now);
}
