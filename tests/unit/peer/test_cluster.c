/* SPDX-License-Identifier: MIT */
/* The reader of a cluster's directory: what it takes, and where it says that a fault is. */
#include "leader/peer/cluster.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/tsshim-cluster-XXXXXX";
static struct ts_cluster_fault fault;

static void path_of(const char *name, char ret_path[PATH_MAX])
{
	cr_assert(eq(int, ts_cluster_path(folder, name, ret_path), 0));
}

static void put_bytes(const char *name, const char *text, size_t bytes, mode_t mode)
{
	char path[PATH_MAX];

	path_of(name, path);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, (int)write(fd, text, bytes), (int)bytes));
	cr_assert(eq(int, fchmod(fd, mode), 0));
	close(fd);
}

static void put(const char *name, const char *text, mode_t mode)
{
	put_bytes(name, text, strlen(text), mode);
}

static void begin(void)
{
	cr_assert(ne(ptr, mkdtemp(folder), NULL));
	put("nodes", "a:1\n", 0600);
	put("secret", "none of its business\n", 0600);
	put("cert.pem", "nor this\n", 0644);
	put("key.pem", "nor this\n", 0600);
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_expect(eq(int, system(command), 0));
}

TestSuite(cluster, .init = begin, .fini = end);

static int read_it(void)
{
	struct ts_cluster *cluster = NULL;
	int r = ts_cluster_read(folder, &cluster, &fault);

	cr_expect(eq(int, r < 0, cluster == NULL));
	ts_cluster_destroy(cluster);
	return r;
}

/* The last read failed in @name, line @line. */
static void expect_fault(const char *name, uint32_t line, const char *text)
{
	char path[PATH_MAX];

	path_of(name, path);
	cr_expect(eq(str, fault.file, path));
	cr_expect(eq(u32, fault.line, line), "%s", fault.text);
	cr_expect(eq(str, (char *)fault.text, (char *)text));
}

static void expect_bad(const char *name, const char *text, uint32_t line, const char *what)
{
	put(name, text, 0600);
	cr_expect(eq(int, read_it(), -EINVAL), "%s", text);
	expect_fault(name, line, what);
}

Test(cluster, has_its_servers_in_their_order)
{
	struct ts_cluster *cluster;
	char path[PATH_MAX];

	put("nodes",
		"# three\n\nnode-1.example:11211\n  10.0.0.2:7000 weight=3 # more memory\r\n"
		"[fe80::1]:65535\tweight=65535",
		0600);
	cr_assert(eq(int, ts_cluster_read(folder, &cluster, &fault), 0));
	const struct ts_cluster_server *servers = cluster->nodes.servers;
	cr_assert(eq(u32, cluster->nodes.count, 3));
	cr_expect(eq(str, (char *)servers[0].host, (char *)"node-1.example"));
	cr_expect(eq(str, (char *)servers[1].host, (char *)"10.0.0.2"));
	cr_expect(eq(str, (char *)servers[2].host, (char *)"fe80::1"));
	cr_expect(eq(u32, servers[0].port, 11211));
	cr_expect(eq(u32, servers[1].port, 7000));
	cr_expect(eq(u32, servers[2].port, 65535));
	cr_expect(eq(u32, servers[0].weight, 1));
	cr_expect(eq(u32, servers[1].weight, 3));
	cr_expect(eq(u32, servers[2].weight, 65535));
	path_of("secret", path);
	cr_expect(eq(str, cluster->secret, path));
	path_of("cert.pem", path);
	cr_expect(eq(str, cluster->certificate, path));
	path_of("key.pem", path);
	cr_expect(eq(str, cluster->key, path));
	ts_cluster_destroy(cluster);
}

Test(cluster, has_tls_unless_it_says_no)
{
	struct ts_cluster *cluster;
	char path[PATH_MAX];

	cr_assert(eq(int, ts_cluster_read(folder, &cluster, &fault), 0));
	cr_expect(cluster->tls);
	cr_expect(eq(u64, cluster->memory_bytes, 0));
	cr_expect(eq(u64, cluster->nvme_bytes, 0));
	ts_cluster_destroy(cluster);

	put("cluster.conf", "tls = off # a closed network\nmemory=64G\nnvme = /local/a:2T\n",
		0644);
	path_of("cert.pem", path);
	unlink(path);
	cr_assert(eq(int, ts_cluster_read(folder, &cluster, &fault), 0));
	cr_expect(not(cluster->tls));
	cr_expect(eq(u64, cluster->memory_bytes, UINT64_C(64) << 30));
	cr_expect(eq(u64, cluster->nvme_bytes, UINT64_C(2) << 40));
	cr_expect(eq(str, cluster->nvme, (char *)"/local/a"));
	ts_cluster_destroy(cluster);

	put("cluster.conf", "tls = on\n", 0644);
	cr_expect(eq(int, read_it(), -ENOENT));
	expect_fault("cert.pem", 0, "");
}

