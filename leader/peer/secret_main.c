/* SPDX-License-Identifier: MIT */
/*
 * tsshim-secret: what `tsrun cluster` needs libcrypto, threads or the resolver for, in a
 * program of its own, as tsrun needs the C library only.
 *
 *	tsshim-secret make DIRECTORY LIST tls|plain
 *	tsshim-secret find LIST [HOST]         "NUMBER ADDRESS": which server is this node
 *	tsshim-secret tokens DIRECTORY FILE    what memcached reads; "new", or "same" as before
 *	tsshim-secret look DIRECTORY           "STATE USED LIMIT ITEMS HITS MISSES" of each
 * server
 *
 * No secret is on a command line, in the environment, or printed.  Messages are tsrun's.  Ends
 * with 0, or 125 after a message.
 */
#include "leader/peer/link.h"
#include "leader/peer/look.h"
#include "leader/peer/make.h"
#include "leader/peer/secret.h"
#include "leader/peer/self.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define FAILED    125
#define WITHIN_NS UINT64_C(1000000000)

static int report(int r, const struct ts_cluster_fault *fault)
{
	const char *text = fault->text && fault->text[0] ? fault->text : strerror(-r);

	if (fault->line)
		fprintf(stderr, "tsrun: %s:%u: %s\n", fault->file, fault->line, text);
	else
		fprintf(stderr, "tsrun: %s: %s\n", fault->file, text);
	return FAILED;
}

static int report_at(int r, const char *path)
{
	fprintf(stderr, "tsrun: %s: %s\n", path, strerror(-r));
	return FAILED;
}

static int make(char **words)
{
	struct ts_cluster_nodes nodes;
	struct ts_cluster_fault fault;
	int r = ts_cluster_read_nodes(words[1], &nodes, &fault);

	if (r < 0)
		return report(r, &fault);
	r = ts_make_cluster(words[0], &nodes, strcmp(words[2], "plain") != 0, &fault);
	ts_cluster_finish_nodes(&nodes);
	if (r == -EEXIST) {
		fprintf(stderr,
			"tsrun: this cluster has TLS, so --no-tls cannot be\n"
			"hint: write tls = off into %s/cluster.conf, on all nodes\n",
			words[0]);
		return FAILED;
	}
	return r < 0 ? report(r, &fault) : 0;
}

static int find(char **words)
{
	struct ts_cluster_nodes nodes;
	struct ts_cluster_fault fault;
	struct ts_self self;
	int r = ts_cluster_read_nodes(words[0], &nodes, &fault);

	if (r < 0)
		return report(r, &fault);
	r = ts_self_find(&nodes, words[1], &self);
	const char *host = nodes.servers[self.number].host;
	if (r == -ENOENT && words[1])
		fprintf(stderr, "tsrun: %s has no server '%s'\n", words[0], words[1]);
	else if (r == -ENOENT)
		fprintf(stderr,
			"tsrun: no server of %s is this node\n"
			"hint: say which with --self HOST, or write this node's address "
			"into the list\n",
			words[0]);
	else if (r == -ENOTUNIQ)
		fprintf(stderr,
			"tsrun: several servers of %s are this node\n"
			"hint: say which with --self HOST:PORT\n",
			words[0]);
	else if (r == -EADDRNOTAVAIL)
		fprintf(stderr, "tsrun: '%s' has no address of this node\n", host);
	else if (r == -ENOTCONN)
		fprintf(stderr,
			"tsrun: '%s' is a loopback address on this node, which no other "
			"node reaches\n"
			"hint: write addresses instead of names into the list, or mend "
			"/etc/hosts\n",
			host);
	else if (r < 0)
		(void)report_at(r, "the addresses of this node");
	else
		printf("%" PRIu32 " %s\n", self.number, self.address);
	ts_cluster_finish_nodes(&nodes);
	return r < 0 ? FAILED : 0;
}

static int tokens(char **words)
{
	struct ts_cluster *cluster;
	struct ts_cluster_fault fault;
	int r = ts_cluster_read(words[0], &cluster, &fault);

	if (r < 0)
		return report(r, &fault);
	r = ts_make_tokens(cluster, words[1]);
	if (r < 0)
		(void)report_at(r, r == -EINVAL ? cluster->secret : words[1]);
	else
		puts(r ? "new" : "same");
	ts_cluster_destroy(cluster);
	return r < 0 ? FAILED : 0;
}

static void print_looks(const struct ts_look *looks, uint32_t count)
{
	static const char *const words[] = {
#define ONE(name, word, text) word,
		TS_LOOKS(ONE)
#undef ONE
	};

	for (uint32_t i = 0; i < count; i++)
		printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			words[looks[i].state], looks[i].used, looks[i].limit, looks[i].items,
			looks[i].hits, looks[i].misses);
}

static int look_with(const struct ts_cluster *cluster, const struct ts_secrets *secrets)
{
	struct ts_look_asker asker = {.token = secrets->keys[0].token, .within_ns = WITHIN_NS};
	struct ts_look *looks = calloc(cluster->nodes.count, sizeof(*looks));
	int r = looks ? 0 : -ENOMEM;

	if (r == 0 && cluster->tls)
		r = ts_link_tls_create(
			cluster->certificate, cluster->certificate, cluster->key, &asker.tls);
	if (r < 0)
		(void)report_at(r, cluster->certificate);
	else
		r = ts_look_at_all(&asker, &cluster->nodes, looks);
	if (r == 0)
		print_looks(looks, cluster->nodes.count);
	ts_link_tls_destroy(asker.tls);
	free(looks);
	return r < 0 ? FAILED : 0;
}

static int look(char **words)
{
	struct ts_secrets secrets;
	struct ts_cluster *cluster;
	struct ts_cluster_fault fault;
	int r = ts_cluster_read(words[0], &cluster, &fault);

	if (r < 0)
		return report(r, &fault);
	r = ts_secrets_read(cluster->secret, &secrets);
	if (r < 0)
		(void)report_at(r, cluster->secret);
	else
		r = look_with(cluster, &secrets);
	ts_secrets_finish(&secrets);
	ts_cluster_destroy(cluster);
	return r == 0 ? 0 : FAILED;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int least, most;
		int (*run)(char **words);
	} commands[] = {
		{"make", 3, 3, make},
		{"find", 1, 2, find},
		{"tokens", 2, 2, tokens},
		{"look", 1, 1, look},
	};
	const struct rlimit none = {0, 0};

	/* What it has in memory stays there. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; argc > 1 && i < TS_ARRAY_SIZE(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0 && argc - 2 >= commands[i].least &&
			argc - 2 <= commands[i].most) {
			int status = commands[i].run(argv + 2);
			return fflush(stdout) == 0 ? status : FAILED;
		}
	fputs("tsshim-secret is for `tsrun cluster`, which starts it\n", stderr);
	return FAILED;
}
