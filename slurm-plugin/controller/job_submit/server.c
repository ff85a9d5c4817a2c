#include "server.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "json.h"
#include "slurm_api.h"
#include "thread.h"

void
library_identify (struct library *out)
{
	static const char own;
	Dl_info found;

	memset (out, 0, sizeof *out);
	if (dladdr (&own, &found) && found.dli_fname
	    && stat (found.dli_fname, &out->loaded) == 0)
		sluice_copy_text (out->path, sizeof out->path, found.dli_fname);
}

static void
put_counts (struct json *json, const char *key, _Atomic uint64_t *counts, unsigned int n,
	    const char *(*name) (unsigned int))
{
	const char *comma = "";
	json_put (json, "\"%s\":{", key);
	for (unsigned int i = 0; i < n; i++) {
		json_put (json, "%s\"%s\":%" PRIu64, comma, name (i), counts[i]);
		comma = ",";
	}
	json_put (json, "},");
}

static void
put_file (struct json *json, const char *key, const struct file_status *file)
{
	json_put (json, "\"%s\":{\"path\":", key);
	json_put_string (json, file->path);
	json_put (json,
		  ",\"loaded\":%s,\"checksum\":\"%016" PRIx64 "\",\"created\":%" PRId64
		  ",\"since\":%" PRId64 ",\"error\":",
		  file->loaded ? "true" : "false", file->checksum, file->created,
		  file->since);
	json_put_string (json, file->error);
	json_put (json, "},");
}

/* counting_since: all numbers of the report go on at a restart, but for ring.last. */
static void
put_spool (struct json *json, struct spool *spool)
{
	struct spool_status status;
	spool_get_status (spool, &status);
	json_put (json,
		  "\"counting_since\":%" PRId64 ",\"spool\":{\"path\":", status.since);
	json_put_string (json, status.path);
	json_put (json, ",\"error\":");
	json_put_string (json, status.error);
	json_put (json, "},");
}

static void
put_library (struct json *json, const struct library *library)
{
	const struct stat *loaded = &library->loaded;
	json_put (json, "\"library\":{\"path\":");
	json_put_string (json, library->path);
	json_put (
	    json, ",\"device\":%ju,\"inode\":%ju,\"size\":%jd,\"mtime_ns\":%" PRId64 "},",
	    (uintmax_t)loaded->st_dev, (uintmax_t)loaded->st_ino, (intmax_t)loaded->st_size,
	    (int64_t)loaded->st_mtim.tv_sec * 1000000000 + loaded->st_mtim.tv_nsec);
}

static void
put_histogram (struct json *json, const char *key, struct histogram *histogram)
{
	const char *comma = "";
	uint64_t total = 0;
	json_put (json, "\"%s\":{\"buckets\":[", key);
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = histogram->count[i];
		if (n == 0)
			continue;
		json_put (json, "%s[%" PRIu64 ",%" PRIu64 "]", comma, histogram_upper (i),
			  n);
		comma = ",";
		total += n;
	}
	json_put (json, "],\"count\":%" PRIu64 ",\"max\":%" PRIu64 "}", total,
		  histogram->max);
}

