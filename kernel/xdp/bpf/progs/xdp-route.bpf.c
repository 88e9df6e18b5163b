// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Forwards IPv4 and IPv6 packets to the next hops that the kernel would choose. The resolver is the
 * kernel's table (bpf_fib_lookup): for each packet, or for each flow that the route cache does not
 * have. A third mode looks next hops up in the tables that mirror the kernel's.
 *
 * A frame may have one tag of a VLAN (IEEE 802.1Q): its packet comes from the interface of that
 * VLAN, and goes out without the tag, or with that of the VLAN behind which the next hop is.
 *
 * All other packets pass to the kernel unchanged, and are counted by the reason. The kernel
 * receives its own packets, resolves neighbours, sends ICMP errors, and drops.
 */
#include <linux/bpf.h>
#include <linux/ip.h>
#include "sapwood/groups.bpf.h"
#include "sapwood/lpm.bpf.h"
#include "sapwood/route.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_xdp_adjust_head)(void *ctx, int bytes) = (void *)44;
static long (*bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*bpf_check_mtu)(void *ctx, __u32 ifindex, __u32 *mtu, int more, __u64 flags) = (void *)163;
static long (*bpf_fib_lookup)(void *ctx, struct bpf_fib_lookup *ask, int bytes, __u32 flags) = (void *)69;

/*
 * The kernel's structures, as far as the program reads them. The loader finds the places of their
 * fields.
 */
struct ipv4_devconf {
	int data[IPV4_DEVCONF_MAX];
} __attribute__((preserve_access_index));

struct in_device {
	struct ipv4_devconf cnf;
} __attribute__((preserve_access_index));

struct netns_ipv4 {
	struct ipv4_devconf *devconf_all;
} __attribute__((preserve_access_index));

struct net {
	struct netns_ipv4 ipv4;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	possible_net_t nd_net;
	struct in_device *ip_ptr;
	__u8 dev_addr_shadow[32]; /* the copy of the link address that lies in the structure */
} __attribute__((preserve_access_index));

struct xdp_rxq_info {
	struct net_device *dev;
} __attribute__((preserve_access_index));

struct xdp_buff {
	struct xdp_rxq_info *rxq;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *ctx) __attribute__((section(".ksyms")));

/*
 * The mode and the numbers of windows, as in src/xdp_route.rs. The loader sets them, in a section
 * where the compiler puts nothing else.
 */
struct sw_xdp_config {
	__u32 mode;
	__u32 cache;
	__u32 table4;
	__u32 table6;
	__u32 groups;
	__u32 unused;
	__u64 seed; /* of the hash of flows */
};
const volatile struct sw_xdp_config sw_xdp_config SEC(".rodata.config") = {};

/* The number of packets for each verdict, per CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SW_XDP_ROUTE_COUNTS);
	__uint(key_size, 4);
	__uint(value_size, 8);
} sw_xdp_counts SEC(".maps");

/*
 * The VLANs, of IEEE 802.1Q: for an interface << 16 | a number, with bit 63, the interface of the
 * VLAN; for the interface of a VLAN, the other interface << 16 | the number, or 0 if programs
 * cannot send to it. User space writes it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * SW_XDP_ROUTE_VLANS);
	__uint(key_size, 8);
	__uint(value_size, 8);
} sw_xdp_vlans SEC(".maps");

/* An address of a route: the version comes first. */
struct sw_mtu_key {
	__u32 bits;
	__u8 is_v6;
	__u8 address[16];
} __attribute__((packed));

/*
 * The routes with an MTU of their own, which bpf_fib_lookup does not tell, and the least MTU of
 * them; 0 without any. User space writes both.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, SW_XDP_ROUTE_MTUS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, sizeof(struct sw_mtu_key));
	__uint(value_size, 4);
} sw_xdp_mtus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} sw_xdp_least_mtu SEC(".maps");

enum {
	SW_ETH_BYTES = 14,
	SW_ETH_LEAST = 64, /* bytes of the shortest frame, with a tag */
	SW_TAG_BYTES = 4,
	SW_TYPE_VLAN = 0x8100,
	SW_VLAN_MASK = 0xfff,
	SW_IPV4_BYTES = 20,
	SW_IPV6_BYTES = 40,
	SW_TYPE_IPV4 = 0x0800,
	SW_TYPE_IPV6 = 0x86dd,
	SW_FAMILY4 = 2,
	SW_FAMILY6 = 10,
	SW_PROTO_HOPS = 0,
	SW_PROTO_ICMP = 1,
	SW_PROTO_TCP = 6,
	SW_PROTO_UDP = 17,
	SW_PROTO_ICMP6 = 58,
};

