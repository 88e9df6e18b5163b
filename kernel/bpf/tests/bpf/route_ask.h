/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An operation on a route cache for a test, in a BPF program or in C in user space. */
#ifndef SAPWOOD_ROUTE_ASK_H
#define SAPWOOD_ROUTE_ASK_H

#include "sapwood/route.bpf.h"

struct ask {
	__u32 what;
	__u32 window;
	__u64 now;
	__u32 flags;
	__u32 budget;
	__s64 result;
	struct sw_route_key key;
	struct sw_route_value value;
	struct sw_route_ticket ticket;
};

SW_INLINE void sw_answer(struct ask *ask)
{
	switch (ask->what) {
	case 0:
		ask->result = sw_route_get(ask->window, &ask->key, ask->now, &ask->value, &ask->ticket);
		break;
	case 1:
		ask->result = sw_route_put(ask->window, &ask->key, &ask->value, &ask->ticket, ask->flags);
		break;
	case 2:
		ask->result = sw_route_sweep(ask->window, ask->now, ask->budget);
		break;
	case 3:
		ask->result = sw_route_invalidate(ask->window, &ask->key);
		break;
	case 4:
		ask->result = sw_route_invalidate_all(ask->window);
		break;
	default:
		ask->result = -EINVAL;
	}
}

#endif
