// absl::btree_map behind the functions that the benchmark calls. The benchmark compiles this file
// when it runs, if Abseil is installed.

#include <absl/container/btree_map.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// Counts the bytes that malloc gives, its rounding and its header included, as the benchmark does
// for the other engines.
template <typename T>
struct Counting {
	using value_type = T;
	size_t *bytes;

	explicit Counting(size_t *bytes) : bytes(bytes) {}
	template <typename U>
	Counting(const Counting<U> &other) : bytes(other.bytes) {}

	T *allocate(size_t n)
	{
		void *block = std::malloc(n * sizeof(T));
		if (!block)
			throw std::bad_alloc();
		*bytes += malloc_usable_size(block) + 8;
		return static_cast<T *>(block);
	}
	void deallocate(T *block, size_t)
	{
		*bytes -= malloc_usable_size(block) + 8;
		std::free(block);
	}
	template <typename U>
	bool operator==(const Counting<U> &other) const { return bytes == other.bytes; }
	template <typename U>
	bool operator!=(const Counting<U> &other) const { return bytes != other.bytes; }
};

struct Entry {
	uint64_t last, value;
};

using Allocator = Counting<std::pair<const uint64_t, Entry>>;
using Tree = absl::btree_map<uint64_t, Entry, std::less<uint64_t>, Allocator>;

struct Map {
	size_t bytes = 0;
	Tree tree{Allocator(&bytes)};
};

// The entry that contains the index, or the end.
inline Tree::const_iterator holder(const Tree &tree, uint64_t index)
{
	auto at = tree.upper_bound(index);
	if (at == tree.begin())
		return tree.end();
	--at;
	return at->second.last >= index ? at : tree.end();
}

// Removes the entries within a range, cuts those that extend across its ends, and returns the place
// where an entry with this start belongs.
Tree::iterator cut(Tree &tree, uint64_t start, uint64_t end)
{
	auto at = tree.lower_bound(start);
	if (at != tree.begin()) {
		auto before = at;
		--before;
		Entry &entry = before->second;
		if (entry.last >= start) {
			const Entry old = entry;
			entry.last = start - 1;
			if (old.last > end)
				return tree.emplace_hint(at, end + 1, old);
		}
	}
	while (at != tree.end() && at->first <= end) {
		const Entry old = at->second;
		at = tree.erase(at);
		if (old.last > end)
			return tree.emplace_hint(at, end + 1, old);
	}
	return at;
}

inline uint64_t rotate(uint64_t word, int by)
{
	return word << by | word >> (64 - by);
}

} // namespace

extern "C" {

struct Tally {
	uint64_t found, mixed;
};

struct Sum {
	uint64_t count, values, bounds;
};

void *shim_new()
{
	return new Map;
}

void shim_free(Map *map)
{
	delete map;
}

size_t shim_bytes(const Map *map)
{
	return map->bytes;
}

void shim_store(Map *map, uint64_t start, uint64_t end, uint64_t value)
{
	map->tree.emplace_hint(cut(map->tree, start, end), start, Entry{end, value});
}

void shim_clear(Map *map, uint64_t start, uint64_t end)
{
	cut(map->tree, start, end);
}

int shim_erase(Map *map, uint64_t index, uint64_t *value)
{
	auto at = holder(map->tree, index);
	if (at == map->tree.end())
		return 0;
	*value = at->second.value;
	map->tree.erase(at);
	return 1;
}

// Adds those bits of each answer that are in `mask`, which is zero, to the place of the next
// lookup.
Tally shim_loads(const Map *map, const uint64_t *indices, size_t count, int dependent, uint64_t mask)
{
	Tally tally = {0, 0};
	for (size_t i = 0; i < count;) {
		auto at = holder(map->tree, indices[i]);
		const bool found = at != map->tree.end();
		const uint64_t value = found ? at->second.value : UINT64_MAX;
		tally.found += found;
		tally.mixed = rotate(tally.mixed, 7) ^ value;
		i += 1 + (dependent ? value & mask : 0);
	}
	return tally;
}

Sum shim_entries(const Map *map)
{
	Sum sum = {0, 0, 0};
	for (const auto &entry : map->tree) {
		sum.count += 1;
		sum.values += entry.second.value;
		sum.bounds = rotate(sum.bounds, 7) ^ entry.first ^ rotate(entry.second.last, 32);
	}
	return sum;
}

int shim_gap(const Map *map, uint64_t size, uint64_t from, uint64_t to, uint64_t *start)
{
	const Tree &tree = map->tree;
	uint64_t at = from;
	auto next = tree.upper_bound(from);
	if (next != tree.begin()) {
		auto before = next;
		--before;
		if (before->second.last >= from)
			at = before->second.last + 1;
		if (at == 0)
			return 0;
	}
	for (; next != tree.end() && next->first <= to; ++next) {
		if (next->first - at >= size)
			break;
		at = next->second.last + 1;
		if (at == 0)
			return 0;
	}
	*start = at;
	return at <= to && to - at >= size - 1;
}

} // extern "C"
