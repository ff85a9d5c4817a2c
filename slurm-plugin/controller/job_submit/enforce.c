#include "enforce.h"

#include <string.h>

#include "adapter.h"
#include "turns_variable.h"

/* Reasons that say why nothing was decided. */
static int
is_decided (uint32_t reason)
{
	switch (reason) {
	case SLUICE_REASON_NONE:
	case SLUICE_REASON_NO_BUNDLE:
	case SLUICE_REASON_NO_SNAPSHOT:
	case SLUICE_REASON_STALE_SNAPSHOT:
	case SLUICE_REASON_SWITCHED_OFF:
	case SLUICE_REASON_EXEMPT_LICENSES:
	case SLUICE_REASON_HET_COMPONENT:
		return 0;
	default:
		return !sluice_is_left_alone (reason);
	}
}

/* spank_sluice.so reads it: that a job takes turns which it did not ask for, or takes none
 * whatever its steps ask for. NULL: what they ask for goes. */
static const char *
turns_mark (const struct view *view, const struct sluice_record *record)
{
	uint32_t in_turns = record->grant.in_turns;
	if (view->config.turns_port == 0)
		return NULL;
	if (in_turns == SLUICE_IN_TURNS_EXEMPT
	    || (in_turns == SLUICE_IN_TURNS_NONE
		&& record->submission.flags & SLUICE_SUBMIT_IO_TURNS))
		return "no";
	return sluice_takes_turns (in_turns) && in_turns != SLUICE_IN_TURNS_ASKED ? "yes"
										  : NULL;
}

void
enforce_tell_nodes (const struct view *view, job_desc_msg_t *job,
		    const struct sluice_record *record)
{
	const char *turns = turns_mark (view, record);
	if (turns)
		adapter_set_variable (job, SLUICE_TURNS_DECIDED, turns);
}

int
note_is_wanted (const struct view *view, const job_desc_msg_t *job,
		const struct sluice_record *record)
{
	if (!view->config.admin_comment || (job->admin_comment && job->admin_comment[0]))
		return 0;
	if (turns_mark (view, record))
		return 1;
	return record->mode >= SLUICE_MODE_ADVISE && is_decided (record->decision.reason)
	       && view->bundle && view->snapshot
	       && sluice_snapshot_is_fresh (
		   view->snapshot, sluice_bundle_policy (view->bundle), record->now);
}

/* Hundredths of a value in 0..999, as whole numbers: printf's floating point
 * may allocate and follows the locale. NaN becomes 0. */
static unsigned int
hundredths (double value)
{
	if (!(value > 0))
		return 0;
	return value < 999 ? (unsigned int)(value * 100 + 0.5) : 99900;
}

static double
own_slowdown (const struct sluice_decision *decision)
{
	return decision->chosen < decision->alternative_count
		   ? decision->alternatives[decision->chosen].slowdown
		   : 1.0;
}

/* Pieces of a note, on the submit path and so without snprintf, which reads its
 * format anew each time; a piece that does not fit is left out. */
struct writer {
	char *at, *end;
};

static inline void
put_bytes (struct writer *w, const char *bytes, size_t size)
{
	if (size > (size_t)(w->end - w->at))
		return;
	memcpy (w->at, bytes, size);
	w->at += size;
}

#define PUT(writer, literal) put_bytes (writer, literal, sizeof literal - 1)

static void
put_text (struct writer *w, const char *text)
{
	put_bytes (w, text, strlen (text));
}

static inline void
put_number (struct writer *w, uint64_t value, uint32_t base, int least_digits)
{
	char digits[20]; /* of the largest number in base 10 */
	char *first = digits + sizeof digits;
	for (; value > 0 || least_digits > 0; value /= base, least_digits--)
		*--first = "0123456789abcdef"[value % base];
	put_bytes (w, first, (size_t)(digits + sizeof digits - first));
}

