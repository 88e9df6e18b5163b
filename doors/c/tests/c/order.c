/* Order: neighbours, prefixes, iterators in both directions, the closest name. */
#include <errno.h>
#include <string.h>

#include "check.h"

static int is(const sapwood_entry *entry, const char *key)
{
	return entry->key.len == strlen(key) && memcmp(entry->key.data, key, entry->key.len) == 0;
}

static void put(sapwood_map *map, const char *key, uint64_t n)
{
	sapwood_value value;
	value.number = n;
	IS(sapwood_map_insert(map, key, strlen(key), &value), 1);
}

#define NEXT(iter, key)                                                                            \
	do {                                                                                       \
		IS(sapwood_iter_next(iter, &entry), 0);                                            \
		CHECK(is(&entry, key));                                                            \
	} while (0)
#define PREV(iter, key)                                                                            \
	do {                                                                                       \
		IS(sapwood_iter_prev(iter, &entry), 0);                                            \
		CHECK(is(&entry, key));                                                            \
	} while (0)

static void walks(void)
{
	sapwood_map *map = NULL;
	sapwood_view view;
	sapwood_iter *iter = NULL;
	sapwood_entry entry, some[2];
	size_t len = 0;

	IS(sapwood_map_new(NULL, &map), 0);
	put(map, "a", 1);
	put(map, "a/b", 2);
	put(map, "a/b/c", 3);
	put(map, "a/d", 4);
	put(map, "e", 5);
	IS(sapwood_map_view(map, &view), 0);
	IS(sapwood_view_len(&view, &len), 0);
	CHECK(len == 5);
	IS(sapwood_view_first(&view, &entry), 0);
	CHECK(is(&entry, "a") && entry.value.number == 1);
	IS(sapwood_view_after(&view, "a/b", 3, &entry), 0);
	CHECK(is(&entry, "a/b/c"));
	IS(sapwood_view_before(&view, "a/b", 3, &entry), 0);
	CHECK(is(&entry, "a"));
	IS(sapwood_view_before(&view, "a", 1, &entry), -ENOENT);
	IS(sapwood_view_longest_prefix(&view, "a/b/x", 5, &entry), 0);
	CHECK(is(&entry, "a/b"));
	IS(sapwood_view_prefixes(&view, "a/b/c/d", 7, some, 2), 3);
	CHECK(is(&some[0], "a") && is(&some[1], "a/b"));

	IS(sapwood_iter_new(&view, &iter), 0);
	IS(sapwood_iter_prev(iter, &entry), -ENOENT);
	NEXT(iter, "a");
	NEXT(iter, "a/b");
	PREV(iter, "a");
	NEXT(iter, "a/b");
	IS(sapwood_iter_skip(iter, "a/b", 3), 0);
	NEXT(iter, "a/d");
	NEXT(iter, "e");
	IS(sapwood_iter_next(iter, &entry), -ENOENT);
	IS(sapwood_iter_next(iter, &entry), -ENOENT);
	PREV(iter, "e");
	IS(sapwood_iter_seek(iter, "a/c", 3), 0);
	PREV(iter, "a/b/c");
	NEXT(iter, "a/d");
	IS(sapwood_iter_prefix(iter, "a/", 2), 0);
	NEXT(iter, "a/b");
	IS(sapwood_iter_to_end(iter), 0);
	PREV(iter, "a/d");
	PREV(iter, "a/b/c");
	IS(sapwood_iter_seek(iter, "", 0), 0);
	NEXT(iter, "a/b");
	IS(sapwood_iter_range(iter, "a/b/", 4, "e", 1), 0);
	NEXT(iter, "a/b/c");
	NEXT(iter, "a/d");
	IS(sapwood_iter_next(iter, &entry), -ENOENT);
	IS(sapwood_iter_seek(iter, "zzz", 3), 0);
	IS(sapwood_iter_next(iter, &entry), -ENOENT);
	PREV(iter, "a/d");
	IS(sapwood_iter_range(iter, NULL, 0, NULL, 0), 0);
	NEXT(iter, "a");
	/* A paused iterator keeps its place over changes. */
	NEXT(iter, "a/b");
	IS(sapwood_iter_resume(iter, &view), -EINVAL);
	IS(sapwood_iter_pause(iter), 0);
	IS(sapwood_iter_next(iter, &entry), -EPERM);
	IS(sapwood_map_remove(map, "a/b", 3), 0);
	put(map, "a/bb", 7);
	IS(sapwood_map_view(map, &view), 0);
	IS(sapwood_iter_resume(iter, &view), 0);
	NEXT(iter, "a/b/c");
	NEXT(iter, "a/bb");
	/* A change ends views and iterators. */
	put(map, "f", 6);
	IS(sapwood_iter_next(iter, &entry), -EPERM);
	IS(sapwood_view_first(&view, &entry), -EPERM);
	sapwood_iter_free(iter);
	sapwood_map_free(map);
}

