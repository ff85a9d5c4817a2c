#include "situation.h"

#include <stdlib.h>
#include <string.h>

#include "decide.h"

/* Everybody in the snapshot that matters to storage. */
struct sluice_corunner_set {
	const struct sluice_bundle *bundle;
	double z;     /* of the policy's quantile */
	uint32_t all; /* lanes, as bits */
	double speeds[SLUICE_MAX_LANES];
	uint32_t count;
	struct sluice_situation_member members[SLUICE_MAX_CORUNNERS];
	uint32_t lane_masks[SLUICE_MAX_CORUNNERS];
	int is_kept[SLUICE_MAX_CORUNNERS];
	uint32_t index[SLUICE_MAX_CORUNNERS]; /* in the situation, once kept */
};

static int
is_on_lane (const struct sluice_corunner_set *set, uint32_t i, uint32_t lane)
{
	return set->lane_masks[i] == 0 || set->lane_masks[i] >> lane & 1;
}

static struct sluice_load
load_on_lane (const struct sluice_corunner_set *set, uint32_t i, uint32_t lane)
{
	struct sluice_load load = set->members[i].against;
	return is_on_lane (set, i, lane) ? load : sluice_load_elsewhere (load);
}

/* Of the lanes in the mask (0: of all): a striped operation takes its slowest target. */
static double
slowest_of (const double *speeds, uint32_t mask)
{
	double slowest = 1.0;
	for (uint32_t l = 0; l < SLUICE_MAX_LANES; l++)
		if (mask == 0 || mask >> l & 1)
			slowest = smaller (slowest, speeds[l]);
	return slowest;
}

static void
describe (const struct sluice_corunner_set *set, const struct sluice_corunner *c,
	  struct sluice_situation_member *out)
{
	const struct sluice_bundle *bundle = set->bundle;
	out->job_id = c->job_id;
	out->nodes = c->nodes ? c->nodes : 1;
	out->end = (double)c->expected_end;
	sluice_pressure_of (&c->profile, sluice_bundle_interference (bundle),
			    sluice_bundle_policy (bundle), c->lane_mask, &out->pressure);
	sluice_pressure_slow_down (&out->pressure,
				   slowest_of (set->speeds, c->lane_mask & set->all));
	out->against = sluice_load_of (&out->pressure, set->z, SLUICE_AGAINST);
	out->victim = sluice_load_of (&out->pressure, set->z, SLUICE_VICTIM);
}

static void
gather (const struct sluice_snapshot *snapshot, struct sluice_corunner_set *set)
{
	for (uint32_t i = 0; i < sluice_snapshot_corunner_count (snapshot); i++) {
		const struct sluice_corunner *c = sluice_snapshot_corunner (snapshot, i);
		if (c->klass == SLUICE_CLASS_NONE)
			continue;
		describe (set, c, &set->members[set->count]);
		set->lane_masks[set->count++] = c->lane_mask & set->all;
	}
}

static int
is_copy_of (const struct sluice_corunner_set *set, uint32_t lane, uint32_t earlier)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (is_on_lane (set, i, lane) != is_on_lane (set, i, earlier))
			return 0;
	return 1;
}

/* Equal ones go by job id, so that the choice does not depend on the order in
 * the snapshot. Here member is an index into the set. */
static int
is_stronger (const struct sluice_corunner_set *set, const struct sluice_lane_member *a,
	     const struct sluice_lane_member *b)
{
	double weight = a->load.flushes + a->load.streams;
	double other_weight = b->load.flushes + b->load.streams;
	if (weight != other_weight)
		return weight > other_weight;
	if (a->load.metadata != b->load.metadata)
		return a->load.metadata > b->load.metadata;
	return set->members[a->member].job_id < set->members[b->member].job_id;
}

