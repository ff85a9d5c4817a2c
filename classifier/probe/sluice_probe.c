/*
 * sluice-probe - do the I/O of a small parallel program, and say what it got.
 *
 * The write patterns are those of Shah et al. (SuperFrI 2019), per process:
 *   owc  loop { create a new file, write one chunk, flush, close }
 *   ws   open; loop { seek to 0, write one chunk, flush }; close
 *   aw   open; loop { append one chunk }; close
 * The report is cut into slices that are aligned to wall-clock time, as their LWM2
 * does it, so that what several programs did at the same time can be laid side by
 * side. `sluice site calibrate` does that.
 *
 * It starts its processes itself and needs no MPI; under srun every task is a probe
 * of its own, and --start brings all of them to the same instant.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "options.h"
#include "place.h"
#include "run.h"
#include "tally.h"

int
main (int argc, char **argv)
{
	struct options options = parse_options (argc, argv);

	clock_init ();
	struct tally *tally = tally_create ();
	struct crew *crew = crew_create (&options);
	struct place *places = places_make (&options);
	struct outcome outcome = run (crew, &options, places, tally);
	if (outcome.code == 0 && report (&options, places, tally, &outcome) < 0) {
		fprintf (stderr, "sluice-probe: report: write: %s\n", strerror (errno));
		outcome.code = EXIT_IO;
	}
	places_remove (places, &options);
	return outcome.code;
}
