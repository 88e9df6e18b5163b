// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts programs that are started on the machine, by the path of their file or by their command
 * line: keys of run-time length, up to 4,096 bytes, in a map that programs write (ProgramMap). User
 * space reads the counts in order, for example of all paths below a folder.
 *
 * In a command line, a zero byte ends each argument, as in /proc/PID/cmdline. What has more than
 * 4,096 bytes is cut off there.
 */
#include <linux/bpf.h>
#include "sapwood/key.bpf.h"
#include "sapwood/qp_write_more.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static void *(*bpf_get_current_task_btf)(void) = (void *)158;

/* Of the kernel's types, what is used here. */
struct mm_struct {
	unsigned long arg_start, arg_end;
} __attribute__((preserve_access_index));
struct task_struct {
	struct mm_struct *mm;
} __attribute__((preserve_access_index));
struct linux_binprm {
	const char *filename;
} __attribute__((preserve_access_index));

/* The windows: the counts, and rooms for long keys, one for each processor. */
struct sw_execs {
	__u32 counts;
	__u32 rooms;
	__u32 processors; /* the number of rooms */
	__u32 by_command_line; /* 0: by path */
};
const volatile struct sw_execs sw_execs SEC(".rodata.execs") = {};

/* Starts that were counted, and those that were not. Per CPU. */
enum {
	SW_EXECS_COUNTED = 0,
	SW_EXECS_NO_KEY = 1, /* the path or the command line could not be read */
	SW_EXECS_REFUSED = 2, /* the map was full, or had no memory */
	SW_EXECS_COUNTS = 3,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SW_EXECS_COUNTS);
	__uint(key_size, 4);
	__uint(value_size, 8);
} sw_execs_counts SEC(".maps");

/* The key of the program that runs on a processor. It is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_key));
} sw_execs_key SEC(".maps");

/*
 * Makes the key of the command line. The kernel has just written the arguments, so they are in
 * memory.
 */
SW_INLINE long sw_execs_line(struct sw_key *key, sw_at room)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	__u64 bytes;

	if (!mm)
		return -EINVAL;
	bytes = mm->arg_end - mm->arg_start;
	if (bytes > SW_KEY_MAX)
		bytes = SW_KEY_MAX;
	return sw_key_user(key, room, (const void *)mm->arg_start, 0, (__u32)bytes);
}

/* Tracepoints run with preemption switched off, so a processor's room and key have one user. */
SEC("tp_btf/sched_process_exec")
int sw_count_exec(__u64 *ctx)
{
	struct linux_binprm *program = (void *)ctx[2];
	__u32 zero = 0, what = SW_EXECS_NO_KEY, cpu = bpf_get_smp_processor_id();
	struct sw_key *key = bpf_map_lookup_elem(&sw_execs_key, &zero);
	sw_at room = sw_window(sw_execs.rooms, SW_KIND_WORDS);
	__u64 *count;
	long error, found;

	sw_use_arena();
	if (!key)
		return 0;
	/* Without a room, long keys cannot be read. */
	room = room && cpu < sw_execs.processors ? room + (__u64)cpu * SW_KEY_ROOM_BYTES : 0;
	error = sw_execs.by_command_line ? sw_execs_line(key, room) : sw_key_string(key, room, program->filename);
	if (!error) {
		found = sw_qp_get_or_insert(sw_execs.counts, key, 0);
		what = found > 0 ? SW_EXECS_COUNTED : SW_EXECS_REFUSED;
		if (found > 0)
			sw_add_u64(found, 1);
	}
	count = bpf_map_lookup_elem(&sw_execs_counts, &what);
	if (count)
		(*count)++;
	return 0;
}
