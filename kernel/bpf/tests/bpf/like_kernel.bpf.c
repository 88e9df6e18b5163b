// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The same operations on the kernel's own maps and on ours, for a test. The packet holds the
 * question, and the answer replaces it.
 */
#include <linux/bpf.h>
#include "sapwood/bits.bpf.h"
#include "sapwood/lpm.bpf.h"
#include "sapwood/qp_walk.bpf.h"
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static long (*const for_each)(void *map, void *step, void *context, __u64 flags) = (void *)164;

#define LARGE 4096

struct large {
	__u8 bytes[LARGE];
};

struct lpm4_key {
	__u32 bits;
	__u8 data[4];
};

struct lpm6_key {
	__u32 bits;
	__u8 data[16];
};

/* The test sets the number of entries. */
#define MAP(name, kind, key_type, flags)                                       \
	struct {                                                               \
		int (*type)[kind];                                             \
		int (*map_flags)[flags];                                       \
		key_type *key;                                                 \
		__u64 *value;                                                  \
		int (*max_entries)[16];                                        \
	} name SEC(".maps")

MAP(hash, 1, __u64, 0);
MAP(lru, 9, __u64, 0);
MAP(large, 1, struct large, 0);
MAP(lpm4, 11, struct lpm4_key, 1); /* BPF_F_NO_PREALLOC */
MAP(lpm6, 11, struct lpm6_key, 1);

/* The key of the map `large`. */
struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct large *value;
	int (*max_entries)[1];
} large_key SEC(".maps");

enum { HASH, LRU, LARGE_HASH, OURS };
enum { LOOKUP, INSERT, REMOVE, TAKE, NEXT };

/* An operation on one key of one map: a number, or any key of ours. */
struct ask {
	__u32 what;
	__u32 map;
	__u32 window;
	__u32 unused;
	__u64 flags;
	__u64 number;
	__s64 result;
	__u64 value;
	struct sw_key key;
};

/* A lookup gives 1, and the value; or -ENOENT. */
#define KERNELS(map, key)                                                      \
	switch (ask->what) {                                                   \
	case LOOKUP:                                                           \
		found = map_lookup(&(map), key);                               \
		ask->result = found ? 1 : -ENOENT;                             \
		ask->value = found ? *found : 0;                               \
		break;                                                         \
	case INSERT:                                                           \
		ask->result = map_update(&(map), key, &value, ask->flags);     \
		break;                                                         \
	case REMOVE:                                                           \
		ask->result = map_delete(&(map), key);                         \
		break;                                                         \
	default:                                                               \
		ask->result = -EOPNOTSUPP;                                     \
	}

SW_INLINE void ask_ours(struct ask *ask)
{
	long error;

	switch (ask->what) {
	case LOOKUP:
		ask->result = sw_qp_lookup(ask->window, &ask->key);
		break;
	case INSERT:
		ask->result = sw_qp_insert(ask->window, &ask->key, ask->value, ask->flags);
		break;
	case REMOVE:
		ask->result = sw_qp_remove(ask->window, &ask->key);
		break;
	case TAKE:
		ask->result = sw_qp_take(ask->window, &ask->key);
		break;
	case NEXT:
		ask->result = sw_qp_next(ask->window, &ask->key);
		break;
	default:
		ask->result = -EOPNOTSUPP;
	}
	if (ask->result <= 0)
		return;
	ask->value = sw_u64(ask->result);
	error = ask->what == NEXT ? sw_qp_key(ask->window, ask->result, &ask->key) : 0;
	ask->number = ask->key.words[0] >> 8 | ask->key.words[1] << 56;
	ask->result = error ? error : 1;
}

SEC("xdp")
int sw_like(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	__u64 number, value, *found;
	struct large *large_one;
	__u32 zero = 0;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	number = ask->number;
	value = ask->value;
	switch (ask->map) {
	case HASH:
		KERNELS(hash, &number);
		break;
	case LRU:
		KERNELS(lru, &number);
		break;
	case LARGE_HASH:
		large_one = map_lookup(&large_key, &zero);
		if (!large_one)
			return XDP_ABORTED;
		KERNELS(large, large_one);
		break;
	default:
		ask_ours(ask);
	}
	return XDP_PASS;
}