/* Keep the strongest of a lane, sum up the others. */
static void
keep_strongest (struct sluice_situation_lane *lane, struct sluice_corunner_set *set,
		uint32_t l)
{
	for (uint32_t i = 0; i < set->count; i++) {
		struct sluice_lane_member entry = {
			.member = i,
			.is_here = is_on_lane (set, i, l),
			.load = load_on_lane (set, i, l),
		};
		if (entry.load.demand <= 0.0 && entry.load.metadata <= 0.0)
			continue;
		uint32_t at = lane->count;
		for (; at > 0 && is_stronger (set, &entry, &lane->kept[at - 1]); at--) {
			struct sluice_lane_member *moved = &lane->kept[at - 1];
			if (at < SLUICE_KEPT)
				lane->kept[at] = *moved;
			else
				lane->background
				    = sluice_load_add (lane->background, moved->load);
		}
		if (at < SLUICE_KEPT)
			lane->kept[at] = entry;
		else
			lane->background = sluice_load_add (lane->background, entry.load);
		if (lane->count < SLUICE_KEPT)
			lane->count++;
	}
}

/* From the set into the situation, each co-runner once. */
static void
enlist_kept (struct sluice_situation *s, struct sluice_corunner_set *set,
	     struct sluice_situation_lane *lane)
{
	for (uint32_t k = 0; k < lane->count; k++) {
		uint32_t i = lane->kept[k].member;
		if (!set->is_kept[i]) {
			set->is_kept[i] = 1;
			set->index[i] = s->member_count;
			s->members[s->member_count++] = set->members[i];
		}
		lane->kept[k].member = set->index[i];
	}
}

/* What the v-th of a lane loses to the other kept ones, whichever of them are on. */
static void
prepare_victim (const struct sluice_situation *s, struct sluice_situation_lane *lane,
		uint32_t v)
{
	struct sluice_lane_member *self = &lane->kept[v];
	const struct sluice_situation_member *victim = &s->members[self->member];
	struct sluice_load loads[SLUICE_KEPT];
	uint32_t n = 0;

	if (!self->is_here)
		return;
	for (uint32_t o = 0; o < lane->count; o++) {
		const struct sluice_lane_member *other = &lane->kept[o];
		if (o == v)
			continue;
		double rho = sluice_load_rate (victim->victim, other->load, s->model);
		self->overlaps[n] = sluice_load_mean_overlap (
		    &victim->pressure, &s->members[other->member].pressure, rho);
		loads[n++] = other->load;
	}
	sluice_load_sets_of (loads, n, &self->others);
	sluice_load_rates (victim->victim, lane->background, &self->others, s->model,
			   self->rates);
}

static void
prepare_sets (const struct sluice_situation *s, struct sluice_situation_lane *lane)
{
	struct sluice_load loads[SLUICE_KEPT];

	for (uint32_t k = 0; k < lane->count; k++)
		loads[k] = lane->kept[k].load;
	sluice_load_sets_of (loads, lane->count, &lane->sets);
	for (uint32_t k = 0; k < lane->count; k++)
		prepare_victim (s, lane, k);
}

/* Each co-runner that no lane keeps is counted on the first of its lanes. */
static int
is_at_home (const struct sluice_corunner_set *set, uint32_t i, uint32_t lane)
{
	for (uint32_t l = 0; l < lane; l++)
		if (is_on_lane (set, i, l))
			return 0;
	return is_on_lane (set, i, lane);
}

/* The mean, by nodes, of those at home on a lane that no lane keeps; what it puts on
 * the lane is the mean of what they do. */
static void
enlist_rest (struct sluice_situation *s, const struct sluice_corunner_set *set, uint32_t l)
{
	struct sluice_situation_lane *lane = &s->lanes[l];
	struct sluice_situation_member *rest = &s->members[s->member_count];
	double nodes = 0.0, count = 0.0;

	for (uint32_t i = 0; i < set->count; i++)
		if (!set->is_kept[i] && is_at_home (set, i, l))
			nodes += set->members[i].nodes;
	if (nodes == 0.0)
		return;
	*rest = (struct sluice_situation_member){ .nodes = nodes };
	for (uint32_t i = 0; i < set->count; i++) {
		const struct sluice_situation_member *m = &set->members[i];
		if (set->is_kept[i] || !is_at_home (set, i, l))
			continue;
		double part = m->nodes / nodes;
		count += 1.0;
		rest->end += part * m->end;
		rest->pressure.io_share += part * m->pressure.io_share;
		rest->pressure.burst += part * m->pressure.burst;
		rest->pressure.period += part * m->pressure.period;
		rest->pressure.confined += part * m->pressure.confined;
		rest->victim
		    = sluice_load_add (rest->victim, sluice_load_scale (m->victim, part));
		rest->against = sluice_load_add (rest->against, m->against);
	}
	rest->against = sluice_load_scale (rest->against, 1.0 / count);
	lane->has_rest = 1;
	lane->rest = s->member_count++;
}

