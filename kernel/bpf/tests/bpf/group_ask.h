/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A question about a group, and its answer, as tests/group.rs writes them. */
#ifndef SAPWOOD_GROUP_ASK_H
#define SAPWOOD_GROUP_ASK_H

#include "sapwood/group.bpf.h"

enum { SW_ASK_MEMBERS = 8 };

struct group_ask {
	__u64 flow, up;
	__u32 count;
	int member;
	struct sw_group_member members[SW_ASK_MEMBERS];
};

#endif
