#include "snapshot.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct sluice_snapshot {
	struct sluice_loaded loaded;
	const struct sluice_state *state;
	const struct sluice_corunner *corunners;
	const struct sluice_partition *partitions;
	const struct sluice_user *users;
	const struct sluice_holder *holders;
	const struct sluice_qos *qos;
	const struct sluice_lane_speed *lanes;
	const struct sluice_placed_job *placed;
	const struct sluice_target *targets;
	uint64_t corunner_count, partition_count, user_count, holder_count, qos_count;
	uint64_t lane_count, placed_count, target_count;
};

static int
find_sections (struct sluice_snapshot *s, struct sluice_error *err)
{
	uint64_t states;
#define FIND(member, ID, max, count)                                                       \
	(s->member = sluice_container_section (s->loaded.bytes, SLUICE_SECTION_##ID,       \
					       sizeof *s->member, max, count, err))
	if (!FIND (state, STATE, 1, &states)
	    || !FIND (corunners, CORUNNER, SLUICE_MAX_CORUNNERS, &s->corunner_count)
	    || !FIND (partitions, PARTITION, SLUICE_MAX_PARTITIONS, &s->partition_count)
	    || !FIND (users, USER, SLUICE_MAX_USERS, &s->user_count)
	    || !FIND (holders, HOLDER, SLUICE_MAX_HOLDERS, &s->holder_count)
	    || !FIND (qos, QOS, SLUICE_MAX_QOS, &s->qos_count)
	    || !FIND (lanes, LANE, SLUICE_MAX_LANES, &s->lane_count)
	    || !FIND (placed, PLACED, SLUICE_MAX_PLACED, &s->placed_count)
	    || !FIND (targets, TARGET, SLUICE_MAX_SEEN, &s->target_count))
		return -1;
#undef FIND
	if (states != 1)
		return sluice_fail (err, "the state is missing");
	return 0;
}

static int
is_name (const char *name)
{
	return memchr (name, '\0', SLUICE_NAME_SIZE) != NULL;
}

static int
check_lanes (const struct sluice_snapshot *s, struct sluice_error *err)
{
	for (uint64_t i = 0; i < s->lane_count; i++) {
		if (!is_name (s->lanes[i].name))
			return sluice_fail (err, "lane %u has a name without end",
					    (unsigned int)i);
		/* the other way round it would let a NaN pass */
		if (!(s->lanes[i].speed > 0.0 && s->lanes[i].speed <= 1.0))
			return sluice_fail (err, "lane %.60s has a speed of %g",
					    s->lanes[i].name, s->lanes[i].speed);
	}
	return 0;
}

static int
check_placed (const struct sluice_snapshot *s, struct sluice_error *err)
{
	for (uint64_t i = 0; i < s->placed_count; i++) {
		const struct sluice_placed_job *job = &s->placed[i];
		if (job->lane >= SLUICE_MAX_LANES
		    || !sluice_is_block (job->block, SLUICE_MAX_TARGETS)
		    || !(job->duty >= 0.0 && job->duty <= 1.0)
		    || !(job->nodes >= 0.0 && job->nodes <= sluice_profile_largest))
			return sluice_fail (err, "placed job %u makes no sense",
					    (unsigned int)i);
	}
	return 0;
}

static int
check_targets (const struct sluice_snapshot *s, struct sluice_error *err)
{
	for (uint64_t i = 0; i < s->target_count; i++) {
		const struct sluice_target *t = &s->targets[i];
		if (t->lane >= SLUICE_MAX_LANES || t->target >= SLUICE_MAX_TARGETS
		    || !(t->used >= 0.0 && t->used <= sluice_profile_largest)
		    || !(t->capacity >= 0.0 && t->capacity <= sluice_profile_largest)
		    || !(t->missing >= 0.0 && t->missing <= 1.0))
			return sluice_fail (err, "target %u makes no sense",
					    (unsigned int)i);
	}
	return 0;
}

