/*
 * What happens to a job: to its licences, and what it is told of turns.
 *
 *   submission     in every mode but off, lane tokens that its user wrote are
 *                  taken off every job; in `enforce`, those that its decision
 *                  asks for are added, if the controller has them
 *   modification   of an ordinary user, in every mode but off: tokens that are
 *                  added are taken off, and of those that Sluice gave the job the user
 *                  may keep or drop each; an administrator's, and so sluiced's
 *                  own, is left alone
 *
 * A licence is a token once the controller has SLUICE_MIN_TOTAL of it. With fewer, or
 * none, it is left to Slurm: a site may have a licence of that name, and what Slurm
 * refuses it refuses as without Sluice.
 *
 * Tokens written by users are taken off also in `observe` and `advise`, while the
 * bundle is gone, sluiced is dead or Sluice is switched off: a job would hold what it
 * takes then in `enforce` later. Adding waits for all that belongs to a decision.
 * Whatever goes wrong, the licences stay as they are, and the submission or
 * modification goes its way.
 */
#ifndef SLUICE_ENFORCE_H
#define SLUICE_ENFORCE_H

#include "counters.h"
#include "loader.h"
#include "record.h"
#include "slurm_api.h"

/*
 * The note that `advise` and `enforce` leave in a job's admin comment where the site lets
 * them and the comment is empty: one token without blanks.
 *
 *   sluice(v=1,rec=0123456789abcdef-42,act=colocate,why=harmless,pat=aw,
 *          conf=0.93,class=stream,slow=1.07)
 *
 * rec names the decision record (boot and number), by which sluiced joins record and job;
 * slow is the job's own predicted slowdown. It says nothing that could change later, as
 * tokens do. Behind it may stand turns=yes or turns=no, which is what the variable says,
 * see below, and place=8+4: the block of its lane's targets, the first and how many.
 */

enum { NOTE_SIZE = 320 };

/* Whether this decision gets a note: from `advise` on, and only if all that belongs to a
 * decision was there. Exempt jobs are none of our business, and without a bundle or a fresh
 * snapshot jobs stay as they would be without Sluice. Where the site has a coordinator
 * of turns, also what the nodes have to know of them, in any mode. */
int note_is_wanted (const struct view *view, const job_desc_msg_t *job,
		    const struct sluice_record *record);

void note_format (const struct view *view, const struct sluice_record *record,
		  char out[NOTE_SIZE]);

/* Where the site has a coordinator of turns: set SLUICE_TURNS_DECIDED of a job of sbatch
 * that takes turns which it did not ask for, or takes none whatever its steps ask for.
 * Slurm hands srun and salloc no variable, so of theirs only the note tells. */
void enforce_tell_nodes (const struct view *view, job_desc_msg_t *job,
			 const struct sluice_record *record);

/* Before the job is read. */
void enforce_strip (const struct view *view, job_desc_msg_t *job,
		    struct counters *counters);

/* After it was decided on: fills in record->grant. In other modes the record
 * says what would be asked for. */
void enforce_grant (const struct view *view, struct sluice_record *record);

/* Give the job the tokens of its grant. */
void enforce_take (const struct view *view, job_desc_msg_t *job,
		   struct sluice_record *record);

void enforce_modify (const struct view *view, job_desc_msg_t *change, uint32_t uid,
		     struct counters *counters);

#endif
