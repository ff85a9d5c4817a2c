#include "bundle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "submission.h"

_Static_assert(SLUICE_PROFILE_FIELD_COUNT % 2 == 0,
	       "neither exponent nor argument_exponent needs to be padded");

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
	return (evidence > SLUICE_EVIDENCE_NONE && evidence <= SLUICE_EVIDENCE_SITE
		&& evidence != SLUICE_EVIDENCE_FOREST)
	       || evidence == SLUICE_EVIDENCE_USER_ARGUMENTS;
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

enum { PATTERN_FOREST, NUMBER_FOREST, FORESTS };

struct sluice_bundle {
	struct sluice_loaded loaded;
	const struct sluice_policy *policy;
	const struct sluice_interference *interference;
	const struct sluice_forest *forests;
	const uint32_t *roots;
	const struct sluice_node *nodes;
	const double *leaves;
	const struct sluice_application *applications;
	const uint32_t *index;
	const char *text;
	const struct sluice_review *reviews;
	uint64_t tree_count, node_count, leaf_count;
	uint64_t application_count, index_size, text_size, review_count;
	struct sluice_block *blocks; /* of all trees */
	struct sluice_tree trees[SLUICE_MAX_TREES];
};

static int
find_sections (struct sluice_bundle *b, struct sluice_error *err)
{
	uint64_t one, two;
#define FIND(member, ID, max, count)                                                       \
	(b->member = sluice_container_section (b->loaded.bytes, SLUICE_SECTION_##ID,       \
					       sizeof *b->member, max, count, err))
	if (!FIND (policy, POLICY, 1, &one) || one != 1
	    || !FIND (interference, INTERFERENCE, 1, &one) || one != 1)
		return sluice_fail (err,
				    "one policy and one interference model are needed");
	if (!FIND (forests, FOREST, FORESTS, &two) || two != FORESTS)
		return sluice_fail (err, "two forests are needed");
	if (!FIND (roots, TREE, SLUICE_MAX_TREES, &b->tree_count)
	    || !FIND (nodes, NODE, SLUICE_MAX_TREES * SLUICE_MAX_NODES, &b->node_count)
	    || !FIND (leaves, LEAF,
		      SLUICE_MAX_TREES * SLUICE_MAX_LEAVES * SLUICE_MAX_OUTPUTS,
		      &b->leaf_count)
	    || !FIND (applications, APPLICATION, SLUICE_MAX_APPLICATIONS,
		      &b->application_count)
	    || !FIND (index, APPLICATION_INDEX, 4 * SLUICE_MAX_APPLICATIONS, &b->index_size)
	    || !FIND (text, TEXT, SLUICE_MAX_TEXT, &b->text_size)
	    || !FIND (reviews, REVIEW, SLUICE_MAX_REVIEWS, &b->review_count))
		return -1;
#undef FIND
	return 0;
}

static unsigned int
profile_field_count (void)
{
	unsigned int n = 0;
	while (sluice_profile_field_name (n))
		n++;
	return n;
}

static int
check_forest (const struct sluice_bundle *b, unsigned int which, uint32_t first_tree,
	      struct sluice_error *err)
{
	const struct sluice_forest *f = &b->forests[which];
	unsigned int meanings = which == PATTERN_FOREST ? (unsigned int)SLUICE_PATTERN_COUNT
							: profile_field_count ();

	if (f->reserved != 0 || f->first_tree != first_tree
	    || f->tree_count > b->tree_count - first_tree)
		return sluice_fail (err, "forest %u has trees that are not there", which);
	if (f->outputs > SLUICE_MAX_OUTPUTS || (f->outputs == 0) != (f->tree_count == 0))
		return sluice_fail (err, "forest %u has %u trees with %u outputs", which,
				    (unsigned int)f->tree_count, (unsigned int)f->outputs);
	for (uint32_t i = 0; i < SLUICE_MAX_OUTPUTS; i++) {
		if (i >= f->outputs ? f->meaning[i] != 0 : f->meaning[i] >= meanings)
			return sluice_fail (err, "output %u of forest %u means nothing",
					    (unsigned int)i, which);
		for (uint32_t j = 0; j < i && i < f->outputs; j++)
			if (f->meaning[j] == f->meaning[i])
				return sluice_fail (err, "forest %u has output %u twice",
						    which, (unsigned int)f->meaning[i]);
	}
	return 0;
}

/* Probabilities that add up to no more than 1; or log2 (1 + value) of no more
 * than a 64-bit number. */
static int
check_leaves (const double *values, uint32_t leaves, uint32_t outputs, unsigned int which,
	      struct sluice_error *err)
{
	double most = which == PATTERN_FOREST ? 1.0 : 64.0;
	for (uint32_t leaf = 0; leaf < leaves; leaf++) {
		double sum = 0.0;
		for (uint32_t i = 0; i < outputs; i++, values++) {
			if (!(*values >= 0.0 && *values <= most))
				return sluice_fail (err, "leaf value %g is outside 0..%g",
						    *values, most);
			sum += *values;
		}
		if (which == PATTERN_FOREST && sum > 1.0 + 1e-6)
			return sluice_fail (err,
					    "the probabilities of leaf %u add up to %g",
					    (unsigned int)leaf, sum);
	}
	return 0;
}

