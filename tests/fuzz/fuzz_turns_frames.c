/*
 * Any bytes from agents: as a stream, it is cut into frames or refused; as reports of
 * agents that are in, whatever they say, decisions can be made, every word is about a job
 * that the agent has, and nothing is left when they are gone. Reports here need no tags,
 * which nobody could guess.
 *
 * An input is a list of acts: a byte that says which, a byte for the agent or the time, and
 * for a report two bytes of its length and that many bytes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bursts.h"

enum { AGENTS = 4 };
enum act { REPORTS, DECIDES, DROPS, SWITCHES, ACTS };

static void
stream (const uint8_t *data, size_t size)
{
	struct wire_in in = { .used = 0 };
	struct wire_frame frame;
	int ends[2], found = 0;
	if (size > 65536 || socketpair (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
		return;
	if (send (ends[0], data, size, MSG_NOSIGNAL) < 0)
		found = -1;
	while (found >= 0 && wire_receive (&in, ends[1]) > 0)
		while ((found = wire_next (&in, &frame)) > 0)
			if (frame.size > WIRE_MAX_PAYLOAD
			    || frame.payload + frame.size > in.bytes + in.used)
				abort ();
	close (ends[0]);
	close (ends[1]);
}

static void
check_word (void *sender, struct bursts_agent *agent, const struct wire_word *word)
{
	(void)sender;
	if (!agent->parts || word->action > WIRE_SLOW || word->share > 1000000)
		abort ();
	if (word->action == WIRE_SLOW && word->rate == 0)
		abort (); /* would hold instead */
}

static void
check_place (void *sender, struct bursts_agent *agent, const struct wire_place *word)
{
	(void)sender;
	if (!agent->parts || word->targets.bits[0] >> 4)
		abort (); /* no lane has more than four targets */
}

static void
report (struct bursts *bursts, struct bursts_agent *agent, const uint8_t *bytes,
	size_t size, double clock)
{
	_Alignas(uint64_t) unsigned char payload[WIRE_MAX_PAYLOAD];
	struct wire_frame frame = { WIRE_REPORT, payload, (uint32_t)size };
	memcpy (payload, bytes, size);
	const struct wire_report *found = wire_report_of (&frame);
	if (found)
		bursts_report (bursts, agent, found, clock);
}

static void
play (struct bursts *bursts, struct bursts_rules *rules, const uint8_t *data, size_t size)
{
	struct bursts_agent agents[AGENTS] = { { .echo = 0 } };
	double clock = 1000.0;
	for (size_t at = 0, length; at + 2 <= size; at += length) {
		struct bursts_agent *agent = &agents[data[at + 1] % AGENTS];
		enum act act = (enum act) (data[at] % ACTS);
		length = 2;
		if (act == REPORTS && at + 4 <= size) {
			size_t wanted = data[at + 2] | (size_t)data[at + 3] << 8;
			size_t there = size - at - 4 < WIRE_MAX_PAYLOAD ? size - at - 4
									: WIRE_MAX_PAYLOAD;
			wanted = wanted < there ? wanted : there;
			report (bursts, agent, data + at + 4, wanted, clock);
			length = 4 + wanted;
		} else if (act == DECIDES) {
			clock += data[at + 1] / 64.0;
			if (isnan (bursts_decide (bursts, rules, clock)))
				abort ();
		} else if (act == DROPS) {
			bursts_drop (bursts, agent, clock);
		} else if (act == SWITCHES) {
			rules->number++;
			rules->holds = data[at + 1] & 1;
			rules->is_off = (data[at + 1] & 6) == 6;
			rules->storage.lane_count = data[at + 1] & 8 ? 1 : 2;
		}
		if (bursts_active_count (bursts) > bursts_job_count (bursts)
		    || bursts_holding_count (bursts) > bursts_job_count (bursts))
			abort ();
	}
	for (int i = 0; i < AGENTS; i++)
		bursts_drop (bursts, &agents[i], clock);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
	static struct bursts *bursts;
	struct bursts_rules rules = { .number = 1, .holds = 1 };
	if (!bursts && !(bursts = bursts_create (check_word, check_place, NULL)))
		return 0;
	sluice_turns_settings_init (&rules.settings);
	rules.storage = (struct sluice_turns_storage){
		.metadata = 1e4,
		.lane_count = 2,
		.lanes = { { .targets = 4, .bytes = 1e6, .operations = 100 },
			   { .targets = 1, .bytes = 1e3 } },
	};
	stream (data, size);
	play (bursts, &rules, data, size);
	if (bursts_job_count (bursts) || bursts_active_count (bursts)
	    || bursts_holding_count (bursts))
		abort ();
	return 0;
}
