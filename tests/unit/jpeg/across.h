/* SPDX-License-Identifier: MIT */
/*
 * Decoded pictures between nodes, for tests: an aligned job with a real store, and a helper
 * that is a thread of the test.
 */
#ifndef TS_TESTS_UNIT_JPEG_ACROSS_H
#define TS_TESTS_UNIT_JPEG_ACROSS_H

#include "drive.h"
#include "leader/mail/samples.h"
#include "shim/reasons.h"

#include <pthread.h>

/** Large enough to be worth asking for; all of it, row by row. */
extern const struct drive_picture across_large;
extern const struct drive_plan across_whole;

extern struct ts_mail across_mail;

/** The stream that is decoded: at first that of the picture above. */
extern uint8_t *across_data;
extern size_t across_bytes;

/** What the helper answers to the one question it waits for, and what it was asked. */
struct across_helper {
	pthread_t thread;
	enum ts_mail_answer says;
	uint64_t took_ns;
	unsigned delay_us; /* before the answer */
	bool was_asked;
	struct ts_mail_request request;
	_Atomic int ends;
};
extern struct across_helper across_helper;

/** A record as another node would have stored it: what the helper gives. */
extern uint8_t across_record[1 << 20];
extern uint64_t across_record_bytes;

/** In front of each test and behind it. */
void across_init(void);
void across_finish(void);

/** The thread begins, and answers once; it ends: whether it was asked, for what is above. */
void across_begin_helper(enum ts_mail_answer says);
bool across_end_helper(void);

/** Of what was asked last this is said as well; nothing is posted, and every slot is free. */
void across_expect_request(enum ts_mail_kind kind);
void across_expect_nothing_open(void);

/** What the ledger counted: passes, pictures that were decoded, and shared. */
uint64_t across_passed(enum ts_reason reason);
uint64_t across_made(void);
uint64_t across_shared(void);

/** Decode through the hooks: the program sees what the library alone shows it. */
void across_decode(const struct drive_plan *plan);

/** Decode all of it, and be asked for it. */
void across_decode_asking(enum ts_mail_answer says);

/** As a decode of another node hands it over; here it is forgotten with the group. */
void across_make_record(void);

/** The picture's name is another one from here on, its pixels stay. */
void across_rename_picture(unsigned number);

#endif
