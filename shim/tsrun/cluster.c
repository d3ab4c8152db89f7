/* SPDX-License-Identifier: MIT */
/* tsrun cluster: what the command line says. */
#include "shim/tsrun/cluster.h"
#include "shim/config.h"
#include "shim/tsrun/message.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(const struct ts_cluster_order *order);
	bool makes;  /* takes --nodes and what else is about a server that begins */
	bool prints; /* takes --json */
} commands[] = {
	{"up", ts_cluster_up, true, false},
	{"down", ts_cluster_down, false, false},
	{"status", ts_cluster_status, false, true},
};

/* The number of the word in the table, or -1 after a message. */
static int find_command(char *const *words)
{
	const char *names[TS_ARRAY_SIZE(commands) + 1] = {NULL};

	if (!words) {
		ts_message_say("tsrun cluster needs a word: up, down or status");
		return -1;
	}
	if (words[1]) {
		ts_message_say("tsrun cluster %s takes no argument '%s'", words[0], words[1]);
		return -1;
	}
	for (size_t i = 0; i < TS_ARRAY_SIZE(commands); i++) {
		names[i] = commands[i].name;
		if (strcmp(words[0], names[i]) == 0)
			return (int)i;
	}
	const char *near = ts_config_nearest(words[0], names);
	ts_message_say("tsrun cluster has no '%s'", words[0]);
	if (near)
		ts_message_hint("did you mean '%s'?", near);
	else
		ts_message_hint("there are up, down and status");
	return -1;
}

/* Options that this command does not take. */
static int check_options(const struct ts_arguments *arguments, int command)
{
	static const struct {
		enum ts_flag flag;
		const char *name;
	} makers[] = {{TS_FLAG_NODES, "--nodes"}, {TS_FLAG_SELF, "--self"},
		{TS_FLAG_MEMORY, "--memory"}, {TS_FLAG_NVME, "--nvme"},
		{TS_FLAG_NO_TLS, "--no-tls"}};
	const char *bad = NULL;

	if (arguments->flag[TS_FLAG_JSON] && !commands[command].prints)
		bad = "--json";
	for (size_t i = 0; i < TS_ARRAY_SIZE(makers) && !commands[command].makes; i++)
		if (arguments->flag[makers[i].flag])
			bad = makers[i].name;
	if (!bad)
		return 0;
	ts_message_say(
		"'%s' does not belong to `tsrun cluster %s`", bad, commands[command].name);
	return -EINVAL;
}

static int read_order(const struct ts_arguments *arguments, struct ts_cluster_order *ret_order)
{
	struct ts_cluster_order order = {
		.directory = arguments->value[TS_FLAG_DIR],
		.nodes = arguments->value[TS_FLAG_NODES],
		.self = arguments->value[TS_FLAG_SELF],
		.nvme = arguments->value[TS_FLAG_NVME],
		.plain = arguments->flag[TS_FLAG_NO_TLS],
		.json = arguments->flag[TS_FLAG_JSON],
	};
	const char *memory = arguments->value[TS_FLAG_MEMORY];

	if (!order.directory)
		order.directory = getenv("TSSHIM_CLUSTER");
	if (!order.directory || order.directory[0] == '\0') {
		ts_message_say("tsrun cluster needs the directory of the cluster");
		ts_message_hint("write --dir DIR, or set TSSHIM_CLUSTER; it is the same on all "
				"nodes");
		return -EINVAL;
	}
	if (memory && (ts_config_parse_size(memory, &order.memory_bytes) < 0 ||
			      order.memory_bytes == 0)) {
		ts_message_say("option '--memory' has a bad value '%s'", memory);
		ts_message_hint("it must be a size such as 64G");
		return -EINVAL;
	}
	*ret_order = order;
	return 0;
}

int ts_cluster_command(const struct ts_arguments *arguments)
{
	struct ts_cluster_order order;
	int command = find_command(arguments->files);

	if (command < 0 || check_options(arguments, command) < 0 ||
		read_order(arguments, &order) < 0)
		return TS_EXIT_FAILED;
	return commands[command].run(&order);
}
