#include "process.h"

#include <limits.h>

#include "libc.h"

/* On a page that is zero again in a child that has a copy of this memory, however it was
 * forked; a child of vfork shares it. */
struct identity {
	struct sluice_turns_slot *slot;
	uint32_t pid;
	uint32_t is_refused; /* the page is full */
};

static struct sluice_turns_page *page;
static uint32_t slot_count;
static const struct sluice_turns_words *words;
static struct identity *identity;
static struct inherited {
	int fd;
	ino_t inode; /* the program may have another file there by now */
} inherited[2];
static int is_restricted;
static uint32_t locks_held;
static pthread_key_t thread_key;
static int has_thread_key;

/* initial-exec: the first use in a thread must not allocate */
static _Thread_local struct thread this_thread __attribute__ ((tls_model ("initial-exec")));

const struct sluice_turns_words *
process_words (void)
{
	return LOAD (words);
}

/* ---- attaching ---- */

/* A decimal number up to `end`. */
static int
parse_descriptor (const char **text, char end)
{
	int number = 0;
	const char *begin = *text;

	for (; **text >= '0' && **text <= '9' && number < INT_MAX / 10 - 1; ++*text)
		number = number * 10 + (**text - '0');
	if (*text == begin || **text != end)
		return -1;
	++*text;
	return number;
}

/* NULL: it cannot be mapped. */
static void *
map (size_t length, int protection, int flags, int fd)
{
	void *mapped = (void *)SYSTEM_CALL (mmap, NULL, length, protection, flags, fd, 0);

	return system_is_mapped (mapped) ? mapped : NULL;
}

/* By calls that the loader makes, too: where the descriptors are gone, a filter that this
 * program was started under may kill it for others. */
static int
is_open (int fd)
{
	void *mapped = map (1, PROT_READ, MAP_SHARED, fd);

	return mapped && SYSTEM_CALL (munmap, mapped, 1) == 0;
}

static ino_t
inode_of (int fd)
{
	struct stat status;

	return SYSTEM_CALL (fstat, fd, &status) == 0 ? status.st_ino : 0;
}

/* Maps all of a sealed memfd; sets its length. */
static void *
map_sealed (int fd, int protection, size_t least, size_t *length)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat status;
	long seals = SYSTEM_CALL (fcntl, fd, F_GET_SEALS);

	if (seals < 0 || (seals & needed) != needed || SYSTEM_CALL (fstat, fd, &status) < 0
	    || (size_t)status.st_size < least)
		return NULL;
	*length = (size_t)status.st_size;
	return map (*length, protection, MAP_SHARED, fd);
}

static const struct sluice_turns_words *
map_words (int fd)
{
	size_t length;
	const struct sluice_turns_words *mapped
	    = map_sealed (fd, PROT_READ, sizeof *mapped, &length);

	if (mapped && mapped->magic == SLUICE_TURNS_WORDS_MAGIC
	    && mapped->version == SLUICE_TURNS_VERSION
	    && mapped->device_count <= SLUICE_TURNS_MAX_DEVICES)
		return mapped;
	return NULL;
}

static int
map_page (int fd)
{
	size_t length;
	struct sluice_turns_page *mapped
	    = map_sealed (fd, PROT_READ | PROT_WRITE, sizeof *mapped, &length);

	if (!mapped || mapped->magic != SLUICE_TURNS_PAGE_MAGIC
	    || mapped->version != SLUICE_TURNS_VERSION)
		return -1;
	slot_count = (uint32_t)((length - sizeof *mapped) / sizeof mapped->slots[0]);
	if (mapped->slot_count < slot_count)
		slot_count = mapped->slot_count;
	page = mapped;
	return 0;
}