static int
check_content (void *object, struct sluice_error *err)
{
	struct sluice_snapshot *s = object;
	struct sluice_error why;

	if (find_sections (s, err) < 0)
		return -1;
	for (uint64_t i = 0; i < s->corunner_count; i++) {
		const struct sluice_corunner *c = &s->corunners[i];
		if (c->klass >= SLUICE_CLASS_COUNT)
			return sluice_fail (err, "job %u has class %u",
					    (unsigned int)c->job_id,
					    (unsigned int)c->klass);
		if (c->block.count && !sluice_is_block (c->block, SLUICE_MAX_TARGETS))
			return sluice_fail (err, "job %u has a block of %u targets at %u",
					    (unsigned int)c->job_id, c->block.count,
					    c->block.first);
		if (sluice_profile_check (&c->profile, &why) < 0)
			return sluice_fail (err, "job %u: %.200s", (unsigned int)c->job_id,
					    why.text);
	}
	for (uint64_t i = 0; i < s->partition_count; i++)
		if (!is_name (s->partitions[i].name) || !is_name (s->partitions[i].qos))
			return sluice_fail (err, "partition %u has a name without end",
					    (unsigned int)i);
	for (uint64_t i = 0; i < s->user_count; i++) {
		if (!is_name (s->users[i].account) || !is_name (s->users[i].qos))
			return sluice_fail (err, "user %u has a name without end",
					    (unsigned int)i);
		if (i > 0 && s->users[i - 1].uid >= s->users[i].uid)
			return sluice_fail (err, "users are not sorted by uid");
	}
	for (uint64_t i = 0; i < s->holder_count; i++) {
		if (s->holders[i].klass >= SLUICE_CLASS_COUNT)
			return sluice_fail (err, "job %u holds tokens of class %u",
					    (unsigned int)s->holders[i].job_id,
					    (unsigned int)s->holders[i].klass);
		if (i > 0 && s->holders[i - 1].job_id >= s->holders[i].job_id)
			return sluice_fail (err, "holders are not sorted by job id");
	}
	for (uint64_t i = 0; i < s->qos_count; i++)
		if (!is_name (s->qos[i].name))
			return sluice_fail (err, "QoS %u has a name without end",
					    (unsigned int)i);
	return check_lanes (s, err) < 0 || check_placed (s, err) < 0
		   ? -1
		   : check_targets (s, err);
}

static const struct sluice_loadable type = {
	.kind = SLUICE_KIND_SNAPSHOT,
	.version = SLUICE_SNAPSHOT_VERSION,
	.max_bytes = SLUICE_MAX_SNAPSHOT_BYTES,
	.object_size = sizeof (struct sluice_snapshot),
	.check = check_content,
};

int
sluice_snapshot_parse (const void *bytes, size_t size, struct sluice_snapshot **out,
		       struct sluice_error *err)
{
	void *object;
	if (sluice_container_parse (&type, bytes, size, &object, err) < 0)
		return -1;
	*out = object;
	return 0;
}

int
sluice_snapshot_load (const char *path, uint32_t owner_uid, struct sluice_snapshot **out,
		      struct sluice_error *err)
{
	void *object;
	if (sluice_container_load (&type, path, owner_uid, &object, err) < 0)
		return -1;
	*out = object;
	return 0;
}

struct sluice_snapshot *
sluice_snapshot_of_state (const struct sluice_state *state)
{
	struct sluice_snapshot *snapshot = calloc (1, sizeof *snapshot);
	if (snapshot)
		snapshot->state = state;
	return snapshot;
}

void
sluice_snapshot_destroy (struct sluice_snapshot *snapshot)
{
	sluice_container_destroy (snapshot);
}

uint64_t
sluice_snapshot_checksum (const struct sluice_snapshot *snapshot)
{
	return snapshot->loaded.header ? snapshot->loaded.header->checksum : 0;
}

uint64_t
sluice_snapshot_version (const struct sluice_snapshot *s)
{
	uint64_t corunners = sluice_hash_bytes (
	    s->corunners, s->corunner_count * sizeof *s->corunners, s->corunner_count);
	return sluice_hash_bytes (s->lanes, s->lane_count * sizeof *s->lanes, corunners);
}

const struct sluice_state *
sluice_snapshot_state (const struct sluice_snapshot *snapshot)
{
	return snapshot->state;
}

