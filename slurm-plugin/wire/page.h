/*
 * The memory that a job's processes on one node share with the node's agent.
 *
 * Two sealed memfds a job and node, made by the agent and inherited by the tasks. The
 * environment names their descriptors: SLUICE_TURNS=PAGE:WORDS, two decimal numbers.
 *
 *   page    the job writes: one slot a process, what it writes and waits. So all of it is
 *           not to be trusted, and describes that job only. The agent sets magic, version
 * and slot_count before it hands the page out, and frees slots of the dead. words   the
 * agent writes: what the job may do now, and which devices count. The job gets a read-only
 * descriptor of a file that it cannot open for writing (fchmod 0444, not its own).
 *
 * Both carry F_SEAL_SHRINK and F_SEAL_GROW, and are allocated as a whole (fallocate): a
 * process dies of a mapped page that shrank, or that memory was lacking for.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds, unless a member says otherwise, and as coarse
 * as the kernel's tick (1 to 10 ms); sizes are bytes. Every member is naturally aligned and
 * read and written with atomic operations, without order among members: a reader may see
 * one member of a moment and the next of a moment later, so sums may dip for an instant.
 */
#ifndef SLUICE_PAGE_H
#define SLUICE_PAGE_H

#ifndef SLUICE_BINDING
#include <stdint.h>
#endif

#define SLUICE_TURNS_ENVIRONMENT "SLUICE_TURNS"

#define SLUICE_TURNS_PAGE_MAGIC 0x65676170736e7274  /* "trnspage" */
#define SLUICE_TURNS_WORDS_MAGIC 0x6473726f77736e74 /* "tnswords" */
#define SLUICE_TURNS_VERSION 2			    /* of both; unequal: not attached */
#define SLUICE_TURNS_LONGEST_NS 2000000000 /* a word further ahead does not count */
#define SLUICE_TURNS_QUIET_NS 500000000	   /* so long without activity ends a burst */
#define SLUICE_TURNS_SIGNAL_NS 60000000000 /* not held after a signal cut a hold short */
#define SLUICE_TURNS_STRETCH_MS 60000	   /* the longest wait, where words say none */
#define SLUICE_TURNS_RESPITE_NS 1000000000 /* not held after a wait of the longest */
#define SLUICE_TURNS_MIN_WRITE 4096	   /* a smaller write counts as so many in `rate` */
#define SLUICE_TURNS_MAX_DEVICES 32

enum sluice_turns_flags_of_words {
	SLUICE_TURNS_ROOT_TOO = 1 << 0,	 /* tests: root's processes are held as others */
	SLUICE_TURNS_PLACED = 1 << 1,	 /* a process of slurmstepd follows `place` */
	SLUICE_TURNS_IN_BLOCKS = 1 << 2, /* and can do so with blocks alone */
};

/* Targets of one lane, a bit each. */
struct sluice_turns_targets {
	uint64_t bits[8];
};

struct sluice_turns_words {
	uint64_t magic;
	uint32_t version;
	uint32_t flags; /* enum sluice_turns_flags_of_words; fixed */
	/* Until then the job's writes wait, or go slowly; 0 or past: they go. The agent
	 * renews it, and a word of a dead agent lapses. */
	uint64_t until;
	uint64_t
	    rate; /* while until lies ahead: B/s that each process may write; 0: none */
	/* Files on these devices (st_dev) count; fixed before a process attaches. */
	uint32_t device_count;
	/* For which a call waits at most, however often `until` is renewed; 0:
	 * SLUICE_TURNS_STRETCH_MS. */
	uint32_t longest_ms;
	uint64_t devices[SLUICE_TURNS_MAX_DEVICES];
	/* Until then the job's new files go to these targets; past, or no target: wherever
	 * they would. All bits are of one word where this is the same before and after they
	 * were read. */
	uint64_t place_until;
	struct sluice_turns_targets place;
};