static int
check_trees (struct sluice_bundle *b, struct sluice_error *err)
{
	struct sluice_error why;
	uint64_t node = 0, leaf = 0;

	for (uint32_t t = 0; t < b->tree_count; t++) {
		unsigned int which = t >= b->forests[NUMBER_FOREST].first_tree;
		uint64_t outputs = b->forests[which].outputs;
		uint64_t end = t + 1 < b->tree_count ? b->roots[t + 1] : b->node_count;
		if (b->roots[t] != node || end <= node || end > b->node_count
		    || end - node > SLUICE_MAX_NODES)
			return sluice_fail (err, "tree %u is out of place",
					    (unsigned int)t);
		int leaves
		    = sluice_tree_check (b->nodes + node, (uint32_t)(end - node), &why);
		if (leaves < 0)
			return sluice_fail (err, "tree %u: %.200s", (unsigned int)t,
					    why.text);
		uint64_t values = (uint64_t)leaves * outputs;
		if (values > b->leaf_count - leaf)
			return sluice_fail (err, "tree %u has too few leaf values",
					    (unsigned int)t);
		if (check_leaves (b->leaves + leaf, (uint32_t)leaves, (uint32_t)outputs,
				  which, &why)
		    < 0)
			return sluice_fail (err, "tree %u: %.200s", (unsigned int)t,
					    why.text);
		b->trees[t].leaves = b->leaves + leaf;
		node = end;
		leaf += values;
	}
	if (node != b->node_count || leaf != b->leaf_count)
		return sluice_fail (err, "nodes or leaf values belong to no tree");
	return 0;
}

static int
check_forests (struct sluice_bundle *b, struct sluice_error *err)
{
	const struct sluice_forest *f = b->forests;
	if (check_forest (b, PATTERN_FOREST, 0, err) < 0
	    || check_forest (b, NUMBER_FOREST, f[PATTERN_FOREST].tree_count, err) < 0)
		return -1;
	if (f[PATTERN_FOREST].tree_count + f[NUMBER_FOREST].tree_count != b->tree_count)
		return sluice_fail (err, "trees belong to no forest");
	return check_trees (b, err);
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

/* The last step of loading: nothing fails behind it. */
static int
lay_out_trees (struct sluice_bundle *b, struct sluice_error *err)
{
	struct sluice_block *next = sluice_blocks_allocate (b->tree_count, b->node_count);
	b->blocks = next;
	if (!next)
		return sluice_fail (err, "no memory");
	for (uint32_t t = 0; t < b->tree_count; t++) {
		b->trees[t].blocks = next;
		next = sluice_tree_lay_out (b->nodes + b->roots[t], next);
	}
	return 0;
}

static int
check_content (void *object, struct sluice_error *err)
{
	struct sluice_bundle *b = object;
	if (b->loaded.header->feature_hash != sluice_feature_hash ())
		return sluice_fail (err, "made for another list of features; run "
					 "`sluice model publish` of this version");
	if (find_sections (b, err) < 0)
		return -1;
	if (sluice_policy_check (b->policy, err) < 0
	    || sluice_interference_check (b->interference, err) < 0)
		return -1;
	if (check_forests (b, err) < 0 || check_index (b, err) < 0)
		return -1;
	for (uint32_t i = 0; i < b->application_count; i++)
		if (check_application (b, i, err) < 0)
			return -1;
	for (uint32_t i = 0; i < b->review_count; i++)
		if (check_review (b, i, err) < 0)
			return -1;
	if (!is_text (b->text, b->text_size))
		return sluice_fail (err, "the text is not UTF-8");
	return lay_out_trees (b, err);
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
	if (bundle)
		sluice_blocks_free (bundle->blocks);
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

uint32_t
sluice_bundle_tree_count (const struct sluice_bundle *bundle)
{
	return (uint32_t)bundle->tree_count;
}

uint32_t
sluice_bundle_node_count (const struct sluice_bundle *bundle)
{
	return (uint32_t)bundle->node_count;
}

const struct sluice_forest *
sluice_bundle_forest (const struct sluice_bundle *bundle, uint32_t forest)
{
	return forest < FORESTS ? &bundle->forests[forest] : NULL;
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

uint32_t
sluice_forest_evaluate (const struct sluice_bundle *bundle, uint32_t forest,
			const float *features, double *out)
{
	const struct sluice_forest *f = sluice_bundle_forest (bundle, forest);
	if (!f || f->tree_count == 0)
		return 0;
	sluice_trees_mean (&bundle->trees[f->first_tree], f->tree_count, f->outputs,
			   features, out);
	return f->outputs;
}