static void
prepare_lanes (struct sluice_situation *s, struct sluice_corunner_set *set)
{
	s->corunner_count = set->count;
	s->member_count = 0;
	memset (set->is_kept, 0, set->count * sizeof *set->is_kept);
	for (uint32_t l = 0; l < s->lane_count; l++) {
		struct sluice_situation_lane *lane = &s->lanes[l];
		lane->original = 0;
		while (!is_copy_of (set, l, lane->original))
			lane->original++;
		if (lane->original < l)
			continue;
		lane->count = 0;
		lane->has_rest = 0;
		lane->background = (struct sluice_load){ 0 };
		keep_strongest (lane, set, l);
		enlist_kept (s, set, lane);
		prepare_sets (s, lane);
	}
	/* only now it is known who is kept nowhere */
	for (uint32_t l = 0; l < s->lane_count; l++)
		if (s->lanes[l].original == l)
			enlist_rest (s, set, l);
}

struct sluice_corunner_set *
sluice_corunner_set_create (const struct sluice_bundle *bundle)
{
	struct sluice_corunner_set *set = calloc (1, sizeof *set);
	if (!set)
		return NULL;
	const struct sluice_policy *policy = sluice_bundle_policy (bundle);
	set->bundle = bundle;
	set->z = sluice_normal_quantile (policy->quantile);
	set->all = (1u << (policy->lane_count ? policy->lane_count : 1)) - 1;
	for (uint32_t l = 0; l < SLUICE_MAX_LANES; l++)
		set->speeds[l] = 1.0;
	return set;
}

void
sluice_corunner_set_destroy (struct sluice_corunner_set *set)
{
	free (set);
}

int
sluice_corunner_set_add (struct sluice_corunner_set *set,
			 const struct sluice_corunner *corunner)
{
	uint32_t at = set->count;
	if (at == SLUICE_MAX_CORUNNERS)
		return -1;
	if (corunner->klass == SLUICE_CLASS_NONE)
		return 0;
	for (; at > 0 && set->members[at - 1].job_id > corunner->job_id; at--) {
		set->members[at] = set->members[at - 1];
		set->lane_masks[at] = set->lane_masks[at - 1];
	}
	describe (set, corunner, &set->members[at]);
	set->lane_masks[at] = corunner->lane_mask & set->all;
	set->count++;
	return 0;
}

void
sluice_corunner_set_remove (struct sluice_corunner_set *set, uint32_t job_id)
{
	uint32_t at = 0;
	while (at < set->count && set->members[at].job_id != job_id)
		at++;
	if (at == set->count)
		return;
	set->count--;
	memmove (&set->members[at], &set->members[at + 1],
		 (set->count - at) * sizeof *set->members);
	memmove (&set->lane_masks[at], &set->lane_masks[at + 1],
		 (set->count - at) * sizeof *set->lane_masks);
}

void
sluice_situation_renew (struct sluice_situation *s, struct sluice_corunner_set *set)
{
	prepare_lanes (s, set);
}

