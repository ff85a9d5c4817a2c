#include "predict.h"

#include <math.h>
#include <string.h>

/* The most certain that was found so far, by the user's own runs or by those of others. */
struct finding {
	const struct sluice_application *entry; /* NULL: nothing */
	double confidence;
	uint32_t runs; /* behind the entry with most of them */
};

static const struct sluice_application *
entry_of (const struct sluice_bundle *bundle, uint64_t key)
{
	return key ? sluice_bundle_find (bundle, key) : NULL;
}

/*
 * The runs that are most like this one tell what it does: those with the very same
 * arguments, where these tell runs apart, and those of the very same size. If that is the
 * pattern of all runs, these tell how sure it is.
 */
static void
find_own (const struct sluice_bundle *bundle, const struct sluice_submission *submission,
	  uint32_t evidence, struct finding *out)
{
	uint64_t key = sluice_application_key (submission, evidence);
	uint64_t words
	    = sluice_application_key (submission, SLUICE_EVIDENCE_USER_ARGUMENTS);
	double size = sluice_submission_size (submission);
	const uint64_t alike[] = { sluice_application_size_key (words, size), words,
				   sluice_application_size_key (key, size) };
	const struct sluice_application *all = entry_of (bundle, key);

	memset (out, 0, sizeof *out);
	if (!all)
		return;
	out->entry = all;
	for (size_t i = sizeof alike / sizeof alike[0]; i-- > 0;) {
		const struct sluice_application *a = entry_of (bundle, alike[i]);
		out->entry = a ? a : out->entry;
	}
	out->runs = all->profile.runs;
	out->confidence = out->entry->profile.confidence;
	if (out->entry->profile.pattern == all->profile.pattern)
		out->confidence = fmax (out->confidence, all->profile.confidence);
}

static int
is_sure_enough (const struct finding *finding, const struct sluice_policy *policy)
{
	return finding->entry && finding->confidence >= policy->min_confidence;
}

/* The user's runs of the script, or of the name where these are more certain. */
static void
ask_own (const struct sluice_bundle *bundle, const struct sluice_submission *submission,
	 struct finding *own)
{
	struct finding by_name;
	find_own (bundle, submission, SLUICE_EVIDENCE_USER_SCRIPT, own);
	if (is_sure_enough (own, sluice_bundle_policy (bundle)))
		return;
	find_own (bundle, submission, SLUICE_EVIDENCE_USER_NAME, &by_name);
	uint32_t runs = own->runs > by_name.runs ? own->runs : by_name.runs;
	if (!own->entry || by_name.confidence > own->confidence)
		*own = by_name;
	own->runs = runs;
}

/* What was found, for the size and the arguments of this submission. */
static void
predict_by (const struct sluice_bundle *bundle, const struct finding *finding,
	    const struct sluice_submission *submission, int64_t now,
	    struct sluice_prediction *out)
{
	memset (out, 0, sizeof *out);
	sluice_profile_init (&out->profile);
	if (!finding->entry)
		return;
	out->evidence = finding->entry->evidence;
	out->application = finding->entry->id;
	sluice_application_profile (bundle, finding->entry, submission, now, &out->profile);
	out->profile.confidence = finding->confidence;
}

/* What others do makes a prediction of the user's own runs more certain as far as these
 * agree with it and with each other. */
static void
confirm (const struct finding *own, const struct sluice_application *others,
	 struct sluice_prediction *out)
{
	double confidence = others->profile.confidence * (double)own->entry->agreement;
	if (others->profile.pattern != out->profile.pattern
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
	struct finding own, others = { 0 };

	ask_own (bundle, submission, &own);
	predict_by (bundle, &own, submission, now, out);
	if (!is_sure_enough (&own, sluice_bundle_policy (bundle))
	    && own.runs < SLUICE_ENOUGH_RUNS) {
		others.entry = entry_of (
		    bundle, sluice_application_key (submission, SLUICE_EVIDENCE_NAME));
		if (others.entry)
			others.confidence = others.entry->profile.confidence;
		if (!own.entry)
			predict_by (bundle, &others, submission, now, out);
		else if (others.entry)
			confirm (&own, others.entry, out);
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
	       || prediction->evidence == SLUICE_EVIDENCE_USER_SIZE
	       || prediction->evidence == SLUICE_EVIDENCE_REVIEW;
}
