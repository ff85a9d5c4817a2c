/*
 * The agent's connection to the coordinator, made by a thread of its own: resolving names,
 * connecting and MUNGE may each take seconds.
 */
#ifndef SLUICE_LINK_H
#define SLUICE_LINK_H

#include <pthread.h>

#include "session.h"

struct link_settings {
	const char *host, *port; /* of the coordinator */
	struct session_munge munge;
};

struct link {
	struct link_settings settings;
	int ready_fd; /* readable when a connection stands */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int is_wanted;
	int fd; /* of what stands and was not taken yet; -1: nothing */
	struct session_keys keys;
	struct wire_in in;
	char error[SLUICE_ERROR_SIZE]; /* said last */
};

int link_start (struct link *link, const struct link_settings *settings,
		struct sluice_error *err);
/* Make a connection, unless it stands or is being made. */
void link_want (struct link *link);
/* The descriptor of the connection that stands, with what its ends need; -1: none. */
int link_take (struct link *link, struct wire_in *in, struct wire_out *out);

#endif
