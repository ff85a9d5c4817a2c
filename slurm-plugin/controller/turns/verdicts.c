/*
 * Verdicts of the core on all bursts: put into effect, counted, and sent to the agents.
 */
#include "bursts_state.h"

#include <math.h>

#include "page.h"

static const double min_rate_change = 0.1; /* of a rate, for a new word to be sent */

static void
send_to_all (struct bursts *bursts, const struct burst_job *job)
{
	for (struct burst_part *part = job->parts; part; part = part->next_of_job)
		bursts->send (bursts->sender, part->agent, &job->word);
}

/* Sends what is new; of each burst the first verdict, whatever it is. */
static void
update_word (struct bursts *bursts, struct burst_job *job, const struct wire_word *word)
{
	struct wire_word before = job->word;
	bursts->holding_count += word->action != WIRE_GO;
	bursts->holding_count -= before.action != WIRE_GO;
	job->word = *word;
	if (job->is_decided && word->action == before.action
	    && fabs ((double)word->rate - (double)before.rate)
		   <= min_rate_change * (double)before.rate)
		return;
	job->is_decided = 1;
	send_to_all (bursts, job);
}

void
bursts_release (struct bursts *bursts, struct burst_job *job)
{
	const struct wire_word go = { .job_id = job->id, .action = WIRE_GO };
	update_word (bursts, job, &go);
}

static uint64_t
nanoseconds (double seconds)
{
	return seconds < 1e9 ? (uint64_t)(larger (seconds, 0.0) * 1e9) : UINT64_MAX;
}

/* B/s of each process, as shims count them: small writes weigh as one of the least size. */
static uint64_t
process_rate (const struct burst_job *job, double share)
{
	const double least = SLUICE_TURNS_MIN_WRITE;
	struct volume rate = bursts_full_rate (job);
	double writers = 0.0;
	for (const struct burst_part *part = job->parts; part; part = part->next_of_job)
		writers += part->is_active ? part->writers : 0;
	double bytes = larger (rate.bytes, least * rate.operations);
	return (uint64_t)smaller (larger (share * bytes / larger (writers, 1.0), least),
				  1e15);
}

static void
make_word (const struct burst_job *job, const struct bursts_rules *rules,
	   const struct sluice_turn *turn, double clock, struct wire_word *word)
{
	*word = (struct wire_word){ .job_id = job->id };
	if (turn->share >= 1.0)
		return;
	word->action = turn->share > 0.0 ? WIRE_SLOW : WIRE_HOLD;
	word->share = (uint32_t)(turn->share * 1e6);
	word->rate = turn->share > 0.0 ? process_rate (job, turn->share) : 0;
	word->most_held = nanoseconds (job->held + turn->until - clock);
	word->longest_ms = (uint32_t)(1e3 * rules->settings.hold);
}

static const char *
release_reason (uint32_t reason)
{
	int is_own = reason == SLUICE_TURN_BUDGET || reason == SLUICE_TURN_STRETCH
		     || reason == SLUICE_TURN_TRIAL || reason == SLUICE_TURN_NO_HELP;
	return is_own ? sluice_turn_reason_name (reason) : "turn";
}

static void
record_verdict (struct bursts *bursts, struct burst_job *job,
		const struct sluice_turn *turn, double clock)
{
	int is_held = turn->share < 1.0, was_held = job->share < 1.0;
	if (is_held && !was_held) {
		bursts->counts.holds++;
		job->burst_holds++;
	}
	if (is_held != was_held)
		job->since = clock;
	if (was_held && !is_held)
		job->ended = release_reason (turn->reason);
	if (turn->reason != job->reason) {
		bursts->counts.trials += turn->reason == SLUICE_TURN_TRIAL;
		bursts->counts.no_help += turn->reason == SLUICE_TURN_NO_HELP;
	}
	job->reason = turn->reason;
	if (turn->share < job->share || turn->share > job->share)
		bursts_record_change (bursts, job, clock);
	if (turn->reason == SLUICE_TURN_BUDGET && !job->is_out_of_budget)
		bursts->counts.budgets++;
	job->is_out_of_budget = turn->reason == SLUICE_TURN_BUDGET;
	job->share = turn->share;
}

/* The core names the burst that a hold is for; it stands until the next one does. */
static void
record_first (const struct bursts *bursts, struct burst_job *job,
	      const struct sluice_turn *turn)
{
	if (turn->first == SLUICE_TURN_NO_BURST)
		return;
	job->first = bursts->active[turn->first]->id;
	job->first_nodes = bursts->active[turn->first]->nodes;
	if (isnan (job->saving))
		job->saving = turn->saving;
}

static void
apply_verdict (struct bursts *bursts, const struct bursts_rules *rules,
	       struct burst_job *job, const struct sluice_turn *turn, double clock)
{
	struct wire_word word;
	record_verdict (bursts, job, turn, clock);
	record_first (bursts, job, turn);
	make_word (job, rules, turn, clock, &word);
	if (rules->holds)
		update_word (bursts, job, &word);
	else
		bursts_release (bursts, job);
}

static double
release_all (struct bursts *bursts, double clock)
{
	for (uint32_t i = 0; i < bursts->active_count; i++) {
		bursts_charge (bursts, bursts->active[i], clock);
		if (bursts->active[i]->share < 1.0) {
			bursts->active[i]->ended = "off";
			bursts->active[i]->since = clock;
		}
		bursts->active[i]->share = 1.0;
		bursts_release (bursts, bursts->active[i]);
	}
	return INFINITY;
}

static double
decide_turns (struct bursts *bursts, const struct bursts_rules *rules, double clock)
{
	struct sluice_turns_storage configured;
	if (rules->is_off || rules->storage.lane_count == 0)
		return release_all (bursts, clock);
	bursts_subtract_unreported (bursts, rules, &configured);
	if (bursts->storage.lane_count != configured.lane_count) {
		sluice_turns_memory_init (&bursts->learned);
		bursts->storage = configured;
	}
	for (uint32_t i = 0; i < bursts->active_count; i++) {
		bursts_charge (bursts, bursts->active[i], clock);
		if (bursts->active[i]->rules != rules->number)
			bursts_predict (bursts->active[i], rules);
	}
	bursts_learn (bursts, rules, clock);
	for (uint32_t i = 0; i < bursts->active_count; i++)
		bursts_describe (bursts, bursts->active[i], clock, &bursts->described[i]);
	double again = sluice_turns_learn (&rules->settings, &configured, bursts->described,
					   bursts->active_count, clock, &bursts->learned,
					   &bursts->storage);
	again
	    = smaller (again, sluice_turns_decide (&rules->settings, &bursts->storage,
						   bursts->described, bursts->active_count,
						   clock, bursts->order, bursts->turns));
	/* Where no burst is held in truth, trials show nothing. */
	if (rules->holds)
		again = smaller (
		    again, sluice_turns_check (&rules->settings, &bursts->storage,
					       bursts->described, bursts->active_count,
					       clock, &bursts->check, bursts->turns));
	for (uint32_t i = 0; i < bursts->active_count; i++)
		apply_verdict (bursts, rules, bursts->active[i], &bursts->turns[i], clock);
	return again;
}

double
bursts_decide (struct bursts *bursts, const struct bursts_rules *rules, double clock)
{
	bursts_end_silent (bursts, clock);
	bursts->have_changed = 0;
	bursts->holds = rules->holds;
	bursts->respite = sluice_turns_respite (&rules->settings);
	double again = decide_turns (bursts, rules, clock);
	return smaller (again, bursts_place (bursts, rules, clock));
}
