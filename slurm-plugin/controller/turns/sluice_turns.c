/*
 * sluice-turns: the coordinator of turns, one a cluster, next to the controller.
 *
 *   agents     report bursts, and receive verdicts     agents.h, handshakes.h, wire.h
 *   bursts     of jobs, decided on by the core         bursts.h
 *   files      settings, bundle, snapshot, status      site.h, status.h
 *              bursts that were held, for the history   journal.h
 *
 * A process of its own: sluiced waits for the controller, and holds must not wait with it.
 * It asks Slurm nothing and stores nothing: after a restart no job is held.
 */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agents.h"
#include "journal.h"
#include "settings.h"
#include "site.h"
#include "status.h"

enum {
	LEAST_MS = 50,	   /* between decisions */
	LONGEST_MS = 250,  /* while there are bursts */
	PUBLISH_MS = 1000, /* between reports on itself */
};

#define CONFIG "/etc/slurm/sluice.conf"

static const char help[]
    = "Usage: sluice-turns [OPTIONS]\n"
      "\n"
      "Decide which bursts of I/O go first, and send the verdicts to the nodes' agents.\n"
      "\n"
      "It listens on TurnsPort of the settings. In Mode=enforce bursts are held; in "
      "observe\n"
      "and advise it decides and counts, and holds no job. `sluice off` releases all "
      "jobs.\n"
      "It runs as SlurmUser, the owner of bundle and snapshot. sluiced starts it\n"
      "where TurnsPort is set, and starts it again where it ends.\n"
      "\n"
      "  --config PATH         the settings  [$SLUICE_CONF, else " CONFIG "]\n"
      "  --address ADDRESS     listen there only  [all addresses]\n"
      "  --observe             hold no job, whatever Mode is\n"
      "  --munge-socket PATH   of munged  [MUNGE's own default]\n"
      "  --help, --version\n";

static struct {
	const char *config, *address;
	int observes;
	struct session_munge munge;
} options;

struct coordinator {
	struct site *site;
	struct handshakes *handshakes;
	struct agents *agents;
	struct bursts *bursts;
	struct journal *journal;
	const struct bursts_rules *rules;
	int64_t decided, due, published; /* ms */
};

static volatile sig_atomic_t is_ending;

static void
end (int signal)
{
	(void)signal;
	is_ending = 1;
}

