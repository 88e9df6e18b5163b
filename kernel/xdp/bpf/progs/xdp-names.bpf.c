// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Drops DNS queries for names of a list, and for names below them, and queries of which it cannot
 * tell whether they are; or answers them with the bit TC, so that clients ask over TCP. All other
 * packets pass unchanged, and are counted.
 *
 * The list is a map of the arena whose keys are those of domain names (dns.bpf.h). The entry of the
 * closest enclosing name has the rule for the query: SW_NAMES_BLOCK, SW_NAMES_ALLOW or
 * SW_NAMES_TRUNCATE. A wildcard is a part of the entry of the name above it. Queries are
 * UDP packets to port 53, over IPv4 or IPv6, behind at most two VLAN tags. The first question
 * counts. The program does not look into tunnels, and counts them by kind.
 */
#include <linux/bpf.h>
#include "sapwood/dns.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static __s64 (*bpf_csum_diff)(void *from, __u32 from_bytes, void *to, __u32 to_bytes, __u32 seed) = (void *)28;
static long (*bpf_xdp_adjust_tail)(struct xdp_md *ctx, int bytes) = (void *)65;
static long (*bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes) = (void *)189;
static long (*bpf_xdp_store_bytes)(struct xdp_md *ctx, __u32 offset, void *from, __u32 bytes) = (void *)190;

/*
 * The numbers of two windows: the list, and the room for long keys, one for each CPU. The loader
 * sets them.
 */
const volatile struct {
	__u32 list;
	__u32 rooms;
} sw_names_windows SEC(".rodata.windows") = {};

/* The number of packets for each verdict, per CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SW_NAMES_COUNTS);
	__uint(key_size, 4);
	__uint(value_size, 8);
} sw_names_counts SEC(".maps");

#define SW_OPT_BYTES 11
/* The bytes of the longest question: a name, a type and a class. */
#define SW_QUESTION_MAX (SW_DNS_WIRE_MAX + 4)

/*
 * An answer: what the checksum of UDP covers of the IP header, in any order; the headers; the
 * question and the record of EDNS; and zeros, because checksums are made of whole words.
 */
struct sw_answer {
	__u8 covered[40];
	__u8 udp[8];
	__u8 dns[12];
	__u8 rest[SW_QUESTION_MAX + SW_OPT_BYTES + 6];
};

_Static_assert(sizeof(struct sw_answer) % 4 == 0, "it ends with a word");

/*
 * Data that is too large for the stack: the name of the query that this CPU examines, and the
 * answer.
 */
struct sw_names_work {
	struct sw_key key;
	struct sw_dns_name name;
	/*
	 * The place of the IP header, whether it is one of IPv6, and whether the question had
	 * pointers: in memory, because the verifier would look at all that comes between once more
	 * for each value.
	 */
	volatile __u32 ip_at, is_v6, is_pointed;
	__u8 ethernet[16];
	__u8 ip[40];
	__u8 opt[SW_OPT_BYTES + 1];
	struct sw_answer answer;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_names_work));
} sw_names_scratch SEC(".maps");

#define SW_ETH_BYTES 14
#define SW_IPV4_BYTES 20
#define SW_IPV6_BYTES 40
#define SW_UDP_BYTES 8
#define SW_DNS_BYTES 12
/* The least frame on a cable, without its checksum. */
#define SW_FRAME_MIN 60
/* The bytes of answers over UDP that the record of EDNS promises. */
#define SW_EDNS_PAYLOAD 1232
#define SW_PORT_DNS 53
#define SW_PORT_DNS_TLS 853
/* The maximum number of extension headers that the program skips. */
#define SW_IPV6_EXTENSIONS 16
/* The maximum number of VLAN tags. */
#define SW_TAGS 2

