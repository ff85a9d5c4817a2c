/*
 * The note that `advise` and `enforce` leave in a job's admin comment: one token without
 * blanks, so that a site's own words stay readable alongside it:
 *
 *   sluice(v=1,rec=0123456789abcdef-42,act=colocate,why=harmless,pat=aw,
 *          conf=0.93,class=stream,slow=1.07)
 *
 * rec names the decision record (boot and number), by which sluiced joins
 * record and job; slow is the job's own predicted slowdown. In `enforce` it ends
 * in token=taken, or in why none is.
 */
#ifndef SLUICE_NOTE_H
#define SLUICE_NOTE_H

#include "loader.h"
#include "record.h"

enum { NOTE_SIZE = 256 };

/* Whether this decision gets a note: from `advise` on, unless the site keeps the
 * admin comment for itself, and only if all that belongs to a decision was
 * there. Exempt jobs are none of our business, and without a bundle or a fresh
 * snapshot jobs stay as they would be without Sluice. */
int note_is_wanted (const struct view *view, const struct sluice_record *record);

void note_format (const struct sluice_record *record, char out[NOTE_SIZE]);

#endif