static void
put_hundredths (struct writer *w, unsigned int value)
{
	put_number (w, value / 100, 10, 1);
	PUT (w, ".");
	put_number (w, value % 100, 10, 2);
}

void
note_format (const struct view *view, const struct sluice_record *record,
	     char out[NOTE_SIZE])
{
	const struct sluice_decision *decision = &record->decision;
	const struct sluice_prediction *prediction = &decision->prediction;
	struct writer w = { out, out + NOTE_SIZE - 1 };

	PUT (&w, "sluice(v=1,rec=");
	put_number (&w, record->boot, 16, 16);
	PUT (&w, "-");
	put_number (&w, record->number, 10, 1);
	PUT (&w, ",act=");
	put_text (&w, sluice_action_name (decision->action));
	PUT (&w, ",why=");
	put_text (&w, sluice_reason_name (decision->reason));
	PUT (&w, ",pat=");
	put_text (&w, sluice_pattern_name (prediction->profile.pattern));
	PUT (&w, ",conf=");
	put_hundredths (&w, hundredths (prediction->profile.confidence));
	PUT (&w, ",class=");
	put_text (&w, sluice_class_name (prediction->klass));
	PUT (&w, ",slow=");
	put_hundredths (&w, hundredths (own_slowdown (decision)));
	const char *turns = turns_mark (view, record);
	if (turns) {
		PUT (&w, ",turns=");
		put_text (&w, turns);
	}
	const struct sluice_block *block = &record->place.job.block;
	if (block->count && record->grant.outcome == SLUICE_GRANT_TAKEN) {
		PUT (&w, ",place=");
		put_number (&w, block->first, 10, 1);
		PUT (&w, "+");
		put_number (&w, block->count, 10, 1);
	}
	PUT (&w, ")");
	*w.at = '\0';
}

/*
 * Of slurmctld's functions this one alone is called on the submit path. It
 * takes Slurm's licence mutex for a walk through a short list. That mutex ranks
 * below the locks that our caller holds: slurmctld itself takes it under them
 * for every job (license_validate), and under it at most a read lock of the
 * association manager (read in licenses.c of all versions from 22.05 to 26.05).
 */
static uint32_t
total_of (const struct sluice_policy *policy, uint32_t lane, uint32_t klass)
{
	char name[SLUICE_TOKEN_SIZE];
	if (!get_total_license_cnt)
		return SLUICE_TOTAL_UNKNOWN;
	sluice_token_name (policy, lane, klass, name);
	return get_total_license_cnt (name);
}

/* The tokens that are Sluice's. Where the controller does not tell, those of a lane that
 * the site has named, but not those of `all`: that may be a licence of its own. */
static void
defined_tokens (const struct sluice_policy *policy, struct sluice_token_set *out)
{
	memset (out, 0, sizeof *out);
	for (uint32_t klass = SLUICE_CLASS_NONE + 1; klass < SLUICE_CLASS_COUNT; klass++)
		for (uint32_t lane = 0; lane < policy->lane_count; lane++) {
			uint32_t total = total_of (policy, lane, klass);
			int is_ours = total == SLUICE_TOTAL_UNKNOWN
					  ? strcmp (policy->lanes[lane].name, "all") != 0
					  : total >= SLUICE_MIN_TOTAL;
			out->lanes[klass] |= (uint32_t)is_ours << lane;
		}
}

/* Take tokens off one text of a job description. What was nothing but tokens
 * becomes NULL: at submission no licences, in a modification no change of them.
 * So no user's wrong wish for a token costs a running job its other licences. */
static struct sluice_stripped
strip (const struct view *view, const struct sluice_tokens *granted, enum sluice_wish wish,
       char **text)
{
	struct sluice_stripped stripped = { 0 };
	struct sluice_token_set defined;

	if (!*text || !sluice_licenses_name_token (&view->reserved, wish, *text))
		return stripped;
	/* only now, and so for no job that names none: ask what the controller has */
	defined_tokens (&view->reserved, &defined);
	stripped = sluice_licenses_strip (&view->reserved, &defined, granted, wish, *text);
	if (stripped.items > 0 && !**text)
		slurm_xfree ((void **)text);
	return stripped;
}