SW_INLINE __u32 sw_be16(const __u8 *p)
{
	return (__u32)p[0] << 8 | p[1];
}

SW_INLINE void sw_set_be16(__u8 *p, __u32 value)
{
	p[0] = (__u8)(value >> 8);
	p[1] = (__u8)value;
}

/* The fields of a packet that can be forwarded. */
struct sw_packet {
	struct sw_route_key key;
	struct bpf_fib_lookup ask;
	__u32 bytes; /* bytes of the IP packet */
	__u32 tag; /* bytes of the tag: SW_TAG_BYTES or 0 */
	__u32 vlan; /* the number of the VLAN that it comes from; 0: none */
	__u32 from; /* the interface that it comes from */
};

/* The interface that a frame comes from. */
SW_INLINE struct net_device *sw_device(struct xdp_md *ctx)
{
	struct xdp_buff *frame = bpf_cast_to_kern_ctx(ctx);

	return frame->rxq->dev;
}

/* Whether a frame is for the link address of its interface. */
SW_INLINE int sw_is_for_us(struct xdp_md *ctx, const __u8 *frame)
{
	const __u8 *own = sw_device(ctx)->dev_addr_shadow;

	return *(const __u32 *)own == *(const __u32 *)frame && *(const __u16 *)(own + 4) == *(const __u16 *)(frame + 4);
}

/*
 * Whether a setting of IPv4 is on for an interface, or for all. Those of a VLAN's interface are not
 * known here, and count as on.
 */
SW_INLINE int sw_setting4(struct xdp_md *ctx, const struct sw_packet *packet, __u32 number)
{
	struct net_device *device = sw_device(ctx);
	struct in_device *own = device->ip_ptr;

	if (packet->vlan || !own)
		return 1;
	return own->cnf.data[number - 1] || device->nd_net.net->ipv4.devconf_all->data[number - 1];
}

/* The number of a hop's VLAN; 0: none. */
SW_INLINE __u32 sw_hop_vlan(const struct sw_route_value *value)
{
	return (__u32)value->hop.extra[0] << 8 | value->hop.extra[1];
}

/*
 * If a hop's interface is a VLAN, replaces it by the interface under it: positive; 0 for another
 * interface, and -EINVAL for a VLAN to which programs cannot send.
 */
SW_INLINE int sw_under_vlan(struct sw_route_value *value)
{
	__u64 key = value->hop.ifindex, *vlan = bpf_map_lookup_elem(&sw_xdp_vlans, &key);

	if (!vlan)
		return 0;
	if (!*vlan)
		return -EINVAL;
	value->hop.ifindex = (__u32)(*vlan >> 16);
	value->hop.extra[0] = (__u8)(*vlan >> 8);
	value->hop.extra[1] = (__u8)*vlan;
	return 1;
}

SW_INLINE __u64 sw_mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

/*
 * Reads the ports of a packet, for the flow and for rules of the kernel that use ports. `bytes`:
 * the bytes of the payload.
 */
SW_INLINE void sw_ports(const __u8 *at, const __u8 *end, __u32 protocol, __u32 bytes, struct bpf_fib_lookup *ask)
{
	ask->l4_protocol = (__u8)protocol;
	if ((protocol != SW_PROTO_TCP && protocol != SW_PROTO_UDP) || bytes < 4 || at + 4 > end)
		return;
	__builtin_memcpy(&ask->sport, at, 2);
	__builtin_memcpy(&ask->dport, at + 2, 2);
}

