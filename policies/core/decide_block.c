#include "decide_costs.h"
#include "tokens.h"

/* The lane to which the job is confined, if its output is placed there; else
 * SLUICE_MAX_LANES. */
static uint32_t
lane_of (const struct sluice_situation *s, const struct sluice_decision *decision)
{
	struct sluice_tokens tokens;
	uint32_t lane = 0;

	sluice_tokens_of (s->policy, decision, &tokens);
	if (tokens.lane_mask == 0 || (tokens.lane_mask & (tokens.lane_mask - 1)) != 0)
		return SLUICE_MAX_LANES;
	while (!(tokens.lane_mask >> lane & 1))
		lane++;
	return s->placements[lane] ? lane : SLUICE_MAX_LANES;
}

/* With those that were decided on after the snapshot was taken. */
static const struct sluice_placement *
with_latest (struct sluice_workspace *workspace, const struct sluice_placement *placement,
	     const struct sluice_place *place)
{
	if (place->since_count == 0)
		return placement;
	workspace->placement = *placement;
	for (uint32_t i = 0; i < place->since_count; i++) {
		const struct sluice_placed_job *job = &place->since[i];
		const struct sluice_placed placed = { job->duty, job->nodes, job->block };
		if (job->lane == place->job.lane)
			sluice_placement_add (&workspace->placement, &placed);
	}
	return &workspace->placement;
}

void
sluice_decide_block (struct sluice_workspace *workspace, const struct sluice_situation *s,
		     const struct sluice_config *config, uint32_t mode,
		     const struct sluice_submission *submission,
		     const struct sluice_decision *decision, struct sluice_place *place)
{
	const struct sluice_profile *profile = &decision->prediction.profile;
	uint32_t lane = s ? lane_of (s, decision) : SLUICE_MAX_LANES;

	if (lane == SLUICE_MAX_LANES
	    || (mode == SLUICE_MODE_ENFORCE && !sluice_is_controlled (config, submission)))
		return;
	const struct sluice_lane *on = &s->policy->lanes[lane];
	place->is_asked = 1;
	place->job.lane = lane;
	place->job.duty = clip (profile->io_share);
	place->job.nodes = submission->nodes ? submission->nodes : 1;
	/* the tasks of an array would collide with each other, on what is one job's */
	if (!(submission->flags & SLUICE_SUBMIT_ARRAY))
		place->need = sluice_placement_need (profile, on->bandwidth / on->targets,
						     on->targets);
	if (place->need == 0)
		return;
	sluice_placement_choose (with_latest (workspace, s->placements[lane], place),
				 place->need, place->job.duty, place->job.nodes,
				 place->turn, &place->choice);
	place->job.block = place->choice.block;
}