static int
map_identity (void)
{
	size_t length = LIBC (getauxval) (AT_PAGESZ);
	void *mapped
	    = map (length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	/* from Linux 4.14; without it, children would be taken for their parents */
	if (!mapped || SYSTEM_CALL (madvise, mapped, length, MADV_WIPEONFORK) < 0)
		return -1;
	identity = mapped;
	return 0;
}

static void
withdraw (void *data)
{
	struct thread *thread = data;

	if (thread->slot && process_has (thread->slot)) {
		ADD (thread->slot->writing, -thread->writing);
		ADD (thread->slot->syncing, -thread->syncing);
		ADD (thread->slot->waiting, -thread->waiting);
	}
	*thread = (struct thread){ .slot = NULL };
}

static void
attach (const char *text)
{
	const struct sluice_turns_words *mapped;
	int page_fd = parse_descriptor (&text, ':');
	int words_fd = page_fd < 0 ? -1 : parse_descriptor (&text, '\0');

	if (words_fd < 0 || !is_open (words_fd) || !(mapped = map_words (words_fd)))
		return;
	if (SYSTEM_CALL (geteuid) == 0 && !(mapped->flags & SLUICE_TURNS_ROOT_TOO))
		return;
	if (map_page (page_fd) < 0 || map_identity () < 0)
		return;
	/* before glibc 2.34, a program without threads does not have it */
	if (LIBC (pthread_key_create) && LIBC (pthread_setspecific))
		has_thread_key = LIBC (pthread_key_create) (&thread_key, withdraw) == 0;
	inherited[0] = (struct inherited){ page_fd, inode_of (page_fd) };
	inherited[1] = (struct inherited){ words_fd, inode_of (words_fd) };
	STORE (words, mapped);
}

void
process_attach (void)
{
	const char *text
	    = libc_is_complete () ? LIBC (getenv) (SLUICE_TURNS_ENVIRONMENT) : NULL;

	if (text && !LIBC (getauxval) (AT_SECURE))
		attach (text);
}

/* ---- slots ---- */

static uint64_t
boot_time (void)
{
	struct timespec now;
	LIBC (clock_gettime) (CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Containers of one job may have processes of one pid. 0 without /proc. */
static uint64_t
pid_namespace (void)
{
	struct stat status;
	long error = SYSTEM_CALL (newfstatat, AT_FDCWD, "/proc/self/ns/pid", &status, 0);

	return error ? 0 : (uint64_t)status.st_ino;
}

/* That of an earlier program of this process, which called exec. */
static struct sluice_turns_slot *
find_own_slot (uint32_t pid, uint64_t space)
{
	for (uint32_t i = 0; i < slot_count; i++) {
		struct sluice_turns_slot *slot = &page->slots[(pid + i) % slot_count];
		if (LOAD (slot->pid) == pid && LOAD (slot->pid_namespace) == space)
			return slot;
	}
	return NULL;
}

static struct sluice_turns_slot *
find_free_slot (uint32_t pid)
{
	for (uint32_t i = 0; i < slot_count; i++) {
		struct sluice_turns_slot *slot = &page->slots[(pid + i) % slot_count];
		uint32_t none = 0;
		if (LOAD (slot->pid) == 0
		    && __atomic_compare_exchange_n (&slot->pid, &none, pid, 0,
						    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return slot;
	}
	return NULL;
}

/* What an earlier program of this pid had under way when it called exec is over; its
 * locks may have stayed. */
static void
begin_slot (struct sluice_turns_slot *slot, uint64_t space)
{
	STORE (slot->taken, boot_time ());
	STORE (slot->pid_namespace, space);
	STORE (slot->writing, 0);
	STORE (slot->syncing, 0);
	STORE (slot->waiting, 0);
	ADD (slot->locks, LOAD (locks_held));
}

/* While another thread takes the slot, which may have lost its processor meanwhile; in a
 * handler that interrupted it, in vain. */
static struct sluice_turns_slot *
await_slot (void)
{
	struct sluice_turns_slot *slot = NULL;

	for (int spins = 1; spins < 1000000 && !slot && !LOAD (identity->is_refused);
	     spins++) {
		if (spins % 10000 == 0)
			SYSTEM_CALL (sched_yield);
		slot = LOAD (identity->slot);
	}
	return slot;
}

COLD static struct sluice_turns_slot *
take_slot (void)
{
	uint32_t pid, none = 0;
	uint64_t space;
	struct sluice_turns_slot *slot;

	if (LOAD (is_restricted) || LOAD (identity->is_refused))
		return NULL;
	pid = (uint32_t)SYSTEM_CALL (getpid);
	if (!__atomic_compare_exchange_n (&identity->pid, &none, pid, 0, __ATOMIC_RELAXED,
					  __ATOMIC_RELAXED))
		return await_slot ();
	space = pid_namespace ();
	slot = find_own_slot (pid, space);
	if (!slot)
		slot = find_free_slot (pid);
	if (slot)
		begin_slot (slot, space);
	else
		ADD (page->refused, 1);
	STORE (identity->is_refused, !slot);
	__atomic_store_n (&identity->slot, slot, __ATOMIC_RELEASE);
	return slot;
}

struct sluice_turns_slot *
process_slot (void)
{
	struct sluice_turns_slot *slot;

	if (!LOAD (words))
		return NULL;
	slot = LOAD (identity->slot);
	return __builtin_expect (slot != NULL, 1) ? slot : take_slot ();
}

int
process_has (const struct sluice_turns_slot *slot)
{
	return LOAD (words) && LOAD (identity->slot) == slot;
}

int
process_is_own (void)
{
	uint32_t pid = LOAD (words) ? LOAD (identity->pid) : 0;
	return pid == 0 || pid == (uint32_t)SYSTEM_CALL (getpid);
}

int
process_job_has_lock (void)
{
	for (uint32_t i = 0; i < slot_count; i++)
		if (LOAD (page->slots[i].locks) && LOAD (page->slots[i].pid))
			return 1;
	return 0;
}

static void
move_counter (uint64_t *from, uint64_t *to)
{
	ADD (*to, __atomic_exchange_n (from, 0, __ATOMIC_RELAXED));
}

static void
free_slot (struct sluice_turns_slot *slot)
{
	uint64_t last = LOAD (slot->last);

#define MOVE(member, text) move_counter (&slot->member, &page->ended.member);
	SLUICE_TURNS_COUNTERS (MOVE)
#undef MOVE
	__atomic_fetch_or (&page->ended.devices, LOAD (slot->devices), __ATOMIC_RELAXED);
	if (last > LOAD (page->ended.last))
		STORE (page->ended.last, last);
	STORE (slot->devices, 0);
	STORE (slot->last, 0);
	STORE (slot->signalled, 0);
	STORE (slot->spared, 0);
	STORE (slot->next, 0);
	STORE (slot->burst_began, 0);
	STORE (slot->burst_bytes, 0);
	STORE (slot->burst_operations, 0);
	STORE (slot->pid_namespace, 0);
	__atomic_store_n (&slot->pid, 0, __ATOMIC_RELEASE);
}

/* A slot in which threads are still at work, or of one whose locks others may have
 * inherited, is the agent's to free. */
static int
can_be_freed (const struct sluice_turns_slot *slot)
{
	return !LOAD (slot->writing) && !LOAD (slot->syncing) && !LOAD (slot->waiting)
	       && !LOAD (slot->locks);
}

void
process_exits (void)
{
	struct sluice_turns_slot *slot;

	if (!LOAD (words) || LOAD (is_restricted) || !(slot = LOAD (identity->slot)))
		return;
	if (process_is_own () && can_be_freed (slot))
		free_slot (slot);
}

void
process_end (void)
{
	process_exits ();
	STORE (words, NULL);
}

void
process_restrict (void)
{
	STORE (is_restricted, 1);
}

void
process_end_at_exec (void)
{
	static int is_done;

	/* a second time, a filter may be in force */
	if (!LOAD (words) || __atomic_exchange_n (&is_done, 1, __ATOMIC_RELAXED))
		return;
	for (int i = 0; i < 2; i++)
		if (inode_of (inherited[i].fd) == inherited[i].inode)
			SYSTEM_CALL (fcntl, inherited[i].fd, F_SETFD, FD_CLOEXEC);
}

int
process_kept (unsigned int first, unsigned int last)
{
	int lowest = -1;

	if (!LOAD (words) || LOAD (is_restricted))
		return -1;
	for (int i = 0; i < 2; i++) {
		int fd = inherited[i].fd;
		if ((unsigned int)fd >= first && (unsigned int)fd <= last
		    && (lowest < 0 || fd < lowest) && inode_of (fd) == inherited[i].inode)
			lowest = fd;
	}
	return lowest;
}

int
process_is_restricted (void)
{
	return LOAD (is_restricted);
}

void
process_count_lock (int more)
{
	struct sluice_turns_slot *slot = process_slot ();

	if (slot)
		ADD (slot->locks, (uint32_t)more);
	ADD (locks_held, (uint32_t)more);
}

struct thread *
process_thread (void)
{
	struct thread *thread = &this_thread;

	if (__builtin_expect (!thread->is_known, 0)) {
		thread->is_known = 1;
		if (has_thread_key)
			LIBC (pthread_setspecific) (thread_key, thread);
	}
	return thread;
}

/* Stacks grow downwards, so a handler's frames lie below; or on a stack of their own. */
static int
has_left (const struct thread *thread, const void *frame)
{
	stack_t stack;

	return (uintptr_t)frame >= (uintptr_t)thread->frame && !LOAD (is_restricted)
	       && SYSTEM_CALL (sigaltstack, NULL, &stack) == 0
	       && !(stack.ss_flags & SS_ONSTACK);
}

int
process_thread_enter (struct thread *thread, const void *frame)
{
	int is_known = thread->is_known;

	if (thread->depth > 0 && has_left (thread, frame)) {
		withdraw (thread);
		thread->is_known = is_known;
	}
	if (thread->depth++ > 0)
		return 1;
	thread->frame = frame;
	return 0;
}
