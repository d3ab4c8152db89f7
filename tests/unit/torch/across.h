/* SPDX-License-Identifier: MIT */
/* Samples between nodes, for tests: an aligned job, and a helper that is the test itself. */
#ifndef TS_TESTS_UNIT_TORCH_ACROSS_H
#define TS_TESTS_UNIT_TORCH_ACROSS_H

#include "hooks/torch/samples_private.h"

#define ACROSS_PAYLOAD UINT64_C(100000)
#define ACROSS_WAIT_US 1000u

extern struct ts_mail across_mail;

/** A record as another node would have stored it. */
extern unsigned char across_record[ACROSS_PAYLOAD + 4096];
extern uint64_t across_record_bytes;

/** In front of each test; behind it fixture_finish(). */
void across_init(void);

/** Publish @number here, @path being read meanwhile (unless NULL), and keep its record. */
void across_make_record(int64_t number, unsigned char value, const char *path);

/** Take what is asked next, as the helper does; its slot. */
uint32_t across_take_request(struct ts_mail_request *ret_request);

/** What is asked next is of this kind, and of @sample; nothing is asked, no slot is taken. */
void across_expect_request(enum ts_mail_kind kind, const struct ts_sample *sample);
void across_expect_no_request(void);

/** Answer @sample's request; what is GOT is the record above, which took @took_ns. */
void across_answer(const struct ts_sample *sample, enum ts_mail_answer says, uint64_t took_ns);

/** One that is claimed and asked for. */
struct ts_sample *across_seek(int64_t number);

/** How often that was counted. */
uint64_t across_passed(enum ts_reason reason);

#endif
