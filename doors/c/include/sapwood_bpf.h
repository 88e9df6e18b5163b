/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sapwood_bpf.h - maps in the memory of BPF programs (Linux 6.9 and newer), for the processes that
 * make, serve and read them. The programs have headers of their own, in sapwood/.
 *
 * This file is generated of the library's source (doors/c/src), and made anew by
 *     SAPWOOD_WRITE=1 cargo test -p sapwood-capi --features bpf --test capi header
 *
 * The library has these functions if it was built with its feature bpf: make install BPF=1. The
 * general rules, for results, handles, threads, structures and callbacks, are those of sapwood.h.
 */
#ifndef SAPWOOD_BPF_H
#define SAPWOOD_BPF_H

#include "sapwood.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arenas of BPF programs ------------------------------------------------------------------ */

/*
 * An arena is memory that BPF programs and processes share. It is divided into windows, of
 * which each holds one map. Programs name a window by its number, processes by its name.
 * Programs read and write the maps by the headers in sapwood/, for example sapwood/qp.bpf.h.
 * docs/guides/ebpf.md has a whole program.
 *
 * Failures of the functions of this header:
 *   -ENOSYS  the kernel has no arenas (Linux 6.9 and newer have), or no BTF
 *   -EACCES  the process lacks capabilities; the message names them
 *   -EBUSY   another process owns the arena, or the arena is mapped in this process already
 *   -ENOENT  there is no such window, program, section or file
 *   -EEXIST  there is a window, or a pin, of this name
 *   -ENOSPC  the arena has no room, or 32 windows
 *   -EPROTO  it is no arena of this library or of this version; or its windows, or a map in
 *            it, are damaged; or the map has values of another kind
 *   -ENOEXEC the kernel, or this library, refuses the program; the message has the end of the
 *            verifier's log
 * and those of the system. A child of fork may not use what this header makes: it does not
 * have the memory.
 */

typedef struct sapwood_bpf_arena sapwood_bpf_arena;

/*
 * Whether this process can make arenas and load programs: 0, or the first thing that is
 * missing (-ENOSYS, -EACCES). Any thread. A few system calls.
 */
int sapwood_bpf_check(void);

/*
 * Makes an arena with this many bytes of address space: whole pages, 8 KiB to 4 GiB. Maps take
 * memory as they grow. Flags: SAPWOOD_CHECKED, also for what is made in it. The kernel keeps
 * the arena while a process or a program has it, or it is pinned.
 */
int sapwood_bpf_arena_create(size_t bytes, unsigned int flags, sapwood_bpf_arena **out);

/* Opens an arena that is pinned at this path. A process opens it once (-EBUSY). */
int sapwood_bpf_arena_open(const char *pin, unsigned int flags, sapwood_bpf_arena **out);

/*
 * Frees the handle. What was made in the arena goes on, and keeps the arena in this process.
 * One thread at a time.
 */
void sapwood_bpf_arena_free(sapwood_bpf_arena *arena);

/*
 * Pins the arena at a path of a BPF file system, for other processes. It then stays until the
 * path is removed. Any thread.
 */
int sapwood_bpf_arena_pin(const sapwood_bpf_arena *arena, const char *pin);

/*
 * Returns the descriptor of the kernel's map, which stays the library's. A skeleton of libbpf
 * gets it before it is loaded: bpf_map__reuse_fd(skeleton->maps.sw_arena, fd). Any thread.
 */
int sapwood_bpf_arena_fd(const sapwood_bpf_arena *arena);

/* Stores the bytes of address space of the largest map that the arena has room for. */
int sapwood_bpf_arena_left(const sapwood_bpf_arena *arena, size_t *bytes);

/*
 * Returns the process that owns the arena: it makes windows and writes maps, until it frees
 * its last handle or ends. -ENOENT: nobody does. The first process that makes a map becomes
 * the owner; others get -EBUSY meanwhile. Any thread.
 */
int sapwood_bpf_arena_owner(const sapwood_bpf_arena *arena);

/*
 * Forgets an owner that is known to be dead and ran in another PID namespace, where this
 * process cannot see its death. Two living owners damage each other's maps.
 */
int sapwood_bpf_arena_forget_owner(const sapwood_bpf_arena *arena);

/*
 * Allows programs that may sleep to read the arena, for all owners and for ever. Memory is
 * then used again a quarter of a second later. Any thread.
 */
