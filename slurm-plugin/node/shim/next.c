#include "next.h"

#include "loaded.h"

#define NEXT_NAME(name) #name,
static const char *const names[NEXT_COUNT]
    = { NEXT_OF_LIBC (NEXT_NAME) NEXT_OF_OTHERS (NEXT_NAME) };

void *next_found[NEXT_LIBC_COUNT];

void *
next_find (enum next which)
{
	void *found = loaded_next (names[which]);
	__atomic_store_n (&next_found[which], found, __ATOMIC_RELAXED);
	return found;
}

void *
next_of_others (enum next which)
{
	return loaded_now (names[which]);
}

void *
next_alongside (enum next other, enum next which)
{
	static void *kept[NEXT_LIBC_COUNT];
	void *found = __atomic_load_n (&kept[which], __ATOMIC_RELAXED);

	if (!found) {
		found = loaded_alongside (names[other], names[which]);
		__atomic_store_n (&kept[which], found, __ATOMIC_RELAXED);
	}
	return found;
}
