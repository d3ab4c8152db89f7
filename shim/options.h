/* SPDX-License-Identifier: MIT */
/* The settings of a job, by the table shim/options.def. */
#ifndef TS_SHIM_OPTIONS_H
#define TS_SHIM_OPTIONS_H

enum ts_option {
#define TS_OPTION(name, ...) TS_OPTION_##name,
#include "shim/options.def"
	TS_OPTION_COUNT
};

/** Forms of values: how one is read, and what a valid one looks like. */
enum ts_form {
#define TS_FORM(form, words, expect) TS_FORM_##form,
#include "shim/options.def"
	TS_FORM_COUNT
};

/** What the library has to know of a row; tsrun's own table has the rest. */
struct ts_option_row {
	const char *variable; /* of the environment */
	const char *standard; /* value where none is set */
	enum ts_form form;
};

/** All of them, by enum ts_option; constant. */
extern const struct ts_option_row ts_options[TS_OPTION_COUNT];

#endif