/* Whether the checksum of an IPv4 header without options is right. */
SW_INLINE int sw_sum_is_right(const __u8 *ip)
{
	__u32 sum = 0, at;

#pragma unroll
	for (at = 0; at < SW_IPV4_BYTES; at += 2)
		sum += sw_be16(ip + at);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/*
 * Whether bytes are behind a packet that the frame did not need to be long enough. The kernel cuts
 * them off.
 */
SW_INLINE int sw_has_trailer(struct xdp_md *ctx, const __u8 *ip, const __u8 *end, __u32 bytes)
{
	return end - (const __u8 *)(long)ctx->data > SW_ETH_LEAST && bytes < (__u64)(end - ip);
}

/*
 * Whether an IPv4 packet is a message about an error. If there are several paths, the kernel takes
 * the one of the packet that is quoted.
 */
SW_INLINE int sw_is_error4(const __u8 *ip, const __u8 *end)
{
	const __u8 *icmp = ip + SW_IPV4_BYTES;

	if (ip[9] != SW_PROTO_ICMP || sw_be16(ip + 6) & 0x1fff || icmp + 1 > end)
		return 0;
	return (*icmp >= 3 && *icmp <= 5) || *icmp == 11 || *icmp == 12;
}

/*
 * Reads an IPv4 packet. Returns SW_XDP_ROUTE_COUNTS, or the verdict when the packet passes to the
 * kernel. The answer depends on the destination and the flow. The flow is the source, the type of
 * service, the protocol and the ports, by which the kernel may choose among several paths.
 */
SW_INLINE __u32 sw_read4(const __u8 *ip, const __u8 *end, struct sw_packet *packet)
{
	struct bpf_fib_lookup *ask = &packet->ask;
	__u64 hash;

	if (ip + SW_IPV4_BYTES > end || ip[0] >> 4 != 4)
		return SW_XDP_ROUTE_MALFORMED;
	packet->bytes = sw_be16(ip + 2);
	if ((ip[0] & 15) < 5 || packet->bytes < SW_IPV4_BYTES || packet->bytes > (__u64)(end - ip))
		return SW_XDP_ROUTE_MALFORMED;
	if ((ip[0] & 15) > 5)
		return SW_XDP_ROUTE_OPTIONS;
	/* Neither address is one of a host. */
	if (ip[16] >= 224 || ip[16] == 127 || !ip[16] || ip[12] >= 224 || ip[12] == 127 || !ip[12])
		return SW_XDP_ROUTE_NOT_UNICAST;
	if (!sw_sum_is_right(ip))
		return SW_XDP_ROUTE_MALFORMED;
	if (ip[8] <= 1)
		return SW_XDP_ROUTE_EXPIRED;
	if (sw_is_error4(ip, end))
		return SW_XDP_ROUTE_ICMP_ERROR;
	ask->family = SW_FAMILY4;
	ask->tos = ip[1];
	__builtin_memcpy(&ask->ipv4_src, ip + 12, 4);
	__builtin_memcpy(&ask->ipv4_dst, ip + 16, 4);
	/* Later fragments have no ports, so those of the first one do not count either. */
	if (sw_be16(ip + 6) & 0x3fff)
		ask->l4_protocol = ip[9];
	else
		sw_ports(ip + SW_IPV4_BYTES, end, ip[9], packet->bytes - SW_IPV4_BYTES, ask);
	__builtin_memcpy(packet->key.address, ip + 16, 4);
	hash = sw_mixed(0, (__u64)ask->ipv4_src << 32 | (__u32)ask->tos << 8 | ask->l4_protocol);
	packet->key.flow = (__u32)sw_mixed(hash, (__u32)ask->sport << 16 | ask->dport);
	return SW_XDP_ROUTE_COUNTS;
}

/* Reads an IPv6 packet, as sw_read4. The flow includes the flow label. */
SW_INLINE __u32 sw_read6(const __u8 *ip, const __u8 *end, struct sw_packet *packet)
{
	struct bpf_fib_lookup *ask = &packet->ask;
	__u64 source[2], hash;

	if (ip + SW_IPV6_BYTES > end || ip[0] >> 4 != 6)
		return SW_XDP_ROUTE_MALFORMED;
	packet->bytes = SW_IPV6_BYTES + sw_be16(ip + 4);
	if (packet->bytes > (__u64)(end - ip))
		return SW_XDP_ROUTE_MALFORMED;
	/* Options that each router examines. */
	if (ip[6] == SW_PROTO_HOPS)
		return SW_XDP_ROUTE_OPTIONS;
	/*
	 * On either side, multicast and link-local addresses, and ::/16, which includes the
	 * unspecified address and the loopback.
	 */
	if (ip[24] == 0xff || (ip[24] == 0xfe && (ip[25] & 0xc0) == 0x80) || !(ip[24] | ip[25]) ||
	    ip[8] == 0xff || (ip[8] == 0xfe && (ip[9] & 0xc0) == 0x80) || !(ip[8] | ip[9]))
		return SW_XDP_ROUTE_NOT_UNICAST;
	/* As sw_is_error4. */
	if (ip[6] == SW_PROTO_ICMP6 && ip + SW_IPV6_BYTES < end && ip[SW_IPV6_BYTES] < 128)
		return SW_XDP_ROUTE_ICMP_ERROR;
	if (ip[7] <= 1)
		return SW_XDP_ROUTE_EXPIRED;
	ask->family = SW_FAMILY6;
	__builtin_memcpy(&ask->flowinfo, ip, 4);
	((__u8 *)&ask->flowinfo)[0] &= 0x0f;
	__builtin_memcpy(ask->ipv6_src, ip + 8, 16);
	__builtin_memcpy(ask->ipv6_dst, ip + 24, 16);
	sw_ports(ip + SW_IPV6_BYTES, end, ip[6], packet->bytes - SW_IPV6_BYTES, ask);
	__builtin_memcpy(packet->key.address, ip + 24, 16);
	__builtin_memcpy(source, ip + 8, 16);
	hash = sw_mixed(sw_mixed(0, source[0]), source[1]);
	hash = sw_mixed(hash, (__u64)ask->flowinfo << 32 | ask->l4_protocol);
	packet->key.flow = (__u32)sw_mixed(hash, (__u32)ask->sport << 16 | ask->dport);
	return SW_XDP_ROUTE_COUNTS;
}

/*
 * Reads a frame. Returns SW_XDP_ROUTE_COUNTS, or the verdict when the packet passes to the kernel.
 */
SW_INLINE __u32 sw_read(struct xdp_md *ctx, struct sw_packet *packet)
{
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 key, *vlan;
	__u32 type, verdict;

	if (data + SW_ETH_BYTES > end)
		return SW_XDP_ROUTE_MALFORMED;
	/* A frame to a group address. */
	if (data[0] & 1)
		return SW_XDP_ROUTE_NOT_UNICAST;
	if (!sw_is_for_us(ctx, data))
		return SW_XDP_ROUTE_OTHER_HOST;
	packet->from = ctx->ingress_ifindex;
	type = sw_be16(data + 12);
	data += SW_ETH_BYTES;
	if (type == SW_TYPE_VLAN) {
		if (data + SW_TAG_BYTES > end)
			return SW_XDP_ROUTE_MALFORMED;
		key = (__u64)ctx->ingress_ifindex << 16 | 1ull << 63 | (sw_be16(data) & SW_VLAN_MASK);
		/* The number 0 is none: such a tag has only a priority. */
		if (key & SW_VLAN_MASK) {
			vlan = bpf_map_lookup_elem(&sw_xdp_vlans, &key);
			if (!vlan)
				return SW_XDP_ROUTE_OTHER;
			packet->from = (__u32)*vlan;
			packet->vlan = key & SW_VLAN_MASK;
		}
		type = sw_be16(data + 2);
		data += SW_TAG_BYTES;
		packet->tag = SW_TAG_BYTES;
	}
	packet->ask.ifindex = packet->from;
	packet->key.other = packet->from << 1;
	switch (type) {
	case SW_TYPE_IPV4:
		verdict = sw_read4(data, end, packet);
		break;
	case SW_TYPE_IPV6:
		packet->key.other |= 1;
		verdict = sw_read6(data, end, packet);
		break;
	default:
		return SW_XDP_ROUTE_OTHER;
	}
	if (verdict == SW_XDP_ROUTE_COUNTS && sw_has_trailer(ctx, data, end, packet->bytes))
		return SW_XDP_ROUTE_OTHER;
	return verdict;
}

/*
 * Whether the kernel may drop a packet for its source, which it reaches by the interface `back`
 * (0: not known): rp_filter is on, and packets to the source leave elsewhere.
 */
SW_INLINE int sw_is_filtered(struct xdp_md *ctx, const struct sw_packet *packet, __u32 back)
{
	return back != packet->from && sw_setting4(ctx, packet, IPV4_DEVCONF_RP_FILTER);
}

/*
 * Whether the kernel must see an IPv4 packet for its source: an address of this machine, one
 * without a route, or one that rp_filter may refuse.
 */
SW_INLINE int sw_source_is_the_kernels(struct xdp_md *ctx, const struct sw_packet *packet)
{
	struct bpf_fib_lookup ask = {};

	ask.family = SW_FAMILY4;
	ask.ifindex = packet->from;
	ask.ipv4_dst = packet->ask.ipv4_src;
	switch (bpf_fib_lookup(ctx, &ask, sizeof(ask), BPF_FIB_LOOKUP_SKIP_NEIGH)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		return sw_is_filtered(ctx, packet, ask.ifindex);
	case BPF_FIB_LKUP_RET_NOT_FWDED:
		return 1;
	default:
		return sw_is_filtered(ctx, packet, 0);
	}
}

/*
 * Asks the kernel's table. Returns SW_XDP_ROUTE_RESOLVED and the next hop, or the verdict when
 * there is none.
 */
SW_INLINE __u32 sw_resolve(struct xdp_md *ctx, struct sw_packet *packet, struct sw_route_value *value)
{
	struct bpf_fib_lookup *ask = &packet->ask;
	__u32 most = 0;

	if (ask->family == SW_FAMILY4 && sw_source_is_the_kernels(ctx, packet))
		return SW_XDP_ROUTE_SOURCE;
	/*
	 * The kernel does not compare a length of 0 with the MTU, because the answer is for all
	 * packets of the flow.
	 */
	switch (bpf_fib_lookup(ctx, ask, sizeof(*ask), 0)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		break;
	case BPF_FIB_LKUP_RET_NO_NEIGH:
		return SW_XDP_ROUTE_NO_NEIGHBOUR;
	default:
		return SW_XDP_ROUTE_NO_ROUTE;
	}
	value->hop.ifindex = ask->ifindex;
	value->hop.mtu = ask->mtu_result;
	/* The MTU of a route may be larger than that of the interface, which drops the packet then. */
	if (bpf_check_mtu(ctx, ask->ifindex, &most, 0, 0) >= 0 && most < ask->mtu_result)
		value->hop.mtu = (__u16)most;
	value->hop.family = ask->family;
	__builtin_memcpy(value->hop.smac, ask->smac, 6);
	__builtin_memcpy(value->hop.dmac, ask->dmac, 6);
	/* The kernel cannot redirect to a VLAN. */
	return sw_under_vlan(value) < 0 ? SW_XDP_ROUTE_NO_ROUTE : SW_XDP_ROUTE_RESOLVED;
}

/* Finds the next hop in the cache, or else by the resolver, whose answer the cache then keeps. */
SW_INLINE __u32 sw_find_cached(struct xdp_md *ctx, struct sw_packet *packet, struct sw_route_value *value)
{
	struct sw_route_ticket ticket = {};
	__u32 cache = sw_xdp_config.cache, verdict;
	long got = sw_route_get(cache, &packet->key, bpf_ktime_get_ns(), value, &ticket);

	if (!got)
		return SW_XDP_ROUTE_CACHED;
	if (got == -EHOSTUNREACH)
		return SW_XDP_ROUTE_NEGATIVE;
	verdict = sw_resolve(ctx, packet, value);
	/*
	 * These failures are not kept: the kernel resolves the neighbour in a moment, and other
	 * sources may have the same hash.
	 */
	if (verdict != SW_XDP_ROUTE_NO_NEIGHBOUR && verdict != SW_XDP_ROUTE_SOURCE)
		sw_route_put(cache, &packet->key, value, &ticket,
			     verdict == SW_XDP_ROUTE_RESOLVED ? 0 : SW_ROUTE_NEGATIVE);
	return verdict;
}

/* The hash of a packet's flow: that of FlowHasher. */
SW_INLINE __u64 sw_flow(const struct bpf_fib_lookup *ask)
{
	struct sw_flow_secrets secrets = sw_flow_secrets(sw_xdp_config.seed);
	__u32 sport = __builtin_bswap16(ask->sport), dport = __builtin_bswap16(ask->dport);
	struct sw_flow_addr6 src, dst;

	if (ask->family == SW_FAMILY4)
		return sw_flow_hash4(&secrets, __builtin_bswap32(ask->ipv4_src), __builtin_bswap32(ask->ipv4_dst),
				     ask->l4_protocol, sport, dport);
	src.high = (__u64)__builtin_bswap32(ask->ipv6_src[0]) << 32 | __builtin_bswap32(ask->ipv6_src[1]);
	src.low = (__u64)__builtin_bswap32(ask->ipv6_src[2]) << 32 | __builtin_bswap32(ask->ipv6_src[3]);
	dst.high = (__u64)__builtin_bswap32(ask->ipv6_dst[0]) << 32 | __builtin_bswap32(ask->ipv6_dst[1]);
	dst.low = (__u64)__builtin_bswap32(ask->ipv6_dst[2]) << 32 | __builtin_bswap32(ask->ipv6_dst[3]);
	return sw_flow_hash6(&secrets, src, dst, ask->l4_protocol, sport, dport);
}

/*
 * Asks the tables that mirror the kernel's. Returns SW_XDP_ROUTE_TABLE and the next hop, or the
 * verdict when there is none.
 */
SW_INLINE __u32 sw_find_table(struct xdp_md *ctx, const struct sw_packet *packet, struct sw_route_value *value)
{
	struct sw_next_hop hop;
	long found;

	if (packet->ask.family == SW_FAMILY4) {
		/* Addresses of this machine are the kernel's. */
		found = sw_lpm4_lookup_be(sw_xdp_config.table4, packet->ask.ipv4_src);
		if (found > 0)
			sw_next_hop_read(found, &hop);
		else
			hop.action = SW_HOP_GROUP;
		if (hop.action == SW_HOP_KERNEL ||
		    sw_is_filtered(ctx, packet, hop.action == SW_HOP_GROUP ? 0 : hop.ifindex))
			return SW_XDP_ROUTE_SOURCE;
		found = sw_lpm4_lookup_be(sw_xdp_config.table4, packet->ask.ipv4_dst);
	} else
		found = sw_lpm6_lookup_be(sw_xdp_config.table6, packet->ask.ipv6_dst);
	if (found <= 0)
		return SW_XDP_ROUTE_NO_ROUTE;
	sw_next_hop_read(found, &hop);
	if (hop.action == SW_HOP_GROUP && sw_next_hop_choose(sw_xdp_config.groups, sw_flow(&packet->ask), &hop))
		return SW_XDP_ROUTE_NO_ROUTE;
	if (hop.action != SW_HOP_FORWARD && hop.action != SW_HOP_TAGGED)
		return hop.action == SW_HOP_RESOLVE ? SW_XDP_ROUTE_NO_NEIGHBOUR : SW_XDP_ROUTE_NO_ROUTE;
	value->hop.ifindex = hop.ifindex;
	value->hop.mtu = hop.mtu;
	__builtin_memcpy(value->hop.smac, hop.smac, 6);
	__builtin_memcpy(value->hop.dmac, hop.dmac, 6);
	if (hop.action == SW_HOP_TAGGED && sw_under_vlan(value) <= 0)
		return SW_XDP_ROUTE_NO_ROUTE;
	return SW_XDP_ROUTE_TABLE;
}

/*
 * Writes the link addresses and the tag, and decrements the hop limit. The packet is the one that
 * sw_read read. A tag keeps its priority. Returns 0 if the packet's bytes are no longer there, or
 * there is no room for a tag.
 */
SW_INLINE int sw_rewrite(struct xdp_md *ctx, const struct sw_packet *packet, const struct sw_route_value *value,
			 int is_v6)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip = data + SW_ETH_BYTES;
	__u32 sum, vlan = sw_hop_vlan(value), priority = 0;

	if (packet->tag)
		ip += SW_TAG_BYTES;
	if (is_v6) {
		if (ip + SW_IPV6_BYTES > end)
			return 0;
		ip[7]--;
	} else {
		if (ip + SW_IPV4_BYTES > end)
			return 0;
		/* RFC 1624: the checksum without the old word, and with the new one. */
		sum = (~sw_be16(ip + 10) & 0xffff) + (~sw_be16(ip + 8) & 0xffff);
		ip[8]--;
		sum += sw_be16(ip + 8);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		sw_set_be16(ip + 10, ~sum);
	}
	if (packet->tag)
		priority = sw_be16(data + SW_ETH_BYTES) & ~SW_VLAN_MASK;
	if (packet->tag && !vlan && bpf_xdp_adjust_head(ctx, SW_TAG_BYTES))
		return 0;
	if (!packet->tag && vlan && bpf_xdp_adjust_head(ctx, -SW_TAG_BYTES))
		return 0;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + SW_ETH_BYTES + SW_TAG_BYTES > end)
		return 0;
	__builtin_memcpy(data, value->hop.dmac, 6);
	__builtin_memcpy(data + 6, value->hop.smac, 6);
	if (vlan) {
		sw_set_be16(data + 12, SW_TYPE_VLAN);
		sw_set_be16(data + SW_ETH_BYTES, vlan | priority);
	}
	return 1;
}