enum {
	SW_PROTO_HOPS = 0,
	SW_PROTO_IPV4 = 4,
	SW_PROTO_TCP = 6,
	SW_PROTO_UDP = 17,
	SW_PROTO_IPV6 = 41,
	SW_PROTO_ROUTING = 43,
	SW_PROTO_FRAGMENT = 44,
	SW_PROTO_GRE = 47,
	SW_PROTO_ESP = 50,
	SW_PROTO_AUTHENTICATION = 51,
	SW_PROTO_OPTIONS = 60,
	SW_PROTO_ETHERNET = 97,
	SW_PROTO_L2TP = 115,
	SW_PROTO_MPLS = 137,
};

SW_INLINE __u32 sw_be16(const __u8 *p)
{
	return (__u32)p[0] << 8 | p[1];
}

/*
 * A packet's payload: its protocol, its place in the frame, and its bytes by the header. And the
 * place of the IP header, and whether it is one of IPv6.
 */
struct sw_carried {
	__u32 protocol;
	__u32 at;
	__u32 bytes;
	__u32 ip;
	__u32 is_v6;
};

/*
 * Reads an IPv4 header. Returns SW_NAMES_COUNTS, or the verdict when the payload does not matter.
 */
SW_INLINE __u32 sw_ipv4(const __u8 *packet, const __u8 *end, __u32 at, struct sw_carried *carried)
{
	const __u8 *ip = packet + at;
	__u32 header, total;

	if (ip + SW_IPV4_BYTES > end)
		return SW_NAMES_MALFORMED;
	header = (ip[0] & 15u) * 4;
	total = sw_be16(ip + 2);
	if (ip[0] >> 4 != 4 || header < SW_IPV4_BYTES || total < header)
		return SW_NAMES_MALFORMED;
	/* A fragment, the first one or a later one. */
	if (sw_be16(ip + 6) & 0x3fff)
		return SW_NAMES_FRAGMENT;
	carried->protocol = ip[9];
	carried->at = at + header;
	carried->bytes = total - header;
	return SW_NAMES_COUNTS;
}

/* Reads an IPv6 header, as sw_ipv4. */
SW_INLINE __u32 sw_ipv6(const __u8 *packet, const __u8 *end, __u32 at, struct sw_carried *carried)
{
	const __u8 *ip = packet + at;

	if (ip + SW_IPV6_BYTES > end)
		return SW_NAMES_MALFORMED;
	if (ip[0] >> 4 != 6)
		return SW_NAMES_MALFORMED;
	carried->protocol = ip[6];
	carried->at = at + SW_IPV6_BYTES;
	carried->bytes = sw_be16(ip + 4);
	return SW_NAMES_COUNTS;
}

/* Whether a header of IPv6, or the authentication header of either version, is to be skipped. */
SW_INLINE int sw_is_extension(__u32 protocol, int is_v6)
{
	if (protocol == SW_PROTO_AUTHENTICATION)
		return 1;
	return is_v6 && (protocol == SW_PROTO_HOPS || protocol == SW_PROTO_ROUTING || protocol == SW_PROTO_OPTIONS ||
			 protocol == SW_PROTO_FRAGMENT);
}

/* Skips extension headers. Returns as sw_ipv4. */
SW_INLINE __u32 sw_extensions(struct xdp_md *ctx, struct sw_carried *carried, int is_v6)
{
	__u32 next = carried->protocol, at = carried->at, bytes = carried->bytes, more, i;
	__u8 extension[4];

	for (i = 0; i < SW_IPV6_EXTENSIONS; i++) {
		if (!sw_is_extension(next, is_v6))
			break;
		/* Each has eight bytes at least. */
		if (bytes < 8 || bpf_xdp_load_bytes(ctx, at, extension, sizeof(extension)))
			return SW_NAMES_MALFORMED;
		if (next == SW_PROTO_FRAGMENT) {
			/* A fragment that is the whole packet (RFC 6946) counts as one. */
			if (extension[2] || extension[3] & 0xf9)
				return SW_NAMES_FRAGMENT;
			more = 8;
		} else if (next == SW_PROTO_AUTHENTICATION) {
			more = extension[1] * 4u + 8;
		} else {
			more = extension[1] * 8u + 8;
		}
		next = extension[0];
		if (more > bytes)
			return SW_NAMES_MALFORMED;
		at += more;
		bytes -= more;
	}
	if (sw_is_extension(next, is_v6))
		return SW_NAMES_EXTENSIONS;
	carried->protocol = next;
	carried->at = at;
	carried->bytes = bytes;
	return SW_NAMES_COUNTS;
}