size_t
report_write (const struct report_sources *sources, const char *socket_path,
	      const char *socket_error, char out[REPORT_SIZE])
{
	struct json json = { out, REPORT_SIZE, 0 };
	struct counters *counters = sources->counters;
	struct ring_state ring = ring_state (sources->ring);
	struct file_status files[FILE_COUNT];
	uint32_t mode = SLUICE_MODE_OFF, furthest_mode = SLUICE_MODE_OFF;

	const struct view *view = loader_acquire (sources->loader);
	memcpy (files, loader_status (sources->loader), sizeof files);
	if (view) {
		mode = view->config.mode;
		furthest_mode = sluice_furthest_mode (&view->config);
	}
	loader_release (sources->loader);

	json_put (&json, "{\"version\":\"%s\",\"slurm_version\":\"%u.%02u.%u\",",
		  SLUICE_VERSION, SLURM_VERSION_NUMBER >> 16,
		  SLURM_VERSION_NUMBER >> 8 & 0xff, SLURM_VERSION_NUMBER & 0xff);
	json_put (&json,
		  "\"boot\":\"%016" PRIx64 "\",\"pid\":%d,\"mode\":\"%s\","
		  "\"furthest_mode\":\"%s\",",
		  sources->boot, (int)getpid (), sluice_mode_name (mode),
		  sluice_mode_name (furthest_mode));
	json_put (&json,
		  "\"submissions\":%" PRIu64 ",\"modifications\":%" PRIu64
		  ",\"decided\":%" PRIu64 ",\"repeated\":%" PRIu64 ",\"notes\":%" PRIu64
		  ",",
		  counters->submissions, counters->modifications, counters->decided,
		  counters->repeated, counters->notes);
	put_counts (&json, "actions", counters->actions, SLUICE_ACTION_COUNT,
		    sluice_action_name);
	put_counts (&json, "reasons", counters->reasons, SLUICE_REASON_COUNT,
		    sluice_reason_name);
	put_counts (&json, "grants", counters->grants, SLUICE_GRANT_COUNT,
		    sluice_grant_name);
	json_put (&json,
		  "\"stripped\":%" PRIu64 ",\"opt_outs\":{\"option\":%" PRIu64
		  ",\"update\":%" PRIu64 "},",
		  counters->stripped, counters->reasons[SLUICE_REASON_OPTED_OUT],
		  counters->opt_outs);
	json_put (&json,
		  "\"ring\":{\"size\":%" PRIu32 ",\"used\":%" PRIu32 ",\"dropped\":%" PRIu64
		  ",\"lost\":%" PRIu64 ",\"last\":%" PRIu64 "},",
		  ring.size, ring.used, ring.dropped, ring.lost, ring.last);
	put_spool (&json, sources->spool);
	put_library (&json, sources->library);
	put_file (&json, "config", &files[FILE_CONFIG]);
	put_file (&json, "bundle", &files[FILE_BUNDLE]);
	put_file (&json, "snapshot", &files[FILE_SNAPSHOT]);
	json_put (&json, "\"socket\":{\"path\":");
	json_put_string (&json, socket_path);
	json_put (&json, ",\"error\":");
	json_put_string (&json, socket_error);
	json_put (&json, "},\"cpu_ns\":{");
	put_histogram (&json, "known", &counters->known);
	json_put (&json, ",");
	put_histogram (&json, "all", &counters->all);
	json_put (&json, "}}\n");
	return json.used;
}

enum {
	REQUEST_SIZE = 128,
	REQUEST_MS = 1000, /* for a client to say what it wants */
	ANSWER_MS = 10000, /* for a client to take it */
	BIND_MS = 1000,	   /* between polls of the socket's file */
	RETRY_MS = 200,	   /* the same while there is none, and after errors */
	BACKLOG = 16,
	WAIT_MS = 20,		 /* between polls of the ring for a client that waits */
	LONGEST_WAIT_MS = 60000, /* that a client may ask for */
};

/*
 * Binding.
 */

static int
is_ours (const struct server *server)
{
	struct stat now;
	return stat (server->path, &now) == 0 && now.st_dev == server->bound.st_dev
	       && now.st_ino == server->bound.st_ino;
}

static void
unbind (struct server *server)
{
	if (server->listen_fd < 0)
		return;
	/* from 23.11 a new slurmctld may have put its socket there already */
	if (is_ours (server))
		unlink (server->path);
	close (server->listen_fd);
	server->listen_fd = -1;
}

/* Listen on a temporary name, then rename: a process that finds the file can connect,
 * and one that a dead slurmctld left is replaced. */
static int
open_socket (struct server *server, const char *path, struct sluice_error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int length = snprintf (address.sun_path, sizeof address.sun_path, "%s.%d", path,
			       (int)getpid ());
	if (length < 0 || (size_t)length >= sizeof address.sun_path)
		return sluice_fail (err, "the path is too long for a socket");

	int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return sluice_fail (err, "socket: %s", strerror (errno));
	unlink (address.sun_path);
	if (bind (fd, (struct sockaddr *)&address, sizeof address) != 0) {
		sluice_fail (err, "bind: %s", strerror (errno));
		close (fd);
		return -1;
	}
	if (chmod (address.sun_path, 0600) != 0 || listen (fd, BACKLOG) != 0
	    || stat (address.sun_path, &server->bound) != 0
	    || rename (address.sun_path, path) != 0) {
		sluice_fail (err, "%s", strerror (errno));
		unlink (address.sun_path);
		close (fd);
		return -1;
	}
	sluice_copy_text (server->path, sizeof server->path, path);
	server->listen_fd = fd;
	return 0;
}