int sapwood_bpf_arena_allow_sleepable(const sapwood_bpf_arena *arena);

/*
 * Gives the memory of closed windows back to the system. A new window that needs it does so by
 * itself. It waits up to 20 ms for programs that run. Any thread.
 */
int sapwood_bpf_arena_reclaim(const sapwood_bpf_arena *arena);

/*
 * Returns the number of a window, by which programs name it. -ENOENT: there is none of this
 * name. Any thread.
 */
int sapwood_bpf_arena_number(const sapwood_bpf_arena *arena, const char *window_name);

/*
 * Removes a window that a dead owner left, with the map in it. Programs no longer find it.
 * -EINVAL: the window is this process's own. Any thread.
 */
int sapwood_bpf_arena_remove(const sapwood_bpf_arena *arena, const char *window_name);

typedef struct sapwood_bpf_window_info {
	size_t size;
	const char *name;  /* valid until the callback returns, like kind */
	/* what it holds: "qp" (a map that a process writes), "kernel-qp" (one that programs write), "words", "ranges", ... */
	const char *kind;
	uint32_t number;   /* by which programs name it */
	uint32_t reserved; /* 0 */
	uint64_t at;       /* its place, in bytes from the arena's beginning */
	uint64_t len;      /* its bytes of address space */
} sapwood_bpf_window_info;

typedef void (*sapwood_bpf_window_fn)(const sapwood_bpf_window_info *info, void *ctx);

/*
 * Calls each(info, ctx) for each window in order of their numbers, and returns how many there
 * are. each may be NULL. Any thread.
 */
int sapwood_bpf_arena_windows(const sapwood_bpf_arena *arena, sapwood_bpf_window_fn each,
			      void *ctx);

/* ---- Maps that a process writes and BPF programs read ---------------------------------------- */

/*
 * This process writes such a map, and programs read it (sapwood/qp.bpf.h): whole keys,
 * order, prefixes. A change is seen by programs at once, without a system call.
 */

/* A map's window, beside the handle of its structure. */
typedef struct sapwood_bpf_window sapwood_bpf_window;

/*
 * Makes an empty map in a window of this name (1 to 24 bytes). *out is an ordinary handle: all
 * functions of its type work. Readers of this process belong to the domain of
 * sapwood_bpf_window_domain, so options->domain is NULL. Values are numbers (a program reads
 * sw_u64(place)) or bytes (sw_qp_value): -EINVAL for pointers. memory_limit is the window's
 * address space; 0: all that the arena has left, so that no second map has room. A point map
 * has the index alone: programs look whole keys up. SAPWOOD_INDEX gives a shared map one, too.
 * This process becomes the arena's owner. Any thread. It waits for no program.
 */
int sapwood_bpf_shared_create(const sapwood_bpf_arena *arena, const char *name,
			      const sapwood_options *options, sapwood_bpf_window **window,
			      sapwood_shared **out);
int sapwood_bpf_point_create(const sapwood_bpf_arena *arena, const char *name,
			     const sapwood_options *options, sapwood_bpf_window **window,
			     sapwood_point **out);
int sapwood_bpf_store_create(const sapwood_bpf_arena *arena, const char *name,
			     const sapwood_options *options, sapwood_bpf_window **window,
			     sapwood_store **out);

/*
 * Takes over the map that a dead owner left, of any of these structures. It checks every word,
 * copies the entries into a new window of the same number, and points programs there: they
 * find all entries at any time. The arena must have room for both maps. -EBUSY: the owner
 * lives. After a failure the map is as it was. O(bytes of the map).
 */
int sapwood_bpf_shared_open(const sapwood_bpf_arena *arena, const char *name,
			    const sapwood_options *options, sapwood_bpf_window **window,
			    sapwood_shared **out);
int sapwood_bpf_point_open(const sapwood_bpf_arena *arena, const char *name,
			   const sapwood_options *options, sapwood_bpf_window **window,
			   sapwood_point **out);
int sapwood_bpf_store_open(const sapwood_bpf_arena *arena, const char *name,
			   const sapwood_options *options, sapwood_bpf_window **window,
			   sapwood_store **out);

/*
 * Closes the window: programs no longer find the map. The structure's own handle stays, and
 * keeps the memory. One thread at a time.
 */
void sapwood_bpf_window_free(sapwood_bpf_window *window);