/* The verdict on a frame that is no IP packet, by its type. */
SW_INLINE __u32 sw_other_frame(__u32 type)
{
	switch (type) {
	case 0x8100:
	case 0x88a8:
	case 0x9100:
	case 0x88e7:
		return SW_NAMES_TAGS;
	case 0x8863:
	case 0x8864:
		return SW_NAMES_PPPOE;
	case 0x8847:
	case 0x8848:
		return SW_NAMES_MPLS;
	case 0x88e5:
		return SW_NAMES_ESP;
	default:
		return SW_NAMES_OTHER;
	}
}

/* The verdict on an IP packet that is neither UDP nor TCP. */
SW_INLINE __u32 sw_other_packet(__u32 protocol)
{
	switch (protocol) {
	case SW_PROTO_GRE:
		return SW_NAMES_GRE;
	case SW_PROTO_IPV4:
	case SW_PROTO_IPV6:
	case SW_PROTO_ETHERNET:
	case SW_PROTO_L2TP:
		return SW_NAMES_IP_IN_IP;
	case SW_PROTO_ESP:
		return SW_NAMES_ESP;
	case SW_PROTO_MPLS:
		return SW_NAMES_MPLS;
	default:
		return SW_NAMES_OTHER;
	}
}

/* The verdict on a packet to another port than that of DNS. */
SW_INLINE __u32 sw_other_port(__u32 protocol, __u32 port)
{
	if (port == SW_PORT_DNS_TLS)
		return SW_NAMES_ENCRYPTED;
	if (protocol != SW_PROTO_UDP)
		return SW_NAMES_OTHER;
	switch (port) {
	case 1701: /* L2TP */
	case 2152: /* GTP */
	case 4789: /* VXLAN */
	case 6081: /* GENEVE */
	case 6635: /* MPLS */
	case 8472: /* VXLAN, the kernel's first port */
		return SW_NAMES_UDP_TUNNEL;
	case 4500:
		return SW_NAMES_ESP;
	default:
		return SW_NAMES_OTHER;
	}
}

/* The rule of a value, but for that of the name itself beside a wildcard. */
SW_INLINE long sw_value_rule(__u64 value)
{
	if (value & SW_NAMES_BLOCK)
		return SW_NAMES_BLOCK;
	return value & SW_NAMES_TRUNCATE;
}

/*
 * The rule for a name, SW_NAMES_BLOCK, SW_NAMES_ALLOW or SW_NAMES_TRUNCATE, or a negative error:
 * -ENOENT without a rule. `is_cut`: the key is a part of that of the name.
 */
