/* SPDX-License-Identifier: MIT */
/*
 * tsrun doctor --gpu becomes the part of ours in Python that tries whether copies to GPUs may
 * be shared; and what it left (shim/verdict.h), for people.
 */
#include "shim/tsrun/proof.h"

#include "shim/tsrun/commands.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/python.h"
#include "shim/tsrun/units.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

bool ts_proof_next(const char *at, struct ts_proof *ret_proof)
{
	char driver[TS_VERDICT_DRIVER], verdict[4];

	while ((at = strstr(at, "\ngpu ")) != NULL) {
		at += strlen("\n");
		if (sscanf(at, "gpu %*s %*d %63s %3[a-z]\nsay %639[^\n]", ret_proof->driver,
			    verdict, ret_proof->said) != 3)
			continue;
		ts_units_make_printable(ret_proof->said);
		ts_verdict_driver(driver);
		ret_proof->is_current = strcmp(ret_proof->driver, driver) == 0;
		/* One of a driver made of software is for tests of ours, and good for no GPU.
		 */
		ret_proof->is_real = strcmp(ret_proof->driver, TS_VERDICT_SOFTWARE) != 0;
		ret_proof->is_yes = ret_proof->is_real && strcmp(verdict, "yes") == 0;
		ret_proof->next = at;
		return true;
	}
	return false;
}

int ts_proof_read(char ret_path[TS_STATE_PATH], char ret_text[TS_VERDICT_BYTES])
{
	int r = ts_state_path(TS_VERDICT_NAME, TS_VERDICT_KIND, environ, ret_path);

	r = r < 0 ? -ENOENT : ts_verdict_read(ret_path, ret_text);
	return r == -ENOTDIR ? -ENOENT : r;
}

const char *ts_proof_explain(int error)
{
	switch (error) {
	case -EPERM:
		return "it is another user's, or others may write to it";
	case -EBADMSG:
		return "it is damaged";
	case -EPROTO:
		return "it is of another version of tsshim";
	default:
		return strerror(-error);
	}
}

void ts_proof_print_setting(FILE *out)
{
	char path[TS_STATE_PATH], text[TS_VERDICT_BYTES];
	struct ts_proof proof = {.next = text};
	unsigned gpus = 0, proven = 0;

	int r = ts_proof_read(path, text);
	while (r == 0 && ts_proof_next(proof.next, &proof)) {
		gpus++;
		proven += proof.is_current && proof.is_yes;
	}
	if (r == 0)
		fprintf(out, ", shared with %u of %u GPU%s", proven, gpus,
			gpus == 1 ? "" : "s");
	else
		fputs(", shared with no GPU: `tsrun doctor --gpu` has said nothing", out);
}

void ts_proof_print(FILE *out)
{
	char path[TS_STATE_PATH], text[TS_VERDICT_BYTES];
	struct ts_proof proof = {.next = text};

	for (int r = ts_proof_read(path, text); r == 0 && ts_proof_next(proof.next, &proof);)
		fprintf(out, "\ncopies to a GPU, by `tsrun doctor --gpu`: %s\n", proof.said);
}

static int fail(const char *what, int r)
{
	ts_message_say("cannot check the GPUs: %s: %s", what, strerror(-r));
	return TS_EXIT_FAILED;
}

int ts_doctor_gpu_command(const struct ts_arguments *arguments)
{
	char path[TS_STATE_PATH], part[PATH_MAX] = "gpu", python[PATH_MAX] = "python3";
	const char *json = arguments->flag[TS_FLAG_JSON] ? "--json" : NULL;
	const char *words[] = {"--output", path, json, NULL};

	if (arguments->command) {
		ts_message_say("--gpu checks GPUs, and looks at no command");
		return TS_EXIT_FAILED;
	}
	int r = ts_state_path(TS_VERDICT_NAME, TS_VERDICT_KIND, environ, path);
	if (r < 0)
		return fail("HOME", r);
	r = ts_python_part("gpu", part);
	if (r < 0)
		return fail(part, r);
	r = ts_python_find(python);
	if (r == 0)
		r = ts_python_become(python, part, words);
	return fail(python, r);
}