/*
 * Frees the handle, and leaves the window and the map to programs and to the next owner. For a
 * process that is about to end: what the map has in this process is not freed. One thread at a
 * time.
 */
int sapwood_bpf_window_leave(sapwood_bpf_window *window);

/* Returns the number of the window, by which programs name the map. Any thread. O(1). */
int sapwood_bpf_window_number(const sapwood_bpf_window *window);

/* Makes a handle of the map's domain, for readers of this process. Any thread. */
int sapwood_bpf_window_domain(const sapwood_bpf_window *window, sapwood_domain **out);

/* ---- Maps that BPF programs write ------------------------------------------------------------ */

/*
 * Programs insert, replace and remove entries (sapwood/qp_write.bpf.h), and look them up. This
 * process makes the map, supplies it with memory (service), reads it, and may change it, too.
 *
 * Values are plain bytes of one size. What this process reads is checked and copied. Any
 * thread, unless it is said otherwise.
 */

typedef struct sapwood_bpf_map sapwood_bpf_map;

#define SAPWOOD_BPF_TRIE 128u /* maps that programs write: order and prefixes */
/* maps that programs write: takes 64 KiB of the arena now for changes by this process */
#define SAPWOOD_BPF_WRITES 256u
/* maps that programs write: begins with little memory, and takes more as service finds that it is used; programs that are faster get -ENOMEM */
#define SAPWOOD_BPF_GROW 512u
/* maps that programs write, with an index alone: a full map removes what was not used for long */
#define SAPWOOD_BPF_LRU 1024u
/* maps that programs write: a value has a count for each processor (sw_qp_count); value_bytes is 0 */
#define SAPWOOD_BPF_PER_PROCESSOR 2048u

typedef struct sapwood_bpf_map_options {
	size_t size;           /* sizeof(struct sapwood_bpf_map_options) */
	/* of address space, the most that the map can take; 0: all that the arena has left */
	size_t bytes;
	size_t max_entries;    /* 0: 65,536 */
	/* bytes, at most 4,096; 0: 254, the longest that lies in a program's struct sw_key */
	size_t longest_key;
	size_t value_bytes;    /* a multiple of 8, at most 4,096; 0: 8 */
	size_t ring; /* blocks of a size that lie ready for programs; 0: a 64th of the entries */
	/* bytes of a key on average, by which the map's memory is sized; 0: 24, or longest_key */
	size_t mean_key;
	/* milliseconds without use after which an entry is gone, with SAPWOOD_BPF_LRU; 0: never */
	size_t max_idle;
	/* SAPWOOD_CHECKED; SAPWOOD_INDEX (whole keys), SAPWOOD_BPF_TRIE; with neither it has both */
	unsigned int flags;
	unsigned int reserved; /* 0 */
} sapwood_bpf_map_options;

/*
 * Makes an empty map in a window of this name (1 to 24 bytes). This process becomes the
 * arena's owner. -EINVAL: sizes that no map has; the message says which.
 */
int sapwood_bpf_map_create(const sapwood_bpf_arena *arena, const char *window_name,
			   const sapwood_bpf_map_options *options, sapwood_bpf_map **out);

/*
 * Takes over the map that a dead owner left, with all its entries, whatever the size of its
 * values. Meanwhile, for a grace period and some hundred nanoseconds an entry, programs find
 * no window. -EBUSY: the owner lives. -EPROTO: the map is not whole; it stays as it was.
 */
int sapwood_bpf_map_open(const sapwood_bpf_arena *arena, const char *window_name,
			 sapwood_bpf_map **out);

/*
 * Ends the service, and closes the window: programs no longer find the map. One thread at a
 * time.
 */
void sapwood_bpf_map_free(sapwood_bpf_map *map);

/*
 * Ends the service, frees the handle, and leaves the map to programs, which go on with the
 * memory that they have, and to the next owner. One thread at a time.
 */
int sapwood_bpf_map_leave(sapwood_bpf_map *map);

/* Returns the number of the map's window, by which programs name it. O(1). */
int sapwood_bpf_map_number(const sapwood_bpf_map *map);

/* Returns the bytes of each value. O(1). */
int sapwood_bpf_map_value_bytes(const sapwood_bpf_map *map);

/* Stores the number of entries, as programs count them. O(1). */
int sapwood_bpf_map_len(const sapwood_bpf_map *map, size_t *len);

