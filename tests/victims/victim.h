/* SPDX-License-Identifier: MIT */
/* What the victims share: input files, an error manager that escapes, hashes and reports. */
#ifndef TS_TESTS_VICTIM_H
#define TS_TESTS_VICTIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/*
 * Every victim prints facts that must be the same with and without the library preloaded.
 * A line that begins with '~' is for people: it may legally differ (times, the places where
 * a suspending source was suspended), and the comparing tests drop it.
 */

/** A whole file in memory; also its open stream while a stdio source reads it. */
struct victim_input {
	const char *path;
	unsigned char *data;
	size_t bytes;
};

/** Read @path; exits with a message when that fails, for then the test itself is broken. */
void victim_input_load(struct victim_input *input, const char *path);
void victim_input_free(struct victim_input *input);

/** Error manager whose error_exit jumps to @escape, as Pillow, torchvision and OpenCV do. */
struct victim_errors {
	struct jpeg_error_mgr base;
	jmp_buf escape;
	unsigned shown;      /* calls of output_message */
	uint64_t shown_hash; /* of their texts */
	char text[JMSG_LENGTH_MAX];
};

/** Set up @errors for @cinfo (also its trace level) and return what cinfo->err must be. */
struct jpeg_error_mgr *victim_errors_init(struct victim_errors *errors, int trace_level);

/**
 * Like FNV-1a, 64 bits, but word by word: simple, and not the hash that the library under test
 * uses.  What is hashed in other pieces gives another value.
 */
#define VICTIM_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t victim_hash(uint64_t hash, const void *data, size_t bytes);

/** Print all public fields of @cinfo up to comp_info, each as @moment.name=value. */
void victim_print_fields(const char *moment, const struct jpeg_decompress_struct *cinfo);

/** Print warnings and the last message of @cinfo. */
void victim_print_messages(const struct jpeg_decompress_struct *cinfo);

/** The part of @path after its last slash: reports must not depend on directories. */
const char *victim_base_name(const char *path);

/** An allocation that cannot fail: the test itself is broken then, and exits. */
void *victim_alloc(size_t bytes);

/** Print @text to stderr and exit with 2: wrong use of a victim. */
_Noreturn void victim_usage(const char *text);

/* ---- simple decoding, for the victims that are about something else -----------------------
 */

/** Decode @input whole from memory; 0 and hash of pixels, or -1 and *errors says why. */
int victim_decode_memory(
	const struct victim_input *input, struct victim_errors *errors, uint64_t *ret_hash);

#endif
