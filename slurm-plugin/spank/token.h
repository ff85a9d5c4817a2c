/*
 * Tokens among a job's licences: `sl0_stream` is a token of the lane sl0 and the
 * class stream.
 */
#ifndef SLUICE_TOKEN_H
#define SLUICE_TOKEN_H

#include "settings.h"

/*
 * The lane whose tokens the licences hold, as slurmctld reports them: entries
 * NAME[:COUNT] between commas or semicolons. NULL where there is no single one:
 *
 *   - no token, or only tokens of lanes that are not ours;
 *   - tokens of several lanes: such a job's output is not confined, it holds a
 *     token of each lane it may write to;
 *   - alternatives (`a|b`, from 25.05): which one it got is not said.
 *
 * licenses may be NULL. Licences of a remote server (NAME@SERVER) are no tokens.
 */
const struct lane *token_lane (const char *licenses, const struct settings *settings);

#endif