/* Where the configuration wants the socket; a refused one changes nothing. */
static void
wanted_path (struct server *server, char out[SLUICE_PATH_SIZE])
{
	const struct view *view = loader_acquire (server->sources.loader);
	int is_configured = view && view->config_checksum != 0;
	sluice_copy_text (out, SLUICE_PATH_SIZE,
			  is_configured ? view->config.socket : server->path);
	loader_release (server->sources.loader);
}

/* Whether a process listens at the path: a slurmctld that died may leave its socket. */
static int
is_served (const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return 1;
	sluice_copy_text (address.sun_path, sizeof address.sun_path, path);
	int is_refused = connect (fd, (struct sockaddr *)&address, sizeof address) != 0
			 && (errno == ECONNREFUSED || errno == ENOENT);
	close (fd);
	return !is_refused;
}

static void
bind_where_wanted (struct server *server)
{
	char path[SLUICE_PATH_SIZE];
	struct sluice_error err;

	wanted_path (server, path);
	if (!path[0])
		return;
	if (server->listen_fd >= 0 && strcmp (path, server->path) == 0 && is_ours (server))
		return;
	unbind (server);
	/* Another's: it was there first, and its records are to be taken by its sluiced.
	 * From 23.11 that is the controller that hands over to this one, and ends at once.
	 */
	if (is_served (path)) {
		sluice_fail (&err,
			     "another slurmctld's plugin serves it; give each its own "
			     "Socket in sluice.conf");
		if (strcmp (err.text, server->error) != 0)
			slurm_info ("sluice: waiting for %s: %s", path, err.text);
	} else if (open_socket (server, path, &err) == 0) {
		slurm_info ("sluice: serving decision records at %s", path);
		err.text[0] = '\0';
	} else if (strcmp (err.text, server->error) != 0) {
		slurm_error ("sluice: no socket at %s: %s", path, err.text);
	}
	sluice_copy_text (server->error, sizeof server->error, err.text);
}

/*
 * One client. Everything has a deadline, and ends at once when the plugin does.
 */

/* 0 when the client is ready, -1 when it is too late. */
static int
wait_for_client (const struct server *server, int fd, short events, int64_t deadline)
{
	struct pollfd fds[] = { { .fd = fd, .events = events },
				{ .fd = server->stop_fd, .events = POLLIN } };
	int64_t left = deadline - thread_milliseconds ();
	return left > 0 && poll (fds, 2, (int)left) > 0 && !fds[1].revents ? 0 : -1;
}

static int
receive_line (const struct server *server, int fd, char line[REQUEST_SIZE])
{
	int64_t deadline = thread_milliseconds () + REQUEST_MS;
	size_t used = 0;
	while (used < REQUEST_SIZE - 1) {
		if (wait_for_client (server, fd, POLLIN, deadline) != 0)
			return -1;
		ssize_t n = recv (fd, line + used, REQUEST_SIZE - 1 - used, 0);
		if (n <= 0)
			return -1;
		used += (size_t)n;
		line[used] = '\0';
		if (line[used - 1] == '\n')
			return 0;
	}
	return -1;
}

static int
send_all (const struct server *server, int fd, const void *bytes, size_t size,
	  int64_t deadline)
{
	const char *p = bytes;
	while (size > 0) {
		ssize_t n = send (fd, p, size, MSG_NOSIGNAL);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else if ((errno != EAGAIN && errno != EINTR)
			   || wait_for_client (server, fd, POLLOUT, deadline) != 0) {
			return -1;
		}
	}
	return 0;
}

static int
send_text (const struct server *server, int fd, const char *text, int64_t deadline)
{
	return send_all (server, fd, text, strlen (text), deadline);
}

static int
send_records (const struct server *server, int fd, uint32_t max, int64_t deadline)
{
	struct ring *ring = server->sources.ring;
	struct ring_state state = ring_state (ring);
	uint64_t boot = server->sources.boot;
	uint32_t total = ring_of_one_boot (ring, max, &boot);
	char line[REQUEST_SIZE];

	snprintf (line, sizeof line, "records %" PRIu32 " %zu %016" PRIx64 " %" PRIu64 "\n",
		  total, sizeof (struct sluice_record), boot, state.dropped + state.lost);
	int result = send_text (server, fd, line, deadline);
	for (uint32_t sent = 0, n; result == 0 && sent < total; sent += n) {
		const struct sluice_record *first
		    = ring_oldest (ring, sent, total - sent, &n);
		result = send_all (server, fd, first, n * sizeof *first, deadline);
	}
	return result;
}

