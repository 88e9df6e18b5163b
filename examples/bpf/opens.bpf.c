// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts opened files: whenever a process calls openat, its path is a key of a map that this
 * program writes, and the value is the count.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <sapwood/key.bpf.h>
#include <sapwood/qp_write_more.bpf.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* The numbers of the windows, which the process sets before it loads the program. */
const volatile __u32 counts = 0;
const volatile __u32 rooms = 0; /* for keys of more than 254 bytes, one for each processor */
const volatile __u32 processors = 0;

/* Calls that were not counted: the path could not be read, or the map had no room. */
__u64 missed = 0;

/* The key of the program that runs on a processor. It is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_key));
} keys SEC(".maps");

/* What the kernel gives to a tracepoint of a system call: its number, then its arguments. */
struct openat {
	__u64 common;
	__u64 number;
	__u64 folder;
	const char *path;
};

SEC("tracepoint/syscalls/sys_enter_openat")
int count_open(struct openat *call)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id();
	struct sw_key *key = bpf_map_lookup_elem(&keys, &zero);
	sw_at room = sw_window(rooms, SW_KIND_WORDS);
	long place = -EINVAL;

	sw_use_arena();
	if (!key)
		return 0;
	room = room && cpu < processors ? room + (__u64)cpu * SW_KEY_ROOM_BYTES : 0;
	if (sw_key_user_string(key, room, call->path) == 0)
		place = sw_qp_get_or_insert(counts, key, 0);
	if (place > 0)
		sw_add_u64(place, 1);
	else
		__sync_fetch_and_add(&missed, 1);
	return 0;
}