/* Sets the key of ours that stands for a number: its eight bytes. */
SW_INLINE void set_key(struct sw_key *key, __u64 number)
{
	key->words[0] = number << 8 | 8;
	key->words[1] = number >> 56;
}

/* What a program sees at the place of a value that it found, while it changes the map. */
struct held {
	__u32 window; /* ours */
	__u32 unused;
	__u64 kernels[4]; /* found; then after three changes */
	__u64 ours[4];
	struct sw_key key;
};

/* Replaces the value of entry 1, three times. */
SEC("xdp")
int sw_held_replaced(struct xdp_md *ctx)
{
	struct held *held = (void *)(long)ctx->data;
	__u64 number = 1, value, *found;
	struct sw_qp_value words = {};
	long place;

	if ((void *)(held + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	found = map_lookup(&hash, &number);
	set_key(&held->key, 1);
	place = sw_qp_lookup(held->window, &held->key);
	if (!found || place <= 0)
		return XDP_DROP;
	held->kernels[0] = *found;
	held->ours[0] = sw_u64(place);
#define REPLACED(i)                                                            \
	value = words.words[0] = 100 + (i);                                    \
	map_update(&hash, &number, &value, BPF_EXIST);                         \
	sw_qp_insert_value(held->window, &held->key, &words, SW_EXIST);        \
	held->kernels[i] = *(volatile __u64 *)found;                           \
	held->ours[i] = sw_u64(place)
	REPLACED(1);
	REPLACED(2);
	REPLACED(3);
	return XDP_PASS;
}

/* Removes entry 1, and inserts entries 2 and 3. */
SEC("xdp")
int sw_held_removed(struct xdp_md *ctx)
{
	struct held *held = (void *)(long)ctx->data;
	__u64 number = 1, value, *found;
	struct sw_qp_value words = {};
	long place;

	if ((void *)(held + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	found = map_lookup(&hash, &number);
	set_key(&held->key, 1);
	place = sw_qp_lookup(held->window, &held->key);
	if (!found || place <= 0)
		return XDP_DROP;
	held->kernels[0] = *found;
	held->ours[0] = sw_u64(place);
	map_delete(&hash, &number);
	sw_qp_remove(held->window, &held->key);
	held->kernels[1] = *(volatile __u64 *)found;
	held->ours[1] = sw_u64(place);
#define INSERTED(i)                                                            \
	number = i;                                                            \
	value = words.words[0] = 100 + (i);                                    \
	set_key(&held->key, number);                                           \
	map_update(&hash, &number, &value, BPF_NOEXIST);                       \
	sw_qp_insert_value(held->window, &held->key, &words, SW_NOEXIST);      \
	held->kernels[i] = *(volatile __u64 *)found;                           \
	held->ours[i] = sw_u64(place)
	INSERTED(2);
	INSERTED(3);
	return XDP_PASS;
}

/* What a walk does at each entry, and what came of it. */
struct steps {
	__u32 what; /* 0 nothing; 1 removes the entry; 2 replaces it; 3 inserts another one */
	__u32 met; /* entries */
	__u32 done; /* changes */
	__u32 error; /* of the last change that failed */
	__u64 sum; /* of the keys that were met */
};

/* A walk that changes the map at each entry. */
struct walk {
	__u32 map;
	__u32 window;
	__u64 cursor;
	struct steps steps;
	__s64 result;
	struct sw_key key;
};

/* What the walk does at an entry of HASH. */
static long walk_step(void *map, __u64 *key, __u64 *value, struct steps *steps)
{
	__u64 number = *key, new = number + 1000000;
	long error = 0;

	steps->met++;
	steps->sum += number;
	switch (steps->what) {
	case 1:
		error = map_delete(&hash, &number);
		break;
	case 2:
		error = map_update(&hash, &number, &new, BPF_EXIST);
		break;
	case 3:
		error = map_update(&hash, &new, &new, BPF_NOEXIST);
		break;
	}
	if (error)
		steps->error = (__u32)-error;
	else
		steps->done++;
	return 0;
}

/* The same at an entry of ours, whose key is the walk's. */
SW_GLOBAL long walk_ours(struct walk *walk SW_NONNULL)
{
	__u64 number = walk->key.words[0] >> 8 | walk->key.words[1] << 56, new = number + 1000000;

	walk->steps.met++;
	walk->steps.sum += number;
	switch (walk->steps.what) {
	case 1:
		return sw_qp_remove(walk->window, &walk->key);
	case 2:
		return sw_qp_insert(walk->window, &walk->key, new, SW_EXIST);
	case 3:
		set_key(&walk->key, new);
		return sw_qp_insert(walk->window, &walk->key, new, SW_NOEXIST);
	}
	return 0;
}

SEC("xdp")
int sw_walk(struct xdp_md *ctx)
{
	struct walk *walk = (void *)(long)ctx->data;
	struct steps kernels = {};
	long found, error;
	__u32 i;

	if ((void *)(walk + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (walk->map == HASH) {
		kernels.what = walk->steps.what;
		walk->result = for_each(&hash, walk_step, &kernels, 0);
		walk->steps = kernels;
		return XDP_PASS;
	}
	sw_use_arena();
	walk->result = sw_qp_walk_begin(walk->window, walk->cursor);
	if (walk->result)
		return XDP_PASS;
	sw_for (i, 100000) {
		found = sw_qp_walk_step(walk->cursor);
		if (found > 0) {
			error = sw_qp_key(walk->window, found, &walk->key);
			found = error ? error : found;
		}
		if (found <= 0) {
			walk->result = found ? found : walk->steps.met;
			break;
		}
		error = walk_ours(walk);
		if (error)
			walk->steps.error = (__u32)-error;
		else
			walk->steps.done++;
	}
	return XDP_PASS;
}

/* Many changes in one run, for writers on several processors. */
struct many {
	__u32 map;
	__u32 window;
	__u32 what; /* 0 inserts, 1 removes, 2 adds one to the value, 3 inserts and removes */
	__u32 count;
	__u64 first;
	__u64 stride;
	__u32 done;
	__u32 exists;
	__u32 absent;
	__u32 full;
	__u32 busy;
	__u32 other;
	__s64 error; /* the last of the others */
	struct sw_key key;
};

SW_INLINE void count(struct many *many, long result)
{
	switch (result) {
	case 0:
		many->done++;
		break;
	case -EEXIST:
		many->exists++;
		break;
	case -ENOENT:
		many->absent++;
		break;
	case -E2BIG:
		many->full++;
		break;
	case -EBUSY:
		many->busy++;
		break;
	default:
		many->other++;
		many->error = result;
	}
}

SEC("xdp")
int sw_many(struct xdp_md *ctx)
{
	struct many *many = (void *)(long)ctx->data;
	__u64 number, *found;
	long place;
	__u32 i;

	if ((void *)(many + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	sw_for (i, many->count) {
		number = many->first + i * many->stride;
		if (many->map == HASH) {
			switch (many->what) {
			case 1:
				count(many, map_delete(&hash, &number));
				break;
			case 2:
				found = map_lookup(&hash, &number);
				if (found)
					__sync_fetch_and_add(found, 1);
				count(many, found ? 0 : -ENOENT);
				break;
			default:
				count(many, map_update(&hash, &number, &number, BPF_NOEXIST));
				if (many->what == 3)
					count(many, map_delete(&hash, &number));
			}
			continue;
		}
		set_key(&many->key, number);
		switch (many->what) {
		case 1:
			count(many, sw_qp_remove(many->window, &many->key));
			break;
		case 2:
			place = sw_qp_lookup(many->window, &many->key);
			if (place > 0)
				sw_fetch_add_u64(place, 1);
			count(many, place > 0 ? 0 : place);
			break;
		default:
			count(many, sw_qp_insert(many->window, &many->key, number, SW_NOEXIST));
			if (many->what == 3)
				count(many, sw_qp_remove(many->window, &many->key));
		}
	}
	return XDP_PASS;
}

/* A question about prefixes: to LPM_TRIE, and to two of our tables. */
struct prefix {
	__u32 what;
	__u32 family; /* 4, 6 */
	__u32 bits_window; /* strings of bits: BitFib, or a map that programs write */
	__u32 fib_window; /* addresses: Fib */
	__u64 flags;
	__u64 value;
	__u32 length;
	__u32 matched; /* how many bits the prefixes have: strings of bits, */
	__u32 fib_matched; /* and addresses */
	__u32 unused;
	__u8 data[16];
	__s64 results[3]; /* LPM_TRIE, strings of bits, addresses */
	__u64 values[3];
	struct sw_key key; /* of the string */
};

#define PREFIXES(map, key)                                                     \
	switch (what) {                                                        \
	case LOOKUP:                                                           \
		found = map_lookup(&(map), key);                               \
		prefix->results[0] = found ? 1 : -ENOENT;                      \
		prefix->values[0] = found ? *found : 0;                        \
		break;                                                         \
	case INSERT:                                                           \
		prefix->results[0] = map_update(&(map), key, &value, prefix->flags); \
		break;                                                         \
	default:                                                               \
		prefix->results[0] = map_delete(&(map), key);                  \
	}

SEC("xdp")
int sw_kernels_prefix(struct xdp_md *ctx)
{
	struct prefix *prefix = (void *)(long)ctx->data;
	__u64 value, *found;
	struct lpm4_key four;
	struct lpm6_key six;
	__u32 what;

	if ((void *)(prefix + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	what = prefix->what;
	value = prefix->value;
	if (prefix->family == 4) {
		four.bits = prefix->length;
		__builtin_memcpy(four.data, prefix->data, 4);
		PREFIXES(lpm4, &four);
	} else {
		six.bits = prefix->length;
		__builtin_memcpy(six.data, prefix->data, 16);
		PREFIXES(lpm6, &six);
	}
	return XDP_PASS;
}

SEC("xdp")
int sw_ours_prefix(struct xdp_md *ctx)
{
	struct prefix *prefix = (void *)(long)ctx->data;
	__u32 bits = 0;
	long found;

	if ((void *)(prefix + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	switch (prefix->what) {
	case LOOKUP:
		found = sw_bits_lookup(prefix->bits_window, &prefix->key, &bits);
		prefix->results[1] = found > 0 ? 1 : found;
		prefix->values[1] = found > 0 ? sw_u64(found) : 0;
		prefix->matched = bits;
		break;
	case INSERT:
		prefix->results[1] = sw_qp_insert(prefix->bits_window, &prefix->key, prefix->value,
						  prefix->flags);
		break;
	default:
		prefix->results[1] = sw_qp_remove(prefix->bits_window, &prefix->key);
	}
	return XDP_PASS;
}

/* An address of a packet, as a program reads it. */
SW_INLINE __u64 word_of(const __u8 *data)
{
	__u64 word = 0;
	__u32 i;

	for (i = 0; i < 8; i++)
		word = word << 8 | data[i];
	return word;
}

SEC("xdp")
int sw_fib_prefix(struct xdp_md *ctx)
{
	struct prefix *prefix = (void *)(long)ctx->data;
	__u32 bits = 0;
	long found;

	if ((void *)(prefix + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	if (prefix->family == 4)
		found = sw_lpm4_match(prefix->fib_window, word_of(prefix->data) >> 32, &bits);
	else
		found = sw_lpm6_match(prefix->fib_window, word_of(prefix->data),
				      word_of(prefix->data + 8), &bits);
	prefix->results[2] = found > 0 ? 1 : found;
	prefix->values[2] = found > 0 ? sw_u64(found) : 0;
	prefix->fib_matched = bits;
	return XDP_PASS;
}
