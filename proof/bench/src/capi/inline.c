/* Lookups by sapwood_inline.h, and functions that it refers to and does not call here. */
#include <stdlib.h>

#include "sapwood_inline.h"

int sapwood_fib_lookup4(const sapwood_fib *fib, const sapwood_reader *reader, uint32_t addr, uint64_t *value)
{
	(void)fib, (void)reader, (void)addr, (void)value;
	abort();
}

int sapwood_fib_lookup6(const sapwood_fib *fib, const sapwood_reader *reader, const uint8_t *addr, uint64_t *value)
{
	(void)fib, (void)reader, (void)addr, (void)value;
	abort();
}

uint64_t shim_lookups(const sapwood_fib_view *view, const uint32_t *addrs, size_t count, uint64_t none)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		uint64_t value = none;

		sapwood_fib_view_lookup4(view, addrs[i], &value);
		sum += value;
	}
	return sum;
}
