// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that may sleep and call what such programs must not call. The loader refuses each. */
#include <linux/bpf.h>
#include "sapwood/qp_write.bpf.h"
#include "sapwood/key.bpf.h"
#include "sapwood/route.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

struct question {
	__u32 map;
	__u32 room;
	struct sw_key key;
};

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct question *value;
	int (*max_entries)[1];
} questions SEC(".maps");

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;

static __attribute__((always_inline)) struct question *the_question(void)
{
	__u32 zero = 0;

	return map_lookup(&questions, &zero);
}

SEC("syscall")
int sw_writes(void *ctx)
{
	struct question *question = the_question();

	return !question || sw_qp_insert(question->map, &question->key, 1, 0) != 0;
}

SEC("syscall")
int sw_removes(void *ctx)
{
	struct question *question = the_question();

	return !question || sw_qp_remove(question->map, &question->key) != 0;
}

SEC("syscall")
int sw_long_key(void *ctx)
{
	struct question *question = the_question();
	sw_at room;

	if (!question)
		return 1;
	room = sw_window(question->room, SW_KIND_WORDS);
	return sw_key_user(&question->key, room, (void *)(long)question->key.long_at, 0, 1000) != 0;
}

SEC("syscall")
int sw_invalidates(void *ctx)
{
	struct question *question = the_question();

	return !question || sw_route_invalidate_all(question->map) != 0;
}
