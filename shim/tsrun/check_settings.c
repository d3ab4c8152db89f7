/* SPDX-License-Identifier: MIT */
/* Check of `tsrun doctor`: the TSSHIM_ variables of the environment. */
#include "shim/tsrun/check.h"

/* Files of settings look like variables from here. */
#define WHERE_SET "unset %s, or take it out of the file that `tsrun config` names"

/* Where complain() puts what it is told: ts_config_load() hands no pointer through. */
static struct ts_check *complaints;

static void complain(
	enum ts_option option, const char *name, const char *value, const char *suggestion)
{
	if ((unsigned)option >= TS_OPTION_COUNT) {
		ts_check_find(complaints, TS_CHECK_WARN, "%s is not known, and ignored", name);
		if (suggestion)
			ts_check_advise(complaints, "did you mean %s?", suggestion);
		else
			ts_check_advise(complaints, "man tsshim lists them");
		return;
	}
	const char *const *words = ts_config_words(option);
	const char *near = words ? ts_config_nearest(value, words) : NULL;
	ts_check_find(complaints, TS_CHECK_FAIL,
		"%s has a bad value '%s', and tsrun runs nothing", name, value);
	ts_check_advise(complaints, "%s must be %s%s%s%s", name, ts_config_expect(option),
		near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

void ts_check_settings(const struct ts_check_scene *scene, struct ts_check *check)
{
	struct ts_config config;

	complaints = check;
	ts_config_load(&config, scene->environment, complain);
	complaints = NULL;
	if (config.disable) {
		ts_check_find(check, TS_CHECK_WARN, "TSSHIM_DISABLE=1 switches everything off");
		ts_check_advise(check, WHERE_SET, "TSSHIM_DISABLE");
	} else if (config.share == TS_SHARE_OFF) {
		ts_check_find(check, TS_CHECK_WARN, "TSSHIM_SHARE=off: nothing is shared");
		ts_check_advise(check, WHERE_SET, "TSSHIM_SHARE");
	} else if (config.ring_bytes == 0) {
		ts_check_find(check, TS_CHECK_WARN, "TSSHIM_RING is 0: nothing is shared");
		ts_check_advise(check, WHERE_SET, "TSSHIM_RING");
	}
	if (check->found[0] == '\0')
		ts_check_find(check, TS_CHECK_OK,
			"all that are set are known and valid; the group is %s", config.group);
}
