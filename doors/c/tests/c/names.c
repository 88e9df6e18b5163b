/* Names as keys: the longest ones, names in messages, and results that must not be taken lightly. */
#include <errno.h>
#include <string.h>
#include "check.h"

/* A name in wire form of labels of these lengths, which have only this byte. Returns its length. */
static size_t wire_of(unsigned char *wire, const int *labels, size_t count, int byte)
{
	size_t len = 0, i;

	for (i = 0; i < count; i++) {
		wire[len++] = (unsigned char)labels[i];
		memset(wire + len, byte, (size_t)labels[i]);
		len += (size_t)labels[i];
	}
	wire[len++] = 0;
	return len;
}

/* The longest name has the longest key and text, and one byte less is too little room for them. */
static void rooms_are_enough(void)
{
	static const int labels[] = {63, 63, 63, 61}, more[] = {63, 63, 63, 62};
	unsigned char wire[300], key[SAPWOOD_KEY_DNS_MAX], again[SAPWOOD_KEY_DNS_MAX];
	char text[SAPWOOD_KEY_DNS_TEXT_MAX];
	size_t len = 0, text_len = 0, again_len = 0, bytes;
	int byte;

	for (byte = 0; byte < 256; byte++) {
		bytes = wire_of(wire, labels, 4, byte);
		CHECK(bytes == 255);
		IS(sapwood_key_dns_wire(wire, bytes, key, sizeof key, &len), 0);
		CHECK(len == (byte < 2 ? SAPWOOD_KEY_DNS_MAX : 254));
		IS(sapwood_key_dns_text(key, len, text, sizeof text, &text_len), 0);
		CHECK(text_len == strlen(text) && text_len < SAPWOOD_KEY_DNS_TEXT_MAX);
		IS(sapwood_key_dns_name(text, again, sizeof again, &again_len), 0);
		CHECK(again_len == len && memcmp(again, key, len) == 0);
		if (byte)
			continue;
		CHECK(text_len == SAPWOOD_KEY_DNS_TEXT_MAX - 1);
		IS(sapwood_key_dns_name(text, again, sizeof again - 1, &again_len), -E2BIG);
		CHECK(again_len == SAPWOOD_KEY_DNS_MAX);
		IS(sapwood_key_dns_text(key, len, text, sizeof text - 1, &text_len), -E2BIG);
		CHECK(text_len == SAPWOOD_KEY_DNS_TEXT_MAX - 1);
	}
	bytes = wire_of(wire, more, 4, 'x');
	IS(sapwood_key_dns_wire(wire, bytes, key, sizeof key, &len), -EINVAL);
	/* No key of a name is longer. */
	IS(sapwood_key_dns_text(memset(wire, 'x', 300), 300, text, sizeof text, &text_len),
	   -EINVAL);
}

/* A name with long labels of zeros below a refused one is found, as any other name below it. */
static void zeros_hide_nothing(void)
{
	static const int labels[] = {50, 50, 50};
	unsigned char wire[300], key[SAPWOOD_KEY_DNS_MAX];
	sapwood_options opt;
	sapwood_map *map = NULL;
	sapwood_value value;
	sapwood_entry entry;
	sapwood_view view;
	size_t len = 0, bytes;

	memset(&opt, 0, sizeof opt);
	opt.size = sizeof opt;
	IS(sapwood_map_new(&opt, &map), 0);
	value.number = 1;
	IS(sapwood_key_dns_name("ads.example", key, sizeof key, &len), 0);
	IS(sapwood_map_insert(map, key, len, &value), 1);
	IS(sapwood_map_view(map, &view), 0);
	bytes = wire_of(wire, labels, 3, 0) - 1;
	memcpy(wire + bytes, "\3ads\7example", 13);
	IS(sapwood_key_dns_wire(wire, bytes + 13, key, sizeof key, &len), 0);
	CHECK(len > 255);
	IS(sapwood_view_longest_prefix(&view, key, len, &entry), 0);
	CHECK(entry.value.number == 1);
	sapwood_map_free(map);
}

