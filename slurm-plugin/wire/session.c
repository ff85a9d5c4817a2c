#include "session.h"

#include <munge.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "siphash.h"

enum { TTL = 60 }; /* s for which a credential holds: clocks of hosts differ */

static const char hello_purpose[16] = "sluice hello 1";
static const char welcome_purpose[16] = "sluice reply 1";

struct content {
	char purpose[16];
	struct session_half agent, coordinator;
};

/* The sender of a credential, and what is in it. */
struct decoded {
	struct content content;
	uid_t uid;
};

static munge_ctx_t
context_of (const struct session_munge *munge)
{
	munge_ctx_t context = munge_ctx_create ();
	if (context && munge->socket)
		munge_ctx_set (context, MUNGE_OPT_SOCKET, munge->socket);
	return context;
}

static int
encode (const struct session_munge *munge, const struct content *content, uid_t reader,
	struct session_credential *out, struct sluice_error *err)
{
	munge_ctx_t context = context_of (munge);
	char *text = NULL;
	int result = -1;

	if (!context)
		return sluice_fail (err, "munge: no memory");
	munge_ctx_set (context, MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_AES128);
	munge_ctx_set (context, MUNGE_OPT_TTL, TTL);
	munge_ctx_set (context, MUNGE_OPT_UID_RESTRICTION, reader);
	if (munge_encode (&text, context, content, sizeof *content) != EMUNGE_SUCCESS)
		sluice_fail (err, "munge: %s", munge_ctx_strerror (context));
	else if (strlen (text) > sizeof out->text)
		sluice_fail (err, "munge: a credential of %zu bytes", strlen (text));
	else {
		out->size = (uint32_t)strlen (text);
		memcpy (out->text, text, out->size);
		result = 0;
	}
	free (text);
	munge_ctx_destroy (context);
	return result;
}

static int
is_encrypted (munge_ctx_t context)
{
	int cipher = MUNGE_CIPHER_NONE;
	munge_ctx_get (context, MUNGE_OPT_CIPHER_TYPE, &cipher);
	return cipher != MUNGE_CIPHER_NONE;
}

static int
check (const struct session_munge *munge, munge_ctx_t context, munge_err_t error,
       const char *purpose, int size, const struct decoded *decoded,
       struct sluice_error *err)
{
	if (error != EMUNGE_SUCCESS)
		return sluice_fail (err, "munge: %s", munge_ctx_strerror (context));
	if (decoded->uid != 0 && decoded->uid != munge->slurm_user)
		return sluice_fail (err,
				    "the peer runs as uid %u; it must be root or uid %u, "
				    "who is --slurm-user",
				    (unsigned)decoded->uid, (unsigned)munge->slurm_user);
	if (size != sizeof decoded->content
	    || memcmp (decoded->content.purpose, purpose, sizeof decoded->content.purpose)
	    || !is_encrypted (context))
		return sluice_fail (err, "the credential is of another protocol");
	return 0;
}

static int
decode (const struct session_munge *munge, const struct session_credential *credential,
	const char *purpose, struct decoded *out, struct sluice_error *err)
{
	munge_ctx_t context = context_of (munge);
	char text[WIRE_MAX_PAYLOAD + 1];
	void *content = NULL;
	gid_t gid;
	int size = 0;

	if (!context)
		return sluice_fail (err, "munge: no memory");
	memcpy (text, credential->text, credential->size);
	text[credential->size] = '\0';
	munge_err_t error = munge_decode (text, context, &content, &size, &out->uid, &gid);
	if (content && size == sizeof out->content)
		memcpy (&out->content, content, sizeof out->content);
	int result = check (munge, context, error, purpose, size, out, err);
	free (content);
	munge_ctx_destroy (context);
	return result;
}

static void
derive (const struct content *content, struct session_keys *keys)
{
	uint64_t from_agent[2], words[4];
	memcpy (from_agent, content->agent.bytes, sizeof from_agent);
	for (unsigned char i = 0; i < 4; i++) {
		unsigned char text[SESSION_HALF + 1];
		memcpy (text, content->coordinator.bytes, SESSION_HALF);
		text[SESSION_HALF] = i;
		words[i] = siphash (from_agent, text, sizeof text);
	}
	memcpy (keys->to_coordinator, words, sizeof keys->to_coordinator);
	memcpy (keys->to_agent, words + 2, sizeof keys->to_agent);
}

static int
draw (struct session_half *half, struct sluice_error *err)
{
	if (getrandom (half->bytes, sizeof half->bytes, 0) != sizeof half->bytes)
		return sluice_fail (err, "getrandom failed");
	return 0;
}

int
session_hello (const struct session_munge *munge, struct session_half *half,
	       struct session_credential *out, struct sluice_error *err)
{
	struct content content = { "", { { 0 } }, { { 0 } } };
	if (draw (half, err) < 0)
		return -1;
	memcpy (content.purpose, hello_purpose, sizeof content.purpose);
	content.agent = *half;
	return encode (munge, &content, munge->slurm_user, out, err);
}

int
session_welcome (const struct session_munge *munge, const struct session_credential *hello,
		 struct session_keys *keys, struct session_credential *out,
		 struct sluice_error *err)
{
	struct decoded decoded;
	if (decode (munge, hello, hello_purpose, &decoded, err) < 0
	    || draw (&decoded.content.coordinator, err) < 0)
		return -1;
	memcpy (decoded.content.purpose, welcome_purpose, sizeof decoded.content.purpose);
	derive (&decoded.content, keys);
	return encode (munge, &decoded.content, decoded.uid, out, err);
}

int
session_join (const struct session_munge *munge, const struct session_half *half,
	      const struct session_credential *welcome, struct session_keys *keys,
	      struct sluice_error *err)
{
	struct decoded decoded;
	if (decode (munge, welcome, welcome_purpose, &decoded, err) < 0)
		return -1;
	if (memcmp (&decoded.content.agent, half, sizeof *half) != 0)
		return sluice_fail (err, "the coordinator answered another agent's hello");
	derive (&decoded.content, keys);
	return 0;
}
