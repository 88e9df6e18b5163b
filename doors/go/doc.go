// Package sapwood reads Sapwood's maps from Go.
//
// It reads saved files and live maps: maps over byte strings (OpenNames), tables of routes
// (OpenRoutes), maps of ranges (OpenRanges) and the rules of block lists (OpenLists). A live map is
// a directory in which another process changes the map, such as the program "sapwood names serve".
// The package also reads the maps over byte strings in a pinned BPF arena (OpenArena): those that a
// process writes (UserMap, UserPointMap, UserStore) and those that programs in the kernel write
// (ProgramMap). It is pure Go, without cgo, and uses the standard library alone. Memory is mapped
// for reading only, so a reader cannot change a map.
//
// # What is promised
//
//   - Whatever bytes a file, a live map or a window holds, and whatever is written meanwhile, a
//     reader reads nothing outside it, and every operation ends, with a result or an error. None
//     panics.
//   - Keys and values are copies. They belong to the caller.
//   - While nobody writes, answers are exact.
//   - In a live map, each returned entry was in the map at some time during the operation: an
//     answer is that of before a change, or of after it. The writer waits for the operation, or
//     evicts it, and then it reads again. Walks ascend strictly, and find every key that is there
//     throughout.
//   - In an arena beside a writer, the same holds as long as freed memory is not used again during
//     the operation. The owner's grace periods do not wait for a reader in another process, so the
//     owner may use freed memory again. Therefore a reader checks the path from the root again
//     after each read, and begins anew if the path has changed. This detects nearly all such cases,
//     but not all. For exact answers beside a writer, read in the owner's process or in a program.
//
// An Arena and all maps and their methods may be used by many goroutines at the same time. A walk
// belongs to one goroutine at a time. A live map has a reader for each call that runs, and none for
// a goroutine that blocks elsewhere.
//
// A damaged map in an arena may refer to unused pages of its window. A read of such a page takes
// memory.
package sapwood
