// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts the files that are opened on the machine, by the path that the opener gave: in a map that
 * programs write (ProgramMap), whose window has the number OPENS. main.go attaches the program and
 * reads the counts. README.md has the commands.
 */
#include <linux/bpf.h>
#include "sapwood/key.bpf.h"
#include "sapwood/qp_write_more.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#ifndef OPENS
#define OPENS 0 /* the number that `sapwood bpf map create` printed */
#endif

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

/* What the tracepoint of a system call gives. */
struct sys_enter {
	__u64 common;
	long number;
	unsigned long arguments[6];
};

/* The key of the program that runs on a processor. It is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_key));
} opens_key SEC(".maps");

/* Calls that were not counted: long paths, a full map. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 8);
} opens_missed SEC(".maps");

/*
 * openat(2), which the C library calls for open(3), too. Preemption is switched off, so the key
 * of a processor has one user.
 */
SEC("tp/syscalls/sys_enter_openat")
int count_open(struct sys_enter *ctx)
{
	const char *path = (const char *)ctx->arguments[1];
	__u32 zero = 0;
	struct sw_key *key = bpf_map_lookup_elem(&opens_key, &zero);
	__u64 *missed = bpf_map_lookup_elem(&opens_missed, &zero);
	long place;

	sw_use_arena();
	if (!key || !missed)
		return 0;
	/* Without a room in the arena (0), a path of more than 254 bytes is an error. */
	place = sw_key_user_string(key, 0, path);
	if (!place)
		place = sw_qp_get_or_insert(OPENS, key, 0);
	if (place > 0)
		sw_add_u64(place, 1);
	else
		(*missed)++;
	return 0;
}