static int is_cut(const sapwood_entry *entry, void *ctx)
{
	++*(int *)ctx;
	return entry->value.number == 3;
}

static void names(void)
{
	static const char *const zone[] = {"org", "*.org", "a.b.org", "example.org",
					   "www.example.org"};
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_shared *map = NULL;
	sapwood_options opt;
	sapwood_view view;
	sapwood_closest found;
	sapwood_entry chain[2];
	sapwood_value value;
	unsigned char key[SAPWOOD_KEY_DNS_MAX];
	char text[SAPWOOD_KEY_DNS_TEXT_MAX];
	size_t len = 0, text_len = 0, i;
	int asked = 0;

	memset(&opt, 0, sizeof opt);
	opt.size = sizeof opt;
	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	opt.domain = domain;
	opt.flags = SAPWOOD_INDEX;
	IS(sapwood_shared_new(&opt, &map), 0);
	for (i = 0; i < sizeof zone / sizeof *zone; i++) {
		IS(sapwood_key_dns_name(zone[i], key, sizeof key, &len), 0);
		value.number = i;
		IS(sapwood_shared_insert(map, key, len, &value), 1);
	}
	IS(sapwood_shared_view(map, reader, &view), 0);
	memset(&found, 0, sizeof found);
	IS(sapwood_view_closest(&view, key, len, NULL, NULL, &found), -EINVAL);
	found.size = sizeof found;
	found.chain = chain;
	found.chain_room = 2;
	IS(sapwood_key_dns_name("mail.c.org", key, sizeof key, &len), 0);
	IS(sapwood_view_closest(&view, key, len, is_cut, &asked, &found), -ENOENT);
	CHECK(found.exact.key.data == NULL && !found.exists && found.cut.key.data == NULL);
	CHECK(found.encloser == 4 && found.wildcard.value.number == 1);
	CHECK(found.predecessor.value.number == 2 && found.ancestor.value.number == 0);
	CHECK(found.chain_len == 1 && chain[0].value.number == 0 && asked == 1);
	IS(sapwood_key_dns_name("WWW.Example.org.", key, sizeof key, &len), 0);
	IS(sapwood_view_closest(&view, key, len, is_cut, &asked, &found), 0);
	CHECK(found.exact.value.number == 4 && found.cut.value.number == 3);
	CHECK(found.chain_len == 3 && chain[1].value.number == 3);
	IS(sapwood_key_dns_text(found.exact.key.data, found.exact.key.len, text, sizeof text,
				&text_len),
	   0);
	CHECK(strcmp(text, "www.example.org") == 0 && text_len == strlen(text));
	IS(sapwood_key_dns_name("a..b", key, sizeof key, &len), -EINVAL);
	IS(sapwood_key_dns_name("example.org", key, 3, &len), -E2BIG);
	CHECK(len == 12);
	IS(sapwood_key_dns_wire("\3org\0", 5, key, sizeof key, &len), 0);
	CHECK(len == 4 && memcmp(key, "org\0", 4) == 0);
	sapwood_shared_free(map);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
}

int main(void)
{
	walks();
	names();
	return 0;
}
