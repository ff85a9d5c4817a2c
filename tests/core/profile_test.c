/* A profile at the ends of what it may be. */
#include <math.h>
#include <stddef.h>

#include "check.h"
#include "profile.h"

static struct sluice_profile
writer (void)
{
	struct sluice_profile p;
	sluice_profile_init (&p);
	p.write_bytes = 1e10;
	p.rate = 1e8;
	p.burst_seconds = 100.0;
	p.io_share = 0.5;
	for (unsigned int i = 0; i < SLUICE_PROFILE_FIELD_COUNT; i++)
		p.spread[i] = 0.2f;
	return p;
}

static int
is_near (double value, double wanted)
{
	return fabs (value - wanted) <= 1e-6 * wanted;
}

static void
test_times_move_with_a_volume_that_is_less_certain (void)
{
	struct sluice_profile p = writer (), more;
	sluice_profile_shift (&p, 1.0, &more);
	CHECK (is_near (more.write_bytes, p.write_bytes * exp (0.2)));
	CHECK (is_near (more.burst_seconds, p.burst_seconds * exp (0.2)));
	CHECK (is_near (more.io_share, p.io_share * exp (0.2)));
	CHECK (more.files == SLUICE_UNKNOWN);
}

/* Twice as fast means half as long. */
static void
test_times_move_against_a_rate_that_is_less_certain (void)
{
	struct sluice_profile p = writer (), faster, slower;
	const size_t rate = offsetof (struct sluice_profile, rate) / sizeof (double);
	p.spread[rate] = 0.7f;
	sluice_profile_shift (&p, 1.0, &faster);
	CHECK (is_near (faster.rate, p.rate * exp (0.7)));
	CHECK (is_near (faster.burst_seconds, p.burst_seconds * exp (-0.2)));
	CHECK (is_near (faster.io_share, p.io_share * exp (-0.2)));
	CHECK (is_near (faster.write_bytes, p.write_bytes * exp (0.2)));
	p.io_share = 0.95;
	sluice_profile_shift (&p, -1.0, &slower);
	CHECK (slower.io_share == 1.0);
}

int
main (void)
{
	test_times_move_with_a_volume_that_is_less_certain ();
	test_times_move_against_a_rate_that_is_less_certain ();
	return check_report ();
}