typedef struct sapwood_bpf_serviced {
	size_t size;    /* sizeof(struct sapwood_bpf_serviced), set by the caller */
	size_t fetched; /* blocks that programs gave up, and that were fetched */
	size_t freed;   /* blocks that nobody reads any more, and that were freed */
	size_t given;   /* blocks that were made ready for programs */
	size_t starved; /* 1: there was no memory for more: the window is full */
} sapwood_bpf_serviced;

/*
 * One step of service: it fetches what programs gave up, frees what nobody reads any more, and
 * makes blocks ready. It does not wait. Without service, insertions by programs fail with
 * -ENOMEM after a while: take a step every millisecond or so while programs write, or see
 * sapwood_bpf_map_serve. done may be NULL.
 */
int sapwood_bpf_map_service(const sapwood_bpf_map *map, sapwood_bpf_serviced *done);

/*
 * A thread of the library takes a step of service each every_us microseconds while programs
 * write, and more seldom when they do not; in place of one that was begun before. 0 ends the
 * thread, and returns why it had ended before, if it had.
 */
int sapwood_bpf_map_serve(const sapwood_bpf_map *map, uint64_t every_us);

/*
 * Copies the value of a key to value, which has room for the bytes of a value
 * (sapwood_bpf_map_value_bytes) and may be NULL. -ENOENT. -EAGAIN: programs changed what was
 * read again and again. -EPROTO: the memory is damaged.
 */
int sapwood_bpf_map_get(const sapwood_bpf_map *map, const void *key, size_t key_len, void *value);

/*
 * Stores the sum of a key's counts on all processors. Programs may count meanwhile. -ENOENT.
 * -EINVAL: the map was made without SAPWOOD_BPF_PER_PROCESSOR. Others: as sapwood_bpf_map_get.
 */
int sapwood_bpf_map_sum(const sapwood_bpf_map *map, const void *key, size_t key_len,
			uint64_t *sum);

/*
 * Calls each(entry, ctx) for all entries, in order if the map has a trie; returns 0, or what
 * ended the walk. The key and the value (entry->value.bytes) are copies, which are valid until
 * the callback returns. What programs insert or remove meanwhile may be among them or not;
 * what is there throughout is, once. -EAGAIN and -EPROTO: as sapwood_bpf_map_get.
 */
int sapwood_bpf_map_each(const sapwood_bpf_map *map, sapwood_entry_fn each, void *ctx);

/*
 * Changes by this process, beside programs and service, each atomic by itself. value has as
 * many bytes as the map's values. The first change takes 64 KiB of the arena, unless
 * SAPWOOD_BPF_WRITES took them: -ENOSPC if they are not there. A system call each.
 *   -E2BIG   the key is too long                   -ENOSPC  max_entries, or no slot for it
 *   -ENOMEM  no memory, also after service         -EBUSY   other writers had the lock
 *
 * Inserts a key, or replaces its value: 0.
 */
int sapwood_bpf_map_insert(const sapwood_bpf_map *map, const void *key, size_t key_len,
			   const void *value);

/* -EEXIST: the key is there. */
int sapwood_bpf_map_insert_new(const sapwood_bpf_map *map, const void *key, size_t key_len,
			       const void *value);

/* -ENOENT: the key is not there. */
int sapwood_bpf_map_replace(const sapwood_bpf_map *map, const void *key, size_t key_len,
			    const void *value);

/*
 * Replaces `current` by `value`, in a map with values of 8 bytes (-ENOTSUP). -ENOENT: the key
 * is not there. -ESTALE: its value is another.
 */
int sapwood_bpf_map_compare_exchange(const sapwood_bpf_map *map, const void *key, size_t key_len,
				     const void *current, const void *value);

/* -ENOENT: the key is not there. */
int sapwood_bpf_map_remove(const sapwood_bpf_map *map, const void *key, size_t key_len);

/*
 * Takes the entry with the least key: removes it, and calls each(entry, ctx) with it, once.
 * each may be NULL, and what it returns means nothing. -ENOENT: the map is empty. -ENOTSUP: it
 * has no trie. Programs may take entries at the same time (sw_qp_pop_first): no two take one.
 */
int sapwood_bpf_map_pop_first(const sapwood_bpf_map *map, sapwood_entry_fn each, void *ctx);

