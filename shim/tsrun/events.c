/* SPDX-License-Identifier: MIT */
/* The event log, as tsrun sees it before a job starts and in the statistics. */
#include "shim/tsrun/events.h"
#include "leader/events/events.h"
#include "shim/atomic.h"
#include "shim/tsrun/message.h"

#include <string.h>
#include <unistd.h>

extern char **environ;

static const char *const states[] = {
#define TS_X(name, word) word,
	TS_RECORDER_STATES(TS_X)
#undef TS_X
};

/* Whether a file could be made at @path, which is not there; the recorder makes directories of
 * the default one only. */
static int judge_directory(const struct ts_config *config, const char *path)
{
	char directory[TS_EVENTS_PATH];
	const char *slash = strrchr(path, '/');

	if (config->events == TS_EVENTS_ON || !slash)
		return 0;
	(void)snprintf(directory, sizeof(directory), "%.*s/", (int)(slash - path), path);
	return access(directory, W_OK | X_OK) < 0 ? -errno : 0;
}

int ts_events_judge(const struct ts_config *config)
{
	char path[TS_EVENTS_PATH] = "";
	int fd = -1, r = ts_events_path(config, environ, path);

	if (r == -ENOENT || config->disable)
		return 0;
	if (r < 0) {
		ts_message_say("no event log: HOME is no absolute path, or too long");
		ts_message_hint("--events=FILE names a file");
		return 0;
	}
	r = ts_events_open(path, config->group, 0, &fd);
	if (r == 0)
		(void)close(fd);
	else if (r == -ENOENT)
		r = judge_directory(config, path);
	if (r < 0 && ts_events_is_refusal(r)) {
		ts_message_say(
			"no event log can be written to '%s': %s", path, ts_events_explain(r));
		ts_message_hint("--events=FILE names another file");
		return -EINVAL;
	}
	if (r < 0)
		ts_message_say("no event log: '%s': %s", path, strerror(-r));
	return 0;
}

/* What keeps the log from being written, or NULL. */
static const char *reason(int error)
{
	const char *refusal = ts_events_explain(error);

	return error == 0 ? NULL : refusal ? refusal : strerror(-error);
}

static enum ts_recorder_state state_of(struct ts_ledger *ledger, uint32_t index, int *ret_error)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, index)->id);

	return ts_recorder_state(ledger, index, id, ret_error);
}

void ts_events_print(struct ts_ledger *ledger, uint32_t index, FILE *out)
{
	int error;
	enum ts_recorder_state state = state_of(ledger, index, &error);

	if (error == -ENOENT && state == TS_RECORDER_NO_HELPER)
		fputs("; event log not begun: no process can be started unseen here", out);
	else if (error != 0)
		fprintf(out, "; event log %s: %s",
			state == TS_RECORDER_NO_HELPER ? "not begun" : "ended", reason(error));
}

void ts_events_json(struct ts_json *json, struct ts_ledger *ledger, uint32_t index)
{
	int error;
	enum ts_recorder_state state = state_of(ledger, index, &error);

	ts_json_open(json, "events", '{');
	ts_json_string(json, "state", states[state]);
	if (error != 0)
		ts_json_string(json, "error", reason(error));
	else
		ts_json_null(json, "error");
	ts_json_close(json, '}');
}