struct sluice_situation *
sluice_situation_create (const struct sluice_bundle *bundle,
			 const struct sluice_snapshot *snapshot)
{
	struct sluice_situation *s = calloc (1, sizeof *s);
	struct sluice_corunner_set *set = sluice_corunner_set_create (bundle);
	if (!s || !set) {
		free (s);
		s = NULL;
		goto done;
	}
	s->bundle = bundle;
	s->snapshot = snapshot;
	s->policy = sluice_bundle_policy (bundle);
	s->model = sluice_bundle_interference (bundle);
	s->z = set->z;
	s->lane_count = s->policy->lane_count ? s->policy->lane_count : 1;
	if (snapshot) {
		for (uint32_t l = 0; l < s->policy->lane_count; l++)
			set->speeds[l] = sluice_snapshot_lane_speed (
			    snapshot, s->policy->lanes[l].name);
		gather (snapshot, set);
		prepare_lanes (s, set);
	}
	memcpy (s->speeds, set->speeds, sizeof s->speeds);
	s->slowest = slowest_of (s->speeds, 0);
done:
	sluice_corunner_set_destroy (set);
	return s;
}

void
sluice_situation_destroy (struct sluice_situation *situation)
{
	free (situation);
}

void
sluice_submission_complete (struct sluice_submission *submission,
			    const struct sluice_snapshot *snapshot)
{
	if (!snapshot)
		return;
	if (!submission->partition[0]) {
		const struct sluice_partition *p = sluice_snapshot_partition (snapshot, "");
		sluice_copy_text (submission->partition, sizeof submission->partition,
				  p ? p->name : NULL);
	}
	const struct sluice_user *user = sluice_snapshot_user (snapshot, submission->uid);
	if (user && !submission->account[0])
		sluice_copy_text (submission->account, sizeof submission->account,
				  user->account);
	if (user && !submission->qos[0])
		sluice_copy_text (submission->qos, sizeof submission->qos, user->qos);
}

/* The first item of a comma-separated list; returns what is behind it. */
static const char *
next_item (const char *list, char *item)
{
	size_t length = strcspn (list, ",");
	size_t kept = length < SLUICE_NAME_SIZE ? length : SLUICE_NAME_SIZE - 1;
	memcpy (item, list, kept);
	item[kept] = '\0';
	return list[length] ? list + length + 1 : list + length;
}

static int
is_listed (const char *list, const char *word)
{
	char item[SLUICE_NAME_SIZE];
	while (*list) {
		list = next_item (list, item);
		if (word[0] && strcmp (item, word) == 0)
			return 1;
	}
	return 0;
}

/* Users are uids by now: sluice_config_resolve_users has seen to that. */
static int
is_user_listed (const char *list, uint32_t uid)
{
	while (*list) {
		uint64_t number = 0;
		for (; *list && *list != ','; list++)
			number = number * 10 + (uint64_t)(*list - '0');
		if (number == uid)
			return 1;
		list += *list == ',';
	}
	return 0;
}

/* A job may ask for several partitions and start in any of them: one that is
 * exempt is enough to leave it alone. */
static uint32_t
partition_scope (const struct sluice_config *config, const struct sluice_snapshot *snapshot,
		 const char *partitions)
{
	char name[SLUICE_NAME_SIZE];
	if (!partitions[0])
		return config->only_partitions[0] ? SLUICE_REASON_OUT_OF_SCOPE
						  : SLUICE_REASON_NONE;
	while (*partitions) {
		partitions = next_item (partitions, name);
		const struct sluice_partition *p
		    = snapshot && name[0] ? sluice_snapshot_partition (snapshot, name)
					  : NULL;
		if (is_listed (config->exempt_partitions, name))
			return SLUICE_REASON_EXEMPT_PARTITION;
		if (config->only_partitions[0]
		    && !is_listed (config->only_partitions, name))
			return SLUICE_REASON_OUT_OF_SCOPE;
		if (p && is_listed (config->exempt_qos, p->qos))
			return SLUICE_REASON_EXEMPT_QOS;
		if (p && !(config->include_kinds & SLUICE_INCLUDE_PREEMPT)
		    && (p->flags & SLUICE_PARTITION_PREEMPTS
			|| sluice_snapshot_preempts (snapshot, p->qos)))
			return SLUICE_REASON_EXEMPT_PREEMPT;
	}
	return SLUICE_REASON_NONE;
}

