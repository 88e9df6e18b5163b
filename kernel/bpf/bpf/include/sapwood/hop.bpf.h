/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Next hops in the tables of prefixes of a mirror of the kernel's routes.
 *
 *     long found = sw_lpm4_lookup_be(ROUTES4, ip->daddr);
 *     struct sw_next_hop hop;
 *
 *     if (found <= 0)
 *             return XDP_PASS;
 *     sw_next_hop_read(found, &hop);
 *     if (hop.action != SW_HOP_FORWARD)
 *             return XDP_PASS;
 *
 * A route with several next hops has the action SW_HOP_GROUP: see sw_next_hop_choose in
 * groups.bpf.h.
 */
#ifndef SAPWOOD_HOP_BPF_H
#define SAPWOOD_HOP_BPF_H

#include "arena.bpf.h"

/* A next hop. The first 20 bytes are those of struct sw_route_hop. */
struct sw_next_hop {
	__u32 ifindex; /* 0: none; of SW_HOP_GROUP, the number of the group */
	__u16 mtu; /* bytes of an IP packet; 0: not known */
	__u8 action; /* SW_HOP_FORWARD, SW_HOP_KERNEL, SW_HOP_RESOLVE, SW_HOP_GROUP */
	__u8 family; /* of the gateway: AF_INET, AF_INET6, or 0 */
	__u8 smac[6];
	__u8 dmac[6];
	__u8 gateway[16];
};

_Static_assert(sizeof(struct sw_next_hop) == SW_HOP_BYTES, "a next hop");

/* Copies a next hop out of the arena. */
SW_INLINE void sw_next_hop_read(sw_at place, struct sw_next_hop *hop)
{
	__u32 *words = (__u32 *)hop;

	words[0] = sw_u32(place);
	words[1] = sw_u32(place + 4);
	words[2] = sw_u32(place + 8);
	words[3] = sw_u32(place + 12);
	words[4] = sw_u32(place + 16);
	words[5] = sw_u32(place + 20);
	words[6] = sw_u32(place + 24);
	words[7] = sw_u32(place + 28);
	words[8] = sw_u32(place + 32);
}

#endif