SW_INLINE long sw_rule(struct sw_names_work *work, sw_at room, int is_cut)
{
	long found = sw_qp_ancestor(sw_names_windows.list, &work->key);
	__u64 value;

	if (found <= 0)
		return found ? found : -EUCLEAN;
	value = sw_u64(found);
	/* Most rules are for a name and for those below it. */
	if (!(value & (SW_NAMES_WILD | SW_NAMES_WILD_AND_OWN)) || is_cut)
		return sw_value_rule(value);
	found = sw_qp_lookup(sw_names_windows.list, &work->key);
	/* The rule is that of a name above. */
	if (found == -ENOENT)
		return sw_value_rule(value);
	if (found <= 0)
		return found ? found : -EUCLEAN;
	value = sw_u64(found);
	if (value & SW_NAMES_WILD_AND_OWN) {
		if (value & SW_NAMES_WILD)
			return SW_NAMES_BLOCK;
		return value & SW_NAMES_OWN_TRUNCATE ? SW_NAMES_TRUNCATE : SW_NAMES_ALLOW;
	}
	if (!(value & SW_NAMES_WILD))
		return sw_value_rule(value);
	/* The name has no rule of its own, so those above it count. */
	found = sw_dns_parent(&work->key, &work->name, room);
	if (found > 0)
		found = sw_qp_ancestor(sw_names_windows.list, &work->key);
	if (found <= 0)
		return found ? found : -EUCLEAN;
	return sw_value_rule(sw_u64(found));
}

