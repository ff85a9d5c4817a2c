#include "vocabulary.h"

#define NAME(name, json, text) json,
#define TEXT(name, json, text) text,

/* The two functions that read one of the lists back. */
#define WORDS(word, LIST)                                                                  \
	const char *sluice_##word##_name (unsigned int i)                                  \
	{                                                                                  \
		static const char *const names[] = { LIST (NAME) };                        \
		return i < sizeof names / sizeof names[0] ? names[i] : "?";                \
	}                                                                                  \
	const char *sluice_##word##_text (unsigned int i)                                  \
	{                                                                                  \
		static const char *const texts[] = { LIST (TEXT) };                        \
		return i < sizeof texts / sizeof texts[0] ? texts[i] : "?";                \
	}

WORDS (pattern, SLUICE_PATTERNS)
WORDS (class, SLUICE_CLASSES)
WORDS (action, SLUICE_ACTIONS)
WORDS (reason, SLUICE_REASONS)
WORDS (grant, SLUICE_GRANTS)
WORDS (evidence, SLUICE_EVIDENCE)
