/* SPDX-License-Identifier: MIT */
/* Finds this node in a list of servers: leader/peer/self.h. */
#include "leader/peer/self.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

/* How well an address of this node serves. */
enum fit { FIT_NONE, FIT_LOOPBACK, FIT_REACHABLE };

/* The bytes of an address, or NULL of another family. */
static const void *bytes_of(const struct sockaddr *address, size_t *ret_bytes)
{
	if (address->sa_family == AF_INET) {
		*ret_bytes = sizeof(struct in_addr);
		return &((const struct sockaddr_in *)address)->sin_addr;
	}
	if (address->sa_family == AF_INET6) {
		*ret_bytes = sizeof(struct in6_addr);
		return &((const struct sockaddr_in6 *)address)->sin6_addr;
	}
	return NULL;
}

static bool is_loopback(const struct sockaddr *address)
{
	size_t bytes;
	const void *at = bytes_of(address, &bytes);

	if (address->sa_family == AF_INET)
		return *(const unsigned char *)at == 127;
	return at && memcmp(at, &in6addr_loopback, bytes) == 0;
}

/* All of 127.0.0.0/8 is this node's. */
static bool is_ours(const struct ifaddrs *interfaces, const struct sockaddr *address)
{
	size_t bytes, own_bytes;
	const void *at = bytes_of(address, &bytes);

	if (at && is_loopback(address))
		return true;
	for (const struct ifaddrs *own = interfaces; at && own; own = own->ifa_next) {
		if (!own->ifa_addr || own->ifa_addr->sa_family != address->sa_family)
			continue;
		const void *other = bytes_of(own->ifa_addr, &own_bytes);
		if (other && memcmp(at, other, bytes) == 0)
			return true;
	}
	return false;
}

static enum fit fit_of(const struct ifaddrs *interfaces, const struct sockaddr *address)
{
	if (!is_ours(interfaces, address))
		return FIT_NONE;
	return is_loopback(address) ? FIT_LOOPBACK : FIT_REACHABLE;
}

/* The best address of @host that is one of ours. */
static enum fit find_address(
	const struct ifaddrs *interfaces, const char *host, char ret_address[INET6_ADDRSTRLEN])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	enum fit best = FIT_NONE;

	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return FIT_NONE;
	for (const struct addrinfo *at = found; at; at = at->ai_next) {
		size_t bytes;
		const void *address = bytes_of(at->ai_addr, &bytes);
		enum fit fit = fit_of(interfaces, at->ai_addr);
		if (fit > best &&
			inet_ntop(at->ai_family, address, ret_address, INET6_ADDRSTRLEN)) {
			best = fit;
		}
	}
	freeaddrinfo(found);
	return best;
}

/* Whether @server is what was asked for; anything is where nothing was. */
static bool is_wanted(const struct ts_cluster_server *server, const char *wanted)
{
	char text[TS_CLUSTER_NAME];

	if (!wanted || strcmp(wanted, server->host) == 0)
		return true;
	ts_cluster_name_server(server, text);
	return strcmp(wanted, text) == 0;
}

static int judge(
	const struct ts_cluster_nodes *nodes, const char *wanted, unsigned found, enum fit best)
{
	if (found > 1)
		return -ENOTUNIQ;
	if (found == 0)
		return -ENOENT;
	if (best == FIT_NONE)
		return -EADDRNOTAVAIL;
	/* On one machine that is as good; who names it knows. */
	return best == FIT_LOOPBACK && nodes->count > 1 && !wanted ? -ENOTCONN : 0;
}

int ts_self_find(
	const struct ts_cluster_nodes *nodes, const char *wanted, struct ts_self *ret_self)
{
	struct ifaddrs *interfaces;
	struct ts_self self = {0};
	enum fit best = FIT_NONE;
	unsigned found = 0;

	if (getifaddrs(&interfaces) < 0)
		return -errno;
	for (uint32_t i = 0; i < nodes->count; i++) {
		char address[INET6_ADDRSTRLEN] = "";
		if (!is_wanted(&nodes->servers[i], wanted))
			continue;
		enum fit fit = find_address(interfaces, nodes->servers[i].host, address);
		if (fit == FIT_NONE && !wanted)
			continue;
		if (found > 0 && fit == best)
			found++;
		if (found > 0 && fit <= best)
			continue;
		best = fit;
		found = 1;
		self.number = i;
		memcpy(self.address, address, sizeof(address));
	}
	freeifaddrs(interfaces);
	*ret_self = self;
	return judge(nodes, wanted, found, best);
}
