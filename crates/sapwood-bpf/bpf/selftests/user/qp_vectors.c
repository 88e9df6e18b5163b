// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Test vectors of ordered maps: a copy of an arena, and questions with their answers, as
 * tests/vectors.rs writes them. One question a line:
 *
 *     window NUMBER
 *     get KEY VALUE | next KEY VALUE | prev KEY VALUE | first VALUE | last VALUE
 *     from KEY COUNT SUM | prefix KEY COUNT SUM
 *
 * Keys are in hexadecimal digits behind a '.'; values are numbers, 0 where there is no entry. The
 * sum of a walk's values is multiplied by 31 before each addition.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sapwood/qp_walk.bpf.h"
#include "../number.h"

static int wrong;
static unsigned long line;
/* The window of the questions. */
static __u32 window;

static void same(const char *what, __u64 there, __u64 wanted)
{
	if (there == wanted)
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
	unsigned int byte;

	memset(key, 0, sizeof(*key));
	if (*text != '.' || length % 2 == 0 || length / 2 > SW_KEY_MAX)
		return -1;
	key->length = length / 2;
	for (i = 0; i < length / 2; i++) {
		if (sscanf(text + 1 + 2 * i, "%2x", &byte) != 1)
			return -1;
		key->bytes[i] = byte;
	}
	return 0;
}

static void walk(long begun, sw_at cursor, __u64 count, __u64 sum)
{
	__u64 steps = 0, mixed = 0, before = 0;
	long found = begun;

	while (!found) {
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
			same("bytes", memcmp(&key, &copy, sizeof(key)), 0);
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
	} else {
		return -1;
	}
	return 0;
}

/* Arguments: the copy of the arena, and the questions. The cursor lies behind the copy. */
int main(int argc, char **argv)
{
	FILE *image, *questions;
	__u64 first, second;
	char what[16], text[1024], row[2048];
	long bytes;

	if (argc != 3 || !(image = fopen(argv[1], "rb")) || !(questions = fopen(argv[2], "r")))
		return 2;
	if (fseek(image, 0, SEEK_END) || (bytes = ftell(image)) < 4096 || fseek(image, 0, SEEK_SET))
		return 2;
	sw_limit = (__u64)bytes + SW_QP_CURSOR_BYTES;
	sw_base = calloc(1, sw_limit);
	if (!sw_base || fread(sw_base, 1, bytes, image) != (size_t)bytes)
		return 2;
	while (fgets(row, sizeof(row), questions)) {
		line++;
		if (*row == '#' || !strncmp(row, "word ", 5))
			continue;
		second = 0;
		if (sscanf(row, "%15s %1023s %" SCNu64 " %" SCNu64, what, text, (uint64_t *)&first,
			   (uint64_t *)&second) < 3 ||
		    answer(what, text, first, second, bytes)) {
			printf("line %lu is no question: %s\n", line, row);
			wrong = 1;
		}
	}
	printf("%lu lines\n", line);
	free(sw_base);
	fclose(image);
	fclose(questions);
	return wrong;
}
