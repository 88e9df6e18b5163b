// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Records the times of departure of UDP packets over IPv4, behind tc-depart.bpf.c on the same hook. */
#include <linux/bpf.h>
#include "sapwood/arena.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static long (*bpf_skb_load_bytes)(const void *skb, __u32 offset, void *to, __u32 bytes) = (void *)26;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;

/*
 * A window of words, by its number: the number of packets, then for each packet the source port,
 * the bytes, the time of departure, and the time of this program.
 */
const volatile __u32 sw_departures_window SEC(".rodata.departures") = 0;

#define RECORDS 4096

SEC("tcx/egress")
int sw_departures(struct __sk_buff *skb)
{
	sw_at words = sw_window(sw_departures_window, SW_KIND_WORDS);
	__u8 head[24];
	__u64 number;

	sw_use_arena();
	if (!words || skb->protocol != __builtin_bswap16(0x0800) || bpf_skb_load_bytes(skb, 14, head, sizeof(head)) ||
	    head[0] != 0x45 || head[9] != 17)
		return -1;
	number = sw_fetch_add_u64(words, 1);
	if (number >= RECORDS)
		return -1;
	words += 8 + number * 32;
	sw_set_u64(words, (__u64)head[20] << 8 | head[21]);
	sw_set_u64(words + 8, skb->len);
	sw_set_u64(words + 16, skb->tstamp);
	sw_set_u64(words + 24, bpf_ktime_get_ns());
	return -1;
}