void
enforce_strip (const struct view *view, job_desc_msg_t *job, struct counters *counters)
{
	if (!view->reserves_tokens)
		return;
	uint32_t items
	    = strip (view, NULL, SLUICE_WISH_LICENSES, &job->licenses).items
	      + strip (view, NULL, SLUICE_WISH_FOR_TASKS, &job->tres_per_task).items;
	if (items > 0)
		count (&counters->stripped);
}

/* Of a token that a decision asks for, as many as there will be after the next
 * reconfiguration too. */
static uint32_t
promised_total (const struct view *view, uint32_t lane, uint32_t klass)
{
	uint32_t total = total_of (view_policy (view), lane, klass);
	uint32_t promised = view->promised[klass][lane];
	return total < promised ? total : promised;
}

static int
take (const struct sluice_policy *policy, const struct sluice_tokens *tokens,
      job_desc_msg_t *job)
{
	char licenses[SLUICE_LICENSES_SIZE];
	sluice_copy_text (licenses, sizeof licenses, job->licenses);
	if (sluice_licenses_append (policy, tokens, licenses) != 0)
		return -1;
	return adapter_set_text (&job->licenses, licenses);
}

void
enforce_grant (const struct view *view, struct sluice_record *record)
{
	const struct sluice_policy *policy = view_policy (view);
	struct sluice_tokens wanted;
	uint32_t totals[SLUICE_MAX_LANES] = { 0 };

	sluice_tokens_of (policy, &record->decision, &wanted);
	if (record->mode == SLUICE_MODE_ENFORCE)
		for (uint32_t lane = 0; lane < SLUICE_MAX_LANES; lane++)
			if (wanted.lane_mask >> lane & 1)
				totals[lane] = promised_total (view, lane, wanted.klass);
	sluice_tokens_grant (record->mode, record->turns, policy, &record->submission,
			     &record->decision, totals, &record->grant);
}

void
enforce_take (const struct view *view, job_desc_msg_t *job, struct sluice_record *record)
{
	struct sluice_grant *grant = &record->grant;

	if (grant->outcome == SLUICE_GRANT_TAKEN
	    && take (view_policy (view), &grant->tokens, job) != 0)
		grant->outcome = SLUICE_GRANT_NO_MEMORY;
}

/* Root, SlurmUser, operators. Where slurmctld does not tell an operator from a
 * user, all count as one: no administrator is refused. */
static int
is_administrator (uint32_t uid)
{
	return uid == 0 || !validate_operator || validate_operator (uid);
}

void
enforce_modify (const struct view *view, job_desc_msg_t *change, uint32_t uid,
		struct counters *counters)
{
	struct sluice_tokens granted = { 0 };

	if (!view->reserves_tokens || (!change->licenses && !change->tres_per_task)
	    || is_administrator (uid))
		return;
	/* also from an old snapshot: better kept than taken from the user */
	const struct sluice_holder *holder
	    = view->snapshot
		  ? sluice_snapshot_holder (view->snapshot, adapter_job_id (change))
		  : NULL;
	if (holder) {
		granted.klass = holder->klass;
		granted.lane_mask = holder->lane_mask;
	}

	int sets_licenses = change->licenses != NULL;
	struct sluice_stripped licenses
	    = strip (view, &granted, SLUICE_WISH_LICENSES, &change->licenses);
	struct sluice_stripped for_tasks
	    = strip (view, NULL, SLUICE_WISH_FOR_TASKS, &change->tres_per_task);
	if (licenses.items + for_tasks.items > 0)
		count (&counters->stripped);
	/* Slurm replaces a job's licences as a whole, so what the user leaves out goes */
	int is_set = sets_licenses && change->licenses;
	if (is_set && granted.lane_mask & ~licenses.lanes)
		count (&counters->opt_outs);
}
