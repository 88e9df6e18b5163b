// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The closest entries to names, and what proves that names are not there, for a test. The packet
 * holds the name, and the answer replaces it.
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

/* The state of the search, which is too large for a stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_denial));
} sw_denials SEC(".maps");

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

/* As above, with a room for the wildcard's key, and with the proof. */
struct ask_denial {
	__u32 window;
	__u32 wildcard_exists;
	__u64 cursor;
	__s64 result;
	struct sw_closest found;
	__u64 room;
	__u64 predecessor;
	__u64 wildcard_predecessor;
	struct sw_key name;
};

SEC("xdp")
int sw_ask_denial(struct xdp_md *ctx)
{
	struct ask_denial *ask = (void *)(long)ctx->data;
	struct sw_denial *found;
	__u32 zero = 0;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	found = bpf_map_lookup_elem(&sw_denials, &zero);
	if (!found)
		return XDP_ABORTED;
	found->closest.cut_mask = ask->found.cut_mask;
	ask->result = sw_qp_denial(ask->window, ask->cursor, ask->room, &ask->name, found);
	if (!ask->result) {
		ask->found.exact = value(ask->window, found->closest.exact);
		ask->found.ancestor = value(ask->window, found->closest.ancestor);
		ask->found.wildcard = value(ask->window, found->closest.wildcard);
		ask->found.predecessor = value(ask->window, found->closest.predecessor);
		ask->found.cut = value(ask->window, found->closest.cut);
		ask->found.encloser = found->closest.encloser;
		ask->found.exists = found->closest.exists;
		ask->wildcard_exists = found->wildcard_exists;
		ask->predecessor = value(ask->window, found->predecessor);
		ask->wildcard_predecessor = value(ask->window, found->wildcard_predecessor);
	}
	return XDP_PASS;
}
