// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The benchmark of names that lie below stored ones: see run.h. */
#include "run.h"
#include "sapwood/qp_closest.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

HASH(sw_hash, 0);

/* The value of the longest stored name above a name. `windows` holds two numbers of windows. */
SW_INLINE __u64 closest(__u32 windows, const struct sw_key *name)
{
	struct sw_closest found = {};
	sw_at cursor = sw_window(windows >> 8, SW_KIND_WORDS);

	if (sw_qp_closest(windows & 255, cursor, name, &found))
		return ~0ull;
	return found.ancestor && !found.exact ? sw_u64(found.ancestor) : 0;
}

/* Cuts the first label off a name: its last bytes. */
SW_GLOBAL int sw_up(struct sw_key *name SW_NONNULL)
{
	__u32 at = name->length, left;

	sw_use_arena();
	for (left = at; left && sw_can_loop; left--) {
		sw_hide(at);
		at &= 255;
		((__u8 *)name)[at] = 0;
		at = (at - 1) & 255;
		sw_hide(at);
		at &= 255;
		if (!((__u8 *)name)[at])
			break;
	}
	name->length = left > 1 ? at : 0;
	return 0;
}

/*
 * The same by five lookups in a hash table: the name's, and those of the names above it. A run
 * without the lookups gives the time of cutting off labels, which the benchmark subtracts.
 */
#define UPWARDS(lookup)                                                        \
	({                                                                     \
		__u64 sw_found = 0, sw_there;                                  \
		__u32 sw_i;                                                    \
                                                                               \
		sw_for (sw_i, 5) {                                             \
			sw_there = (lookup);                                   \
			if (!sw_found)                                         \
				sw_found = sw_there;                           \
			sw_up(key);                                            \
		}                                                              \
		sw_found;                                                      \
	})

RUN(sw_run_empty, 0)
RUN(sw_run_closest, closest(map, key))
RUN(sw_run_up_empty, UPWARDS(0))
RUN(sw_run_up, UPWARDS(of_hash(&sw_hash, key)))
