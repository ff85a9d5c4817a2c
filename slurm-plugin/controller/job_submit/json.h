/* JSON that grows in a buffer; what does not fit is cut off, which readers notice because
 * the closing brace is missing. */
#ifndef SLUICE_JSON_H
#define SLUICE_JSON_H

#include <stddef.h>

struct json {
	char *out;
	size_t size; /* of out */
	size_t used; /* less than size */
};

void json_put (struct json *json, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Between quotes, as ASCII. */
void json_put_string (struct json *json, const char *string);

#endif
