/* Texts: copies, checksums, hashes, signatures, stems, keys, settings. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "config.h"
#include "job_request.h"
#include "submission.h"
#include "submit_text.h"
#include "vocabulary.h"

static void
test_copies_are_cut_and_zero_filled (void)
{
	char out[8];
	memset (out, 'x', sizeof out);
	sluice_copy_text (out, sizeof out, "ab");
	CHECK (memcmp (out, "ab\0\0\0\0\0\0", 8) == 0);
	sluice_copy_text (out, sizeof out, "abcdefghij");
	CHECK (strcmp (out, "abcdefg") == 0);
	sluice_copy_text (out, sizeof out, NULL);
	CHECK (memcmp (out, "\0\0\0\0\0\0\0\0", 8) == 0);
}

static void
test_an_error_is_cut_and_may_be_nobodys (void)
{
	struct sluice_error err;
	char text[2 * SLUICE_ERROR_SIZE];
	memset (text, 'x', sizeof text);
	text[sizeof text - 1] = '\0';
	CHECK (sluice_fail (&err, "%s", text) == -1);
	CHECK (strlen (err.text) == SLUICE_ERROR_SIZE - 1);
	CHECK (sluice_fail (NULL, "%s", text) == -1);
}

/* The check value of CRC-64/XZ in the catalogue of parametrised CRCs. */
static void
test_the_checksum_is_crc64_xz (void)
{
	CHECK (sluice_crc64 ("123456789", 9) == 0x995dc9bbdf1939fau);
	CHECK (sluice_crc64 ("", 0) == 0);
}

static void
test_hashes_tell_texts_seeds_and_lengths_apart (void)
{
	static const char zeros[16];
	CHECK (sluice_hash_text ("a", 1) == sluice_hash_text ("a", 1));
	CHECK (sluice_hash_text ("a", 1) != sluice_hash_text ("a", 2));
	CHECK (sluice_hash_text ("a", 1) != sluice_hash_text ("b", 1));
	for (size_t n = 0; n < sizeof zeros; n++)
		CHECK (sluice_hash_bytes (zeros, n, 0)
		       != sluice_hash_bytes (zeros, n + 1, 0));
}

static uint64_t
signature (const char *script)
{
	return sluice_script_signature (script, strlen (script));
}

static void
test_a_signature_is_that_of_the_code_alone (void)
{
	uint64_t plain = signature ("cd work\nsrun ./app -n 3\n");
	static const char *const same[] = {
		"#!/bin/bash\n#SBATCH -N 4\ncd work\nsrun ./app -n 3\n",
		"cd work  \n\n\t\n  # a remark\nsrun ./app -n 3\t",
		"cd work\r\nsrun ./app -n 3\r\n",
	};
	static const char *const different[] = {
		"cd work\nsrun ./app -n 4\n",
		"cd worksrun ./app -n 3\n",
		"srun ./app -n 3\ncd work\n",
		"cd work\n  srun ./app -n 3\n",
	};
	static const char *const nothing[] = { "", "\n\n", "#!/bin/sh\n", "  # only this" };

	CHECK (plain != 0);
	for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
		CHECK (signature (same[i]) == plain);
	for (size_t i = 0; i < sizeof different / sizeof different[0]; i++)
		CHECK (signature (different[i]) != plain);
	for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
		CHECK (signature (nothing[i]) == 0);
	CHECK (sluice_script_signature (NULL, 5) == 0);
}