Test(cluster, names_the_line_of_a_bad_server)
{
	static const struct {
		const char *line, *text;
	} bad[] = {
		{"node", "no port: a line is HOST:PORT"},
		{"node:", "the port is none of 1 to 65535"},
		{"node:0", "the port is none of 1 to 65535"},
		{"node:65536", "the port is none of 1 to 65535"},
		{"node:99999999999999999999", "the port is none of 1 to 65535"},
		{"node:80x", "the port is none of 1 to 65535"},
		{"node:-1", "the port is none of 1 to 65535"},
		{":80", "HOST is no name of a host"},
		{"no/de:80", "HOST is no name of a host"},
		{"-node:80", "HOST is no name of a host"},
		{"n\303\266de:80", "HOST is no name of a host"},
		{"fe80::1:80", "an address of IPv6 is [address]:port"},
		{"[fe80::1:80", "an address of IPv6 is [address]:port"},
		{"[]:80", "no address of IPv6 is in []"},
		{"[node]:80", "no address of IPv6 is in []"},
		{"[10.0.0.1]:80", "no address of IPv6 is in []"},
		{"node:80 weight=0", "the weight is none of 1 to 65535"},
		{"node:80 weight=65536", "the weight is none of 1 to 65535"},
		{"node:80 weight=", "the weight is none of 1 to 65535"},
		{"node:80 weight=1 more", "the weight is none of 1 to 65535"},
		{"node:80 wait=1", "behind HOST:PORT only weight=N may stand"},
		{"a:1", "the same server twice"},
	};
	char text[256];

	for (size_t i = 0; i < TS_ARRAY_SIZE(bad); i++) {
		snprintf(text, sizeof(text), "a:1\n# a comment\n%s\nb:2\n", bad[i].line);
		expect_bad("nodes", text, 3, bad[i].text);
	}
	expect_bad("nodes", "", 0, "no server");
	expect_bad("nodes", "# a:1\n", 0, "no server");
}

Test(cluster, has_as_many_servers_as_the_continuum)
{
	static char text[TS_CLUSTER_SERVERS * 16 + 32];
	size_t at = 0;

	for (unsigned i = 1; i <= TS_CLUSTER_SERVERS; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "node:%u\n", i);
	put("nodes", text, 0600);
	cr_expect(eq(int, read_it(), 0));
	snprintf(text + at, sizeof(text) - at, "node:20000\n");
	expect_bad(
		"nodes", text, TS_CLUSTER_SERVERS + 1, "more servers than there may be (1024)");
}

Test(cluster, bounds_names_and_files)
{
	static char text[1 << 20];

	memset(text, 'n', TS_CLUSTER_HOST);
	memcpy(text + TS_CLUSTER_HOST, ":1\n", 4);
	put("nodes", text, 0600);
	cr_expect(eq(int, read_it(), 0));
	memset(text, 'n', TS_CLUSTER_HOST + 1);
	memcpy(text + TS_CLUSTER_HOST + 1, ":1\n", 4);
	expect_bad("nodes", text, 1, "HOST is no name of a host");
	memset(text, '\n', sizeof(text) - 1);
	expect_bad("nodes", text, 0, "too long");
	put_bytes("nodes", "a:1\n\0b:2\n", 9, 0600);
	cr_expect(eq(int, read_it(), -EINVAL));
	expect_fault("nodes", 0, "no text");
}

Test(cluster, names_the_line_of_a_bad_setting)
{
	static const char nvme[] =
		"nvme is the absolute path of a file and a size, as in /local/cache:500G";

	expect_bad("cluster.conf", "\ntls\n", 2, "a line is NAME = VALUE");
	expect_bad("cluster.conf", "tls = no\n", 1, "tls is on or off");
	expect_bad("cluster.conf", "tls = OFF\n", 1, "tls is on or off");
	expect_bad("cluster.conf", "tls =\n", 1, "tls is on or off");
	expect_bad("cluster.conf", "tls = off on\n", 1, "tls is on or off");
	expect_bad("cluster.conf", "memory = 0\n", 1, "memory is a size such as 64G");
	expect_bad("cluster.conf", "memory = much\n", 1, "memory is a size such as 64G");
	expect_bad("cluster.conf", "nvme = cache:1G\n", 1, nvme);
	expect_bad("cluster.conf", "nvme = /cache\n", 1, nvme);
	expect_bad("cluster.conf", "nvme = /cache:0\n", 1, nvme);
	expect_bad("cluster.conf", "nvme = /a,ext_threads=9:1G\n", 1, nvme);
	expect_bad("cluster.conf", "tsl = off\n", 1, "unknown: there are tls, memory and nvme");
}

