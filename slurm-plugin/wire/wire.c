#include "wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "siphash.h"

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "frames are sent as they lie in memory");
_Static_assert(sizeof (struct wire_head) == WIRE_HEAD, "part of the protocol");
_Static_assert(sizeof (struct wire_burst) == 104, "part of the protocol");
_Static_assert(sizeof (struct wire_word) == 32, "part of the protocol");
_Static_assert(sizeof (struct wire_place) == 72, "part of the protocol");

static int
has_tag (unsigned int kind)
{
	return kind != WIRE_HELLO && kind != WIRE_WELCOME;
}

static uint64_t
tag_of (const uint64_t key[2], uint64_t number, const struct wire_head *head,
	const void *payload)
{
	unsigned char text[WIRE_MAX_FRAME];
	size_t before_tag = offsetof (struct wire_head, tag);
	memcpy (text, &number, sizeof number);
	memcpy (text + sizeof number, head, before_tag);
	memcpy (text + sizeof number + before_tag, payload, head->size);
	return siphash (key, text, sizeof number + before_tag + head->size);
}

/* What is left of the frames that were read goes to the front, where payloads are aligned.
 */
static void
move_to_front (struct wire_in *in)
{
	memmove (in->bytes, in->bytes + in->first, in->used - in->first);
	in->used -= in->first;
	in->first = 0;
}

int
wire_receive (struct wire_in *in, int fd)
{
	move_to_front (in);
	ssize_t got = recv (fd, in->bytes + in->used, sizeof in->bytes - in->used, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0)
		return -1;
	in->used += (uint32_t)got;
	return (int)got;
}

static int
is_known (const struct wire_head *head)
{
	return head->size <= WIRE_MAX_PAYLOAD && head->version == WIRE_VERSION
	       && head->kind >= WIRE_HELLO && head->kind <= WIRE_PLACE;
}

int
wire_next (struct wire_in *in, struct wire_frame *frame)
{
	struct wire_head head;
	if (in->first % sizeof (uint64_t) != 0)
		move_to_front (in);
	if (in->used - in->first < sizeof head)
		return 0;
	memcpy (&head, in->bytes + in->first, sizeof head);
	if (!is_known (&head))
		return -1;
	if (in->used - in->first < sizeof head + head.size)
		return 0;
	frame->kind = (enum wire_kind)head.kind;
	frame->payload = in->bytes + in->first + sizeof head;
	frame->size = head.size;
	in->first += (uint32_t)sizeof head + head.size;
	if (has_tag (head.kind)
	    && tag_of (in->key, in->number++, &head, frame->payload) != head.tag)
		return -1;
	return 1;
}

int
wire_put (struct wire_out *out, enum wire_kind kind, const void *payload, uint32_t size)
{
	struct wire_head head = { size, (uint16_t)kind, WIRE_VERSION, 0 };
	if (size > WIRE_MAX_PAYLOAD || sizeof out->bytes - out->used < sizeof head + size)
		return -1;
	if (has_tag (kind))
		head.tag = tag_of (out->key, out->number++, &head, payload);
	memcpy (out->bytes + out->used, &head, sizeof head);
	memcpy (out->bytes + out->used + sizeof head, payload, size);
	out->used += (uint32_t)sizeof head + size;
	return 0;
}

int
wire_flush (struct wire_out *out, int fd)
{
	ssize_t sent = out->used ? send (fd, out->bytes, out->used, MSG_NOSIGNAL) : 0;
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return -1;
	if (sent > 0) {
		out->used -= (uint32_t)sent;
		memmove (out->bytes, out->bytes + sent, out->used);
	}
	return (int)out->used;
}

const struct wire_report *
wire_report_of (const struct wire_frame *frame)
{
	const struct wire_report *report = (const void *)frame->payload;
	if (frame->kind != WIRE_REPORT || frame->size < sizeof *report
	    || report->count > WIRE_MAX_BURSTS
	    || frame->size != sizeof *report + report->count * sizeof report->bursts[0])
		return NULL;
	return report;
}

const struct wire_verdict *
wire_verdict_of (const struct wire_frame *frame)
{
	const struct wire_verdict *verdict = (const void *)frame->payload;
	if (frame->kind != WIRE_VERDICT || frame->size < sizeof *verdict
	    || verdict->count > WIRE_MAX_WORDS
	    || frame->size != sizeof *verdict + verdict->count * sizeof verdict->words[0])
		return NULL;
	return verdict;
}

const struct wire_place *
wire_place_of (const struct wire_frame *frame)
{
	if (frame->kind != WIRE_PLACE || frame->size != sizeof (struct wire_place))
		return NULL;
	return (const void *)frame->payload;
}
