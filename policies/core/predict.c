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

/* The more certain of the two, what came first where they are equal. */
static void
prefer (const struct sluice_prediction *candidate, struct sluice_prediction *out)
{
	if (out->evidence == SLUICE_EVIDENCE_NONE
	    || candidate->profile.confidence > out->profile.confidence)
		*out = *candidate;
}

/* Returns the runs behind the entry of a key; 0: there is none. */
static uint32_t
prefer_entry (const struct sluice_bundle *bundle, uint64_t key, double size,
	      struct sluice_prediction *out)
{
	const struct sluice_application *a = key ? sluice_bundle_find (bundle, key) : NULL;
	struct sluice_prediction candidate;
	if (!a)
		return 0;
	memset (&candidate, 0, sizeof candidate);
	candidate.evidence = a->evidence;
	candidate.application = a->id;
	sluice_application_profile (a, size, &candidate.profile);
	prefer (&candidate, out);
	return a->profile.runs;
}

static void
prefer_forest (const struct sluice_bundle *bundle,
	       const struct sluice_submission *submission, struct sluice_prediction *out)
{
	struct sluice_prediction candidate;
	memset (&candidate, 0, sizeof candidate);
	candidate.evidence = SLUICE_EVIDENCE_FOREST;
	if (profile_by_forest (bundle, submission, &candidate.profile))
		prefer (&candidate, out);
}

static int
is_sure_enough (const struct sluice_prediction *prediction,
		const struct sluice_policy *policy)
{
	return prediction->evidence != SLUICE_EVIDENCE_NONE
	       && prediction->profile.confidence >= policy->min_confidence;
}

void
sluice_predict (const struct sluice_bundle *bundle,
		const struct sluice_submission *submission, struct sluice_prediction *out)
{
	static const uint32_t from_specific_to_general[] = {
		SLUICE_EVIDENCE_USER_SCRIPT, SLUICE_EVIDENCE_USER_NAME,
		SLUICE_EVIDENCE_NAME,	     SLUICE_EVIDENCE_FOREST,
		SLUICE_EVIDENCE_ACCOUNT,     SLUICE_EVIDENCE_SITE,
	};
	enum {
		OTHERS = 2, /* from here on runs of other users or applications */
		KINDS = sizeof from_specific_to_general / sizeof from_specific_to_general[0]
	};
	const struct sluice_policy *policy = sluice_bundle_policy (bundle);
	double size = sluice_submission_size (submission);

	memset (out, 0, sizeof *out);
	sluice_profile_init (&out->profile);
	uint32_t own_runs = 0;
	for (unsigned int i = 0; i < KINDS; i++) {
		uint32_t evidence = from_specific_to_general[i];
		if (i == OTHERS && own_runs >= SLUICE_ENOUGH_RUNS)
			break;
		uint64_t key = sluice_application_key (submission, evidence);
		uint64_t sized = sluice_application_size_key (key, size);
		if (evidence == SLUICE_EVIDENCE_FOREST)
			prefer_forest (bundle, submission, out);
		prefer_entry (bundle, sized, size, out);
		if (is_sure_enough (out, policy))
			break;
		uint32_t runs = prefer_entry (bundle, key, size, out);
		own_runs = runs > own_runs ? runs : own_runs;
		if (is_sure_enough (out, policy))
			break;
	}
	out->klass = sluice_class_of (&out->profile, policy);
}

void
sluice_predict_by_hints (const struct sluice_policy *policy,
			 const struct sluice_hints *hints,
			 struct sluice_prediction *prediction)
{
	if (prediction->evidence != SLUICE_EVIDENCE_USER_SCRIPT
	    && prediction->evidence != SLUICE_EVIDENCE_USER_NAME)
		return;
	prediction->hinted = sluice_hints_apply (hints, &prediction->profile);
	prediction->klass = sluice_class_of (&prediction->profile, policy);
}
