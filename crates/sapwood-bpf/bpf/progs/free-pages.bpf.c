// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Gives pages of an arena back to the kernel, for BpfArena::reclaim: only programs can. What is read there afterwards is zeros. */
#include <linux/bpf.h>
#include "sapwood/arena.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

extern void bpf_arena_free_pages(void *map, void SW_ARENA *at, __u32 pages) __attribute__((section(".ksyms")));

/* Which pages: where they begin, in bytes, and how many. */
struct pages {
	__u64 at;
	__u64 count;
};

SEC("syscall")
int sw_free_pages(struct pages *pages)
{
	bpf_arena_free_pages(&sw_arena, (void SW_ARENA *)(unsigned long)pages->at, pages->count);
	return 0;
}
