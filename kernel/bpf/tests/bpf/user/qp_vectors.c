// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Test vectors of ordered maps: a copy of an arena, and questions with their answers, as
 * tests/vectors.rs writes them. One question a line:
 *
 *     window NUMBER
 *     get KEY VALUE | next KEY VALUE | prev KEY VALUE | first VALUE | last VALUE
 *     from KEY COUNT SUM | prefix KEY COUNT SUM
 *     longest KEY VALUE | closest NAME SUM CUTS | denial NAME SUM CUTS
 *
 * Keys are in hexadecimal digits behind a '.'; values are numbers, 0 where there is no entry. A sum
 * is that of a walk's values, each time multiplied by 31 before the next is added. That of a name
 * is made of the values that it leads to, with these bits of the cuts, then of the length of its
 * encloser, and of 1 if it exists. That of a denial continues with the values that it has more, and
 * with 1 if the wildcard exists.
 *
 *     qp_vectors IMAGE QUESTIONS [damaged]
 *
 * Of a damaged copy, any answers will do; they are counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sapwood/qp_closest.bpf.h"
#include "../number.h"

/* The digits of the longest key, with the '.' before and the end behind. */
#define TEXT (2 * SW_KEY_MAX + 2)
/* As far as a damaged copy is walked, or a value of it copied. */
#define FAR 20000

static int wrong, damaged;
static unsigned long strange;
static unsigned long line;
/* The window of the questions. */
static __u32 window;
/* Where a long key lies, behind the copy and the cursor; and behind that, one of a wildcard. */
static sw_at room;

static void same(const char *what, __u64 there, __u64 wanted)
{
	if (there == wanted)
		return;
	strange++;
	if (damaged)
		return;
	printf("line %lu, %s: %" PRIu64 ", not %" PRIu64 "\n", line, what, (uint64_t)there,
	       (uint64_t)wanted);
	wrong = 1;
}

/*
 * The value behind an answer; 0 when there is no entry, and the error's number for any other error.
 */
static __u64 value_of(long found)
{
	if (found == -ENOENT)
		return 0;
	return found > 0 ? sw_number(window, found) : (__u64)found;
}

static int read_key(const char *text, struct sw_key *key)
{
	size_t i, length = strlen(text);
	unsigned char *bytes = key->bytes;
	unsigned int byte;

	memset(key, 0, sizeof(*key));
	if (*text != '.' || length % 2 == 0 || length / 2 > SW_KEY_MAX)
		return -1;
	length /= 2;
	key->length = (__u8)length;
	if (length > SW_KEY_SHORT_MAX) {
		bytes = sw_base + room;
		sw_key_long(key, room, (__u32)length);
	}
	for (i = 0; i < length; i++) {
		if (sscanf(text + 1 + 2 * i, "%2x", &byte) != 1)
			return -1;
		bytes[i] = (unsigned char)byte;
	}
	return 0;
}

static int same_key(const struct sw_key *one, const struct sw_key *other)
{
	__u32 i, length = sw_key_length(one);

	if (sw_key_length(other) != length)
		return 0;
	for (i = 0; i < length; i++) {
		if (sw_key_byte(one, i) != sw_key_byte(other, i))
			return 0;
	}
	return 1;
}

/* Copies the value of an entry in parts: the eight bytes of its number, or the byte string of it. */
static void copy_value(long leaf, __u64 number)
{
	__u32 kind = sw_u32(sw_window_in(window, SW_QP_KINDS) + SW_QP_VALUE_BYTES);
	__u32 length = kind == SW_QP_BYTE_STRINGS ? number_length(number) : 8, from, i;
	struct sw_value part;
	__u64 wanted;

	for (from = 0; from < length && from < FAR; from += SW_VALUE_MAX) {
		same("length", (__u64)sw_qp_value(window, leaf, from, &part), length);
		for (i = from; i < length && i < from + SW_VALUE_MAX; i++) {
			wanted = number >> (i % 8 * 8) ^ (i < 8 ? 0 : i);
			same("byte", ((unsigned char *)&part)[i - from], wanted & 0xff);
		}
	}
}

/* The value of a leaf; 0 if there is none. */
static __u64 value_at(__u64 leaf)
{
	return value_of(leaf ? (long)leaf : -ENOENT);
}

/* What a name leads to, mixed. */
static __u64 mix_closest(const struct sw_closest *found)
{
	__u64 leaves[] = { found->exact, found->ancestor, found->wildcard, found->predecessor, found->cut };
	__u64 mixed = 0;
	size_t i;

	for (i = 0; i < sizeof(leaves) / sizeof(*leaves); i++)
		mixed = mixed * 31 + value_at(leaves[i]);
	return (mixed * 31 + found->encloser) * 31 + found->exists;
}

static __u64 closest(const struct sw_key *name, __u64 cuts, sw_at cursor)
{
	struct sw_closest found = { .cut_mask = cuts };
	long error = sw_qp_closest(window, cursor, name, &found);

	return error ? (__u64)error : mix_closest(&found);
}

