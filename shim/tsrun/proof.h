/* SPDX-License-Identifier: MIT */
/* What `tsrun doctor --gpu` has found on this node (shim/verdict.h), for people. */
#ifndef TS_TSRUN_PROOF_H
#define TS_TSRUN_PROOF_H

#include "shim/verdict.h"

#include <stdio.h>

/** Of one GPU. */
struct ts_proof {
	const char *next; /* where the file goes on */
	char driver[TS_VERDICT_DRIVER];
	char said[640];  /* printable */
	bool is_real;    /* not of a driver made of software */
	bool is_current; /* it was with the driver that is here now */
	bool is_yes;
};

/** The verdicts of this node, with their file.  Errors: -ENOENT none; those of
 * ts_verdict_read(). */
int ts_proof_read(char ret_path[TS_STATE_PATH], char ret_text[TS_VERDICT_BYTES]);

/** What an error of it means. */
const char *ts_proof_explain(int error);

/** The first verdict behind @at, in a text of ts_proof_read(); false: there is none. */
bool ts_proof_next(const char *at, struct ts_proof *ret_proof);

/** What stands behind `--copies auto` of `tsrun config`: with how many GPUs it shares. */
void ts_proof_print_setting(FILE *out);

/** A line for each GPU; nothing where there is no verdict. */
void ts_proof_print(FILE *out);

#endif