static double
age_of (const struct sluice_snapshot *snapshot, int64_t now)
{
	return (double)now - (double)snapshot->state->taken;
}

int
sluice_snapshot_is_from_future (const struct sluice_snapshot *snapshot, int64_t now)
{
	return age_of (snapshot, now) < -SLUICE_CLOCK_DIFFERENCE;
}

int
sluice_snapshot_is_fresh (const struct sluice_snapshot *snapshot,
			  const struct sluice_policy *policy, int64_t now)
{
	return age_of (snapshot, now) <= policy->max_snapshot_age
	       && !sluice_snapshot_is_from_future (snapshot, now);
}

uint32_t
sluice_snapshot_corunner_count (const struct sluice_snapshot *snapshot)
{
	return (uint32_t)snapshot->corunner_count;
}

const struct sluice_corunner *
sluice_snapshot_corunner (const struct sluice_snapshot *snapshot, uint32_t i)
{
	return i < snapshot->corunner_count ? &snapshot->corunners[i] : NULL;
}

uint32_t
sluice_snapshot_placed_count (const struct sluice_snapshot *snapshot)
{
	return (uint32_t)snapshot->placed_count;
}

const struct sluice_placed_job *
sluice_snapshot_placed (const struct sluice_snapshot *snapshot, uint32_t i)
{
	return &snapshot->placed[i];
}

uint32_t
sluice_snapshot_target_count (const struct sluice_snapshot *snapshot)
{
	return (uint32_t)snapshot->target_count;
}

const struct sluice_target *
sluice_snapshot_target (const struct sluice_snapshot *snapshot, uint32_t i)
{
	return &snapshot->targets[i];
}

const struct sluice_partition *
sluice_snapshot_partition (const struct sluice_snapshot *snapshot, const char *name)
{
	for (uint64_t i = 0; i < snapshot->partition_count; i++) {
		const struct sluice_partition *p = &snapshot->partitions[i];
		if (name[0] ? strcmp (p->name, name) == 0
			    : (p->flags & SLUICE_PARTITION_DEFAULT) != 0)
			return p;
	}
	return NULL;
}

int
sluice_snapshot_preempts (const struct sluice_snapshot *snapshot, const char *qos)
{
	for (uint64_t i = 0; i < snapshot->qos_count; i++)
		if (strcmp (snapshot->qos[i].name, qos) == 0)
			return 1;
	return 0;
}

double
sluice_snapshot_lane_speed (const struct sluice_snapshot *snapshot, const char *lane)
{
	for (uint64_t i = 0; i < snapshot->lane_count; i++)
		if (strcmp (snapshot->lanes[i].name, lane) == 0)
			return snapshot->lanes[i].speed;
	return 1.0;
}

/* Both users and holders begin with the number that they are sorted by. */
_Static_assert(offsetof (struct sluice_user, uid) == 0, "users begin with the uid");
_Static_assert(offsetof (struct sluice_holder, job_id) == 0, "holders with the job id");

static int
compare_numbers (const void *number, const void *element)
{
	uint32_t a = *(const uint32_t *)number, b = *(const uint32_t *)element;
	return (a > b) - (a < b);
}

static const void *
find_number (const void *elements, size_t size, uint64_t count, uint32_t number)
{
	return count ? bsearch (&number, elements, count, size, compare_numbers) : NULL;
}

const struct sluice_user *
sluice_snapshot_user (const struct sluice_snapshot *s, uint32_t uid)
{
	return find_number (s->users, sizeof *s->users, s->user_count, uid);
}

const struct sluice_holder *
sluice_snapshot_holder (const struct sluice_snapshot *s, uint32_t job_id)
{
	return find_number (s->holders, sizeof *s->holders, s->holder_count, job_id);
}

uint32_t
sluice_snapshot_holder_count (const struct sluice_snapshot *snapshot)
{
	return (uint32_t)snapshot->holder_count;
}

const struct sluice_holder *
sluice_snapshot_holder_at (const struct sluice_snapshot *snapshot, uint32_t i)
{
	return &snapshot->holders[i];
}
