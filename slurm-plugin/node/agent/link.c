#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 5, FIRST_PAUSE_MS = 250, LONGEST_PAUSE_MS = 8000 };

static void
set_option (int fd, int level, int name, int value)
{
	setsockopt (fd, level, name, &value, sizeof value);
}

/* A coordinator whose host is gone is noticed also while nothing is sent. */
static void
set_up (int fd)
{
	struct timeval patience = { .tv_sec = PATIENCE };
	setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	set_option (fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option (fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option (fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
	set_option (fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * PATIENCE);
}

static int
connect_to (const struct addrinfo *address)
{
	int fd = socket (address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	set_up (fd);
	if (connect (fd, address->ai_addr, address->ai_addrlen) == 0)
		return fd;
	close (fd);
	return -1;
}

static int
reach (const struct link_settings *settings, struct sluice_error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
	int error = getaddrinfo (settings->host, settings->port, &hints, &all), fd = -1;
	if (error)
		return sluice_fail (err, "%.100s: %s", settings->host,
				    gai_strerror (error));
	for (struct addrinfo *one = all; one && fd < 0; one = one->ai_next)
		fd = connect_to (one);
	if (fd < 0)
		sluice_fail (err, "%.100s port %.20s: %s", settings->host, settings->port,
			     strerror (errno));
	freeaddrinfo (all);
	return fd;
}

static int
send_hello (int fd, const struct session_credential *hello, struct sluice_error *err)
{
	struct wire_out out = { .used = 0 };
	errno = EAGAIN; /* where only a part was sent */
	if (wire_put (&out, WIRE_HELLO, hello->text, hello->size) < 0
	    || wire_flush (&out, fd) != 0)
		return sluice_fail (err, "cannot send: %s", strerror (errno));
	return 0;
}

static int
await_welcome (int fd, struct wire_in *in, struct session_credential *welcome,
	       struct sluice_error *err)
{
	struct wire_frame frame = { .size = 0 };
	int found;
	while ((found = wire_next (in, &frame)) == 0)
		if (wire_receive (in, fd) <= 0)
			return sluice_fail (err,
					    "the coordinator does not welcome this agent; "
					    "its log says why");
	if (found < 0 || frame.kind != WIRE_WELCOME)
		return sluice_fail (err, "what answers is no coordinator");
	welcome->size = frame.size;
	memcpy (welcome->text, frame.payload, frame.size);
	return 0;
}

static int
shake_hands (int fd, struct link *link, struct session_keys *keys, struct wire_in *in,
	     struct sluice_error *err)
{
	const struct session_munge *munge = &link->settings.munge;
	struct session_half half;
	struct session_credential hello, welcome;
	if (session_hello (munge, &half, &hello, err) < 0
	    || send_hello (fd, &hello, err) < 0
	    || await_welcome (fd, in, &welcome, err) < 0)
		return -1;
	return session_join (munge, &half, &welcome, keys, err);
}

static int
make_connection (struct link *link, struct session_keys *keys, struct wire_in *in,
		 struct sluice_error *err)
{
	*in = (struct wire_in){ .used = 0 };
	int fd = reach (&link->settings, err);
	if (fd < 0)
		return -1;
	if (shake_hands (fd, link, keys, in, err) < 0
	    || fcntl (fd, F_SETFL, O_NONBLOCK) < 0) {
		close (fd);
		return -1;
	}
	return fd;
}

/* Thousands of agents lose a coordinator at the same moment. */
static void
pause_for (unsigned int *milliseconds)
{
	unsigned int drawn = *milliseconds / 2 + (unsigned int)rand () % *milliseconds;
	struct timespec time = { drawn / 1000, (long)(drawn % 1000) * 1000000 };
	nanosleep (&time, NULL);
	*milliseconds *= 2;
	if (*milliseconds > LONGEST_PAUSE_MS)
		*milliseconds = LONGEST_PAUSE_MS;
}

static void
tell (struct link *link, const char *text)
{
	if (strcmp (link->error, text) == 0)
		return;
	sluice_copy_text (link->error, sizeof link->error, text);
	if (text[0])
		fprintf (stderr, "sluice-agent: no turns: %s\n", text);
	else
		fprintf (stderr, "sluice-agent: connected to %s port %s\n",
			 link->settings.host, link->settings.port);
}

static void
await_wish (struct link *link)
{
	pthread_mutex_lock (&link->lock);
	while (!link->is_wanted)
		pthread_cond_wait (&link->changed, &link->lock);
	pthread_mutex_unlock (&link->lock);
}

static void
hand_over (struct link *link, int fd, const struct session_keys *keys,
	   const struct wire_in *in)
{
	uint64_t one = 1;
	pthread_mutex_lock (&link->lock);
	link->fd = fd;
	link->keys = *keys;
	link->in = *in;
	link->is_wanted = 0;
	pthread_mutex_unlock (&link->lock);
	if (write (link->ready_fd, &one, sizeof one) < 0)
		perror ("sluice-agent: eventfd");
}

static void *
run (void *data)
{
	struct link *link = data;
	struct wire_in in;
	struct session_keys keys;
	struct sluice_error err;
	for (unsigned int pause = FIRST_PAUSE_MS;;) {
		await_wish (link);
		int fd = make_connection (link, &keys, &in, &err);
		tell (link, fd < 0 ? err.text : "");
		if (fd < 0) {
			pause_for (&pause);
			continue;
		}
		hand_over (link, fd, &keys, &in);
		pause = FIRST_PAUSE_MS;
		pause_for (&pause);
	}
	return NULL;
}

int
link_start (struct link *link, const struct link_settings *settings,
	    struct sluice_error *err)
{
	link->settings = *settings;
	link->fd = -1;
	sluice_copy_text (link->error, sizeof link->error, "not connected yet");
	pthread_mutex_init (&link->lock, NULL);
	pthread_cond_init (&link->changed, NULL);
	srand ((unsigned int)getpid () ^ (unsigned int)time (NULL));
	link->ready_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error
	    = link->ready_fd < 0 ? errno : pthread_create (&link->thread, NULL, run, link);
	if (error)
		return sluice_fail (err, "no thread: %s", strerror (error));
	return 0;
}

void
link_want (struct link *link)
{
	pthread_mutex_lock (&link->lock);
	if (!link->is_wanted && link->fd < 0) {
		link->is_wanted = 1;
		pthread_cond_signal (&link->changed);
	}
	pthread_mutex_unlock (&link->lock);
}

int
link_take (struct link *link, struct wire_in *in, struct wire_out *out)
{
	uint64_t count;
	if (read (link->ready_fd, &count, sizeof count) < 0)
		return -1;
	pthread_mutex_lock (&link->lock);
	int fd = link->fd;
	link->fd = -1;
	*in = link->in;
	memcpy (in->key, link->keys.to_agent, sizeof in->key);
	*out = (struct wire_out){ .used = 0 };
	memcpy (out->key, link->keys.to_coordinator, sizeof out->key);
	pthread_mutex_unlock (&link->lock);
	return fd;
}