Test(cluster, is_the_users_own_and_closed)
{
	static const char *const closed[] = {"secret", "key.pem"};
	static const char *const open[] = {"nodes", "cluster.conf", "cert.pem"};
	char path[PATH_MAX];

	put("cluster.conf", "tls = on\n", 0644);
	for (size_t i = 0; i < TS_ARRAY_SIZE(closed); i++) {
		path_of(closed[i], path);
		cr_assert(eq(int, chmod(path, 0640), 0));
		cr_expect(eq(int, read_it(), -EPERM));
		expect_fault(closed[i], 0, "others may read or write it");
		cr_assert(eq(int, chmod(path, 0600), 0));
	}
	for (size_t i = 0; i < TS_ARRAY_SIZE(open); i++) {
		path_of(open[i], path);
		cr_assert(eq(int, chmod(path, 0664), 0));
		cr_expect(eq(int, read_it(), -EPERM));
		expect_fault(open[i], 0, "others may write it");
		cr_assert(eq(int, chmod(path, 0644), 0));
	}
	cr_expect(eq(int, read_it(), 0));
	cr_assert(eq(int, chmod(folder, 0750), 0));
	cr_expect(eq(int, read_it(), -EPERM));
	cr_expect(eq(str, fault.file, folder));
	cr_assert(eq(int, chmod(folder, 0700), 0));
}

Test(cluster, of_another_user_is_refused)
{
	char path[PATH_MAX];

	if (geteuid() != 0)
		cr_skip_test("only root can give a file away");
	path_of("secret", path);
	cr_assert(eq(int, chown(path, 61001, 61001), 0));
	cr_expect(eq(int, read_it(), -EPERM));
	expect_fault("secret", 0, "belongs to another user");
}

Test(cluster, takes_no_links_pipes_or_directories)
{
	static const char *const names[] = {
		"nodes", "cluster.conf", "secret", "cert.pem", "key.pem"};
	char path[PATH_MAX];

	put("cluster.conf", "tls = on\n", 0600);
	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
		path_of(names[i], path);
		cr_assert(eq(int, unlink(path), 0));
		cr_assert(eq(int, symlink("/dev/null", path), 0));
		cr_expect(eq(int, read_it(), -ELOOP));
		expect_fault(names[i], 0, "");
		cr_assert(eq(int, unlink(path), 0));
		cr_assert(eq(int, mkfifo(path, 0600), 0));
		cr_expect(eq(int, read_it(), -EINVAL));
		expect_fault(names[i], 0, "no regular file");
		cr_assert(eq(int, unlink(path), 0));
		cr_assert(eq(int, mkdir(path, 0700), 0));
		cr_expect(eq(int, read_it(), -EINVAL));
		expect_fault(names[i], 0, "no regular file");
		cr_assert(eq(int, rmdir(path), 0));
		put(names[i], i == 0 ? "a:1\n" : i == 1 ? "tls = on\n" : "", 0600);
	}
	cr_expect(eq(int, read_it(), 0));
}

Test(cluster, says_what_is_not_there)
{
	struct ts_cluster *cluster = NULL;
	char path[PATH_MAX];

	path_of("nodes", path);
	unlink(path);
	cr_expect(eq(int, read_it(), -ENOENT));
	expect_fault("nodes", 0, "");
	cr_expect(eq(int, ts_cluster_read("/nowhere/at all", &cluster, &fault), -ENOENT));
	cr_expect(eq(str, fault.file, (char *)"/nowhere/at all"));
	cr_expect(eq(int, ts_cluster_read("/dev/null", &cluster, &fault), -ENOTDIR));
	cr_expect(eq(ptr, cluster, NULL));
}

Test(cluster, a_list_may_lie_anywhere)
{
	struct ts_cluster_nodes nodes;
	char path[PATH_MAX];

	put("list", "b:2\nc:3 weight=2\n", 0666);
	path_of("list", path);
	cr_assert(eq(int, ts_cluster_read_nodes(path, &nodes, &fault), 0));
	cr_expect(eq(u32, nodes.count, 2));
	cr_expect(eq(str, (char *)nodes.servers[1].host, (char *)"c"));
	ts_cluster_finish_nodes(&nodes);
	put("list", "b:2\nc\n", 0666);
	cr_expect(eq(int, ts_cluster_read_nodes(path, &nodes, &fault), -EINVAL));
	expect_fault("list", 2, "no port: a line is HOST:PORT");
}