static int64_t
sooner (int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void
decide (struct coordinator *c, int64_t now)
{
	c->rules = site_rules (c->site, now);
	double again = bursts_decide (c->bursts, c->rules, agents_seconds ());
	c->decided = now;
	c->due = now + LONGEST_MS;
	if (again < 1e12)
		c->due = sooner (c->due, (int64_t)ceil (again * 1e3));
	if (c->due < now + LEAST_MS)
		c->due = now + LEAST_MS;
}

static void
publish (struct coordinator *c, int64_t now)
{
	static char text[STATUS_SIZE];
	const struct status_facts facts = {
		.mode = c->rules->is_off  ? "off"
			: c->rules->holds ? "enforce"
					  : "observe",
		.error = site_error (c->site),
		.agents = c->agents,
		.policy = c->rules->policy,
		.lost = journal_lost (c->journal),
		.clock = agents_seconds (),
	};
	status_write (c->bursts, &facts, text);
	site_publish (c->site, text);
	c->published = now;
}

/* Whether there is anything to decide without a report. */
static int
is_pending (const struct coordinator *c)
{
	return bursts_active_count (c->bursts) > 0 || bursts_placed_count (c->bursts) > 0;
}

/* Until something is due without a report. */
static int
sleep_ms (const struct coordinator *c, int64_t now)
{
	int64_t next = c->published + PUBLISH_MS;
	if (is_pending (c))
		next = sooner (next, c->due);
	if (bursts_have_changed (c->bursts))
		next = sooner (next, c->decided + LEAST_MS);
	return next > now ? (int)(next - now) : 0;
}

/* Notify systemd that this daemon is not stuck, where its unit has WatchdogSec
 * (sd_notify(3)). */
static void
notify_watchdog (void)
{
	static const char alive[] = "WATCHDOG=1";
	const char *path = getenv ("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = path ? strlen (path) : 0;
	if (length == 0 || length >= sizeof address.sun_path)
		return;
	memcpy (address.sun_path, path, length);
	if (*path == '@')
		address.sun_path[0] = 0; /* a name without a file */
	int fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto (fd, alive, sizeof alive - 1, MSG_NOSIGNAL, (struct sockaddr *)&address,
		(socklen_t)(offsetof (struct sockaddr_un, sun_path) + length));
	close (fd);
}

/* Have the kernel kill this process when the sluiced that started it ends, however it
 * does. -1: it has ended already. */
static int
end_with_sluiced (void)
{
	const char *parent = getenv ("SLUICE_SUPERVISOR");
	if (!parent)
		return 0;
	prctl (PR_SET_PDEATHSIG, SIGKILL);
	return getppid () == (pid_t)atol (parent) ? 0 : -1;
}

static void
run (struct coordinator *c)
{
	while (!is_ending) {
		agents_poll (c->agents, sleep_ms (c, agents_milliseconds ()));
		int64_t now = agents_milliseconds ();
		int is_due = is_pending (c) && now >= c->due;
		if (now >= c->decided + LEAST_MS
		    && (is_due || bursts_have_changed (c->bursts)))
			decide (c, now);
		agents_flush (c->agents);
		if (now >= c->published + PUBLISH_MS) {
			c->rules = site_rules (c->site, now);
			publish (c, now);
			notify_watchdog ();
		}
	}
}

/* A bursts_record. */
static void
record_held (void *journal, const struct held_burst *burst, double clock)
{
	journal_add (journal, burst, clock);
}

static int
start (struct coordinator *c, struct sluice_error *err)
{
	char port[16], journal[SLUICE_PATH_SIZE + 16];
	if (site_start (options.config, options.observes, &c->site, err) < 0)
		return -1;
	if (site_config (c->site)->turns_port == 0)
		return sluice_fail (err, "%.200s has no TurnsPort: turns are off",
				    options.config);
	snprintf (port, sizeof port, "%u", site_config (c->site)->turns_port);
	snprintf (journal, sizeof journal, "%s.turns.held",
		  site_config (c->site)->snapshot);
	if (journal_start (journal, &c->journal, err) < 0)
		return -1;
	if (handshakes_start (&options.munge, &c->handshakes, err) < 0
	    || agents_start (options.address, port, c->handshakes, &c->agents, err) < 0)
		return -1;
	c->bursts = bursts_create (agents_send, agents_send_place, c->agents);
	if (!c->bursts)
		return sluice_fail (err, "no memory");
	agents_set_bursts (c->agents, c->bursts);
	bursts_set_recorder (c->bursts, record_held, c->journal);
	c->rules = site_rules (c->site, agents_milliseconds ());
	fprintf (stderr, "sluice-turns: listening on port %s\n", port);
	return 0;
}

static void
parse_options (int argc, char **argv)
{
	static const struct option known[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "address", required_argument, NULL, 'a' },
		{ "observe", no_argument, NULL, 'o' },
		{ "munge-socket", required_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const char *config = getenv ("SLUICE_CONF");
	options.config = config ? config : CONFIG;
	options.munge.slurm_user = geteuid ();
	for (int c; (c = getopt_long (argc, argv, "", known, NULL)) != -1;)
		switch (c) {
		case 'c':
			options.config = optarg;
			break;
		case 'a':
			options.address = optarg;
			break;
		case 'o':
			options.observes = 1;
			break;
		case 'm':
			options.munge.socket = optarg;
			break;
		default:
			settings_show (c, help);
		}
	if (optind < argc)
		settings_refuse (argv[optind], "is no option");
}

int
main (int argc, char **argv)
{
	static struct coordinator coordinator;
	struct sigaction action = { .sa_handler = end };
	struct sluice_error err = { "" };
	parse_options (argc, argv);
	sigaction (SIGTERM, &action, NULL);
	sigaction (SIGINT, &action, NULL);
	if (end_with_sluiced () < 0)
		return 1;
	if (start (&coordinator, &err) < 0) {
		fprintf (stderr, "sluice-turns: %s\n", err.text);
		return 1;
	}
	run (&coordinator);
	return 0;
}
