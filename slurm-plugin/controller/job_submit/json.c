#include "json.h"

#include <stdarg.h>
#include <stdio.h>

void
json_put (struct json *json, const char *format, ...)
{
	size_t room = json->size - json->used;
	va_list args;
	va_start (args, format);
	int n = vsnprintf (json->out + json->used, room, format, args);
	va_end (args);
	if (n > 0)
		json->used += (size_t)n < room ? (size_t)n : room - 1;
}

void
json_put_string (struct json *json, const char *string)
{
	json_put (json, "\"");
	for (const unsigned char *p = (const unsigned char *)string; *p; p++) {
		if (*p == '"' || *p == '\\')
			json_put (json, "\\%c", *p);
		else if (*p < ' ' || *p >= 0x7f)
			json_put (json, "\\u%04x", *p);
		else
			json_put (json, "%c", *p);
	}
	json_put (json, "\"");
}
