#include "policy.h"

#include <math.h>
#include <string.h>

#include "placement.h"

const double sluice_quantile = 0.9;
const double sluice_harmless_slowdown = 1.05;

void
sluice_policy_init (struct sluice_policy *policy)
{
	memset (policy, 0, sizeof *policy);
#define SET(key, member, def, low, high, text) policy->member = def;
	SLUICE_POLICY_SETTINGS (SET)
#undef SET
}

/* The name becomes part of a licence's name (`sl0_stream`). */
static int
is_lane_name (const char *name)
{
	size_t n = 0;
	while (n < SLUICE_NAME_SIZE && name[n])
		n++;
	if (n == 0 || n == SLUICE_NAME_SIZE || name[0] < 'a' || name[0] > 'z')
		return 0;
	return strspn (name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static int
check_lane (const struct sluice_policy *policy, uint32_t i, struct sluice_error *err)
{
	const struct sluice_lane *lane = &policy->lanes[i];
	if (!is_lane_name (lane->name))
		return sluice_fail (err,
				    "lane %u: a name starts with a lower-case letter, "
				    "followed by lower-case letters, digits and _",
				    (unsigned int)i);
	if (lane->targets < 1)
		return sluice_fail (err, "lane %s has no targets", lane->name);
	if (!isfinite (lane->bandwidth) || lane->bandwidth < 0.0)
		return sluice_fail (err, "lane %s has bandwidth %g", lane->name,
				    lane->bandwidth);
	if (!isfinite (lane->operations) || lane->operations < 0.0)
		return sluice_fail (err, "lane %s has %g operations", lane->name,
				    lane->operations);
	if (lane->has_blocks && lane->targets > SLUICE_MAX_TARGETS)
		return sluice_fail (err,
				    "lane %s has Place=blocks and %u targets; at most %d "
				    "can be placed on",
				    lane->name, (unsigned int)lane->targets,
				    SLUICE_MAX_TARGETS);
	for (uint32_t other = 0; other < i; other++)
		if (strcmp (lane->name, policy->lanes[other].name) == 0)
			return sluice_fail (err, "lane %s is there twice", lane->name);
	return 0;
}

int
sluice_policy_check (const struct sluice_policy *policy, struct sluice_error *err)
{
#define CHECK(key, member, def, low, high, text)                                           \
	if (!(policy->member >= low && policy->member <= high))                            \
		return sluice_fail (err, "%s is %g; it must be between %g and %g", #key,   \
				    policy->member, low, high);
	SLUICE_POLICY_SETTINGS (CHECK)
#undef CHECK
	if (policy->lane_count > SLUICE_MAX_LANES)
		return sluice_fail (err, "%u lanes; at most %d are possible",
				    (unsigned int)policy->lane_count, SLUICE_MAX_LANES);
	for (uint32_t i = 0; i < policy->lane_count; i++)
		if (check_lane (policy, i, err) < 0)
			return -1;
	return 0;
}

int
sluice_saves_enough (const struct sluice_policy *policy, double cost, double cheaper)
{
	/* Less than a tenth of a cost is within the error of its prediction. */
	const double margin = 0.1;
	double saving = cost - cheaper;
	return saving > margin * cost && saving >= policy->min_saving;
}

double
sluice_few_bytes (const struct sluice_policy *policy)
{
	/* A target takes 100 MiB in a fraction of a second, or a cache takes them. Where
	 * smaller savings count than by default, so do smaller jobs. */
	const double most = 104857600.0, default_saving = 60.0;
	double part = policy->min_saving / default_saving;
	return part < 1.0 ? part * most : most;
}

uint32_t
sluice_lane_count (const struct sluice_policy *policy)
{
	return policy->lane_count ? policy->lane_count : 1;
}

const char *
sluice_lane_name (const struct sluice_policy *policy, uint32_t lane)
{
	return policy->lane_count ? policy->lanes[lane].name : "all";
}

static int
has_lane (const struct sluice_policy *policy, const char *name)
{
	for (uint32_t i = 0; i < policy->lane_count; i++)
		if (strcmp (policy->lanes[i].name, name) == 0)
			return 1;
	return 0;
}

/* The lanes of a policy, of which an undivided file system has one. */
static uint32_t
lanes_of (const struct sluice_policy *policy, struct sluice_lane out[SLUICE_MAX_LANES])
{
	if (policy->lane_count == 0) {
		out[0] = (struct sluice_lane){ .name = "all", .targets = 1 };
		return 1;
	}
	memcpy (out, policy->lanes, policy->lane_count * sizeof *out);
	return policy->lane_count;
}

void
sluice_policy_join_lanes (struct sluice_policy *policy, const struct sluice_policy *other)
{
	struct sluice_lane more[SLUICE_MAX_LANES];
	uint32_t count = lanes_of (other, more);

	if (policy->lane_count == 0)
		policy->lane_count = lanes_of (policy, policy->lanes);
	for (uint32_t i = 0; i < count && policy->lane_count < SLUICE_MAX_LANES; i++)
		if (!has_lane (policy, more[i].name))
			policy->lanes[policy->lane_count++] = more[i];
}
