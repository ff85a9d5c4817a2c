#include "libc.h"

#include "loaded.h"

#define LIBC_NAME(name) #name,
static const char *const names[LIBC_COUNT] = { LIBC_FUNCTIONS (LIBC_NAME) };

void *libc_found[LIBC_COUNT];

void *
libc_find (enum libc which)
{
	void *found = loaded_in_libc (names[which]);
	__atomic_store_n (&libc_found[which], found, __ATOMIC_RELAXED);
	return found;
}

int
libc_is_complete (void)
{
	for (enum libc which = 0; which < LIBC_COUNT; which++)
		if (!libc_function (which) && which != LIBC_pthread_key_create
		    && which != LIBC_pthread_setspecific)
			return 0;
	return 1;
}

FILE *
libc_stdout (void)
{
	static FILE **kept;
	FILE **place = __atomic_load_n (&kept, __ATOMIC_RELAXED);

	if (!place) {
		place = loaded_variable ("stdout");
		__atomic_store_n (&kept, place, __ATOMIC_RELAXED);
	}
	return place ? *place : NULL;
}

#ifndef __x86_64__
long
system_call_of (long number, long a, long b, long c, long d, long e, long f)
{
	int before = ERRNO;
	long result = LIBC (syscall) (number, a, b, c, d, e, f);

	if (result == -1)
		result = -ERRNO;
	ERRNO = before;
	return result;
}
#endif
