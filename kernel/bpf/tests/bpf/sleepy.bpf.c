// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that may sleep. One sleeps between two reads of an entry that it found, until user space
 * lets it go on. One looks up names that it copies from user space.
 */
#include <linux/bpf.h>
#include "sapwood/qp.bpf.h"
#include "sapwood/qp_walk.bpf.h"
#include "sleep.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static long (*const copy_from_user)(void *to, __u32 bytes, const void *from) = (void *)148;

SEC("syscall")
int sw_sleep(void *ctx)
{
	__u32 zero = 0;
	struct sleeper *ask = map_lookup(&sleepers, &zero);

	if (!ask)
		return 1;
	sw_use_arena();
	return sleep_on(ask, sw_qp_lookup(ask->window, &ask->key));
}

/* Looks up a key of user space, and the key behind it in order. */
SEC("uprobe.s")
int sw_probe(void *ctx)
{
	__u32 zero = 0;
	struct sleeper *ask = map_lookup(&sleepers, &zero);
	__u32 bytes;
	long found;

	if (!ask)
		return 0;
	sw_use_arena();
	bytes = ask->bytes;
	sw_hide(bytes);
	if (bytes > SW_KEY_SHORT_MAX)
		return 0;
	__builtin_memset(&ask->key, 0, sizeof(ask->key));
	ask->key.length = bytes;
	ask->result = copy_from_user(ask->key.bytes, bytes, (void *)(unsigned long)ask->user);
	if (!ask->result)
		ask->result = sw_qp_lookup(ask->window, &ask->key);
	ask->value = ask->result > 0 ? sw_u64(ask->result) : 0;
	found = sw_qp_next(ask->window, &ask->key);
	ask->changes = found > 0 ? sw_u64(found) : 0;
	ask->runs++;
	return 0;
}
