#include "predict.h"

#include <math.h>
#include <string.h>

#include "interference.h"

/* The forest says nothing of its own spread; a factor of two in the weight is
 * what jobs that merely resemble each other differ by. */
static const double forest_log_sd = 0.6931471805599453; /* ln 2 */

/* Set field number `field` from its logarithm, within the field's range. */
static void
set_number (struct sluice_profile *profile, uint32_t field, double log2_value)
{
	const char *unit = sluice_profile_field_unit (field);
	double value = exp2 (log2_value) - 1.0;
	if (unit[0] == '0' && value > 1.0)
		value = 1.0;
	if (unit[0] == '0' && unit[1] == '/') /* "0/1" */
		value = value >= 0.5 ? 1.0 : 0.0;
	*sluice_profile_field (profile, field) = value;
}

/* Profile by the forests; 0 when the bundle has none for patterns. */
static int
profile_by_forest (const struct sluice_bundle *bundle,
		   const struct sluice_submission *submission, struct sluice_profile *out)
{
	float features[SLUICE_MAX_FEATURES];
	double values[SLUICE_MAX_OUTPUTS];
	const struct sluice_forest *patterns = sluice_bundle_forest (bundle, 0);
	const struct sluice_forest *numbers = sluice_bundle_forest (bundle, 1);
	if (patterns->tree_count == 0)
		return 0;
	sluice_submission_features (submission, features);
	sluice_profile_init (out);

	/* A calibrated forest leaves a part of the shares to what it cannot know. */
	uint32_t n = sluice_forest_evaluate (bundle, 0, features, values);
	double unknown = 1.0;
	out->share[SLUICE_PATTERN_UNKNOWN] = 0.0f;
	for (uint32_t i = 0; i < n; i++) {
		unknown -= values[i];
		out->share[patterns->meaning[i]] = (float)values[i];
		if (values[i] > out->confidence) {
			out->confidence = values[i];
			out->pattern = patterns->meaning[i];
		}
	}
	out->share[SLUICE_PATTERN_UNKNOWN] += (float)fmax (0.0, unknown);
	n = sluice_forest_evaluate (bundle, 1, features, values);
	for (uint32_t i = 0; i < n; i++)
		set_number (out, numbers->meaning[i], values[i]);
	out->log_sd = forest_log_sd;
	return 1;
}

/* The most certain that was found so far, by the user's own runs or by those of others. */
struct finding {
	uint32_t evidence;			/* NONE: nothing */
	const struct sluice_application *entry; /* NULL: the forest's */
	const struct sluice_profile *profile;	/* of the entry, for its own size */
	double confidence;
	double agreement; /* of the entry */
	uint32_t runs;	  /* behind the entry with most of them */
};

static void
take (const struct sluice_application *entry, const struct sluice_profile *profile,
      struct finding *finding)
{
	finding->evidence = entry ? entry->evidence : SLUICE_EVIDENCE_FOREST;
	finding->entry = entry;
	finding->profile = profile;
	finding->confidence = profile->confidence;
	finding->agreement = entry ? (double)entry->agreement : 0.0;
}

/* The more certain of the two, what came first where they are equal. */
static void
prefer (const struct sluice_application *entry, const struct sluice_profile *profile,
	struct finding *finding)
{
	if (finding->evidence == SLUICE_EVIDENCE_NONE
	    || profile->confidence > finding->confidence)
		take (entry, profile, finding);
}

static void
prefer_entry (const struct sluice_bundle *bundle, uint64_t key, struct finding *finding)
{
	const struct sluice_application *a = key ? sluice_bundle_find (bundle, key) : NULL;
	if (!a)
		return;
	prefer (a, &a->profile, finding);
	if (a->profile.runs > finding->runs)
		finding->runs = a->profile.runs;
}

static int
is_sure_enough (const struct finding *finding, const struct sluice_policy *policy)
{
	return finding->evidence != SLUICE_EVIDENCE_NONE
	       && finding->confidence >= policy->min_confidence;
}

/* Ask kinds of evidence in turn, each for this size first, until one is sure enough.
 * by_forest: where the forest's profile is to be kept. */
static void
ask (const struct sluice_bundle *bundle, const struct sluice_submission *submission,
     const uint32_t *kinds, unsigned int count, struct sluice_profile *by_forest,
     struct finding *finding)
{
	const struct sluice_policy *policy = sluice_bundle_policy (bundle);
	double size = sluice_submission_size (submission);

	memset (finding, 0, sizeof *finding);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t key = sluice_application_key (submission, kinds[i]);
		if (kinds[i] == SLUICE_EVIDENCE_FOREST
		    && profile_by_forest (bundle, submission, by_forest))
			prefer (NULL, by_forest, finding);
		prefer_entry (bundle, sluice_application_size_key (key, size), finding);
		if (is_sure_enough (finding, policy))
			return;
		prefer_entry (bundle, key, finding);
		if (is_sure_enough (finding, policy))
			return;
	}
}

/*
 * Where runs with the very same arguments do other things than those with others, they
 * tell what is done. If that is the pattern of all runs, these tell how sure it is.
 */
