#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "turns.h"

/* Relaxed: each member stands for itself (page.h). */
#define LOAD(member) __atomic_load_n (&(member), __ATOMIC_RELAXED)
#define STORE(member, now) __atomic_store_n (&(member), (now), __ATOMIC_RELAXED)
#define ADD(member, more) __atomic_fetch_add (&(member), (more), __ATOMIC_RELAXED)

/* ---- making them ---- */

/* A memfd of this size, all of it there, mapped. Returns its descriptor. */
static int
make_memory (const char *name, size_t size, void **mapped, struct sluice_error *err)
{
	int fd = memfd_create (name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return sluice_fail (err, "memfd_create: %s", strerror (errno));
	int error = posix_fallocate (fd, 0, (off_t)size);
	*mapped = error ? MAP_FAILED
			: mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*mapped != MAP_FAILED
	    && fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	sluice_fail (err, "%zu bytes of shared memory: %s", size,
		     strerror (error ? error : errno));
	if (*mapped != MAP_FAILED)
		munmap (*mapped, size);
	*mapped = NULL;
	close (fd);
	return -1;
}

/* The same file for readers: it is not theirs, and none may open it for writing. */
static int
open_for_reading (int fd, struct sluice_error *err)
{
	char path[64];
	snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
	int reader = fchmod (fd, 0444) == 0 ? open (path, O_RDONLY | O_CLOEXEC) : -1;
	if (reader < 0)
		sluice_fail (err, "%s: %s", path, strerror (errno));
	close (fd);
	return reader;
}

static uint32_t
slots_for (const struct sluice_agent_request *request)
{
	if (request->slots == 0)
		return PAGES_SLOTS;
	return request->slots < PAGES_MAX_SLOTS ? request->slots : PAGES_MAX_SLOTS;
}

static int
make_page (struct pages *pages, struct sluice_error *err)
{
	void *mapped;
	pages->page_size
	    = sizeof *pages->page + pages->slot_count * sizeof (struct sluice_turns_slot);
	pages->page_fd = make_memory ("sluice-turns-page", pages->page_size, &mapped, err);
	if (pages->page_fd < 0)
		return -1;
	pages->page = mapped;
	pages->page->slot_count = pages->slot_count;
	pages->page->version = SLUICE_TURNS_VERSION;
	pages->page->magic = SLUICE_TURNS_PAGE_MAGIC;
	return 0;
}

static int
make_words (struct pages *pages, const struct sluice_agent_request *request,
	    struct sluice_error *err)
{
	void *mapped;
	int fd = make_memory ("sluice-turns-words", sizeof *pages->words, &mapped, err);
	if (fd < 0)
		return -1;
	pages->words = mapped;
	pages->words->flags = request->flags;
	pages->words->device_count = request->device_count;
	memcpy (pages->words->devices, request->devices,
		request->device_count * sizeof request->devices[0]);
	pages->words->version = SLUICE_TURNS_VERSION;
	pages->words->magic = SLUICE_TURNS_WORDS_MAGIC;
	pages->words_fd = open_for_reading (fd, err);
	return pages->words_fd < 0 ? -1 : 0;
}

/* By a file of /proc. 0: unknown; only root may ask about the processes of others. */
static uint64_t
pid_namespace (const char *path)
{
	struct stat status;
	return stat (path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

int
pages_make (struct pages *pages, const struct sluice_agent_request *request,
	    struct sluice_error *err)
{
	*pages = (struct pages){
		.page_fd = -1,
		.words_fd = -1,
		.slot_count = slots_for (request),
		.uid = request->uid,
		.pid_namespace = pid_namespace ("/proc/self/ns/pid"),
	};
	pages->hosts = calloc (pages->slot_count, sizeof *pages->hosts);
	if (!pages->hosts)
		sluice_fail (err, "no memory");
	else if (make_page (pages, err) == 0 && make_words (pages, request, err) == 0)
		return 0;
	pages_destroy (pages);
	return -1;
}

void
pages_destroy (struct pages *pages)
{
	if (pages->words)
		pages_say (pages, 0, 0);
	if (pages->page)
		munmap (pages->page, pages->page_size);
	if (pages->words)
		munmap (pages->words, sizeof *pages->words);
	if (pages->page_fd >= 0)
		close (pages->page_fd);
	if (pages->words_fd >= 0)
		close (pages->words_fd);
	free (pages->hosts);
}

void
pages_say (struct pages *pages, uint64_t until, uint64_t rate)
{
	STORE (pages->words->rate, rate);
	STORE (pages->words->until, until);
}

void
pages_place (struct pages *pages, uint64_t until,
	     const struct sluice_turns_targets *targets)
{
	struct sluice_turns_words *words = pages->words;
	STORE (words->place_until, 0);
	__atomic_thread_fence (__ATOMIC_RELEASE);
	for (size_t i = 0; i < sizeof targets->bits / sizeof targets->bits[0]; i++)
		STORE (words->place.bits[i], targets->bits[i]);
	__atomic_store_n (&words->place_until, until, __ATOMIC_RELEASE);
}

void
pages_bound (struct pages *pages, uint32_t longest_ms)
{
	STORE (pages->words->longest_ms, longest_ms);
}

/* ---- adding up ---- */

/* The target has to serve flushes and writes; a create is known by its file's close. Writes
 * that nobody waits for are joined, by caches and by clients of parallel file systems: the
 * first behind a flush counts, and then one a SLUICE_TURNS_JOINED. Programs write 4 KiB at
 * a time by stdio, and tar 10. */
static uint64_t
operations_of (const struct sluice_turns_slot *slot)
{
	uint64_t writes = LOAD (slot->operations), syncs = LOAD (slot->syncs);
	uint64_t joined
	    = syncs + LOAD (slot->through) + LOAD (slot->bytes) / SLUICE_TURNS_JOINED;
	return syncs + (writes < joined ? writes : joined);
}

static void
add_counters (struct pages_sum *sum, const struct sluice_turns_slot *slot)
{
	uint64_t last = LOAD (slot->last);
	sum->bytes += LOAD (slot->bytes);
	sum->operations += operations_of (slot);
	sum->uncovered += LOAD (slot->uncovered);
	sum->uncovered_bytes += LOAD (slot->uncovered_bytes);
	sum->last = last > sum->last ? last : sum->last;
}

/* Threads in a call that writes or syncs. */
static uint32_t
writing (const struct sluice_turns_slot *slot)
{
	return LOAD (slot->writing) + LOAD (slot->syncing);
}

void
pages_add_up (const struct pages *pages, struct pages_sum *sum)
{
	*sum = (struct pages_sum){ .refused = LOAD (pages->page->refused) };
	add_counters (sum, &pages->page->ended);
	for (uint32_t i = 0; i < pages->slot_count; i++) {
		const struct sluice_turns_slot *slot = &pages->page->slots[i];
		if (!LOAD (slot->pid))
			continue;
		add_counters (sum, slot);
		sum->writers += LOAD (slot->operations) > 0;
		if (!pages->hosts[i].is_stopped) {
			sum->writing += writing (slot);
			sum->waiting += LOAD (slot->waiting);
		}
		sum->locks += LOAD (slot->locks) > 0;
	}
}

/* ---- the dead ---- */

/* Whether the process of this pid belongs to the job's user; one with more rights seems to
 * be root's, but for its status. Unknown counts as yes. */
static int
is_of_user (const struct pages *pages, int pid)
{
	char text[1024], path[64];
	struct stat owner;
	const char *line;
	snprintf (path, sizeof path, "/proc/%d", pid);
	if (stat (path, &owner) != 0 || owner.st_uid == pages->uid)
		return 1;
	if (owner.st_uid != 0 || processes_read (pid, "status", text, sizeof text) < 0
	    || !(line = strstr (text, "\nUid:")))
		return owner.st_uid == 0;
	return strtoul (line + 5, NULL, 10) == pages->uid;
}

/* Whether the process of this pid, which exists, may be the slot's: it belongs to the job's
 * user, and began before the slot was taken. Unknown counts as yes. */
static int
is_of_slot (const struct pages *pages, const struct sluice_turns_slot *slot, int pid)
{
	char text[1024];
	unsigned long long began;
	if (!is_of_user (pages, pid))
		return 0;
	const char *rest = processes_read (pid, "stat", text, sizeof text) == 0
			       ? strrchr (text, ')')
			       : NULL;
	if (!rest
	    || sscanf (rest,
		       ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
		       "%*d %*d %*d %llu",
		       &began)
		   != 1)
		return 1;
	return began * (1000000000u / (unsigned long long)sysconf (_SC_CLK_TCK))
	       <= LOAD (slot->taken);
}

/* Whether a process here may be of the slot's container: unknown counts as yes. */
static int
is_of_container (const struct sluice_turns_slot *slot, int pid)
{
	uint64_t space = LOAD (slot->pid_namespace), found;
	char path[64];
	snprintf (path, sizeof path, "/proc/%d/ns/pid", pid);
	found = pid_namespace (path);
	return !space || !found || found == space;
}

static int
is_of_another (const struct pages *pages, int pid)
{
	for (uint32_t i = 0; i < pages->slot_count; i++)
		if (pages->hosts[i].pid == pid)
			return 1;
	return 0;
}

static int
exists (int pid)
{
	return pid > 0 && (kill (pid, 0) == 0 || errno != ESRCH);
}

/* The pid here of a process that is in a container, or 0. -1: not all could be asked about.
 */
static int32_t
find_in_containers (const struct pages *pages, const struct sluice_turns_slot *slot,
		    const struct processes *processes, uint32_t *looks)
{
	const struct processes_inner *found;
	uint32_t count = processes_find (processes, pages->uid, LOAD (slot->pid), &found);
	for (; count > 0 && *looks > 0; count--, found++, --*looks)
		if (!is_of_another (pages, found->host) && exists (found->host)
		    && is_of_container (slot, found->host)
		    && is_of_slot (pages, slot, found->host))
			return found->host;
	return count > 0 ? -1 : 0;
}

/* The slot's host, which is another's if the slot is. */
static struct pages_host *
host_of (struct pages *pages, uint32_t i)
{
	const struct sluice_turns_slot *slot = &pages->page->slots[i];
	struct pages_host *host = &pages->hosts[i];
	const struct pages_host found = {
		.slot_pid = LOAD (slot->pid),
		.space = LOAD (slot->pid_namespace),
		.taken = LOAD (slot->taken),
		.checks = host->checks,
	};
	if (host->slot_pid != found.slot_pid || host->space != found.space
	    || host->taken != found.taken)
		*host = found;
	return host;
}

static int
is_there (const struct pages *pages, uint32_t i, int pid)
{
	int is_thorough = (pages->hosts[i].checks + i) % PAGES_THOROUGH == 0;
	return exists (pid)
	       && (!is_thorough || is_of_slot (pages, &pages->page->slots[i], pid));
}

/* A process that is nowhere here may be in a container: until a census has listed those,
 * it lives. */
static int
lives_in_container (struct pages *pages, uint32_t i, struct processes *processes,
		    uint32_t *looks)
{
	struct pages_host *host = &pages->hosts[i];
	if (host->pid && is_there (pages, i, host->pid))
		return 1;
	host->pid = 0;
	if (!host->census)
		host->census = processes_want (processes);
	if (host->census > processes->done)
		return 1;
	int32_t found
	    = find_in_containers (pages, &pages->page->slots[i], processes, looks);
	host->census = 0;
	host->pid = found > 0 ? found : 0;
	return found != 0;
}

static int
lives (struct pages *pages, uint32_t i, struct processes *processes, uint32_t *looks)
{
	const struct pages_host *host = host_of (pages, i);
	int is_here = host->space && host->space == pages->pid_namespace;
	int may_be_here = is_here || !host->space || !pages->pid_namespace;
	if (may_be_here && is_there (pages, i, (int)host->slot_pid))
		return 1;
	return !is_here && lives_in_container (pages, i, processes, looks);
}

/* By Slurm's suspend, a debugger, a signal of the user's. */
static int
is_stopped (const struct pages_host *host)
{
	char text[1024];
	int pid = host->pid ? host->pid : (int)host->slot_pid;
	const char *rest = processes_read (pid, "stat", text, sizeof text) == 0
			       ? strrchr (text, ')')
			       : NULL;
	return rest && rest[1] == ' ' && (rest[2] == 'T' || rest[2] == 't');
}

static void
move_counter (uint64_t *from, uint64_t *to)
{
	ADD (*to, __atomic_exchange_n (from, 0, __ATOMIC_RELAXED));
}

static void
free_slot (struct sluice_turns_page *page, struct sluice_turns_slot *slot)
{
	uint64_t last = LOAD (slot->last);
#define MOVE(member, text) move_counter (&slot->member, &page->ended.member);
	SLUICE_TURNS_COUNTERS (MOVE)
#undef MOVE
	if (last > LOAD (page->ended.last))
		STORE (page->ended.last, last);
	/* All but the pid, which others wait for to become 0. */
	memset ((unsigned char *)slot + sizeof slot->pid, 0,
		sizeof *slot - sizeof slot->pid);
	__atomic_store_n (&slot->pid, 0, __ATOMIC_RELEASE);
}

static void
bury (struct pages *pages, uint32_t i, struct processes *processes)
{
	struct sluice_turns_slot *slot = &pages->page->slots[i];
	STORE (slot->writing, 0);
	STORE (slot->syncing, 0);
	STORE (slot->waiting, 0);
	if (LOAD (slot->locks)
	    && processes_may_have_left_lock (processes, (int32_t)LOAD (slot->pid)))
		return;
	pages->hosts[i] = (struct pages_host){ .pid = 0 };
	free_slot (pages->page, slot);
}

static int
is_busy (const struct sluice_turns_slot *slot)
{
	return writing (slot) || LOAD (slot->waiting);
}

/* One that goes on is enough for the job to be busy, so no others are asked about. */
uint32_t
pages_see_processes (struct pages *pages, struct processes *processes, uint32_t looks)
{
	int goes_on = 0;
	for (uint32_t seen = 0; seen < pages->slot_count && looks > 0; seen++) {
		uint32_t i = pages->next;
		struct sluice_turns_slot *slot = &pages->page->slots[i];
		pages->next = (i + 1) % pages->slot_count;
		if (!LOAD (slot->pid))
			continue;
		looks--;
		pages->hosts[i].checks++;
		if (!lives (pages, i, processes, &looks)) {
			bury (pages, i, processes);
			continue;
		}
		pages->hosts[i].is_stopped
		    = !goes_on && is_busy (slot) && is_stopped (&pages->hosts[i]);
		goes_on |= is_busy (slot) && !pages->hosts[i].is_stopped;
	}
	return looks;
}