typedef struct sapwood_bpf_drops {
	size_t size;        /* sizeof(struct sapwood_bpf_drops), set by the caller */
	uint64_t busy;      /* -EBUSY: other writers held a lock */
	uint64_t no_memory; /* -ENOMEM: service was late, or the window is full */
	uint64_t full;      /* -E2BIG, -ENOSPC: the map was full, or the index had no slot */
} sapwood_bpf_drops;

/* Stores how many changes by programs failed since the map was made, by reason. */
int sapwood_bpf_map_drops(const sapwood_bpf_map *map, sapwood_bpf_drops *drops);

/*
 * Walks all of the map and checks every invariant: 0, or -EUCLEAN with the first that does not
 * hold. No program may write meanwhile.
 */
int sapwood_bpf_map_verify(const sapwood_bpf_map *map);

/* ---- Words in an arena ----------------------------------------------------------------------- */

/*
 * Words of 64 bits that programs and this process read and write, each atomically
 * (sw_window(number, SW_KIND_WORDS), sw_u64, sw_set_u64): counters, settings, requests, and
 * the rooms for long keys of programs (sapwood/key.bpf.h): SW_KEY_ROOM_BYTES for each
 * processor. Variables of a program's own in the arena have no place; take words. Any thread,
 * unless it is said otherwise.
 */

typedef struct sapwood_bpf_words sapwood_bpf_words;

/*
 * Makes a window of this name (1 to 24 bytes) with this many words, which are 0, and takes
 * memory for all of them. This process becomes the arena's owner.
 */
int sapwood_bpf_words_create(const sapwood_bpf_arena *arena, const char *window_name, size_t count,
			     sapwood_bpf_words **out);

/* Closes the window. One thread at a time. */
void sapwood_bpf_words_free(sapwood_bpf_words *words);

/* Frees the handle, and leaves the window to programs. One thread at a time. */
int sapwood_bpf_words_leave(sapwood_bpf_words *words);

/* Returns the number of the window, by which programs name it. */
int sapwood_bpf_words_number(const sapwood_bpf_words *words);

/* Stores the word of this number. -ERANGE: there is none. */
int sapwood_bpf_words_get(const sapwood_bpf_words *words, size_t number, uint64_t *word);

/* Writes the word of this number. -ERANGE: there is none. */
int sapwood_bpf_words_set(const sapwood_bpf_words *words, size_t number, uint64_t word);

/* ---- Readers of maps in an arena ------------------------------------------------------------- */

/*
 * A reader of any map over byte strings in an arena, whoever writes it: another process,
 * programs, or nobody, when the owner is dead. It checks every word, and gives copies, so it
 * relies on nothing that lies there. Any number of processes read; the map's owner reads
 * through the map's own handle. Any thread.
 *   -EAGAIN  changes disturbed each attempt    -EPROTO  the memory is damaged
 *   -ENOENT  the map was closed                -ENOTSUP the map has no order
 */

typedef struct sapwood_bpf_reader sapwood_bpf_reader;

/* Opens the map of this name. -ENOENT: there is no such map over byte strings. */
int sapwood_bpf_reader_open(const sapwood_bpf_arena *arena, const char *window_name,
			    sapwood_bpf_reader **out);

/* One thread at a time. */
void sapwood_bpf_reader_free(sapwood_bpf_reader *reader);

/* Returns the bytes of each value; 0: they are byte strings, of any length. */
int sapwood_bpf_reader_value_bytes(const sapwood_bpf_reader *reader);

/* Stores the number of entries. O(entries), except of a store. */
int sapwood_bpf_reader_len(const sapwood_bpf_reader *reader, size_t *len);

/*
 * Copies the value of a key to value, which has room bytes and may be NULL, and stores its
 * length unless value_len is NULL. -ENOENT. -E2BIG: there is no room; the length is stored.
 */
int sapwood_bpf_reader_get(const sapwood_bpf_reader *reader, const void *key, size_t key_len,
			   void *value, size_t room, size_t *value_len);

/*
 * Stores the sum of a key's counts on all processors, in a map that programs write and that
 * was made with SAPWOOD_BPF_PER_PROCESSOR; -EINVAL in others. -ENOENT.
 */
int sapwood_bpf_reader_sum(const sapwood_bpf_reader *reader, const void *key, size_t key_len,
			   uint64_t *sum);

/*
 * Calls each(entry, ctx) for all entries, in order if the map has one; returns 0, or what
 * ended the walk. The key and the value (entry->value.bytes) are copies, which are valid until
 * the callback returns. No key comes twice, and each that is there throughout comes.
 */
