/*
 * The objects that the loader has mapped, and what they define. Read from its own list of
 * them: of the loader's and the C library's functions that would say so, a program may
 * have others of the same name, which it would be given in their place. Nothing here is
 * undefined in this library, allocates or takes a lock; all of it works before any
 * constructor has run, and in signal handlers.
 */
#ifndef SLUICE_LOADED_H
#define SLUICE_LOADED_H

/* A function of the C library itself. NULL: it has none of that name. */
void *loaded_in_libc (const char *name);

/* The function that a call would reach if this library were not there: of the first object
 * behind it. NULL: there is none. */
void *loaded_next (const char *name);

/* The function `name` of the object in which loaded_next finds `other`. */
void *loaded_alongside (const char *other, const char *name);

/* As loaded_next, of objects that come and go. */
void *loaded_now (const char *name);

/* The variable that the whole program means by this name. */
void *loaded_variable (const char *name);

#endif
