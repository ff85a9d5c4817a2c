#include "next.h"

#include <dlfcn.h>

#define NEXT_NAME(name) #name,
static const char *const names[NEXT_COUNT]
    = { NEXT_OF_LIBC (NEXT_NAME) NEXT_OF_OTHERS (NEXT_NAME) };

void *next_found[NEXT_COUNT];

void *
next_find (enum next which)
{
	void *found = dlsym (RTLD_NEXT, names[which]);
	__atomic_store_n (&next_found[which], found, __ATOMIC_RELAXED);
	return found;
}

void
next_find_all (void)
{
	for (enum next which = 0; which < NEXT_LIBC_COUNT; which++)
		next_find (which);
}
