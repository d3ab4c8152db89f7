/* SPDX-License-Identifier: MIT */
/* Which of several addresses is this node's. */
#include "leader/peer/self.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <ifaddrs.h>
#include <string.h>

static struct sockaddr_in addresses[4];
static bool is_known[4];

TestSuite(self);

static void set(uint32_t number, const char *text)
{
	addresses[number] = (struct sockaddr_in){.sin_family = AF_INET};
	cr_assert(eq(int, inet_pton(AF_INET, text, &addresses[number].sin_addr), 1));
	is_known[number] = true;
}

static const struct sockaddr *address_of(const void *context, uint32_t number)
{
	return is_known[number] ? (const struct sockaddr *)&addresses[number] : NULL;
}

static int find(uint32_t *ret_number)
{
	return ts_self_find_known(address_of, NULL, 4, ret_number);
}

/* An address of this machine that others may reach; false: it has none. */
static bool find_own(char ret_text[INET_ADDRSTRLEN])
{
	struct ifaddrs *all;
	bool is_found = false;

	cr_assert(eq(int, getifaddrs(&all), 0));
	for (struct ifaddrs *one = all; one && !is_found; one = one->ifa_next) {
		if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET)
			continue;
		const struct sockaddr_in *address = (const void *)one->ifa_addr;
		is_found = *(const unsigned char *)&address->sin_addr != 127;
		inet_ntop(AF_INET, &address->sin_addr, ret_text, INET_ADDRSTRLEN);
	}
	freeifaddrs(all);
	return is_found;
}

Test(self, addresses_of_nobody_and_of_each_node)
{
	uint32_t number = 77;

	cr_expect(eq(int, find(&number), -ENOENT), "nothing is known");
	set(0, "240.0.0.1"); /* reserved: nobody's */
	set(3, "240.0.0.2");
	cr_expect(eq(int, find(&number), -ENOENT));
	set(1, "127.0.0.1");
	cr_expect(eq(int, find(&number), -ENOTCONN), "each node has that");
	cr_expect(eq(u32, number, 77));
}

Test(self, one_of_this_node)
{
	char own[INET_ADDRSTRLEN];
	uint32_t number = 77;

	if (!find_own(own))
		cr_skip("this machine has no address");
	set(0, "240.0.0.1");
	set(1, "127.0.0.1");
	set(2, own);
	cr_expect(eq(int, find(&number), 0));
	cr_expect(eq(u32, number, 2));
	set(3, own);
	number = 77;
	cr_expect(eq(int, find(&number), -ENOTUNIQ));
	cr_expect(eq(u32, number, 77));
}
