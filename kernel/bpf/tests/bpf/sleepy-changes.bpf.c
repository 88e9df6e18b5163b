// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that may sleep and change maps, and one that may not sleep beside them. */
#include <linux/bpf.h>
#include "sapwood/qp_write_sleepable.bpf.h"
#include "sapwood/qp_first.bpf.h"
#include "sapwood/qp_write_more.bpf.h"
#include "sleep.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __u64 (*const ktime)(void) = (void *)5;
static __u64 (*const pid_tgid)(void) = (void *)14;
static long (*const copy_from_user)(void *to, __u32 bytes, const void *from) = (void *)148;

#define ASKS 64

/* An operation, or many changes of keys that are numbers; and the answers. */
struct ask {
	__u32 what;
	__u32 window;
	__u64 flags;
	__s64 result;
	__u64 user; /* in user space: a word, which a program copies and may sleep for */
	struct sw_qp_value value;
	struct sw_key key;
	__u32 count;
	__u32 done;
	__u32 refused; /* the key was there, or was not */
	__u32 busy;
	__u32 short_of; /* memory */
	__u32 other;
	__u64 longest; /* nanoseconds of a change */
	__u64 first; /* the first number */
};

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct ask *value;
	int (*max_entries)[ASKS];
} asks SEC(".maps");

/* The number of a question. */
struct number {
	__u32 of;
	__u32 unused;
};

SEC("syscall")
int sw_change(struct number *number)
{
	__u32 index = number->of, i;
	struct ask *ask = map_lookup(&asks, &index);

	if (!ask)
		return 1;
	sw_use_arena();
	switch (ask->what) {
	case 0:
		ask->result = sw_qp_lookup(ask->window, &ask->key);
		break;
	case 1:
		ask->result = sw_qp_insert(ask->window, &ask->key, ask->value.words[0], ask->flags);
		break;
	case 2:
		ask->result = sw_qp_insert_value(ask->window, &ask->key, &ask->value, ask->flags);
		break;
	case 3:
		ask->result = sw_qp_remove(ask->window, &ask->key);
		break;
	case 4:
		ask->result = sw_qp_take(ask->window, &ask->key);
		break;
	case 5:
		ask->result = sw_qp_get_or_insert(ask->window, &ask->key, ask->value.words[0]);
		break;
	case 6:
		ask->result = sw_qp_pop_first(ask->window, &ask->key, &ask->value);
		break;
	default:
		ask->result = -EINVAL;
	}
	if (ask->result > 0) {
		for (i = 0; i < 8; i++)
			ask->value.words[i] = sw_u64(ask->result + i * 8);
		ask->result = 1;
	}
	return 0;
}

SW_INLINE void count(struct ask *ask, __u64 began, long result)
{
	__u64 took = ktime() - began;

	if (took > ask->longest)
		ask->longest = took;
	if (!result)
		ask->done++;
	else if (result == -EEXIST || result == -ENOENT)
		ask->refused++;
	else if (result == -EBUSY)
		ask->busy++;
	else if (result == -ENOMEM)
		ask->short_of++;
	else
		ask->other++;
}

/* Inserts and removes keys, one after the other. */
SW_GLOBAL int sw_storm(struct ask *ask SW_NONNULL)
{
	__u64 began;
	__u32 i;

	sw_use_arena();
	sw_for (i, ask->count) {
		ask->key.words[0] = (ask->first + i) << 8 | 8;
		ask->key.words[1] = (ask->first + i) >> 56;
		began = ktime();
		count(ask, began, sw_qp_insert(ask->window, &ask->key, began, SW_NOEXIST));
		began = ktime();
		count(ask, began, sw_qp_remove(ask->window, &ask->key));
	}
	return 0;
}

SEC("syscall")
int sw_storm_sleepable(struct number *number)
{
	__u32 index = number->of;
	struct ask *ask = map_lookup(&asks, &index);

	return !ask || sw_storm(ask);
}

SEC("xdp")
int sw_storm_xdp(struct xdp_md *ctx)
{
	struct number *number = (void *)(long)ctx->data;
	struct ask *ask;
	__u32 index;

	if ((void *)(number + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	index = number->of;
	ask = map_lookup(&asks, &index);
	if (!ask || sw_storm(ask))
		return XDP_ABORTED;
	return XDP_PASS;
}

/* Counts its calls by thread, and takes a word of user space, for which it may sleep. */
SEC("uprobe.s")
int sw_counts(void *ctx)
{
	__u32 zero = 0;
	struct ask *ask = map_lookup(&asks, &zero);
	__u64 word = 0;
	long place;

	if (!ask)
		return 0;
	sw_use_arena();
	if (copy_from_user(&word, sizeof(word), (void *)(unsigned long)ask->user))
		return 0;
	ask->key.words[0] = (__u64)(__u32)pid_tgid() << 8 | 4;
	place = sw_qp_get_or_insert(ask->window, &ask->key, 0);
	if (place > 0)
		sw_fetch_add_u64(place, word);
	return 0;
}

/* Removes an entry, and sleeps on the value that it had. */
SEC("syscall")
int sw_sleep(void *ctx)
{
	__u32 zero = 0;
	struct sleeper *ask = map_lookup(&sleepers, &zero);

	if (!ask)
		return 1;
	sw_use_arena();
	return sleep_on(ask, sw_qp_take(ask->window, &ask->key));
}
