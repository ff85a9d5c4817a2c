/*
 * What slurmctld's plugin tells the nodes of a job's turns, in the environment that sbatch
 * sent: `yes` for a job that takes turns which it did not ask for, `no` for one that takes
 * none whatever its steps ask for. Users can forge it, as they can ask by --io-turns.
 */
#ifndef SLUICE_TURNS_VARIABLE_H
#define SLUICE_TURNS_VARIABLE_H

#define SLUICE_TURNS_DECIDED "SLUICE_TURNS_DECIDED"

#endif
