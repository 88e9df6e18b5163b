// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Many lookups in one version of a store. The packet holds the question. */
#include <linux/bpf.h>
#include "sapwood/qp_walk.bpf.h"
#include "number.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The keys 0 to `count` - 1, as four bytes, must all have the same value. */
struct ask {
	__u32 window;
	__u32 count;
	__u64 cursor;
	/* The number of keys with the value of the first, or an error. */
	__s64 result;
	__u64 value;
	/* The same for a walk. */
	__s64 walked;
	__u64 walked_value;
};

/* The number of entries of a walk, or -EUCLEAN when their values differ. */
SW_GLOBAL long sw_walk_same(__u32 map, sw_at cursor, __u64 *value SW_NONNULL)
{
	long found = sw_qp_walk_begin(map, cursor);
	__u32 i;

	sw_use_arena();
	for (i = sw_zero(); !found && i < (1 << 20) && sw_can_loop; i++) {
		found = sw_qp_walk_step(cursor);
		if (!found)
			return i;
		if (found < 0)
			return found;
		if (!i)
			*value = sw_number(map, found);
		else if (*value != sw_number(map, found))
			return -EUCLEAN;
		found = 0;
	}
	return found ? found : -ELOOP;
}

SEC("xdp")
int sw_ask_version(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct sw_key key = {};
	__u64 value = 0;
	__u32 root, i, count;
	long found = 0;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	key.length = 4;
	count = ask->count;
	root = sw_qp_root(ask->window);
	sw_for (i, count) {
		key.words[0] = 4 | (__u64)__builtin_bswap32(i) << 8;
		found = sw_qp_lookup_at(ask->window, root, &key);
		if (found <= 0)
			break;
		if (!i)
			value = sw_number(ask->window, found);
		else if (value != sw_number(ask->window, found)) {
			found = -EUCLEAN;
			break;
		}
	}
	ask->result = i < count ? found : (long)i;
	ask->value = value;
	value = 0;
	ask->walked = sw_walk_same(ask->window, ask->cursor, &value);
	ask->walked_value = value;
	return XDP_PASS;
}
