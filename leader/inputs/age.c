/* SPDX-License-Identifier: MIT */
/* How long ago a file must have been changed before its times can be trusted. */
#include "leader/inputs/age.h"

#include <stdlib.h>

#define SECOND_NS  INT64_C(1000000000)
#define AGE_NS     (2 * SECOND_NS)
#define FAR_AGE_NS (60 * SECOND_NS)

/*
 * File systems of this machine that take the time of each change from its clock.  statfs(2) of
 * an overlay does not say what it lies on, but nothing else writes there: the upper layer is a
 * local file system (NFS cannot be one), and the lower ones must not change under a mount.
 */
static const uint32_t near[] = {
	0xef53,     /* ext4, and ext2 and ext3 */
	0x58465342, /* XFS */
	0x9123683e, /* Btrfs */
	0x01021994, /* tmpfs */
	0x794c7630, /* overlayfs */
};

bool ts_age_is_near(uint64_t type)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(near); i++)
		if (type == near[i])
			return true;
	return false;
}

int64_t ts_age_ns(struct timespec time)
{
	if (time.tv_sec >= INT64_MAX / SECOND_NS)
		return INT64_MAX;
	if (time.tv_sec <= INT64_MIN / SECOND_NS)
		return INT64_MIN;
	return (int64_t)time.tv_sec * SECOND_NS + time.tv_nsec;
}

#ifdef TS_TEST_BUILD
/* Nobody can set the time of a change: 1 makes every file old, 0 every file young. */
static bool is_forced(bool *ret_young)
{
	const char *answer = getenv("TSSHIM_TEST_YOUNG_INPUTS");

	*ret_young = answer != NULL && answer[0] == '0';
	return answer != NULL;
}
#endif

bool ts_age_is_young(bool is_near, int64_t modified_ns, int64_t changed_ns, int64_t now_ns)
{
#ifdef TS_TEST_BUILD
	bool is_young = false;
	if (is_forced(&is_young))
		return is_young;
#endif
	/* Old ext4 and ext3 keep whole seconds. */
	if (is_near && changed_ns % SECOND_NS != 0)
		return changed_ns > now_ns - AGE_NS;
	int64_t last_ns = modified_ns > changed_ns ? modified_ns : changed_ns;
	return last_ns > now_ns - FAR_AGE_NS;
}