static void messages(void)
{
	/* A header of zeros, a question for example.org, and an answer for www below it. */
	static const unsigned char message[] =
		"\0\0\0\0\0\0\0\0\0\0\0\0\7example\3ORG\0\0\1\0\1\3www\300\14\0\1\0\1";
	static const unsigned char loop[] = "\300\2\300\0";
	unsigned char key[SAPWOOD_KEY_DNS_MAX];
	size_t len = 0, end = 0, size = sizeof message - 1, i;
	char why[100];

	IS(sapwood_key_dns_message(message, size, 12, key, sizeof key, &len, &end), 0);
	CHECK(len == 12 && memcmp(key, "org\0example\0", 12) == 0 && end == 25);
	IS(sapwood_key_dns_message(message, size, 29, key, sizeof key, &len, &end), 0);
	CHECK(len == 16 && memcmp(key, "org\0example\0www\0", 16) == 0 && end == 35);
	IS(sapwood_key_dns_message(message, size, 29, key, sizeof key, &len, NULL), 0);
	/* Failures leave `end` as it was, and say where the fault is. */
	end = 7;
	IS(sapwood_key_dns_message(message, size, 29, key, 15, &len, &end), -E2BIG);
	CHECK(len == 16 && end == 7);
	IS(sapwood_key_dns_message(loop, 4, 2, key, sizeof key, &len, &end), -EINVAL);
	sapwood_last_error(why, sizeof why);
	CHECK(strstr(why, "bad compression pointer at byte 0") != NULL && end == 7);
	IS(sapwood_key_dns_message(message, size, size, key, sizeof key, &len, &end), -EINVAL);
	IS(sapwood_key_dns_message(NULL, 0, 0, key, sizeof key, &len, &end), -EINVAL);
	for (i = 30; i < 35; i++)
		IS(sapwood_key_dns_message(message, i, 29, key, sizeof key, &len, &end), -EINVAL);
}

static int is_cut(const sapwood_entry *entry, void *ctx)
{
	(void)ctx;
	return entry->value.number == 3;
}

/* The owner of the record that covers a name is not glue, and a wildcard may have no entry. */
static void proofs(void)
{
	static const char *const zone[] = {"example", "a.example", "z.example", "sub.example",
					   "ns.sub.example", "f.*.e.example"};
	unsigned char key[SAPWOOD_KEY_DNS_MAX];
	sapwood_map *map = NULL;
	sapwood_denial found;
	sapwood_options opt;
	sapwood_value value;
	sapwood_view view;
	size_t len = 0, i;

	memset(&opt, 0, sizeof opt);
	opt.size = sizeof opt;
	IS(sapwood_map_new(&opt, &map), 0);
	for (i = 0; i < sizeof zone / sizeof *zone; i++) {
		IS(sapwood_key_dns_name(zone[i], key, sizeof key, &len), 0);
		value.number = i;
		IS(sapwood_map_insert(map, key, len, &value), 1);
	}
	IS(sapwood_map_view(map, &view), 0);
	memset(&found, 0, sizeof found);
	IS(sapwood_key_dns_name("t.example", key, sizeof key, &len), 0);
	IS(sapwood_view_denial(&view, key, len, is_cut, NULL, &found), -EINVAL);
	found.size = sizeof found;
	IS(sapwood_view_denial(&view, key, len, is_cut, NULL, &found), -EINVAL);
	found.closest.size = sizeof found.closest;
	IS(sapwood_view_denial(&view, key, len, is_cut, NULL, &found), -ENOENT);
	CHECK(found.closest.predecessor.value.number == 4 && found.predecessor.value.number == 3);
	CHECK(found.wildcard_predecessor.value.number == 0 && !found.wildcard_exists);
	IS(sapwood_view_denial(&view, key, len, NULL, NULL, &found), -ENOENT);
	CHECK(found.predecessor.value.number == 4);
	IS(sapwood_key_dns_name("something.e.example", key, sizeof key, &len), 0);
	IS(sapwood_view_denial(&view, key, len, is_cut, NULL, &found), -ENOENT);
	CHECK(found.wildcard_exists && found.closest.wildcard.key.data == NULL);
	CHECK(found.wildcard_predecessor.value.number == 1 && found.predecessor.value.number == 5);
	IS(sapwood_key_dns_name("a.example", key, sizeof key, &len), 0);
	IS(sapwood_view_denial(&view, key, len, is_cut, NULL, &found), 0);
	CHECK(found.wildcard_predecessor.key.data == NULL && found.predecessor.value.number == 0);
	sapwood_map_free(map);
}

int main(void)
{
	rooms_are_enough();
	zeros_hide_nothing();
	messages();
	proofs();
	return 0;
}
