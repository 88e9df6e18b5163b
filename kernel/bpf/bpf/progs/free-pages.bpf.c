// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Frees pages of an arena, for BpfArena::reclaim, because only programs can. The pages read as
 * zeros afterwards.
 */
#include <linux/bpf.h>
#include "sapwood/arena.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

extern void bpf_arena_free_pages(void *map, void SW_ARENA *at, __u32 pages) __attribute__((section(".ksyms")));

/* The pages: the place of the first one in bytes, and their number. */
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
