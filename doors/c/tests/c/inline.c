/* The lookups of sapwood_inline.h: their answers are those of the library's calls. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "sapwood_inline.h"

static uint64_t state = 88172645463325252u;

/* A xorshift generator. */
static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* An address with few different bits, so that prefixes meet. */
static void address(uint8_t *addr, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		addr[i] = (uint8_t)(next() % 4 ? next() & 0x81 : next());
}

static void insert(sapwood_fib *fib, uint8_t len)
{
	sapwood_prefix prefix;
	unsigned int i, bits = (unsigned int)(next() % (8u * len + 1));

	memset(&prefix, 0, sizeof prefix);
	address(prefix.addr, len);
	for (i = bits; i < 8u * len; i++)
		prefix.addr[i / 8] &= (uint8_t)~(0x80u >> i % 8);
	prefix.addr_len = len;
	prefix.bits = (uint8_t)bits;
	CHECK(sapwood_fib_insert(fib, &prefix, next() % 50, NULL) >= 0);
}

/* Returns how many of the addresses have a prefix. */
static int same(const sapwood_fib *fib, const sapwood_reader *reader)
{
	sapwood_fib_view four, six;
	uint64_t value = 0, other = 0;
	uint8_t addr[16];
	uint32_t v4;
	int i, found, have = 0;

	IS(sapwood_fib_view_ipv4(fib, reader, &four), 0);
	IS(sapwood_fib_view_ipv6(fib, reader, &six), 0);
	for (i = 0; i < 2000; i++) {
		address(addr, 16);
		found = sapwood_fib_lookup6(fib, reader, addr, &value);
		IS(sapwood_fib_view_lookup6(&six, addr, &other), found);
		CHECK(found || value == other);
		have += !found;
		v4 = (uint32_t)addr[0] << 24 | (uint32_t)addr[1] << 16 | (uint32_t)addr[2] << 8 | addr[3];
		found = sapwood_fib_lookup4(fib, reader, v4, &value);
		IS(sapwood_fib_view_lookup4(&four, v4, &other), found);
		CHECK(found || value == other);
		have += !found;
	}
	return have;
}

static void table(unsigned int root_bits, unsigned int flags)
{
	sapwood_domain_options of_domain;
	sapwood_fib_options options;
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_fib *fib = NULL;
	sapwood_fib_view view;
	int i, have = 0;

	memset(&of_domain, 0, sizeof of_domain);
	of_domain.size = sizeof of_domain;
	of_domain.flags = flags;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.root_bits = root_bits;
	/* The root of 24 bits takes 128 MiB, for which a limit reserves the addresses. */
	options.memory_limit = root_bits == 24 ? (size_t)1 << 29 : 0;
	options.flags = flags;
	IS(sapwood_domain_new(&of_domain, &domain), 0);
	IS(sapwood_fib_new(domain, &options, &fib), 0);
	IS(sapwood_reader_new(domain, "test", &reader), 0);
	IS(sapwood_fib_view_ipv4(fib, NULL, &view), -EINVAL);
	IS(sapwood_fib_view_ipv6(fib, reader, NULL), -EINVAL);
	CHECK(same(fib, reader) == 0);
	for (i = 0; i < 400; i++) {
		insert(fib, i % 2 ? 4 : 16);
		if (i % 40 == 0) {
			IS(sapwood_reader_quiescent(reader), 0);
			have = same(fib, reader);
		}
	}
	CHECK(have > 1000);
	/* A view sees what is committed after it was made. */
	IS(sapwood_fib_view_ipv4(fib, reader, &view), 0);
	CHECK((view.root == NULL) == (flags != 0));
#ifdef SAPWOOD_NO_INLINE
	CHECK(SAPWOOD_FIB_VIEW_IS_CALL(&view));
#endif
	{
		sapwood_prefix prefix;
		uint64_t value = 0;

		IS(sapwood_prefix_parse("192.0.2.1", &prefix), 0);
		CHECK(sapwood_fib_insert(fib, &prefix, 1234567, NULL) >= 0);
		IS(sapwood_fib_view_lookup4(&view, 0xc0000201, &value), 0);
		CHECK(value == 1234567);
	}
	sapwood_reader_free(reader);
	sapwood_fib_free(fib);
	sapwood_domain_free(domain);
}

int main(void)
{
	unsigned int bits;

	for (bits = 6; bits <= 24; bits += 6)
		table(bits, 0);
	table(18, SAPWOOD_CHECKED);
	return 0;
}
