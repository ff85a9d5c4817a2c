/* What the command lines of agent and coordinator have in common. Wrong usage ends the
 * program with status 2. */
#ifndef SLUICE_SETTINGS_H
#define SLUICE_SETTINGS_H

#include <sys/types.h>

_Noreturn void settings_refuse (const char *option, const char *reason);
/* For --help ('h'), --version ('V'), and options that do not exist. */
_Noreturn void settings_show (int option, const char *help);
/* The uid of a name or number. */
uid_t settings_user (const char *name);

#endif
