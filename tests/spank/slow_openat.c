/*
 * Preloaded: every openat waits two milliseconds, so that an attacker always has
 * the time between mkdirat and openat that an attacker would otherwise have by luck.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int
openat (int directory, const char *name, int flags, ...)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	va_list arguments;

	va_start (arguments, flags);
	mode_t mode = flags & O_CREAT ? va_arg (arguments, mode_t) : 0;
	va_end (arguments);
	nanosleep (&pause, NULL);
	return (int)syscall (SYS_openat, directory, name, flags, mode);
}