static void
ask_for_arguments (const struct sluice_bundle *bundle,
		   const struct sluice_submission *submission, struct finding *own)
{
	uint64_t key = sluice_application_key (submission, SLUICE_EVIDENCE_USER_ARGUMENTS);
	const struct sluice_application *a = key ? sluice_bundle_find (bundle, key) : NULL;
	if (!a || own->evidence == SLUICE_EVIDENCE_NONE)
		return;
	double of_all = a->profile.pattern == own->profile->pattern ? own->confidence : 0.0;
	take (a, &a->profile, own);
	own->confidence = fmax (own->confidence, of_all);
}

/* What was found, for the size and the arguments of this submission. */
static void
predict_by (const struct finding *finding, const struct sluice_submission *submission,
	    struct sluice_prediction *out)
{
	memset (out, 0, sizeof *out);
	out->evidence = finding->evidence;
	if (finding->entry) {
		out->application = finding->entry->id;
		sluice_application_profile (finding->entry, submission, &out->profile);
		out->profile.confidence = finding->confidence;
	} else if (finding->profile)
		out->profile = *finding->profile;
	else
		sluice_profile_init (&out->profile);
}

/* What others do makes a prediction of the user's own runs more certain as far as these
 * agree with it and with each other. */
static void
confirm (const struct finding *own, const struct finding *others,
	 struct sluice_prediction *out)
{
	double confidence = others->confidence * own->agreement;
	if (others->evidence == SLUICE_EVIDENCE_NONE
	    || others->profile->pattern != out->profile.pattern
	    || confidence <= out->profile.confidence)
		return;
	out->profile.confidence = confidence;
	out->evidence = SLUICE_EVIDENCE_CONFIRMED;
}

/* Numbers that say how a job writes would contradict the pattern that a review names;
 * without them the pattern decides. What it moves, and how long that takes, stays. */
static void
treat_as (const struct sluice_review *review, struct sluice_prediction *out)
{
	struct sluice_profile *p = &out->profile;

	p->pattern = review->pattern;
	memset (p->share, 0, sizeof p->share);
	p->share[p->pattern] = 1.0f;
	p->confidence = 1.0;
	p->bytes_per_flush = p->creates_per_mib = SLUICE_UNKNOWN;
	p->unflushed_bytes = p->direct_share = SLUICE_UNKNOWN;
	out->evidence = SLUICE_EVIDENCE_REVIEW;
	out->application = review->number;
}

/* Any user can write logs of their own jobs. What no counter bears out is told, and counts
 * neither for nor against any entry. */
static void
doubt (const struct finding *own, struct sluice_prediction *out)
{
	if (own->entry && !own->entry->is_confirmed)
		out->evidence = SLUICE_EVIDENCE_UNCONFIRMED;
}

static void
obey_review (const struct sluice_bundle *bundle, const struct sluice_submission *submission,
	     int64_t now, struct sluice_prediction *out)
{
	const uint32_t rulings = 1u << SLUICE_RULING_TREAT | 1u << SLUICE_RULING_IGNORE;
	const struct sluice_review *review
	    = sluice_bundle_review_of (bundle, rulings, submission, now);
	if (!review)
		return;
	if (review->ruling == SLUICE_RULING_TREAT)
		treat_as (review, out);
	else
		out->evidence = SLUICE_EVIDENCE_IGNORED;
}

void
sluice_predict (const struct sluice_bundle *bundle,
		const struct sluice_submission *submission, int64_t now,
		struct sluice_prediction *out)
{
	static const uint32_t of_user[]
	    = { SLUICE_EVIDENCE_USER_SCRIPT, SLUICE_EVIDENCE_USER_NAME };
	static const uint32_t of_others[]
	    = { SLUICE_EVIDENCE_NAME, SLUICE_EVIDENCE_FOREST, SLUICE_EVIDENCE_ACCOUNT,
		SLUICE_EVIDENCE_SITE };
	struct sluice_profile by_forest;
	struct finding own, others;

	ask (bundle, submission, of_user, 2, NULL, &own);
	ask_for_arguments (bundle, submission, &own);
	predict_by (&own, submission, out);
	if (!is_sure_enough (&own, sluice_bundle_policy (bundle))
	    && own.runs < SLUICE_ENOUGH_RUNS) {
		ask (bundle, submission, of_others, 4, &by_forest, &others);
		if (own.evidence == SLUICE_EVIDENCE_NONE)
			predict_by (&others, submission, out);
		else
			confirm (&own, &others, out);
	}
	doubt (&own, out);
	obey_review (bundle, submission, now, out);
	if (sluice_prediction_counts (out))
		out->klass = sluice_class_of (&out->profile, sluice_bundle_policy (bundle));
}

int
sluice_prediction_counts (const struct sluice_prediction *prediction)
{
	return prediction->evidence == SLUICE_EVIDENCE_USER_SCRIPT
	       || prediction->evidence == SLUICE_EVIDENCE_USER_NAME
	       || prediction->evidence == SLUICE_EVIDENCE_CONFIRMED
	       || prediction->evidence == SLUICE_EVIDENCE_USER_ARGUMENTS
	       || prediction->evidence == SLUICE_EVIDENCE_REVIEW;
}

void
sluice_predict_by_hints (const struct sluice_policy *policy,
			 const struct sluice_hints *hints,
			 struct sluice_prediction *prediction)
{
	if (!sluice_prediction_counts (prediction))
		return;
	prediction->hinted = sluice_hints_apply (hints, &prediction->profile);
	prediction->klass = sluice_class_of (&prediction->profile, policy);
}