/* Whether a packet is longer than the MTU of a route to its destination. */
SW_INLINE int sw_exceeds_route(const struct sw_packet *packet, int is_v6)
{
	struct sw_mtu_key key = { .bits = 8 * (sizeof(key) - 4), .is_v6 = is_v6 };
	__u32 zero = 0, *mtu = bpf_map_lookup_elem(&sw_xdp_least_mtu, &zero);

	if (!mtu || !*mtu || packet->bytes <= *mtu)
		return 0;
	__builtin_memcpy(key.address, packet->key.address, sizeof(key.address));
	mtu = bpf_map_lookup_elem(&sw_xdp_mtus, &key);
	return mtu && packet->bytes > *mtu;
}

SW_INLINE int sw_route_packet(struct xdp_md *ctx, struct sw_packet *packet, __u32 *verdict)
{
	struct sw_route_value value = {};
	int is_v6;

	*verdict = sw_read(ctx, packet);
	if (*verdict != SW_XDP_ROUTE_COUNTS)
		return XDP_PASS;
	is_v6 = packet->ask.family == SW_FAMILY6;
	if (sw_xdp_config.mode == SW_XDP_ROUTE_MODE_CACHE)
		*verdict = sw_find_cached(ctx, packet, &value);
	else if (sw_xdp_config.mode == SW_XDP_ROUTE_MODE_TABLE)
		*verdict = sw_find_table(ctx, packet, &value);
	else
		*verdict = sw_resolve(ctx, packet, &value);
	if (*verdict != SW_XDP_ROUTE_CACHED && *verdict != SW_XDP_ROUTE_RESOLVED && *verdict != SW_XDP_ROUTE_TABLE)
		return XDP_PASS;
	/* The kernel tells the sender of the shorter way. */
	if (value.hop.ifindex == ctx->ingress_ifindex && sw_hop_vlan(&value) == packet->vlan &&
	    (is_v6 || sw_setting4(ctx, packet, IPV4_DEVCONF_SEND_REDIRECTS))) {
		*verdict = SW_XDP_ROUTE_SAME_INTERFACE;
		return XDP_PASS;
	}
	if ((value.hop.mtu && packet->bytes > value.hop.mtu) || sw_exceeds_route(packet, is_v6)) {
		*verdict = SW_XDP_ROUTE_TOO_LONG;
		return XDP_PASS;
	}
	if (!sw_rewrite(ctx, packet, &value, is_v6)) {
		*verdict = SW_XDP_ROUTE_MALFORMED;
		return XDP_PASS;
	}
	return (int)bpf_redirect(value.hop.ifindex, 0);
}

SEC("xdp")
int sw_xdp_route(struct xdp_md *ctx)
{
	struct sw_packet packet = {};
	__u32 verdict = SW_XDP_ROUTE_MALFORMED;
	int action = sw_route_packet(ctx, &packet, &verdict);
	__u64 *count = bpf_map_lookup_elem(&sw_xdp_counts, &verdict);

	if (count)
		(*count)++;
	return action;
}

/*
 * For the other end of a veth pair. Such an interface accepts redirected packets when its peer runs
 * a program.
 */
SEC("xdp")
int sw_xdp_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
