/* What is used of zlib, which libdarshan-util brings: no header of it needs to be
 * installed.
 */
#ifndef SLUICE_ZLIB_STREAM_H
#define SLUICE_ZLIB_STREAM_H

/* z_stream, the same since zlib 1.0. */
struct zlib_stream {
	const unsigned char *next_in;
	unsigned avail_in;
	unsigned long total_in;
	unsigned char *next_out;
	unsigned avail_out;
	unsigned long total_out;
	const char *message;
	void *state, *allocate, *release, *opaque;
	int data_type;
	unsigned long checksum, reserved;
};

enum { ZLIB_OK = 0, ZLIB_STREAM_END = 1, ZLIB_NO_FLUSH = 0 };

#define ZLIB_VERSION_HERE "1.2.9" /* the first with inflateValidate */

#endif
