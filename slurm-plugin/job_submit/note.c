#include "note.h"

#include <string.h>

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
note_format (const struct sluice_record *record, char out[NOTE_SIZE])
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
	if (record->mode == SLUICE_MODE_ENFORCE) {
		PUT (&w, ",token=");
		put_text (&w, sluice_grant_name (record->grant.outcome));
	}
	PUT (&w, ")");
	*w.at = '\0';
}