static void
answer_waiting (struct server *server)
{
	if (server->waiting_fd < 0)
		return;
	send_records (server, server->waiting_fd, server->waiting_max,
		      thread_milliseconds () + ANSWER_MS);
	close (server->waiting_fd);
	server->waiting_fd = -1;
}

/* Keep a client until there is a record. */
static void
let_wait (struct server *server, int fd, uint32_t max, uint32_t milliseconds)
{
	answer_waiting (server);
	server->waiting_fd = fd;
	server->waiting_max = max;
	server->waiting_until
	    = thread_milliseconds ()
	      + (milliseconds < LONGEST_WAIT_MS ? milliseconds : LONGEST_WAIT_MS);
}

static int
is_worth_waking (const struct server *server)
{
	return server->waiting_fd >= 0
	       && (ring_state (server->sources.ring).used > 0
		   || thread_milliseconds () >= server->waiting_until);
}

/* 1 when the client goes on waiting, else it is done with. */
static int
answer (struct server *server, int fd, const char *request)
{
	int64_t deadline = thread_milliseconds () + ANSWER_MS;
	uint64_t boot, after;
	uint32_t max, milliseconds;

	if (strcmp (request, "stats\n") == 0) {
		size_t size = report_write (&server->sources, server->path, server->error,
					    server->report);
		send_all (server, fd, server->report, size, deadline);
	} else if (sscanf (request, "wait %" SCNx64 " %" SCNu64 " %" SCNu32 " %" SCNu32,
			   &boot, &after, &max, &milliseconds)
		   == 4) {
		ring_acknowledge (server->sources.ring, boot, after);
		let_wait (server, fd, max, milliseconds);
		return 1;
	} else if (sscanf (request, "drain %" SCNx64 " %" SCNu64 " %" SCNu32, &boot, &after,
			   &max)
		   == 3) {
		ring_acknowledge (server->sources.ring, boot, after);
		send_records (server, fd, max, deadline);
	} else {
		send_text (server, fd, "error unknown request\n", deadline);
	}
	return 0;
}

static int
is_allowed (int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	return getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
	       && (peer.uid == 0 || peer.uid == geteuid ());
}

static void
serve_client (struct server *server)
{
	char request[REQUEST_SIZE];
	int fd = accept4 (server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		/* out of descriptors, say: do not spin */
		thread_sleep (server->stop_fd, -1, RETRY_MS);
		return;
	}
	if (!is_allowed (fd) || receive_line (server, fd, request) != 0
	    || !answer (server, fd, request))
		close (fd);
}

static void *
run (void *data)
{
	struct server *server = data;
	int64_t due = 0;
	for (;;) {
		int64_t now = thread_milliseconds ();
		if (now >= due) {
			bind_where_wanted (server);
			due = now + (server->listen_fd < 0 ? RETRY_MS : BIND_MS);
		}
		if (is_worth_waking (server))
			answer_waiting (server);
		struct pollfd fds[] = { { .fd = server->stop_fd, .events = POLLIN },
					{ .fd = server->listen_fd, .events = POLLIN },
					{ .fd = server->waiting_fd, .events = POLLIN } };
		int pause = (int)(due - now);
		if (server->waiting_fd >= 0 && pause > WAIT_MS)
			pause = WAIT_MS;
		poll (fds, 3, pause);
		if (fds[0].revents)
			break;
		if (fds[2].revents)
			answer_waiting (server); /* it hung up, or does not want to wait */
		if (fds[1].revents)
			serve_client (server);
	}
	answer_waiting (server);
	unbind (server);
	return NULL;
}

int
server_start (struct server *server, const struct report_sources *sources, int stop_fd)
{
	memset (server, 0, sizeof *server);
	server->sources = *sources;
	server->stop_fd = stop_fd;
	server->listen_fd = -1;
	server->waiting_fd = -1;
	return thread_start (&server->thread, "sluice-server", run, server);
}