static int
is_blank (char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The lines of code of a text, one at a time; returns their bytes. */
static size_t
code_of (const char *text, size_t size, char *out)
{
	size_t copied = 0;
	for (size_t start = 0, stop; start < size; start = stop + 1) {
		for (stop = start; stop < size && text[stop] != '\n';)
			stop++;
		size_t first = start, end = stop;
		while (end > start && is_blank (text[end - 1]))
			end--;
		while (first < end && is_blank (text[first]))
			first++;
		if (first == end || text[first] == '#')
			continue;
		memcpy (out + copied, text + start, end - start);
		copied += end - start;
		out[copied++] = '\n';
	}
	return copied;
}

static void
test_a_signature_takes_every_short_script_line_by_line (void)
{
	static const char letters[] = { 'a', '#', ' ', '\r', '\n' };
	enum { LONGEST = 7, LETTERS = sizeof letters };
	char text[LONGEST], code[LONGEST + 1];

	for (size_t size = 0, all = 1; size <= LONGEST; size++, all *= LETTERS)
		for (size_t i = 0; i < all; i++) {
			for (size_t k = 0, rest = i; k < size; k++, rest /= LETTERS)
				text[k] = letters[rest % LETTERS];
			size_t length = code_of (text, size, code);
			CHECK (sluice_script_signature (text, size)
			       == sluice_script_signature (code, length));
			CHECK ((sluice_script_signature (text, size) == 0)
			       == (length == 0));
		}
}

static void
test_a_signature_depends_on_every_byte (void)
{
	char script[200];
	memset (script, 'x', sizeof script);
	uint64_t whole = sluice_script_signature (script, sizeof script);
	for (size_t i = 0; i < sizeof script; i++) {
		script[i] = 'y';
		CHECK (sluice_script_signature (script, sizeof script) != whole);
		script[i] = 'x';
		CHECK (sluice_script_signature (script, i) != whole);
	}
}

static void
test_a_signature_reads_no_more_than_16_kib (void)
{
	size_t size = 16 * 1024;
	char *script = malloc (size); /* exact, so that a sanitizer sees one byte more */
	memset (script, 'x', size);
	uint64_t cut = sluice_script_signature (script, size);
	CHECK (cut != 0);
	CHECK (sluice_script_signature (script, 4 * size) == cut);
	free (script);
}

static void
test_stems_forget_digits_and_case (void)
{
	static const struct {
		const char *name, *stem;
	} pairs[] = {
		{ "Run_0042", "run_#" },
		{ "run_43", "run_#" },
		{ "", "" },
		{ "2024", "#" },
		{ "a1b22c", "a#b#c" },
		{ "H\xc3\xbcgel", "h\xc3\xbcgel" },
	};
	char out[SLUICE_NAME_SIZE], longest[SLUICE_NAME_SIZE];

	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		sluice_name_stem (pairs[i].name, out);
		CHECK (strcmp (out, pairs[i].stem) == 0);
	}
	memset (longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	sluice_name_stem (longest, out);
	CHECK (strcmp (out, longest) == 0);
}

static void
test_a_key_needs_all_its_parts (void)
{
	struct sluice_submission s = { .uid = 0 };
	for (uint32_t e = 0; e <= SLUICE_EVIDENCE_COUNT; e++)
		CHECK (sluice_application_key (&s, e) == 0);
	s.script_signature = 1;
	sluice_copy_text (s.name, sizeof s.name, "run1");

	static const uint32_t kinds[]
	    = { SLUICE_EVIDENCE_USER_SCRIPT, SLUICE_EVIDENCE_USER_NAME,
		SLUICE_EVIDENCE_NAME, SLUICE_EVIDENCE_USER_ARGUMENTS };
	uint64_t keys[4];
	CHECK (sluice_application_key (&s, SLUICE_EVIDENCE_USER_ARGUMENTS) == 0);
	sluice_arguments_of ("sbatch a 1", 10, &s.arguments);
	for (int i = 0; i < 4; i++) {
		keys[i] = sluice_application_key (&s, kinds[i]);
		CHECK (keys[i] != 0);
		for (int j = 0; j < i; j++)
			CHECK (keys[i] != keys[j]);
	}
	s.uid = 7;
	sluice_copy_text (s.name, sizeof s.name, "run2");
	CHECK (sluice_application_key (&s, SLUICE_EVIDENCE_USER_SCRIPT) != keys[0]);
	CHECK (sluice_application_key (&s, SLUICE_EVIDENCE_USER_NAME) != keys[1]);
	CHECK (sluice_application_key (&s, SLUICE_EVIDENCE_NAME) == keys[2]);
}

static void
test_words_out_of_range_have_a_name_too (void)
{
	CHECK (strcmp (sluice_pattern_name (SLUICE_PATTERN_OWC), "owc") == 0);
	CHECK (strcmp (sluice_pattern_name (SLUICE_PATTERN_COUNT), "?") == 0);
	CHECK (strcmp (sluice_class_name (SLUICE_CLASS_STREAM), "stream") == 0);
	CHECK (strcmp (sluice_class_text (99), "?") == 0);
	CHECK (strcmp (sluice_action_name (99), "?") == 0);
	CHECK (strcmp (sluice_action_text (SLUICE_ACTION_COUNT), "?") == 0);
	CHECK (strcmp (sluice_reason_name (SLUICE_REASON_MARGIN), "margin") == 0);
	CHECK (strcmp (sluice_reason_text (~0u), "?") == 0);
	CHECK (strcmp (sluice_evidence_name (SLUICE_EVIDENCE_USER_SIZE), "user_size") == 0);
	CHECK (strcmp (sluice_mode_name (SLUICE_MODE_COUNT), "?") == 0);
}

static int
long_uid (const char *name, uint32_t *uid)
{
	*uid = 4000000000u;
	return name[0] == 'x' ? 0 : -1;
}

static void
test_user_names_become_uids_or_the_defaults_come_back (void)
{
	static struct sluice_config config;
	struct sluice_error err;
	char text[SLUICE_RULE_LIST_SIZE + 64] = "ModeOf=off Users=12,x";

	CHECK (sluice_config_parse ("c", text, strlen (text), &config, &err) == 0);
	CHECK (sluice_config_resolve_users (&config, long_uid, &err) == 0);
	CHECK (strcmp (config.mode_rules[0].users, "12,4000000000") == 0);

	/* short names that are longer as uids */
	strcpy (text, "Mode=off\nControlled=Users=x");
	for (int i = 0; i < 30; i++)
		strcat (text, ",x");
	CHECK (sluice_config_parse ("c", text, strlen (text), &config, &err) == 0);
	CHECK (sluice_config_resolve_users (&config, long_uid, &err) == -1);
	CHECK (strstr (err.text, "Controlled is longer than 255 bytes; shorten it"));
	CHECK (config.mode == SLUICE_MODE_OBSERVE);
}

static void
test_every_key_is_described_until_the_end (void)
{
	struct sluice_config_key key;
	unsigned int n = 0;
	for (; sluice_config_describe (n, &key); n++)
		CHECK (key.key[0] && key.kind[0] && key.text[0] && key.member[0]);
	CHECK (n > 20);
}

/* Any prefix of a file, and any byte replaced: parsed or refused, never read
 * beyond its end. */
static void
test_no_configuration_confuses_the_parser (void)
{
	static const char good[] = "Mode=advise # x\nLane=sl0 Targets=4 Bandwidth=20G\n"
				   "ModeOf=off Users=a,b\nInclude=cron\nTolerance=1.5\n";
	static struct sluice_config config;
	struct sluice_error err;

	for (size_t size = 0; size < sizeof good; size++)
		for (unsigned int byte = 0; byte < 256; byte += 5) {
			char *text = malloc (size + 1);
			memcpy (text, good, size);
			if (size > 0)
				text[(size * 7 + byte) % size] = (char)byte;
			int result = sluice_config_parse ("c", text, size, &config, &err);
			CHECK (result == 0 || strncmp (err.text, "c:", 2) == 0);
			free (text);
		}
}

int
main (void)
{
	test_copies_are_cut_and_zero_filled ();
	test_an_error_is_cut_and_may_be_nobodys ();
	test_the_checksum_is_crc64_xz ();
	test_hashes_tell_texts_seeds_and_lengths_apart ();
	test_a_signature_is_that_of_the_code_alone ();
	test_a_signature_takes_every_short_script_line_by_line ();
	test_a_signature_depends_on_every_byte ();
	test_a_signature_reads_no_more_than_16_kib ();
	test_stems_forget_digits_and_case ();
	test_a_key_needs_all_its_parts ();
	test_words_out_of_range_have_a_name_too ();
	test_user_names_become_uids_or_the_defaults_come_back ();
	test_every_key_is_described_until_the_end ();
	test_no_configuration_confuses_the_parser ();
	return check_report ();
}
