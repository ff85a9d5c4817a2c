#include "turn.h"

#include "libc.h"
#include "timers.h"

/* All that it calls is part of it, but what is COLD: a call costs as much as what it does.
 */
#define FLAT __attribute__ ((flatten))

/* How long a hold sleeps before it reads the words again. */
enum { SLICE_NS = 10000000 };

static uint64_t
read_clock (clockid_t clock)
{
	struct timespec now;
	LIBC (clock_gettime) (clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The kernel's tick: it costs a tenth of the exact time where that has to read a device.
 * What is shorter than a tick is measured by how often it meets one. */
static uint64_t
tick (void)
{
	return read_clock (CLOCK_MONOTONIC_COARSE);
}

/* ---- waiting ---- */

static int
is_in_force (uint64_t until, uint64_t now)
{
	return until > now && until - now <= SLUICE_TURNS_LONGEST_NS;
}

/* When it may write, as the words are now; not after `now`: now. */
static uint64_t
may_write_at (const struct turn *turn, uint64_t now)
{
	uint64_t until = LOAD (turn->words->until), next = LOAD (turn->slot->next);

	if (!is_in_force (until, now))
		return now;
	return LOAD (turn->words->rate) && next < until ? next : until;
}

/* What it wrote at a rate, it pays for by not writing for as long as that takes. */
COLD static void
spend (struct sluice_turns_slot *slot, uint64_t rate, int64_t bytes)
{
	uint64_t now = read_clock (CLOCK_MONOTONIC), next = LOAD (slot->next);

	if (bytes < SLUICE_TURNS_MIN_WRITE)
		bytes = SLUICE_TURNS_MIN_WRITE;
	STORE (slot->next,
	       (next > now ? next : now) + (uint64_t)((double)bytes * 1e9 / (double)rate));
}

/* With these signals blocked. Returns an error number: EINTR when a handler ran. */
static int
sleep_for (uint64_t ns, const sigset_t *blocked)
{
	const struct timespec time = { .tv_nsec = (long)ns };
	return LIBC (ppoll) (NULL, 0, &time, blocked) == 0 ? 0 : ERRNO;
}

static int
is_exempt (struct turn *turn, uint64_t now)
{
	struct sluice_turns_slot *slot = turn->slot;
	uint64_t signalled = LOAD (slot->signalled);

	if (turn->is_nested)
		ADD (slot->exempt_nested, 1);
	else if (signalled && now < signalled + SLUICE_TURNS_SIGNAL_NS)
		ADD (slot->exempt_signal, 1);
	else if (process_job_has_lock ())
		ADD (slot->exempt_lock, 1);
	else if (process_is_restricted () || now < LOAD (slot->spared))
		return 1;
	else if (timers_are_set (now))
		ADD (slot->exempt_timer, 1);
	else
		return 0;
	return 1;
}

static void
count_waiting (struct turn *turn, uint32_t more)
{
	ADD (turn->slot->waiting, more);
	turn->thread->waiting += more;
}

/* Sleeps once; returns 0 when the call is to go. An error other than EINTR means that
 * this process is not allowed to sleep. */
static int
wait_a_slice (struct turn *turn, uint64_t now, uint64_t when, const sigset_t *blocked)
{
	int error = sleep_for (when - now < SLICE_NS ? when - now : SLICE_NS, blocked);
	uint64_t after;

	if (!process_has (turn->slot))
		return 0; /* a handler forked, and this is the child */
	after = read_clock (CLOCK_MONOTONIC);
	ADD (turn->slot->held_ns, after - now);
	if (error == EINTR)
		STORE (turn->slot->signalled, after);
	return error == 0;
}

/* What others of the process, or of the job, may have done meanwhile. */
static int
may_still_wait (uint64_t now)
{
	return !process_job_has_lock () && !process_is_restricted ()
	       && !timers_are_set (now);
}

/* Words that are renewed for ever hold no call for longer. */
static uint64_t
longest_wait (const struct turn *turn)
{
	uint64_t ms = LOAD (turn->words->longest_ms);
	return (ms ? ms : SLUICE_TURNS_STRETCH_MS) * 1000000;
}

/* Those that the kernel knows; but for glibc's own two, as by sigfillset. */
struct signals {
	uint64_t bits;
};

static void
block_signals (struct signals *before)
{
	const struct signals all = { ~((uint64_t)3 << 31) };
	SYSTEM_CALL (rt_sigprocmask, SIG_BLOCK, &all, before, sizeof all);
}

static void
unblock_signals (const struct signals *before)
{
	SYSTEM_CALL (rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof *before);
}

/* Signals come only while it sleeps: none is missed between two slices. */
static void
wait_in_slices (struct turn *turn, uint64_t now, uint64_t when)
{
	int before = ERRNO;
	uint64_t end = now + longest_wait (turn);
	union {
		struct signals kernels;
		sigset_t libcs;
	} blocked = { .libcs = { { 0 } } };

	block_signals (&blocked.kernels);
	count_waiting (turn, 1);
	while (when > now && now < end && wait_a_slice (turn, now, when, &blocked.libcs)
	       && may_still_wait (now)) {
		now = read_clock (CLOCK_MONOTONIC);
		when = may_write_at (turn, now);
	}
	if (process_has (turn->slot)) {
		count_waiting (turn, -1u);
		if (now >= end)
			STORE (turn->slot->spared, now + SLUICE_TURNS_RESPITE_NS);
	}
	unblock_signals (&blocked.kernels);
	ERRNO = before;
}

COLD static void
wait_for_turn (struct turn *turn)
{
	uint64_t now = read_clock (CLOCK_MONOTONIC), when = may_write_at (turn, now);

	if (when <= now || is_exempt (turn, now)
	    || !files_count_for_certain (turn->words, turn->fd))
		return;
	ADD (turn->slot->holds, 1);
	wait_in_slices (turn, now, when);
}

/* ---- counting ---- */

static void
note_burst (struct sluice_turns_slot *slot, uint64_t now)
{
	uint64_t began = LOAD (slot->burst_began);

	if (__builtin_expect (now < LOAD (slot->last) + SLUICE_TURNS_QUIET_NS, 1)
	    || LOAD (slot->writing) || LOAD (slot->syncing) || LOAD (slot->waiting))
		return;
	/* of threads that begin at once, one */
	if (!__atomic_compare_exchange_n (&slot->burst_began, &began, now, 0,
					  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	STORE (slot->burst_bytes, LOAD (slot->bytes));
	STORE (slot->burst_operations, LOAD (slot->operations));
	ADD (slot->bursts, 1);
}

static int
begin (struct turn *turn, int fd, struct file file)
{
	if (!file.counts || !(turn->slot = process_slot ()))
		return 0;
	turn->thread = process_thread ();
	turn->is_nested = process_thread_enter (turn->thread, turn);
	turn->thread->slot = turn->slot;
	turn->fd = fd;
	turn->is_durable = file.is_durable;
	if (!(LOAD (turn->slot->devices) & 1u << file.device))
		__atomic_fetch_or (&turn->slot->devices, 1u << file.device,
				   __ATOMIC_RELAXED);
	turn->began = tick ();
	note_burst (turn->slot, turn->began);
	return 1;
}

FLAT int
turn_begin (struct turn *turn, int fd)
{
	turn->words = process_words ();
	if (!turn->words || !begin (turn, fd, files_find (turn->words, fd)))
		return 0;
	if (__builtin_expect (LOAD (turn->words->until) > turn->began, 0)) {
		wait_for_turn (turn);
		turn->began = tick ();
	}
	/* this order, and the other one at the end: a jump between may leave too many, and
	 * never fewer than none */
	ADD (turn->slot->writing, 1);
	turn->thread->writing++;
	return 1;
}

/* Not in a child that a handler forked in the midst of the call. */
static int
leave (struct turn *turn)
{
	if (turn->thread->depth > 0)
		turn->thread->depth--;
	return process_has (turn->slot);
}

static void
count_operations (struct sluice_turns_slot *slot, int is_durable, uint64_t operations)
{
	ADD (slot->operations, operations);
	if (is_durable)
		ADD (slot->through, operations);
}

static void
count (struct sluice_turns_slot *slot, int fd, int is_durable, uint64_t bytes)
{
	ADD (slot->bytes, bytes);
	if (is_durable)
		ADD (slot->durable, bytes);
	else
		files_wrote (fd, bytes);
}

FLAT void
turn_end (struct turn *turn, int64_t bytes, uint64_t operations)
{
	struct sluice_turns_slot *slot = turn->slot;
	uint64_t now = tick ();

	turn->thread->writing--;
	if (!leave (turn))
		return;
	if (bytes > 0)
		count (slot, turn->fd, turn->is_durable, (uint64_t)bytes);
	count_operations (slot, turn->is_durable, operations);
	if (now != turn->began)
		ADD (slot->writing_ns, now - turn->began);
	if (__builtin_expect (LOAD (turn->words->rate) != 0, 0))
		spend (slot, LOAD (turn->words->rate), bytes);
	STORE (slot->last, now);
	ADD (slot->writing, -1u);
}

void
turn_count (int fd, uint64_t bytes, uint64_t operations)
{
	const struct sluice_turns_words *words = process_words ();
	struct sluice_turns_slot *slot;
	struct file file;

	if (!words || !(file = files_find (words, fd)).counts || !(slot = process_slot ()))
		return;
	count (slot, fd, file.is_durable, bytes);
	if (operations)
		count_operations (slot, file.is_durable, operations);
}

int
turn_begin_sync (struct turn *turn, int fd)
{
	const struct sluice_turns_words *words = process_words ();

	if (!words || !begin (turn, fd, files_known (fd)))
		return 0;
	ADD (turn->slot->syncing, 1);
	turn->thread->syncing++;
	return 1;
}

void
turn_end_sync (struct turn *turn, uint64_t durable, uint64_t operations)
{
	uint64_t now = tick ();

	turn->thread->syncing--;
	if (!leave (turn))
		return;
	ADD (turn->slot->durable, durable);
	ADD (turn->slot->operations, operations);
	ADD (turn->slot->syncs, 1);
	ADD (turn->slot->syncing_ns, now - turn->began);
	STORE (turn->slot->last, now);
	ADD (turn->slot->syncing, -1u);
}

void
turn_uncovered (int fd, uint64_t bytes)
{
	const struct sluice_turns_words *words = process_words ();
	struct sluice_turns_slot *slot;

	if (!words || (fd >= 0 && !files_find (words, fd).counts)
	    || !(slot = process_slot ()))
		return;
	ADD (slot->uncovered, 1);
	ADD (slot->uncovered_bytes, bytes);
}
