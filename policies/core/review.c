#include "review.h"

#include <string.h>

static int
is_empty (const struct sluice_identity *i)
{
	return !(i->user | i->script | i->name | i->account | i->partition);
}

static int
is_pair (uint32_t ruling)
{
	return ruling == SLUICE_RULING_APART || ruling == SLUICE_RULING_TOGETHER;
}

int
sluice_review_check (const struct sluice_review *review, struct sluice_error *err)
{
	if (review->ruling == SLUICE_RULING_NONE || review->ruling >= SLUICE_RULING_COUNT)
		return sluice_fail (err, "ruling %u is not known",
				    (unsigned)review->ruling);
	if (is_empty (&review->of))
		return sluice_fail (err, "it is about every job");
	if (is_pair (review->ruling) == is_empty (&review->with))
		return sluice_fail (err, "a pair has two sides, anything else one");
	if (review->ruling == SLUICE_RULING_TREAT
		? review->pattern >= SLUICE_PATTERN_COUNT
		      || review->pattern == SLUICE_PATTERN_UNKNOWN
		: review->pattern != 0)
		return sluice_fail (err, "pattern %u makes no sense",
				    (unsigned)review->pattern);
	if (review->until < 0)
		return sluice_fail (err, "it ends before 1970");
	return 0;
}

static uint64_t
hash_of (const char *text)
{
	uint64_t hash = text[0] ? sluice_hash_text (text, 0) : 0;
	return text[0] && hash == 0 ? 1 : hash;
}

void
sluice_identity_of (const struct sluice_submission *submission, struct sluice_identity *out)
{
	char stem[SLUICE_NAME_SIZE];

	sluice_name_stem (submission->name, stem);
	out->user = (uint64_t)submission->uid + 1;
	out->script = submission->script_signature;
	out->name = hash_of (stem);
	out->account = hash_of (submission->account);
	out->partition
	    = strchr (submission->partition, ',') ? 0 : hash_of (submission->partition);
}

static int
agrees (uint64_t asked, uint64_t is)
{
	return asked == 0 || asked == is;
}

int
sluice_identity_matches (const struct sluice_identity *selector,
			 const struct sluice_identity *identity)
{
	return agrees (selector->user, identity->user)
	       && agrees (selector->script, identity->script)
	       && agrees (selector->name, identity->name)
	       && agrees (selector->account, identity->account)
	       && agrees (selector->partition, identity->partition);
}

static int
is_in_force (const struct sluice_review *review, int64_t now)
{
	return review->until == 0 || now < review->until;
}

int
sluice_review_is_about (const struct sluice_review *review,
			const struct sluice_identity *identity, int64_t now)
{
	return is_in_force (review, now)
	       && (sluice_identity_matches (&review->of, identity)
		   || (is_pair (review->ruling)
		       && sluice_identity_matches (&review->with, identity)));
}

const struct sluice_review *
sluice_review_find (const struct sluice_review *reviews, uint32_t n, uint32_t rulings,
		    const struct sluice_identity *identity, int64_t now)
{
	for (uint32_t i = 0; i < n; i++)
		if (rulings >> reviews[i].ruling & 1
		    && sluice_review_is_about (&reviews[i], identity, now))
			return &reviews[i];
	return NULL;
}

uint32_t
sluice_review_pairings (const struct sluice_review *reviews, uint32_t n,
			const struct sluice_identity *identity, int64_t now,
			struct sluice_pairing out[SLUICE_MAX_PAIRINGS])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct sluice_review *r = &reviews[i];
		const struct sluice_identity *sides[] = { &r->of, &r->with };
		if (!is_pair (r->ruling) || !is_in_force (r, now))
			continue;
		for (int side = 0; side < 2 && count < SLUICE_MAX_PAIRINGS; side++)
			if (sluice_identity_matches (sides[side], identity))
				out[count++] = (struct sluice_pairing){
					.ruling = r->ruling,
					.other = sides[1 - side],
				};
	}
	return count;
}
