/* SPDX-License-Identifier: MIT */
/* How tsrun writes numbers and foreign texts for people. */
#ifndef TS_TSRUN_UNITS_H
#define TS_TSRUN_UNITS_H

#include "shim/base.h"

#include <stdio.h>

/* Holds every number of this file. */
#define TS_UNITS_BYTES 32u

/**
 * @bytes with a unit and one decimal, cut and not rounded: "12 bytes", "1.5 GiB".  Integers
 * only, for a decimal comma of the locale would surprise.  Returns @buffer.
 */
const char *ts_units_size(uint64_t bytes, char buffer[TS_UNITS_BYTES]);

#define TS_UNITS_RING 80u

/**
 * @why a ring has its size (leader/object/limits.h), to stand behind it: "", or such as
 * " (auto, for 23.5 GiB of memory)".  Returns @buffer.
 */
const char *ts_units_ring(uint32_t why, char buffer[TS_UNITS_RING]);

/** @value with a blank between groups of three digits: 1 281 167.  Returns @buffer. */
const char *ts_units_grouped(uint64_t value, char buffer[TS_UNITS_BYTES]);

/** @ns as seconds with two decimals, whatever the locale: 1 281.16.  Returns @buffer. */
const char *ts_units_seconds(uint64_t ns, char buffer[TS_UNITS_BYTES]);

/** @ns in the units that suit it: "10.00 s", "3 min 20 s", "2 h 5 min".  Returns @buffer. */
const char *ts_units_duration(uint64_t ns, char buffer[TS_UNITS_BYTES]);

/* Holds every rate, and what stands in a column as narrow. */
#define TS_UNITS_RATE 16

/** @position (in TS_EPOCH) in epochs, at most six characters: 4.25.  Returns @buffer. */
const char *ts_units_epochs(uint64_t position, char buffer[TS_UNITS_RATE]);

/** @rate, at most six characters: 1234.5, 1.5M; '-' for NAN.  Returns @buffer. */
const char *ts_units_rate(double rate, char buffer[TS_UNITS_RATE]);

/**
 * What is not printable ASCII becomes '?': a name that somebody else wrote must not command the
 * terminal.
 */
void ts_units_make_printable(char *text);

/**
 * Print @text, which somebody else wrote: what could command the terminal, or is no character,
 * is written as \x and two digits for each byte; characters of UTF-8 stay.
 */
void ts_units_print_safely(FILE *out, const char *text);

#endif
