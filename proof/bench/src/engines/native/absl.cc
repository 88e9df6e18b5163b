// absl::btree_map with std::string keys, behind plain functions. The benchmark compiles this file
// when it runs, if Abseil is installed.

#include <absl/container/btree_map.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <string_view>

namespace {

// Counts the bytes that malloc gives, its rounding and its headers included, as the benchmark does
// for the other engines.
size_t allocated;

template <typename T>
struct Counting {
	using value_type = T;

	Counting() = default;
	template <typename U>
	Counting(const Counting<U> &) {}

	T *allocate(size_t n)
	{
		void *block = std::malloc(n * sizeof(T));
		if (!block)
			throw std::bad_alloc();
		allocated += malloc_usable_size(block) + 8;
		return static_cast<T *>(block);
	}
	void deallocate(T *block, size_t)
	{
		allocated -= malloc_usable_size(block) + 8;
		std::free(block);
	}
	template <typename U>
	bool operator==(const Counting<U> &) const { return true; }
	template <typename U>
	bool operator!=(const Counting<U> &) const { return false; }
};

using String = std::basic_string<char, std::char_traits<char>, Counting<char>>;

struct Less {
	using is_transparent = void;
	bool operator()(std::string_view a, std::string_view b) const { return a < b; }
};

using Tree = absl::btree_map<String, uint64_t, Less, Counting<std::pair<const String, uint64_t>>>;

std::string_view key_at(const list *list, size_t i)
{
	const size_t from = list->bounds[i];
	return {reinterpret_cast<const char *>(list->bytes) + from, list->bounds[i + 1] - from};
}

void add(scan_sum *sum, const Tree::const_iterator &at)
{
	scan_add(sum, reinterpret_cast<const uint8_t *>(at->first.data()), at->first.size(), at->second);
}

void insert(Tree *tree, std::string_view key, uint64_t value)
{
	tree->insert_or_assign(String(key), value);
}

} // namespace

extern "C" {

void *shim_new()
{
	return new Tree;
}

void shim_free(Tree *tree)
{
	delete tree;
}

size_t shim_bytes(const Tree *)
{
	return allocated;
}

void shim_insert(Tree *tree, const list *pairs)
{
	for (size_t i = 0; i < pairs->count; i++)
		insert(tree, key_at(pairs, i), pairs->values[i]);
}

// Adds those bits of each answer that are in `mask`, which is zero, to the place of the next
// lookup.
tally shim_lookups(const Tree *tree, const list *keys, int chained, uint64_t mask)
{
	tally tally = {0, 0};
	for (size_t i = 0; i < keys->count;) {
		auto at = tree->find(key_at(keys, i));
		const bool found = at != tree->end();
		const uint64_t value = found ? at->second : 0;
		tally.found += found;
		tally.sum += value;
		i += 1 + (chained ? value & mask : 0);
	}
	return tally;
}

scan_sum shim_scan(const Tree *tree)
{
	scan_sum sum = {0, 0, 0};
	for (auto at = tree->begin(); at != tree->end(); ++at)
		add(&sum, at);
	return sum;
}

scan_sum shim_ranges(const Tree *tree, const list *starts, size_t count)
{
	scan_sum sum = {0, 0, 0};
	for (size_t i = 0; i < starts->count; i++) {
		auto at = tree->lower_bound(key_at(starts, i));
		for (size_t j = 0; j < count && at != tree->end(); j++, ++at)
			add(&sum, at);
	}
	return sum;
}

scan_sum shim_predecessors(const Tree *tree, const list *keys)
{
	scan_sum sum = {0, 0, 0};
	for (size_t i = 0; i < keys->count; i++) {
		auto at = tree->lower_bound(key_at(keys, i));
		if (at != tree->begin())
			add(&sum, --at);
	}
	return sum;
}

void shim_replace(Tree *tree, const list *old_keys, const list *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		auto at = tree->find(key_at(old_keys, i));
		if (at != tree->end())
			tree->erase(at);
		insert(tree, key_at(pairs, i), pairs->values[i]);
	}
}

} // extern "C"