/* Kinds of job that are exempt unless the site includes them. */
static uint32_t
kind_scope (uint32_t included, const struct sluice_submission *s)
{
	static const struct {
		uint32_t flag, include, reason;
	} kinds[] = {
		{ SLUICE_SUBMIT_RESERVATION, SLUICE_INCLUDE_RESERVATION,
		  SLUICE_REASON_EXEMPT_RESERVATION },
		{ SLUICE_SUBMIT_DEADLINE, SLUICE_INCLUDE_DEADLINE,
		  SLUICE_REASON_EXEMPT_DEADLINE },
		{ SLUICE_SUBMIT_PTY, SLUICE_INCLUDE_INTERACTIVE,
		  SLUICE_REASON_EXEMPT_INTERACTIVE },
		{ SLUICE_SUBMIT_IMMEDIATE, SLUICE_INCLUDE_IMMEDIATE,
		  SLUICE_REASON_EXEMPT_INTERACTIVE },
		{ SLUICE_SUBMIT_CRON, SLUICE_INCLUDE_CRON, SLUICE_REASON_EXEMPT_CRON },
	};
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (s->flags & kinds[i].flag && !(included & kinds[i].include))
			return kinds[i].reason;
	if (s->launcher == SLUICE_LAUNCHER_SALLOC && !(included & SLUICE_INCLUDE_SALLOC))
		return SLUICE_REASON_EXEMPT_INTERACTIVE;
	return SLUICE_REASON_NONE;
}

uint32_t
sluice_scope (const struct sluice_config *config, const struct sluice_snapshot *snapshot,
	      const struct sluice_submission *submission)
{
	if (submission->flags & SLUICE_SUBMIT_OPT_OUT)
		return SLUICE_REASON_OPTED_OUT;
	if (submission->flags & SLUICE_SUBMIT_HET_LATER)
		return SLUICE_REASON_HET_COMPONENT;
	if (is_user_listed (config->exempt_users, submission->uid))
		return SLUICE_REASON_EXEMPT_USER;
	if (is_listed (config->exempt_accounts, submission->account))
		return SLUICE_REASON_EXEMPT_ACCOUNT;
	if (is_listed (config->exempt_qos, submission->qos))
		return SLUICE_REASON_EXEMPT_QOS;
	if (snapshot && submission->qos[0]
	    && sluice_snapshot_preempts (snapshot, submission->qos)
	    && !(config->include_kinds & SLUICE_INCLUDE_PREEMPT))
		return SLUICE_REASON_EXEMPT_PREEMPT;
	if ((config->only_users[0] && !is_user_listed (config->only_users, submission->uid))
	    || (config->only_accounts[0]
		&& !is_listed (config->only_accounts, submission->account)))
		return SLUICE_REASON_OUT_OF_SCOPE;

	uint32_t reason = partition_scope (config, snapshot, submission->partition);
	if (reason == SLUICE_REASON_NONE)
		reason = kind_scope (config->include_kinds, submission);
	if (reason == SLUICE_REASON_NONE && submission->flags & SLUICE_SUBMIT_OR_LICENSES)
		reason = SLUICE_REASON_EXEMPT_LICENSES;
	return reason;
}

int
sluice_is_left_alone (uint32_t reason)
{
	return reason >= SLUICE_REASON_EXEMPT_USER && reason <= SLUICE_REASON_OUT_OF_SCOPE
	       && reason != SLUICE_REASON_EXEMPT_LICENSES; /* of tokens alone */
}

static int
are_all_listed (const char *list, const char *words)
{
	char word[SLUICE_NAME_SIZE];
	if (!words[0])
		return 0;
	while (*words) {
		words = next_item (words, word);
		if (!is_listed (list, word))
			return 0;
	}
	return 1;
}

int
sluice_is_controlled (const struct sluice_config *config,
		      const struct sluice_submission *submission)
{
	return submission->flags & SLUICE_SUBMIT_IO_DIR
	       || is_user_listed (config->controlled_users, submission->uid)
	       || is_listed (config->controlled_accounts, submission->account)
	       || are_all_listed (config->controlled_partitions, submission->partition);
}
