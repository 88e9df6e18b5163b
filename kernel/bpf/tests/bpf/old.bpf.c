// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program as headers of version 4 and before made it: its arena has one page. */
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int(*name)[val]

char _license[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, 33); /* BPF_MAP_TYPE_ARENA */
	__uint(map_flags, 1u << 10); /* BPF_F_MMAPABLE */
	__uint(max_entries, 1);
} sw_arena SEC(".maps");

SEC("xdp")
int sw_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