/*
 * X(member, meaning): only rise while a process lives.
 *
 * What is in the storage when its call has returned (O_DIRECT, O_SYNC) or after an fsync
 * of its file counts as durable. So bytes - durable is what caches may still owe to the
 * storage, if the job alone would have it written.
 */
#define SLUICE_TURNS_COUNTERS(X)                                                           \
	X (bytes, "bytes written; those of stdio when they reach its buffer")              \
	X (operations,                                                                     \
	   "calls that write, also in vain; of stdio, the writes that it is known to do")  \
	X (writing_ns, "time inside calls that write, summed over threads; sampled")       \
	X (durable, "of the bytes, those known to be in the storage")                      \
	X (through, "of the operations, those that no cache takes: O_DIRECT, O_SYNC")      \
	X (syncs, "calls of fsync, fdatasync and close")                                   \
	X (syncing_ns, "time inside these; sampled")                                       \
	X (bursts, "bursts begun")                                                         \
	X (holds, "writes that waited")                                                    \
	X (held_ns, "time that they waited, summed over threads")                          \
	X (exempt_lock, "writes not held because the job has a file lock")                 \
	X (exempt_signal, "writes not held because a signal came during a hold")           \
	X (exempt_nested, "writes not held because another call was under way: handlers")  \
	X (exempt_timer, "writes not held because an alarm or a timer was set")            \
	X (uncovered,                                                                      \
	   "other ways to write that were opened, as mmap, aio, io_uring; and seccomp")    \
	X (uncovered_bytes, "bytes mapped or handed over in these, where known")

#define SLUICE_TURNS_COUNTER(member, text) uint64_t member;

/* What one process does. A process takes its slot when it first writes to a file that
 * counts, or takes a file lock, and frees it when it ends in good order. */
struct sluice_turns_slot {
	/* In the process's own pid namespace; 0: free. The last member that is set and
	 * cleared. An exec keeps slot and counters. */
	uint32_t pid;
	/* Descriptors on which it holds file locks of any kind. The lock may outlive the
	 * process where others inherited it: see /proc/locks before freeing its slot. */
	uint32_t locks;
	/* CLOCK_BOOTTIME at which it took the slot: a process of this pid that began
	 * later (/proc/PID/stat, field 22) is another one. */
	uint64_t taken;
	uint32_t writing;   /* threads inside a call that writes */
	uint32_t syncing;   /* threads inside fsync, fdatasync or close */
	uint32_t waiting;   /* threads that are held */
	uint32_t devices;   /* bit i: it wrote to words.devices[i] */
	uint64_t last;	    /* end of its last call that wrote, synced or closed */
	uint64_t signalled; /* when a signal last cut a hold short */
	uint64_t next;	    /* under `rate`: when it may write again */
	/* Its newest burst: begin, and the counters at that moment. A burst begins with a
	 * call that writes, syncs or closes after SLUICE_TURNS_QUIET_NS in which no thread
	 * did or waited to; it ends when as much has passed again after `last`. */
	uint64_t burst_began;
	uint64_t burst_bytes;
	uint64_t burst_operations;
	SLUICE_TURNS_COUNTERS (SLUICE_TURNS_COUNTER)
	/* Inode of the pid namespace that `pid` is of (/proc/self/ns/pid); 0: unknown. */
	uint64_t pid_namespace;
	uint64_t spared; /* not held until then, after a wait of the longest */
	uint64_t reserved[4];
};

struct sluice_turns_page {
	uint64_t magic;
	uint32_t version;
	uint32_t slot_count; /* no more than fit count */
	uint64_t refused;    /* processes that found no free slot: they are not covered */
	uint64_t reserved[5];
	/* Counters, `devices` and `last` of processes that freed their slots. */
	struct sluice_turns_slot ended;
	struct sluice_turns_slot slots[];
};

#ifndef SLUICE_BINDING
_Static_assert(sizeof (struct sluice_turns_slot) == 256, "slots are cache lines");
_Static_assert(sizeof (struct sluice_turns_words) == 368, "part of the interface");
#endif

#endif
