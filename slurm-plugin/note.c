#include "note.h"

#include <inttypes.h>
#include <stdio.h>

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
	case SLUICE_REASON_EXEMPT_USER:
	case SLUICE_REASON_EXEMPT_ACCOUNT:
	case SLUICE_REASON_EXEMPT_PARTITION:
	case SLUICE_REASON_EXEMPT_QOS:
	case SLUICE_REASON_EXEMPT_RESERVATION:
	case SLUICE_REASON_EXEMPT_DEADLINE:
	case SLUICE_REASON_EXEMPT_PREEMPT:
	case SLUICE_REASON_EXEMPT_INTERACTIVE:
	case SLUICE_REASON_EXEMPT_CRON:
	case SLUICE_REASON_EXEMPT_LICENSES:
	case SLUICE_REASON_OPTED_OUT:
	case SLUICE_REASON_OUT_OF_SCOPE:
	case SLUICE_REASON_HET_COMPONENT:
		return 0;
	default:
		return 1;
	}
}

int
note_is_wanted (const struct view *view, const struct sluice_record *record)
{
	return view->config.mode >= SLUICE_MODE_ADVISE && view->config.admin_comment
	       && is_decided (record->decision.reason) && view->bundle && view->snapshot
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

void
note_format (const struct sluice_record *record, char out[NOTE_SIZE])
{
	const struct sluice_decision *decision = &record->decision;
	const struct sluice_prediction *prediction = &decision->prediction;
	unsigned int confidence = hundredths (prediction->profile.confidence);
	unsigned int slowdown = hundredths (own_slowdown (decision));
	int is_enforced = record->mode == SLUICE_MODE_ENFORCE;

	snprintf (out, NOTE_SIZE,
		  "sluice(v=1,rec=%016" PRIx64 "-%" PRIu64 ",act=%s,why=%s,pat=%s,"
		  "conf=%u.%02u,class=%s,slow=%u.%02u%s%s)",
		  record->boot, record->number, sluice_action_name (decision->action),
		  sluice_reason_name (decision->reason),
		  sluice_pattern_name (prediction->profile.pattern), confidence / 100,
		  confidence % 100, sluice_class_name (prediction->klass), slowdown / 100,
		  slowdown % 100, is_enforced ? ",token=" : "",
		  is_enforced ? sluice_grant_name (record->grant.outcome) : "");
}