/* The checksum of a sum of words, in the order of the bytes in memory. */
SW_INLINE __u16 sw_checksum(__s64 words)
{
	__u32 sum = words;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

SW_INLINE void sw_put_be16(__u8 *p, __u32 value)
{
	p[0] = value >> 8;
	p[1] = value;
}

/* Exchanges two places of this many bytes, 16 at most. */
#define SW_EXCHANGE(a, b, bytes)                     \
	do {                                         \
		__u8 sw_kept[16];                    \
		__builtin_memcpy(sw_kept, a, bytes); \
		__builtin_memcpy(a, b, bytes);       \
		__builtin_memcpy(b, sw_kept, bytes); \
	} while (0)

/* Whether an address of IPv4 is that of one machine. */
SW_INLINE int sw_is_unicast4(const __u8 *address)
{
	return address[0] && address[0] != 127 && address[0] < 224;
}

/* The same of IPv6: neither a group nor the unspecified or the loopback address. */
SW_INLINE int sw_is_unicast6(const __u8 *address)
{
	__u64 high, low;

	__builtin_memcpy(&high, address, 8);
	__builtin_memcpy(&low, address + 8, 8);
	return address[0] != 0xff && (high || (low & ~__builtin_bswap64(1)));
}

/*
 * Makes the headers of an answer of `bytes` bytes of UDP from those of a query. Returns whether it
 * can be answered.
 */
SW_INLINE int sw_answer_headers(struct xdp_md *ctx, struct sw_names_work *work, __u32 bytes)
{
	__u8 *ethernet = work->ethernet, *ip = work->ip, *covered = work->answer.covered;
	__u16 sum;

	if (bpf_xdp_load_bytes(ctx, 0, ethernet, 12))
		return 0;
	/* Frames to or from groups. */
	if ((ethernet[0] | ethernet[6]) & 1)
		return 0;
	SW_EXCHANGE(ethernet, ethernet + 6, 6);
	__builtin_memset(covered, 0, sizeof(work->answer.covered));
	if (work->is_v6) {
		if (bpf_xdp_load_bytes(ctx, work->ip_at, ip, SW_IPV6_BYTES))
			return 0;
		if (!sw_is_unicast6(ip + 8) || !sw_is_unicast6(ip + 24))
			return 0;
		SW_EXCHANGE(ip + 8, ip + 24, 16);
		/* No traffic class and no label of a flow. */
		ip[0] = 0x60;
		ip[1] = ip[2] = ip[3] = 0;
		sw_put_be16(ip + 4, bytes);
		ip[7] = 64;
		__builtin_memcpy(covered, ip + 8, 32);
	} else {
		if (bpf_xdp_load_bytes(ctx, work->ip_at, ip, SW_IPV4_BYTES))
			return 0;
		if (!sw_is_unicast4(ip + 12) || !sw_is_unicast4(ip + 16))
			return 0;
		SW_EXCHANGE(ip + 12, ip + 16, 4);
		ip[1] = 0;
		sw_put_be16(ip + 2, SW_IPV4_BYTES + bytes);
		ip[8] = 64;
		ip[10] = ip[11] = 0;
		sum = sw_checksum(bpf_csum_diff(0, 0, ip, SW_IPV4_BYTES, 0));
		__builtin_memcpy(ip + 10, &sum, 2);
		__builtin_memcpy(covered, ip + 12, 8);
	}
	covered[37] = SW_PROTO_UDP;
	sw_put_be16(covered + 38, bytes);
	return 1;
}

/*
 * Makes a query an answer with the bit TC and without records, which goes back to its sender.
 * `question`: the bytes of the question, which begins at `at`. `left`: the bytes of the message
 * from there on. Returns the verdict.
 *
 * An answer is not longer than its query. A query whose packet has other headers than Ethernet,
 * tags, IP and UDP cannot be answered, and is dropped. So is one whose question has pointers: the
 * header that they may lead to is another one in the answer.
 *
 * The verifier looks at this function once, whoever calls it.
 */
SW_GLOBAL __u32 sw_truncate(struct xdp_md *ctx, __u32 at, __u32 question, __u32 left)
{
	__u32 udp = at - SW_DNS_BYTES - SW_UDP_BYTES, loaded, bytes, words, frame, wanted, has_opt = 0, zero = 0;
	struct sw_names_work *work = bpf_map_lookup_elem(&sw_names_scratch, &zero);
	struct sw_answer *answer;
	__u8 *opt, *end;
	__u16 sum;

	if (!work)
		return SW_NAMES_DROPPED;
	answer = &work->answer;
	opt = work->opt;
	if (work->is_pointed || udp != work->ip_at + (work->is_v6 ? SW_IPV6_BYTES : SW_IPV4_BYTES))
		return SW_NAMES_DROPPED;
	sw_hide(question);
	if (question < 5 || question > SW_QUESTION_MAX)
		return SW_NAMES_DROPPED;
	loaded = SW_UDP_BYTES + SW_DNS_BYTES + question;
	sw_hide(loaded);
	if (loaded < 1 || loaded > SW_UDP_BYTES + SW_DNS_BYTES + SW_QUESTION_MAX)
		return SW_NAMES_DROPPED;
	if (bpf_xdp_load_bytes(ctx, udp, answer->udp, loaded))
		return SW_NAMES_DROPPED;
	/* No answer can go to this port. */
	if (!sw_be16(answer->udp))
		return SW_NAMES_DROPPED;
	/* Its only other record is that of EDNS, of version 0. */
	if (sw_be16(answer->dns + 4) == 1 && !sw_be16(answer->dns + 6) && !sw_be16(answer->dns + 8) &&
	    sw_be16(answer->dns + 10) == 1 && left >= question + SW_OPT_BYTES &&
	    !bpf_xdp_load_bytes(ctx, at + question, opt, SW_OPT_BYTES))
		has_opt = !opt[0] && !opt[1] && opt[2] == 41 && !opt[6];
	end = answer->rest + question;
	if (has_opt) {
		/* The answer has such a record, too, with the query's bit DO and without options. */
		sw_put_be16(opt + 3, SW_EDNS_PAYLOAD);
		opt[5] = 0;
		opt[7] &= 0x80;
		opt[8] = opt[9] = opt[10] = 0;
		__builtin_memcpy(end, opt, SW_OPT_BYTES);
		end += SW_OPT_BYTES;
	}
	end[0] = end[1] = end[2] = 0;
	bytes = SW_UDP_BYTES + SW_DNS_BYTES + question + (has_opt ? SW_OPT_BYTES : 0);
	if (!sw_answer_headers(ctx, work, bytes))
		return SW_NAMES_DROPPED;
	SW_EXCHANGE(answer->udp, answer->udp + 2, 2);
	sw_put_be16(answer->udp + 4, bytes);
	answer->udp[6] = answer->udp[7] = 0;
	/* A response with TC, the query's RD and CD, and RA as RD. */
	answer->dns[3] = (answer->dns[3] & 0x10) | (answer->dns[2] & 1) << 7;
	answer->dns[2] = (answer->dns[2] & 1) | 0x82;
	sw_put_be16(answer->dns + 4, 1);
	sw_put_be16(answer->dns + 6, 0);
	sw_put_be16(answer->dns + 8, 0);
	sw_put_be16(answer->dns + 10, has_opt);
	words = (sizeof(answer->covered) + bytes + 3) & ~3u;
	sw_hide(words);
	if (words > sizeof(*answer))
		return SW_NAMES_DROPPED;
	sum = sw_checksum(bpf_csum_diff(0, 0, answer, words, 0));
	/* Zero stands for "no checksum". */
	sum = sum ? sum : 0xffff;
	__builtin_memcpy(answer->udp + 6, &sum, 2);
	sw_hide(bytes);
	if (bytes < 1 || bytes > sizeof(*answer) - sizeof(answer->covered))
		return SW_NAMES_DROPPED;
	if (bpf_xdp_store_bytes(ctx, 0, work->ethernet, 12) || bpf_xdp_store_bytes(ctx, udp, answer->udp, bytes))
		return SW_NAMES_DROPPED;
	if (bpf_xdp_store_bytes(ctx, work->ip_at, work->ip, work->is_v6 ? SW_IPV6_BYTES : SW_IPV4_BYTES))
		return SW_NAMES_DROPPED;
	wanted = udp + bytes;
	wanted = wanted < SW_FRAME_MIN ? SW_FRAME_MIN : wanted;
	frame = (long)ctx->data_end - (long)ctx->data;
	if (frame > wanted && bpf_xdp_adjust_tail(ctx, (int)wanted - (int)frame))
		return SW_NAMES_DROPPED;
	return SW_NAMES_TRUNCATED;
}

/*
 * Looks up the name of the first question, and returns the verdict. `left`: the bytes of the
 * message from `at` on.
 */
SW_INLINE __u32 sw_question(struct xdp_md *ctx, const struct sw_carried *carried, __u32 at, __u32 left)
{
	__u32 zero = 0, copied = left < SW_DNS_WIRE_MAX ? left : SW_DNS_WIRE_MAX;
	struct sw_names_work *work = bpf_map_lookup_elem(&sw_names_scratch, &zero);
	sw_at room = sw_window(sw_names_windows.rooms, SW_KIND_WORDS);
	long used, rule, end;
	int is_cut;

	if (room)
		room += (__u64)bpf_get_smp_processor_id() * SW_DNS_ROOM_BYTES;
	if (!work)
		return SW_NAMES_ERROR;
	work->ip_at = carried->ip;
	work->is_v6 = carried->is_v6;
	work->is_pointed = 0;
	sw_hide(copied);
	if (copied < 1 || copied > SW_DNS_WIRE_MAX)
		return SW_NAMES_MALFORMED;
	if (bpf_xdp_load_bytes(ctx, at, work->name.wire, copied))
		return SW_NAMES_MALFORMED;
	used = sw_dns_key(&work->key, &work->name, copied, room);
	if (used == -EMLINK) {
		work->is_pointed = 1;
		/* No resolver compresses a question, but servers read it, and so must a filter. */
		end = sw_dns_read_packet(&work->name, ctx, at - SW_DNS_BYTES, left + SW_DNS_BYTES, SW_DNS_BYTES);
		used = end > 0 ? sw_dns_key(&work->key, &work->name, SW_DNS_WIRE_MAX, room) : end;
		if (used > 0)
			used = end - SW_DNS_BYTES;
	}
	if (used <= 0) {
		switch (used) {
		case -EMLINK:
			return SW_NAMES_COMPRESSED;
		case -ELOOP:
			return SW_NAMES_ERROR;
		default:
			return SW_NAMES_MALFORMED;
		}
	}
	/* The type and the class of the question. */
	if ((__u32)used + 4 > left)
		return SW_NAMES_MALFORMED;
	is_cut = !room && work->name.key_bytes > SW_KEY_SHORT_MAX;
	rule = sw_rule(work, room, is_cut);
	if (rule == SW_NAMES_BLOCK)
		return SW_NAMES_DROPPED;
	if (rule < 0 && rule != -ENOENT)
		return SW_NAMES_ERROR;
	/*
	 * Nothing that was looked up blocks the name. The bytes behind a key that was cut off were
	 * not looked up.
	 */
	if (is_cut)
		return SW_NAMES_TOO_LONG;
	if (rule != SW_NAMES_TRUNCATE)
		return SW_NAMES_PASSED;
	return sw_truncate(ctx, at, used + 4, left);
}

/* The verdict on a packet. */
SW_INLINE __u32 sw_look(struct xdp_md *ctx)
{
	const __u8 *packet = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *udp, *dns;
	struct sw_carried carried = {};
	__u32 type, at = SW_ETH_BYTES, why, bytes, tag;

	if (packet + SW_ETH_BYTES > end)
		return SW_NAMES_MALFORMED;
	type = sw_be16(packet + 12);
#pragma unroll
	for (tag = 0; tag < SW_TAGS; tag++) {
		if (type != 0x8100 && type != 0x88a8)
			break;
		if (packet + at + 4 > end)
			return SW_NAMES_MALFORMED;
		type = sw_be16(packet + at + 2);
		at += 4;
	}
	carried.ip = at;
	carried.is_v6 = type == 0x86dd;
	if (type == 0x0800)
		why = sw_ipv4(packet, end, at, &carried);
	else if (type == 0x86dd)
		why = sw_ipv6(packet, end, at, &carried);
	else
		return sw_other_frame(type);
	if (why != SW_NAMES_COUNTS)
		return why;
	why = sw_extensions(ctx, &carried, type == 0x86dd);
	if (why != SW_NAMES_COUNTS)
		return why;
	if (carried.protocol != SW_PROTO_UDP && carried.protocol != SW_PROTO_TCP)
		return sw_other_packet(carried.protocol);
	at = carried.at;
	sw_hide(at);
	if (at > 0x3fff)
		return SW_NAMES_MALFORMED;
	udp = packet + at;
	if (udp + SW_UDP_BYTES > end)
		return SW_NAMES_MALFORMED;
	if (sw_be16(udp + 2) != SW_PORT_DNS)
		return sw_other_port(carried.protocol, sw_be16(udp + 2));
	if (carried.protocol == SW_PROTO_TCP)
		return SW_NAMES_TCP;
	bytes = sw_be16(udp + 4);
	dns = udp + SW_UDP_BYTES;
	if (bytes < SW_UDP_BYTES + SW_DNS_BYTES || bytes > carried.bytes || dns + SW_DNS_BYTES > end)
		return SW_NAMES_MALFORMED;
	/* A response, an operation other than a query, or a message without a question. */
	if (dns[2] & 0xf8 || !sw_be16(dns + 4))
		return SW_NAMES_NOT_QUERY;
	return sw_question(ctx, &carried, at + SW_UDP_BYTES + SW_DNS_BYTES, bytes - SW_UDP_BYTES - SW_DNS_BYTES);
}

SEC("xdp")
int sw_xdp_names(struct xdp_md *ctx)
{
	__u32 why = sw_look(ctx);
	__u64 *count = bpf_map_lookup_elem(&sw_names_counts, &why);

	if (count)
		++*count;
	if (why == SW_NAMES_TRUNCATED)
		return XDP_TX;
	/* A query that may be for a blocked name does not pass. */
	return why == SW_NAMES_DROPPED || why == SW_NAMES_TOO_LONG || why == SW_NAMES_COMPRESSED ? XDP_DROP : XDP_PASS;
}
