#include "files.h"

#include "libc.h"
#include "process.h"

/* Descriptors above are asked about each time, and their locks last for ever. */
enum { FILES = 4096, MOST_USES = 1024 };

enum { UNKNOWN, OTHER, DEVICE_0, DURABLE = 0x80 };

static uint8_t kinds[FILES]; /* one of the above; DEVICE_0 + i for words->devices[i] */
static uint16_t uses[FILES]; /* asked anew after so many */
static uint64_t owed[FILES];
/* The smallest range that holds all its locks; end 0: none. */
static uint64_t lock_begin[FILES], lock_end[FILES];

static int
is_known_place (int fd)
{
	return fd >= 0 && fd < FILES;
}

/* ---- what it is ---- */

static uint8_t
device_kind (const struct sluice_turns_words *words, int fd)
{
	struct stat status;

	if (SYSTEM_CALL (fstat, fd, &status) < 0)
		return UNKNOWN; /* it may be opened where we do not see it */
	if (!S_ISREG (status.st_mode))
		return OTHER;
	for (uint32_t i = 0; i < words->device_count; i++)
		if (words->devices[i] == (uint64_t)status.st_dev)
			return (uint8_t)(DEVICE_0 + i);
	return OTHER;
}

COLD static uint8_t
ask_kind (const struct sluice_turns_words *words, int fd)
{
	uint8_t kind = process_is_restricted () ? OTHER : device_kind (words, fd);

	if (kind >= DEVICE_0) {
		long flags = SYSTEM_CALL (fcntl, fd, F_GETFL);
		if (flags >= 0 && (flags & (O_DIRECT | O_DSYNC)))
			kind |= DURABLE;
	}
	return kind;
}

static uint8_t
kind_of (const struct sluice_turns_words *words, int fd)
{
	uint8_t kind;
	uint16_t used;

	if (!is_known_place (fd))
		return fd < 0 ? OTHER : ask_kind (words, fd);
	kind = LOAD (kinds[fd]);
	used = (LOAD (uses[fd]) + 1) % MOST_USES;
	STORE (uses[fd], used);
	if (__builtin_expect (kind == UNKNOWN || (used == 0 && !process_is_restricted ()),
			      0)) {
		kind = ask_kind (words, fd);
		STORE (kinds[fd], kind);
	}
	return kind;
}

static struct file
file_of (uint8_t kind)
{
	uint8_t device = kind & (uint8_t)~DURABLE;

	return (struct file){
		.counts = device >= DEVICE_0,
		.is_durable = (kind & DURABLE) != 0,
		.device = (uint32_t)device - DEVICE_0,
	};
}

struct file
files_find (const struct sluice_turns_words *words, int fd)
{
	return file_of (kind_of (words, fd));
}

struct file
files_known (int fd)
{
	return file_of (is_known_place (fd) ? LOAD (kinds[fd]) : OTHER);
}

int
files_count_for_certain (const struct sluice_turns_words *words, int fd)
{
	files_forget (fd);
	return files_find (words, fd).counts;
}

void
files_forget (int fd)
{
	if (is_known_place (fd))
		STORE (kinds[fd], UNKNOWN);
}

/* ---- what it owes ---- */

void
files_wrote (int fd, uint64_t bytes)
{
	if (is_known_place (fd))
		ADD (owed[fd], bytes);
}

uint64_t
files_synced (int fd)
{
	return is_known_place (fd) ? __atomic_exchange_n (&owed[fd], 0, __ATOMIC_RELAXED)
				   : 0;
}

/* ---- locks ---- */

void
files_locked (int fd, uint64_t begin, uint64_t end)
{
	if (!is_known_place (fd)) {
		process_count_lock (1);
		return;
	}
	if (LOAD (lock_end[fd]) == 0) {
		STORE (lock_begin[fd], begin);
		STORE (lock_end[fd], end);
		process_count_lock (1);
		return;
	}
	if (begin < LOAD (lock_begin[fd]))
		STORE (lock_begin[fd], begin);
	if (end > LOAD (lock_end[fd]))
		STORE (lock_end[fd], end);
}

/* What is released in parts counts as held until all of it is released at once, or the
 * file is closed. */
void
files_unlocked (int fd, uint64_t begin, uint64_t end)
{
	if (!is_known_place (fd) || LOAD (lock_end[fd]) == 0
	    || begin > LOAD (lock_begin[fd]) || end < LOAD (lock_end[fd]))
		return;
	if (__atomic_exchange_n (&lock_end[fd], 0, __ATOMIC_RELAXED))
		process_count_lock (-1);
}

/* A child of vfork closes descriptors of its own, and its parent keeps the locks. */
void
files_closed (int fd)
{
	files_forget (fd);
	if (!is_known_place (fd))
		return;
	if (LOAD (lock_end[fd]) && process_is_own ())
		files_unlocked (fd, 0, FILES_LOCK_END);
	if (LOAD (owed[fd]))
		STORE (owed[fd], 0);
}

void
files_closed_range (unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; fd <= last && fd < FILES; fd++)
		files_closed ((int)fd);
}

void
files_duplicated (int from, int to)
{
	files_forget (to);
	if (is_known_place (from) && from != to && LOAD (lock_end[from]))
		files_locked (to, LOAD (lock_begin[from]), LOAD (lock_end[from]));
}