int sapwood_bpf_reader_each(const sapwood_bpf_reader *reader, sapwood_entry_fn each, void *ctx);

/*
 * The same for the entries whose keys begin with a prefix, and for those from a key on, in
 * order. -ENOTSUP: the map has an index alone.
 */
int sapwood_bpf_reader_each_prefix(const sapwood_bpf_reader *reader, const void *prefix,
				   size_t prefix_len, sapwood_entry_fn each, void *ctx);
int sapwood_bpf_reader_each_from(const sapwood_bpf_reader *reader, const void *key, size_t key_len,
				 sapwood_entry_fn each, void *ctx);

/*
 * Checks every invariant of the map: 0, or -EUCLEAN with the first that does not hold. Nobody
 * may write the map meanwhile.
 */
int sapwood_bpf_reader_verify(const sapwood_bpf_reader *reader);

/* ---- Objects of BPF programs ----------------------------------------------------------------- */

/*
 * An object of BPF programs, compiled with the headers in sapwood/, and loaded with an arena.
 * A skeleton of libbpf does the same by itself, if it gets the arena: sapwood_bpf_arena_fd.
 * One thread at a time.
 */

typedef struct sapwood_bpf_object sapwood_bpf_object;

/*
 * Opens an object that a file, or memory, has. -ENOEXEC: it is none, or it has variables of
 * its own in the arena (section .addr_space.1). -EPROTO: it was compiled with headers of
 * another version.
 */
int sapwood_bpf_object_open(const sapwood_bpf_arena *arena, const char *file,
			    sapwood_bpf_object **out);
int sapwood_bpf_object_open_memory(const sapwood_bpf_arena *arena, const void *object,
				   size_t object_len, sapwood_bpf_object **out);

/*
 * Detaches the programs that sapwood_bpf_object_attach attached, and unloads those that are
 * not pinned.
 */
void sapwood_bpf_object_free(sapwood_bpf_object *object);

/*
 * Before the object is loaded: sets all constants of a section whose name begins with .rodata,
 * as "const volatile int map SEC(".rodata.map");". -ENOENT: there is no such section, or it
 * has another size.
 */
int sapwood_bpf_object_constants(sapwood_bpf_object *object, const char *section, const void *data,
				 size_t data_len);

/* Before the object is loaded: leaves a program out. -ENOENT. */
int sapwood_bpf_object_without(sapwood_bpf_object *object, const char *program);

/*
 * Loads the programs. -ENOEXEC: the kernel refuses one, or one may sleep and the arena does
 * not allow that. After a failure, the object can only be freed.
 */
int sapwood_bpf_object_load(sapwood_bpf_object *object);

/* Opens an object of a file and loads it. */
int sapwood_bpf_load(const sapwood_bpf_arena *arena, const char *file, sapwood_bpf_object **out);

/*
 * Returns the descriptor of a loaded program, or of one of the object's maps of the kernel,
 * which stays the library's: for bpf_link_create, bpf_map_lookup_elem, ... -ENOENT.
 */
int sapwood_bpf_object_program(const sapwood_bpf_object *object, const char *program);
int sapwood_bpf_object_map(const sapwood_bpf_object *object, const char *map);

/*
 * Attaches a program where its section says (SEC("tracepoint/...")), or all programs if it is
 * NULL, until the object is freed. After a failure nothing more is attached. Programs for an
 * interface need its number: sapwood_bpf_object_program and bpf_link_create. -EEXIST: it is
 * attached.
 */
int sapwood_bpf_object_attach(sapwood_bpf_object *object, const char *program);

/*
 * Runs a program for packets once on this packet of 14 bytes or more, which it may change, and
 * stores what it returns unless result is NULL.
 */
int sapwood_bpf_object_run(const sapwood_bpf_object *object, const char *program, void *packet,
			   size_t packet_len, uint32_t *result);

/*
 * Pins the arena, the programs, and what attaches them, as arena, prog-NAME and link-NAME in a
 * directory of a BPF file system. It is made if it is not there, and must be empty: -EEXIST.
 * They go on when this process ends. The commands of `sapwood bpf` know such directories.
 * After a failure nothing is pinned.
 */
int sapwood_bpf_object_pin(const sapwood_bpf_object *object, const char *folder);

#ifdef __cplusplus
}
#endif

#endif /* SAPWOOD_BPF_H */
