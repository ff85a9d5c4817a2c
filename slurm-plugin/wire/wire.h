/*
 * Frames between agents and the coordinator: a head, and up to WIRE_MAX_PAYLOAD bytes.
 * docs/reference/turns-protocol.md has the order of frames and the reasons.
 *
 * Numbers are little-endian. The tag is SipHash-2-4 of the frame's number in its direction,
 * of the head before it, and of the payload, under a key of the direction which both sides
 * know after hello and welcome. These two come first, have no tag, and carry a MUNGE
 * credential. So no frame can be forged, repeated, left out, or turned round; nothing but
 * the credentials is secret.
 *
 * What does not hold together ends the connection.
 */
#ifndef SLUICE_WIRE_H
#define SLUICE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "page.h"

enum {
	WIRE_VERSION = 2,
	WIRE_HEAD = 16,
	WIRE_MAX_PAYLOAD = 2048,
	WIRE_MAX_FRAME = WIRE_HEAD + WIRE_MAX_PAYLOAD,
	WIRE_OUT = 2 * WIRE_MAX_FRAME, /* not sent yet; frames without room are dropped */
};

enum wire_kind {
	WIRE_HELLO = 1, /* agent: a credential (session.h) */
	WIRE_WELCOME,	/* coordinator: a credential */
	WIRE_REPORT,	/* agent: struct wire_report */
	WIRE_VERDICT,	/* coordinator: struct wire_verdict */
	WIRE_PLACE,	/* coordinator: struct wire_place */
};

struct wire_head {
	uint32_t size; /* of the payload */
	uint16_t kind;
	uint16_t version;
	uint64_t tag;
};

enum wire_burst_flags {
	WIRE_ACTIVE = 1 << 0,	 /* in a burst */
	WIRE_LOCKED = 1 << 1,	 /* a process has a file lock */
	WIRE_HELD = 1 << 2,	 /* a word to hold is in effect */
	WIRE_UNCOVERED = 1 << 3, /* it also writes in ways that are not held */
	WIRE_GONE = 1 << 4,	 /* it has left the node; nothing more will be said of it */
	WIRE_QUIET = 1 << 5,	 /* nothing was under way at the last scan */
	WIRE_WRITING = 1 << 6,	 /* a call that writes or syncs was */
	WIRE_PLACED = 1 << 7,	 /* its new files follow struct wire_place */
	WIRE_IN_BLOCKS = 1 << 8, /* with aligned blocks of targets alone */
};

/* One job on one node. Counters are of all its processes there, and only rise. */
struct wire_burst {
	uint32_t job_id;
	uint32_t flags;	  /* enum wire_burst_flags */
	uint32_t nodes;	  /* of the whole job */
	uint32_t writers; /* processes here that write */
	uint64_t began;	  /* agent's clock, ns: its newest burst */
	uint64_t bytes;
	uint64_t operations;
	uint64_t base_bytes; /* when the newest burst began */
	uint64_t base_operations;
	uint64_t uncovered_bytes;
	uint64_t refused; /* processes that are not covered */
	uint64_t held;	  /* ns for which words have held it */
	uint64_t
	    may_hold; /* ns for which its run may still be held; UINT64_MAX: no limit */
	uint64_t exhausted; /* budgets that this agent found used up */
	/* its block of targets, by its admin comment; count 0: none is known */
	uint16_t first_target, target_count;
	uint32_t reserved;
};

struct wire_report {
	uint64_t sent; /* agent's clock, ns */
	uint32_t count;
	uint32_t reserved;
	struct wire_burst bursts[];
};

enum wire_action { WIRE_GO, WIRE_HOLD, WIRE_SLOW };

struct wire_word {
	uint32_t job_id;
	uint32_t action;     /* enum wire_action */
	uint64_t rate;	     /* SLOW: B/s of each process */
	uint64_t most_held;  /* ns for which this burst may be held in all */
	uint32_t share;	     /* SLOW: of full speed, in millionths */
	uint32_t longest_ms; /* for which it is held at a stretch; 0: the default */
};

/* A word is in effect for WIRE_LEASE_NS from `echo` on, so both directions have to work. */
struct wire_verdict {
	uint64_t echo; /* `sent` of the newest report that was read */
	uint32_t count;
	uint32_t reserved;
	struct wire_word words[];
};

#define WIRE_LEASE_NS 1900000000ull

/* Where a job's new files shall go; no target: wherever they would. In effect for
 * WIRE_PLACE_NS from its arrival on, or until the next one. */
struct wire_place {
	uint32_t job_id;
	uint32_t reserved;
	struct sluice_turns_targets targets;
};

#define WIRE_PLACE_NS 60000000000ull

enum {
	WIRE_MAX_BURSTS
	= (WIRE_MAX_PAYLOAD - sizeof (struct wire_report)) / sizeof (struct wire_burst),
	WIRE_MAX_WORDS
	= (WIRE_MAX_PAYLOAD - sizeof (struct wire_verdict)) / sizeof (struct wire_word),
};

/* Frames that a peer sends. */
struct wire_in {
	uint64_t key[2];
	uint64_t number; /* of the next frame with a tag */
	uint32_t first, used;
	_Alignas(uint64_t) unsigned char bytes[WIRE_MAX_FRAME];
};

struct wire_out {
	uint64_t key[2];
	uint64_t number;
	uint32_t used;
	unsigned char bytes[WIRE_OUT];
};

struct wire_frame {
	enum wire_kind kind;
	const unsigned char *payload; /* aligned for uint64_t; until wire_in changes */
	uint32_t size;
};

/* Read what there is. Returns bytes; 0: nothing now; -1: the peer is gone. */
int wire_receive (struct wire_in *in, int fd);
/* The next whole frame: 1; 0: there is none yet; -1: what came is none. */
int wire_next (struct wire_in *in, struct wire_frame *frame);

/* Append a frame. -1: there is no room. */
int wire_put (struct wire_out *out, enum wire_kind kind, const void *payload,
	      uint32_t size);
/* Send what can be sent. Returns the bytes left; -1: the peer is gone. */
int wire_flush (struct wire_out *out, int fd);

/* The payload as what the kind says, or NULL where sizes do not fit. */
const struct wire_report *wire_report_of (const struct wire_frame *frame);
const struct wire_verdict *wire_verdict_of (const struct wire_frame *frame);
const struct wire_place *wire_place_of (const struct wire_frame *frame);

#endif
