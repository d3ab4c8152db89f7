/* SPDX-License-Identifier: MIT */
/* What the tests of the calls have in common: a usual picture, and that nothing stays held. */
#ifndef TS_TESTS_JPEG_FIXTURE_H
#define TS_TESTS_JPEG_FIXTURE_H

#include "drive.h"
#include "fake_store.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

static const struct drive_picture usual = {
	.width = 200, .height = 150, .quality = 85, .h = 2, .v = 2, .seed = 1};
static const struct drive_plan whole = {.rows = 1, .colour = -1};

/** No lease or claim is held, and nobody wrote or read wrong bytes; @who is for the message. */
static inline void nothing_is_open(const char *who)
{
	cr_expect(eq(uint, fake.leases, 0), "%s: leases", who);
	cr_expect(eq(uint, fake.claims, 0), "%s: claims", who);
	cr_expect(not(fake.overrun), "%s: wrote behind its reservation", who);
	cr_expect(eq(uint, fake.different, 0), "%s: verification", who);
}

/* A picture that is encoded, for the test: the usual one at first. */
static uint8_t *data;
static size_t bytes;

static inline void encode_other(const struct drive_picture *picture)
{
	free(data);
	data = drive_encode(picture, &bytes);
}

static inline void encode(void)
{
	encode_other(&usual);
}

static inline void free_data(void)
{
	free(data);
}

#endif
