// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The closest entries to names, for a test. The packet holds the name, and the answer replaces it.
 */
#include <linux/bpf.h>
#include "sapwood/qp_closest.bpf.h"
#include "number.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* A window, a cursor and a name, and the answer with values instead of places. */
struct ask {
	__u32 window;
	__u32 spare;
	__u64 cursor;
	__s64 result;
	struct sw_closest found;
	struct sw_key name;
};

/* The value at a place; 0 when there is no place. */
static __u64 value(__u32 map, __u64 place)
{
	return place ? sw_number(map, place) : 0;
}

SEC("xdp")
int sw_ask_closest(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct sw_closest *found;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	found = &ask->found;
	ask->result = sw_qp_closest(ask->window, ask->cursor, &ask->name, found);
	if (!ask->result) {
		found->exact = value(ask->window, found->exact);
		found->ancestor = value(ask->window, found->ancestor);
		found->wildcard = value(ask->window, found->wildcard);
		found->predecessor = value(ask->window, found->predecessor);
		found->cut = value(ask->window, found->cut);
	}
	return XDP_PASS;
}
