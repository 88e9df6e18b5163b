// The types that the shims around ordered maps of strings share, for C and C++: lists of pairs, and
// the results of passes.

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The key at place i is bytes[bounds[i]] to bytes[bounds[i + 1]].
struct list {
	const uint8_t *bytes;
	const size_t *bounds;
	const uint64_t *values;
	size_t count;
};

struct tally {
	uint64_t found, sum;
};

struct scan_sum {
	uint64_t count, sum, keys;
};

// As ScanSum::add in Rust.
static inline void scan_add(struct scan_sum *sum, const uint8_t *key, size_t len, uint64_t value)
{
	uint64_t folded = 0, word = 0;
	size_t i = 0;

	for (; i + 8 <= len; i += 8) {
		memcpy(&word, key + i, 8);
		folded ^= word;
	}
	for (size_t j = 0; i + j < len; j++)
		folded ^= (uint64_t)key[i + j] << (8 * j);
	sum->count += 1;
	sum->sum += value;
	sum->keys = (sum->keys << 5 | sum->keys >> 59) ^ folded;
}