static __u64 denial(const struct sw_key *name, __u64 cuts, sw_at cursor)
{
	struct sw_denial found;
	long error;
	__u64 mixed;

	memset(&found, 0xff, sizeof(found));
	found.closest.cut_mask = cuts;
	error = sw_qp_denial(window, cursor, room + SW_KEY_ROOM_BYTES, name, &found);
	if (error)
		return (__u64)error;
	mixed = mix_closest(&found.closest) * 31 + value_at(found.predecessor);
	return (mixed * 31 + value_at(found.wildcard_predecessor)) * 31 + found.wildcard_exists;
}

static void walk(long begun, sw_at cursor, __u64 count, __u64 sum)
{
	__u64 steps = 0, mixed = 0, before = 0;
	long found = begun;

	while (!found && (!damaged || steps < FAR)) {
		found = sw_qp_walk_step(cursor);
		if (found <= 0)
			break;
		same("a leaf twice", before == (__u64)found, 0);
		before = found;
		mixed = mixed * 31 + sw_number(window, found);
		steps++;
		found = 0;
	}
	same("the end", found, 0);
	same("entries", steps, count);
	same("the sum", mixed, sum);
}

/* Answers one question, and compares the answer. */
static int answer(const char *what, const char *text, __u64 first, __u64 second, sw_at cursor)
{
	struct sw_key key, copy;
	long found;

	if (read_key(text, &key))
		return -1;
	if (!strcmp(what, "window")) {
		window = first;
	} else if (!strcmp(what, "get")) {
		same("trie", value_of(sw_qp_trie_lookup(window, &key)), first);
		found = sw_qp_index_lookup(window, &key);
		if (found != -ENODATA)
			same("index", value_of(found), first);
		found = sw_qp_lookup(window, &key);
		same("lookup", value_of(found), first);
		if (found > 0) {
			same("key", sw_qp_key(window, found, &copy), 0);
			same("bytes", same_key(&key, &copy), 1);
			copy_value(found, sw_number(window, found));
		}
	} else if (!strcmp(what, "next")) {
		same("next", value_of(sw_qp_next(window, &key)), first);
	} else if (!strcmp(what, "prev")) {
		same("prev", value_of(sw_qp_prev(window, &key)), first);
	} else if (!strcmp(what, "first")) {
		same("first", value_of(sw_qp_first_leaf(window)), first);
	} else if (!strcmp(what, "last")) {
		same("last", value_of(sw_qp_last_leaf(window)), first);
	} else if (!strcmp(what, "from")) {
		walk(sw_qp_walk_from(window, cursor, &key), cursor, first, second);
	} else if (!strcmp(what, "prefix")) {
		walk(sw_qp_walk_prefix(window, cursor, &key), cursor, first, second);
	} else if (!strcmp(what, "longest")) {
		same("longest", value_of(sw_qp_longest_prefix(window, &key)), first);
	} else if (!strcmp(what, "closest")) {
		same("closest", closest(&key, second, cursor), first);
	} else if (!strcmp(what, "denial")) {
		same("denial", denial(&key, second, cursor), first);
	} else {
		return -1;
	}
	return 0;
}

/* The cursor lies behind the copy, and long keys behind that. */
int main(int argc, char **argv)
{
	static char text[TEXT], row[TEXT + 100], format[32];
	FILE *image, *questions;
	__u64 first, second;
	char what[16];
	long bytes;

	damaged = argc == 4 && !strcmp(argv[3], "damaged");
	if (argc != 3 + damaged || !(image = fopen(argv[1], "rb")) || !(questions = fopen(argv[2], "r")))
		return 2;
	if (fseek(image, 0, SEEK_END) || (bytes = ftell(image)) < 4096 || fseek(image, 0, SEEK_SET))
		return 2;
	room = (sw_at)bytes + SW_QP_CURSOR_BYTES;
	sw_limit = room + 2 * SW_KEY_ROOM_BYTES;
	sw_base = calloc(1, sw_limit);
	if (!sw_base || fread(sw_base, 1, bytes, image) != (size_t)bytes)
		return 2;
	/* Whatever is in the copy, the questions come to an end. */
	alarm(damaged ? 120 : 0);
	snprintf(format, sizeof(format), "%%15s %%%ds %%" SCNu64 " %%" SCNu64, TEXT - 1);
	while (fgets(row, sizeof(row), questions)) {
		line++;
		if (*row == '#' || !strncmp(row, "word ", 5))
			continue;
		second = 0;
		if (sscanf(row, format, what, text, (uint64_t *)&first, (uint64_t *)&second) < 3 ||
		    answer(what, text, first, second, bytes)) {
			printf("line %lu is no question: %s\n", line, row);
			wrong = 1;
		}
	}
	printf("%lu lines, %lu strange\n", line, strange);
	free(sw_base);
	fclose(image);
	fclose(questions);
	return wrong;
}
