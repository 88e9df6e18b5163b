// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Four threads change one map in a copy of an arena, by the headers for programs. Each has keys of
 * its own, whose values it knows, and all have some keys in common.
 *
 * Arguments: the file with the arena's bytes, which is overwritten; the window; a seed. The output
 * is the number of operations that were done, found no memory, were busy, and the number of wrong
 * answers; then the window's number of entries by the threads' own keys.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "sapwood/qp_write.bpf.h"

#define THREADS 4
#define OWN 64
#define COMMON 48
#define OPERATIONS 3000

static unsigned char *memory;
static __u64 bytes;
static __u32 window_number;

struct thread {
	pthread_t id;
	__u32 number;
	__u64 random;
	__u64 done, no_memory, busy, wrong;
	/* The first word of each own key's value; 0: the key is not there. */
	__u64 values[OWN];
};

static __u64 next(struct thread *thread)
{
	thread->random = thread->random * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
	return thread->random >> 20;
}

/* A key that shares prefixes with those of other threads. */
static void make_key(struct sw_key *key, __u32 owner, __u32 number)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "%02x/%u/%.*s", number % 16, owner, (int)(number % 7), "abcdefg"), i;

	*key = (struct sw_key){};
	key->length = (__u8)(length + 1);
	for (i = 0; i < length; i++)
		key->bytes[i] = (__u8)text[i];
	key->bytes[length] = (__u8)number;
}

static void check(struct thread *thread, const struct sw_key *key, __u32 number, const __u64 *expected)
{
	long found = sw_qp_lookup(window_number, key);
	__u64 first = 0, second = 0;

	if (found > 0) {
		first = sw_u64(found);
		second = sw_u64(found + 8);
	}
	if (found < 0 && found != -ENOENT)
		thread->wrong++;
	if (found > 0 && second != (first ^ number))
		thread->wrong++;
	if (expected && first != *expected)
		thread->wrong++;
}

static void *work(void *of)
{
	struct thread *thread = of;
	struct sw_qp_value value = {};
	struct sw_key key;
	__u32 i, number, own;
	__u64 random;
	long result;

	sw_base = memory;
	sw_limit = bytes;
	for (i = 0; i < OPERATIONS; i++) {
		random = next(thread);
		own = random & 1;
		number = (__u32)(random >> 1) % (own ? OWN : COMMON);
		make_key(&key, own ? thread->number : THREADS, number);
		if ((random >> 33) % 8 < 3) {
			result = sw_qp_remove(window_number, &key);
			if (own && !result != !!thread->values[number] && result != -ENOMEM && result != -EBUSY)
				thread->wrong++;
			if (own && !result)
				thread->values[number] = 0;
		} else {
			value.words[0] = random | 1;
			value.words[1] = value.words[0] ^ number;
			result = sw_qp_insert_value(window_number, &key, &value, SW_ANY);
			if (own && !result)
				thread->values[number] = value.words[0];
		}
		thread->done += !result;
		thread->no_memory += result == -ENOMEM;
		thread->busy += result == -EBUSY;
		thread->wrong += result && result != -ENOMEM && result != -EBUSY && result != -ENOENT;
		check(thread, &key, number, own ? &thread->values[number] : NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct thread threads[THREADS];
	__u64 done = 0, no_memory = 0, busy = 0, wrong = 0, own = 0, seed;
	struct sw_key key;
	FILE *file;
	long found;
	__u32 i, k;

	if (argc != 4)
		return 2;
	file = fopen(argv[1], "r+");
	if (!file || fseek(file, 0, SEEK_END))
		return 1;
	bytes = (__u64)ftell(file);
	memory = aligned_alloc(4096, (bytes + 4095) & ~4095ull);
	rewind(file);
	if (!memory || fread(memory, 1, bytes, file) != bytes)
		return 1;
	window_number = (__u32)strtoul(argv[2], NULL, 0);
	seed = strtoull(argv[3], NULL, 0);
	sw_base = memory;
	sw_limit = bytes;
	for (i = 0; i < THREADS; i++) {
		threads[i].number = i;
		threads[i].random = seed * THREADS + i;
		for (k = 0; k < OWN; k++) {
			make_key(&key, i, k);
			found = sw_qp_lookup(window_number, &key);
			threads[i].values[k] = found > 0 ? sw_u64(found) : 0;
		}
	}
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i].id, NULL, work, &threads[i]))
			return 1;
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i].id, NULL);
		done += threads[i].done;
		no_memory += threads[i].no_memory;
		busy += threads[i].busy;
		wrong += threads[i].wrong;
		for (k = 0; k < OWN; k++)
			own += !!threads[i].values[k];
	}
	rewind(file);
	if (fwrite(memory, 1, bytes, file) != bytes || fclose(file))
		return 1;
	printf("%llu %llu %llu %llu %llu\n", done, no_memory, busy, wrong, own);
	return 0;
}
