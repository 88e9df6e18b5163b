/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sapwood.h - ordered maps for the data path, whose readers never lock.
 *
 * This file is generated of the library's source (doors/c/src), and made anew by
 *     SAPWOOD_WRITE=1 cargo test -p sapwood-capi --test capi header
 *
 * Results.   A function that returns int returns 0 or a positive number, or -errno.
 *            sapwood_strerror has a fixed text for each; sapwood_last_error has the whole message
 *            of this thread's last failure. A lookup that finds nothing returns -ENOENT and
 *            leaves no message.
 *            All functions may return, beside what they say:
 *              -EINVAL  an argument is NULL or has no meaning
 *              -E2BIG   a length is more than there can be, or a structure has newer fields
 *              -EPERM   a handle was used against its rules, where that is seen
 *              -EFAULT  an internal error was caught; nothing crosses into C
 *            README.md has a table of all results.
 * NULL.      Is -EINVAL, except: a key or value of no bytes; options, which are then the defaults;
 *            places for results and functions of which it is said; the reader of a table or a range
 *            map. Lists of no items are not looked at.
 * Handles.   A function that makes a handle stores it in *out, and *out belongs to the caller, who
 *            frees it with the function named so. Freeing NULL does nothing. On failure *out stays
 *            as it was.
 * Threads.   "Any thread" means: from several threads at once. "One thread at a time" means that
 *            the caller keeps other calls with this handle away. "Its thread" is the one that
 *            made it.
 * Structures with a field size: set it to sizeof, and everything that is not used to 0. A library
 *            that is newer or older than the header then understands them. NULL means the defaults.
 * Callbacks. They return to their caller: no longjmp, no C++ exception. They may call the library,
 *            but not with the handle that is being changed or freed.
 * Checked.   With SAPWOOD_CHECKED, a use against the rules ends the process (abort) with a message
 *            that names the function: a reader on another thread, something read before the last
 *            quiescent state, a handle that was freed. The memory of freed handles, some 100 bytes
 *            each, then stays until the process ends.
 * Waits.     README.md says which functions may wait for other threads, and which allocate. None
 *            may be called in a signal handler.
 * fork.      A child has a copy of everything but live maps, which it may read, change and free, if
 *            no other thread was inside the library at the fork. Readers of other threads stay
 *            registered and hold the child's garbage back. -EDEADLK: another thread had a
 *            transaction or a reservation open, which will never end in the child. -EPERM: what
 *            belongs to a live map of the parent, or is a reader of one, except that the child may
 *            free it, which changes nothing of the parent's.
 * dlclose.   Is allowed, and leaves the library in memory.
 */
#ifndef SAPWOOD_H
#define SAPWOOD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Failures -------------------------------------------------------------------------------- */

/* A fixed text for a result. It belongs to the library. Any thread. */
const char *sapwood_strerror(int result);

/*
 * Copies the message of this thread's last failure, cut to len - 1 bytes and ended by a zero.
 * Returns the length of the whole message. buf may be NULL if only that is wanted. It never
 * fails.
 */
int sapwood_last_error(char *buf, size_t len);

/* ---- Values ---------------------------------------------------------------------------------- */

/* The kinds of values. A structure has values of one kind. */
enum sapwood_values {
	SAPWOOD_NUMBERS = 0,  /* uint64_t */
	SAPWOOD_POINTERS = 1, /* pointers, which the library never follows */
	SAPWOOD_BYTES = 2     /* byte strings of up to 256 MiB, which are copied in */
};

typedef struct sapwood_bytes {
	const void *data; /* may be NULL if len is 0 */
	size_t len;
} sapwood_bytes;

typedef union sapwood_value {
	uint64_t number;
	void *pointer;
	sapwood_bytes bytes;
} sapwood_value;

/*
 * Keys are byte strings of 0 to 65,535 bytes, in lexicographic order. An entry that a function
 * gives out, its key and its bytes lie inside the map: they are valid as long as the view, or
 * until the reader's next quiescent state. Of stores, their snapshots and transactions, and of
 * files only the value does: the key is a copy, which is valid until the iterator's next call,
 * or until the function that it is given to returns, or, from other functions, until the
 * thread's next call that stores an entry of a store or a file. Copy what is needed longer.
 */
typedef struct sapwood_entry {
	sapwood_bytes key; /* data is NULL where there is no entry; that of an empty key is not */
	sapwood_value value;
} sapwood_entry;

/*
 * Takes a value (a pointer) back when the library has let go of it, after the grace period. It
 * is called exactly once for each value, by the thread that frees it: one that changes or
 * frees the structure, reclaims, or polls the domain. A value that was not inserted stays the
 * caller's: the insertion failed, or found that the key is (not) there.
 */
typedef void (*sapwood_retire_fn)(void *value, void *ctx);

/* ---- Domains and readers --------------------------------------------------------------------- */

/*
 * A domain: what is replaced or removed in its structures is freed when all of its readers
 * have passed a quiescent state. Several structures may share a domain.
 */
typedef struct sapwood_domain sapwood_domain;

#define SAPWOOD_CHECKED 1u /* structures, domains: misuse ends the process with a message */
#define SAPWOOD_BLOCK 2u /* domains: a change at the hard limit waits, instead of -EAGAIN */

typedef struct sapwood_domain_options {
	size_t size;              /* sizeof(struct sapwood_domain_options) */
	unsigned int flags; /* SAPWOOD_CHECKED: also its readers and structures; SAPWOOD_BLOCK */
	unsigned int max_readers; /* 0: no limit */
	size_t soft_limit;        /* bytes of garbage from which writers free more; 0: none */
	size_t hard_limit;        /* bytes of garbage that changes do not pass; 0: none */
	uint64_t stall_after_ms; /* from when on sapwood_domain_stalls names a reader; 0: a default */
} sapwood_domain_options;

/* Makes a domain. O(1). */
int sapwood_domain_new(const sapwood_domain_options *options, sapwood_domain **out);

/*
 * Frees the handle. The domain itself lives as long as its readers and structures, so the
 * order does not matter. One thread at a time.
 */
void sapwood_domain_free(sapwood_domain *domain);

/*
 * Runs at most `most` deferred functions whose grace period is over, and returns how many ran.
 * It does not wait. An event loop calls it in each turn. Any thread.
 */
int sapwood_domain_poll(const sapwood_domain *domain, size_t most);

/*
 * Defers run(ctx) to the end of a grace period. It runs once, on a thread that polls, or on
 * the one that lets go of the domain, or that defers at a limit of garbage. Until then `bytes`
 * count as garbage. -EAGAIN: the hard limit is reached, nothing can be freed now, and run is
 * not called. Any thread.
 */
int sapwood_domain_defer(const sapwood_domain *domain, size_t bytes, void (*run)(void *ctx),
			 void *ctx);

/* Stores the number of bytes that wait for readers. Any thread. O(1). */
int sapwood_domain_garbage(const sapwood_domain *domain, size_t *bytes);

/*
 * Waits until each reader has passed a quiescent state or is offline. The caller's own reader
 * must be offline: -EDEADLK after three seconds, as the thread would wait for itself; so would
 * one whose reader went to another thread and was not used there yet. Any thread.
 */
int sapwood_domain_synchronize(const sapwood_domain *domain);

enum sapwood_stall_kind {
	SAPWOOD_STALL_READER = 0,
	SAPWOOD_STALL_PINNED = 1,
	SAPWOOD_STALL_SNAPSHOT = 2,
	SAPWOOD_STALL_SOURCE = 3
};

typedef struct sapwood_stall {
	size_t size;
	const char *name;      /* of the reader or the snapshot; valid until the callback returns */
	int kind;              /* enum sapwood_stall_kind */
	unsigned int reserved; /* 0 */
	uint64_t stood_for_ns;
	uint64_t generations;  /* begun since its last quiescent state; of a snapshot: versions */
	size_t bytes;          /* the most bytes that wait because of it */
} sapwood_stall;

typedef void (*sapwood_stall_fn)(const sapwood_stall *stall, void *ctx);

/*
 * Calls each(stall, ctx) for each reader and snapshot that holds garbage back for long, and
 * returns their number. each may be NULL. Any thread.
 */
int sapwood_domain_stalls(const sapwood_domain *domain, sapwood_stall_fn each, void *ctx);

/* A thread that is registered with a domain. It belongs to the thread that made it. */
typedef struct sapwood_reader sapwood_reader;

/*
 * Registers this thread with a domain, under a name for stall reports. The reader is online:
 * what is replaced from now on stays until it passes a quiescent state. -EAGAIN: too many
 * readers.
 */
int sapwood_reader_new(const sapwood_domain *domain, const char *name, sapwood_reader **out);

/* Ends the registration. Its thread. Nothing that was read with it may be used any more. */
void sapwood_reader_free(sapwood_reader *reader);

/*
 * Declares a quiescent state: this thread uses nothing any more that it read with this reader.
 * An event loop calls it in each turn, a packet loop after each burst. Its thread. O(1), no
 * fence.
 */
int sapwood_reader_quiescent(sapwood_reader *reader);

/* Goes offline before the thread blocks: a quiescent state that lasts. Its thread. O(1). */
int sapwood_reader_offline(sapwood_reader *reader);

/* Comes back online. Only an online reader may read. Its thread. O(1). */
int sapwood_reader_online(sapwood_reader *reader);

/* Waits as sapwood_domain_synchronize, offline meanwhile; online afterwards. Its thread. */
int sapwood_reader_synchronize(sapwood_reader *reader);

/* ---- Maps over byte strings ------------------------------------------------------------------ */

/*
 * sapwood_map     an owned map: one thread at a time changes it, several read in between
 * sapwood_store   readers that never wait, one writer at a time, transactions, snapshots
 * sapwood_shared  many readers and many writers at once
 * sapwood_point   the same without order: whole keys only
 * sapwood_file    a saved map, read in place by any number of processes
 *
 * All have the same verbs. Order (ranges, prefixes, neighbours, the closest name) is read
 * through a sapwood_view of any of them.
 *
 * Lookups store the value, unless `value` is NULL, and return 0, or -ENOENT.
 * Insertions return 1 for a new key and 0 for a replaced value. Further errors of changes:
 *   -E2BIG   the key or value is too long        -ENOMEM  the memory limit is reached
 *   -EAGAIN  the domain's hard limit is reached  -ENOSPC  max_entries is reached
 * After each error, -EFAULT excepted, the map is as it was. After -EFAULT of a change, free
 * the map: the change may be made in part, and its value belongs to the library. Costs:
 * lookups and changes are O(length of the key).
 */
typedef struct sapwood_map sapwood_map;
typedef struct sapwood_store sapwood_store;
typedef struct sapwood_txn sapwood_txn;
typedef struct sapwood_snapshot sapwood_snapshot;
typedef struct sapwood_shared sapwood_shared;
typedef struct sapwood_point sapwood_point;
typedef struct sapwood_file sapwood_file;
typedef struct sapwood_iter sapwood_iter;
typedef struct sapwood_view sapwood_view;

#define SAPWOOD_INDEX 4u /* owned and shared maps: a point index, for quick lookups of whole keys */

typedef struct sapwood_options {
	size_t size;                  /* sizeof(struct sapwood_options) */
	unsigned int flags;           /* SAPWOOD_CHECKED, SAPWOOD_INDEX */
	int values;                   /* enum sapwood_values */
	sapwood_retire_fn retire;     /* of pointers; NULL: nobody takes them back */
	void *ctx;                    /* its second argument */
	size_t memory_limit;          /* bytes; 0: none */
	size_t max_entries;           /* of shared and point maps; 0: no limit */
	const sapwood_domain *domain; /* NULL: one of its own, without readers; not for owned maps */
} sapwood_options;

typedef struct sapwood_memory {
	size_t size;      /* sizeof(struct sapwood_memory), set by the caller */
	size_t entries;   /* their number; all others but snapshots are bytes */
	size_t total;     /* all that the map takes from the system */
	size_t nodes;
	size_t leaves;    /* with keys and values */
	size_t index;
	size_t waiting;   /* for readers and snapshots */
	size_t snapshots; /* their number */
} sapwood_memory;

/* ---- Owned maps ------------------------------------------------------------------------------ */

/*
 * One thread at a time, except that several threads may read at once while nobody changes the
 * map. Values, views and entries are valid until the next change.
 */

/* Makes an empty map. O(1). */
int sapwood_map_new(const sapwood_options *options, sapwood_map **out);

/*
 * Makes a map of the entries of a saved one. -ENOTSUP: pointers with retire. -EPROTO: the file
 * is damaged, or its values are of another kind. Other errors are those of the system.
 * O(entries).
 */
int sapwood_map_load(const sapwood_options *options, const char *path, sapwood_map **out);

/* Frees a map; its pointers are retired before it returns. O(entries). */
void sapwood_map_free(sapwood_map *map);

/* Looks up a key. -ENOENT: it is not there. */
int sapwood_map_get(const sapwood_map *map, const void *key, size_t key_len, sapwood_value *value);

/*
 * Looks up many keys, interleaved in large maps. `found[i]` becomes 1 or 0, and `values[i]`
 * the value of `keys[i]` if it was found. Returns the number of those found.
 */
int sapwood_map_get_many(const sapwood_map *map, const sapwood_bytes *keys, size_t count,
			 sapwood_value *values, unsigned char *found);

/* Stores the number of entries. O(1). */
int sapwood_map_len(const sapwood_map *map, size_t *len);

/* Inserts a key, or replaces its value. */
int sapwood_map_insert(sapwood_map *map, const void *key, size_t key_len,
		       const sapwood_value *value);

/* -EEXIST: the key is there. */
int sapwood_map_insert_new(sapwood_map *map, const void *key, size_t key_len,
			   const sapwood_value *value);

/* -ENOENT: the key is not there. */
int sapwood_map_replace(sapwood_map *map, const void *key, size_t key_len,
			const sapwood_value *value);

/*
 * Stores where the number of a key lies, so that it can be changed in place until the next
 * change of the map. An absent key is inserted with 0: the function returns 1. -ENOTSUP: other
 * values.
 */
int sapwood_map_number(sapwood_map *map, const void *key, size_t key_len, uint64_t **number);

/* -ENOENT: the key is not there. */
int sapwood_map_remove(sapwood_map *map, const void *key, size_t key_len);

/* Removes all keys with a prefix, and stores their number unless `removed` is NULL. */
int sapwood_map_remove_prefix(sapwood_map *map, const void *prefix, size_t prefix_len,
			      size_t *removed);

/* Rewrites the map, so that it takes the least memory and reads quickest. O(entries). */
int sapwood_map_compact(sapwood_map *map);

/* Stores what the map's memory holds. */
int sapwood_map_memory(const sapwood_map *map, sapwood_memory *memory);

/*
 * Saves the map: whoever opens the path finds the old file or the whole new one. -ENOTSUP:
 * pointers with retire. Other errors are those of the system. Without retire, pointers are
 * saved as numbers.
 */
int sapwood_map_save(const sapwood_map *map, const char *path);

/* Makes a view, which is valid until the next change of the map. O(1). */
int sapwood_map_view(const sapwood_map *map, sapwood_view *view);

/* ---- Stores ---------------------------------------------------------------------------------- */

/*
 * Any thread, where nothing else is said. Readers are those of the store's domain; a reading
 * function is called by the reader's thread, and what it gives is valid until the reader's
 * next quiescent state. A store has one transaction at a time. -EDEADLK: this thread has one
 * open.
 */

/* Makes an empty store. O(1). */
int sapwood_store_new(const sapwood_options *options, sapwood_store **out);

/* Makes a store of a saved one, as sapwood_map_load. Versions count on from the saved one. */
int sapwood_store_load(const sapwood_options *options, const char *path, sapwood_store **out);

/*
 * Frees the handle. The store ends with its last snapshot and transaction. Nobody may use the
 * handle, or what was read through it.
 */
void sapwood_store_free(sapwood_store *store);

/* Looks up in the newest version. */
int sapwood_store_get(const sapwood_store *store, const sapwood_reader *reader, const void *key,
		      size_t key_len, sapwood_value *value);

/* As sapwood_map_get_many, in one version. */
int sapwood_store_get_many(const sapwood_store *store, const sapwood_reader *reader,
			   const sapwood_bytes *keys, size_t count, sapwood_value *values,
			   unsigned char *found);

/* Stores the number of entries of the newest version. O(1). */
int sapwood_store_len(const sapwood_store *store, size_t *len);

/* Stores the number of the newest version. O(1). */
int sapwood_store_version(const sapwood_store *store, uint64_t *version);

/* Makes a view of the newest version, and stays with it. O(1). */
int sapwood_store_view(const sapwood_store *store, const sapwood_reader *reader,
		       sapwood_view *view);

/* Single changes, each in a transaction of its own; they wait for an open one. */
int sapwood_store_insert(const sapwood_store *store, const void *key, size_t key_len,
			 const sapwood_value *value);
int sapwood_store_insert_new(const sapwood_store *store, const void *key, size_t key_len,
			     const sapwood_value *value);
int sapwood_store_replace(const sapwood_store *store, const void *key, size_t key_len,
			  const sapwood_value *value);
int sapwood_store_remove(const sapwood_store *store, const void *key, size_t key_len);

/*
 * Frees at most `most` nodes that no reader and no snapshot uses any more, retires their
 * values, and returns how many. Commits do it as well. It does nothing while a transaction is
 * open.
 */
int sapwood_store_reclaim(const sapwood_store *store, size_t most);

/* Moves at most `most` nodes together; returns 1 if there is more. It waits for a transaction. */
int sapwood_store_compact_step(const sapwood_store *store, size_t most);

/* It waits for an open transaction. */
int sapwood_store_memory(const sapwood_store *store, sapwood_memory *memory);

/* Keeps the newest version, which any thread may read. O(1). */
int sapwood_store_snapshot(const sapwood_store *store, sapwood_snapshot **out);

#define SAPWOOD_TRY 8u /* sapwood_store_begin: -EBUSY instead of waiting */

/* Begins a transaction, which belongs to this thread. It waits for an open one. */
int sapwood_store_begin(const sapwood_store *store, unsigned int flags, sapwood_txn **out);

/*
 * Transactions. Its thread only. They read their own changes; readers see none of them before
 * the commit. Views and values are valid until the next change. After a failure of a change,
 * the transaction can go on.
 */
int sapwood_txn_get(sapwood_txn *txn, const void *key, size_t key_len, sapwood_value *value);
int sapwood_txn_len(sapwood_txn *txn, size_t *len);
int sapwood_txn_view(sapwood_txn *txn, sapwood_view *view);
int sapwood_txn_insert(sapwood_txn *txn, const void *key, size_t key_len,
		       const sapwood_value *value);
int sapwood_txn_insert_new(sapwood_txn *txn, const void *key, size_t key_len,
			   const sapwood_value *value);
int sapwood_txn_replace(sapwood_txn *txn, const void *key, size_t key_len,
			const sapwood_value *value);
int sapwood_txn_remove(sapwood_txn *txn, const void *key, size_t key_len);
int sapwood_txn_remove_prefix(sapwood_txn *txn, const void *prefix, size_t prefix_len,
			      size_t *removed);

/* Publishes all changes with one store, and frees the transaction. `version` may be NULL. */
int sapwood_txn_commit(sapwood_txn *txn, uint64_t *version);

/* Undoes all changes, and frees the transaction. Values that it inserted are retired. */
void sapwood_txn_rollback(sapwood_txn *txn);

/* Snapshots. Any thread. Values that they give are valid until sapwood_snapshot_free. */
void sapwood_snapshot_free(sapwood_snapshot *snapshot);
int sapwood_snapshot_get(const sapwood_snapshot *snapshot, const void *key, size_t key_len,
			 sapwood_value *value);
int sapwood_snapshot_len(const sapwood_snapshot *snapshot, size_t *len);
int sapwood_snapshot_version(const sapwood_snapshot *snapshot, uint64_t *version);
int sapwood_snapshot_view(const sapwood_snapshot *snapshot, sapwood_view *view);

/* As sapwood_map_save, with the number of the version. */
int sapwood_snapshot_save(const sapwood_snapshot *snapshot, const char *path);

enum sapwood_change_kind {
	SAPWOOD_ADDED = 0,
	SAPWOOD_REMOVED = 1,
	SAPWOOD_CHANGED = 2
};

typedef struct sapwood_change {
	size_t size;
	int kind;                /* enum sapwood_change_kind */
	unsigned int reserved;   /* 0 */
	sapwood_bytes key;
	sapwood_value old_value; /* unless added */
	sapwood_value new_value; /* unless removed */
} sapwood_change;

/* Returns 0 to go on; anything else ends the walk. */
typedef int (*sapwood_change_fn)(const sapwood_change *change, void *ctx);

/*
 * Calls each(change, ctx) for each key that was written between two snapshots, in order; not
 * for one with the same number or bytes as before. Keys are valid until the callback returns.
 * Returns 0, or what ended the walk. O(changes), if the store was not compacted in between.
 * -EINVAL: the kinds of values differ.
 */
int sapwood_snapshot_diff(const sapwood_snapshot *before, const sapwood_snapshot *after,
			  sapwood_change_fn each, void *ctx);

/* ---- Shared maps and point maps -------------------------------------------------------------- */

/*
 * Any thread. Reading functions as for stores; changes need no reader. Values that change
 * often: let the value be a pointer to an atomic, or use sapwood_shared_add.
 */

/*
 * Returns 0 to go on; anything else ends the walk. The walk does not wait and keeps nobody
 * waiting: it gives no key twice, and each that is there throughout.
 */
typedef int (*sapwood_entry_fn)(const sapwood_entry *entry, void *ctx);

/* Makes an empty map. O(1). */
int sapwood_shared_new(const sapwood_options *options, sapwood_shared **out);

/* Nobody may use the map, or what was read from it. Its pointers are retired. */
void sapwood_shared_free(sapwood_shared *map);

/* As the functions of stores of these names, in what is newest. */
int sapwood_shared_get(const sapwood_shared *map, const sapwood_reader *reader, const void *key,
		       size_t key_len, sapwood_value *value);
int sapwood_shared_get_many(const sapwood_shared *map, const sapwood_reader *reader,
			    const sapwood_bytes *keys, size_t count, sapwood_value *values,
			    unsigned char *found);
int sapwood_shared_len(const sapwood_shared *map, size_t *len);

/* As the functions of stores of these names. */
int sapwood_shared_insert(const sapwood_shared *map, const void *key, size_t key_len,
			  const sapwood_value *value);
int sapwood_shared_insert_new(const sapwood_shared *map, const void *key, size_t key_len,
			      const sapwood_value *value);
int sapwood_shared_replace(const sapwood_shared *map, const void *key, size_t key_len,
			   const sapwood_value *value);

/* Replaces `current` by `value`. -ENOENT: the key is absent. -ESTALE: its value is another. */
int sapwood_shared_compare_exchange(const sapwood_shared *map, const void *key, size_t key_len,
				    const sapwood_value *current, const sapwood_value *value);

/*
 * Adds to a number, modulo 2^64, and stores the sum unless `sum` is NULL. An absent key is
 * inserted with delta: the function returns 1. -ENOTSUP: other values.
 */
int sapwood_shared_add(const sapwood_shared *map, const void *key, size_t key_len, uint64_t delta,
		       uint64_t *sum);

/* -ENOENT: the key is not there. */
int sapwood_shared_remove(const sapwood_shared *map, const void *key, size_t key_len);

/* Frees at most `most` nodes that no reader uses any more, and returns how many. */
int sapwood_shared_reclaim(const sapwood_shared *map, size_t most);

/* It stops all writers for a moment. */
int sapwood_shared_memory(const sapwood_shared *map, sapwood_memory *memory);

/* Calls each(entry, ctx) for all entries, in order; returns 0, or what ended the walk. */
int sapwood_shared_each(const sapwood_shared *map, const sapwood_reader *reader,
			sapwood_entry_fn each, void *ctx);

/* Makes a view. Each call with it sees what is newest then. */
int sapwood_shared_view(const sapwood_shared *map, const sapwood_reader *reader,
			sapwood_view *view);

/* As the functions of sapwood_shared of these names. */
int sapwood_point_new(const sapwood_options *options, sapwood_point **out);
void sapwood_point_free(sapwood_point *map);
int sapwood_point_get(const sapwood_point *map, const sapwood_reader *reader, const void *key,
		      size_t key_len, sapwood_value *value);
int sapwood_point_get_many(const sapwood_point *map, const sapwood_reader *reader,
			   const sapwood_bytes *keys, size_t count, sapwood_value *values,
			   unsigned char *found);
int sapwood_point_len(const sapwood_point *map, size_t *len);
int sapwood_point_insert(const sapwood_point *map, const void *key, size_t key_len,
			 const sapwood_value *value);
int sapwood_point_insert_new(const sapwood_point *map, const void *key, size_t key_len,
			     const sapwood_value *value);
int sapwood_point_replace(const sapwood_point *map, const void *key, size_t key_len,
			  const sapwood_value *value);
int sapwood_point_compare_exchange(const sapwood_point *map, const void *key, size_t key_len,
				   const sapwood_value *current, const sapwood_value *value);
int sapwood_point_add(const sapwood_point *map, const void *key, size_t key_len, uint64_t delta,
		      uint64_t *sum);
int sapwood_point_remove(const sapwood_point *map, const void *key, size_t key_len);
int sapwood_point_reclaim(const sapwood_point *map, size_t most);
int sapwood_point_memory(const sapwood_point *map, sapwood_memory *memory);

/* As sapwood_shared_each, in no order. */
int sapwood_point_each(const sapwood_point *map, const sapwood_reader *reader,
		       sapwood_entry_fn each, void *ctx);

/* ---- Files ----------------------------------------------------------------------------------- */

#define SAPWOOD_UNVERIFIED 16u /* do not read the whole file when it is opened */

/*
 * Maps a saved map into memory. Each step in it is checked, so a damaged file gives wrong
 * answers at worst. values: SAPWOOD_NUMBERS or SAPWOOD_BYTES, as it was saved. -EPROTO: it is
 * damaged, of another kind, or no saved map. Other errors are those of the system. O(bytes);
 * O(1) with SAPWOOD_UNVERIFIED. The file may be replaced by a rename, but not be changed or
 * cut.
 */
int sapwood_file_open(const char *path, int values, unsigned int flags, sapwood_file **out);

/*
 * Any thread. Values that they give are valid until sapwood_file_free, also those of views;
 * keys, see struct sapwood_entry.
 */
void sapwood_file_free(sapwood_file *file);
int sapwood_file_get(const sapwood_file *file, const void *key, size_t key_len,
		     sapwood_value *value);
int sapwood_file_get_many(const sapwood_file *file, const sapwood_bytes *keys, size_t count,
			  sapwood_value *values, unsigned char *found);
int sapwood_file_len(const sapwood_file *file, size_t *len);

/* Checks everything. -EPROTO: the file is damaged; the message says where. O(bytes). */
int sapwood_file_verify(const sapwood_file *file);
int sapwood_file_view(const sapwood_file *file, sapwood_view *view);

/* ---- Views ----------------------------------------------------------------------------------- */

/*
 * A view lies in the caller's memory and needs no end. It may be copied. It is used where and
 * as long as what it was made of: on its reader's thread until the next quiescent state, or
 * until the next change of the map or transaction, or until the end of the snapshot or file. A
 * use after that is -EPERM where it is seen. Views are the query handles of name servers: one
 * for each question.
 */
struct sapwood_view {
	uint64_t opaque[16];
};

/* As the functions of maps of these names. */
int sapwood_view_len(const sapwood_view *view, size_t *len);
int sapwood_view_get(const sapwood_view *view, const void *key, size_t key_len,
		     sapwood_value *value);
int sapwood_view_get_many(const sapwood_view *view, const sapwood_bytes *keys, size_t count,
			  sapwood_value *values, unsigned char *found);

/* Each stores an entry, or returns -ENOENT. */
int sapwood_view_first(const sapwood_view *view, sapwood_entry *entry);
int sapwood_view_last(const sapwood_view *view, sapwood_entry *entry);

/* The least key greater than `key`, which need not be there. */
int sapwood_view_after(const sapwood_view *view, const void *key, size_t key_len,
		       sapwood_entry *entry);

/* The greatest key less than `key`. */
int sapwood_view_before(const sapwood_view *view, const void *key, size_t key_len,
			sapwood_entry *entry);

/* The longest key that is a prefix of `key`, or `key` itself. */
int sapwood_view_longest_prefix(const sapwood_view *view, const void *key, size_t key_len,
				sapwood_entry *entry);

/*
 * Stores the entries whose keys are prefixes of `key`, shortest first, as many as there is
 * room for. Returns how many there are.
 */
int sapwood_view_prefixes(const sapwood_view *view, const void *key, size_t key_len,
			  sapwood_entry *entries, size_t room);

/* Returns something else than 0 for the entry of a zone cut. */
typedef int (*sapwood_cut_fn)(const sapwood_entry *entry, void *ctx);

typedef struct sapwood_closest {
	size_t size;               /* sizeof(struct sapwood_closest), set by the caller */
	sapwood_entry *chain;      /* room for the entries at or above the name; may be NULL */
	size_t chain_room;         /* for how many there is room, set by the caller */
	size_t chain_len; /* how many there are, topmost first; those beyond the room are left out */
	size_t encloser; /* the closest encloser (RFC 4592) is this many bytes of the name */
	int exists;                /* the name has an entry, or one lies below it */
	unsigned int reserved;
	sapwood_entry exact;       /* of the name itself */
	sapwood_entry ancestor;    /* of the longest name at or above it that has one */
	sapwood_entry wildcard;    /* of `*` below the closest encloser, unless the name exists */
	sapwood_entry predecessor; /* with the greatest key less than the name */
	sapwood_entry cut;         /* the topmost for which is_cut returned something else than 0 */
} sapwood_closest;

/*
 * Stores what a name server needs to answer for a name, in one descent. Keys are those of
 * sapwood_key_dns_name. is_cut may be NULL. Returns 0 if the name has an entry, otherwise
 * -ENOENT with everything else stored.
 */
int sapwood_view_closest(const sapwood_view *view, const void *name, size_t name_len,
			 sapwood_cut_fn is_cut, void *ctx, sapwood_closest *out);

/*
 * What a signed zone proves of a name that is not there. Names below a cut own no NSEC
 * records; the apex is no cut.
 */
typedef struct sapwood_denial {
	size_t size;                        /* sizeof(struct sapwood_denial), set by the caller */
	int wildcard_exists; /* `*` below the closest encloser has an entry, or one lies below it */
	unsigned int reserved;
	sapwood_entry predecessor; /* the greatest key less than the name, and below no cut */
	sapwood_entry wildcard_predecessor; /* the same for the wildcard; unless the name exists */
	/* as sapwood_view_closest stores it; its size, chain and room are set by the caller */
	sapwood_closest closest;
} sapwood_denial;

/*
 * Stores what sapwood_view_closest stores, and the owners of the NSEC records that cover the
 * name and the wildcard. It searches twice or more, so call it only where proofs are wanted.
 * is_cut is also called for entries above the predecessors. Returns 0 if the name has an
 * entry, otherwise -ENOENT with everything else stored.
 */
int sapwood_view_denial(const sapwood_view *view, const void *name, size_t name_len,
			sapwood_cut_fn is_cut, void *ctx, sapwood_denial *out);

/* ---- Iterators ------------------------------------------------------------------------------- */

/*
 * After a step, an iterator stands at the entry that it gave: next gives the one after it, and
 * prev the one before it. After a move, or a step that found nothing, it stands between two
 * entries. It is used as long as its view, by one thread at a time, and freed then or later.
 * Steps are amortized O(1), turns and moves O(length of the key).
 */

/* Makes an iterator that stands before the first entry. */
int sapwood_iter_new(const sapwood_view *view, sapwood_iter **out);
void sapwood_iter_free(sapwood_iter *iter);

/* Steps to the next entry, or the one before, and stores it. -ENOENT: there is none. */
int sapwood_iter_next(sapwood_iter *iter, sapwood_entry *entry);
int sapwood_iter_prev(sapwood_iter *iter, sapwood_entry *entry);

/* Moves before the first entry whose key is not less than `key`. */
int sapwood_iter_seek(sapwood_iter *iter, const void *key, size_t key_len);

/* Moves behind the last entry. */
int sapwood_iter_to_end(sapwood_iter *iter);

/* Limits it to keys from low on and below high, and moves to the start. NULL: no limit. */
int sapwood_iter_range(sapwood_iter *iter, const void *low, size_t low_len, const void *high,
		       size_t high_len);

/* Limits the iterator to keys that begin with `prefix`, and moves to its start. */
int sapwood_iter_prefix(sapwood_iter *iter, const void *prefix, size_t prefix_len);

/* Moves behind all keys that begin with `prefix`: "not below here". */
int sapwood_iter_skip(sapwood_iter *iter, const void *prefix, size_t prefix_len);

/*
 * Keeps the iterator's place, so that it can go on in another view: in a long walk, pause
 * before a quiescent state or a change, then make a view and resume. Until then only
 * sapwood_iter_free is allowed. An entry at which it stands may go meanwhile: next gives the
 * one after its place.
 */
int sapwood_iter_pause(sapwood_iter *iter);

/* Goes on in a view of the same kind of values. -EINVAL: it is not paused, or another kind. */
int sapwood_iter_resume(sapwood_iter *iter, const sapwood_view *view);

/* ---- Keys ------------------------------------------------------------------------------------ */

/*
 * Room for any. A byte 0 or 1 within a label takes two bytes of the key, so the longest key
 * has 504 bytes, although the longest name has 255 in wire form.
 */
enum sapwood_key_rooms {
	SAPWOOD_KEY_DNS_MAX = 504,      /* bytes of the longest key of a name */
	SAPWOOD_KEY_DNS_TEXT_MAX = 1004 /* bytes of the longest text of a name, with its zero */
};

/*
 * The key of a domain name in text or wire form: its labels in reverse order and in lower
 * case, each ended by a zero byte; the root is empty. Keys sort in the canonical order of
 * DNSSEC. SAPWOOD_KEY_DNS_MAX bytes are enough for any. The length is stored; -E2BIG if there
 * is no room for it, with the length that is needed. -EINVAL: not a name. Any thread.
 *
 * Look at each result. A list of refused names that takes an error for "not listed" lets names
 * pass that somebody has made for that.
 */
int sapwood_key_dns_name(const char *name, void *key, size_t room, size_t *key_len);

/* `wire` has the name without compression, and nothing behind it. */
int sapwood_key_dns_wire(const void *wire, size_t wire_len, void *key, size_t room,
			 size_t *key_len);

/*
 * The key of the name at byte `at` of a DNS message, which begins with its header. The name
 * may be compressed, and other bytes may lie behind it: *end becomes the place of the first
 * one (end may be NULL). Pointers must lead back, and 127 are followed at most, so messages
 * from anybody can be given. -EINVAL: no name is there, or it is cut off; the message of the
 * failure has the place.
 */
int sapwood_key_dns_message(const void *message, size_t message_len, size_t at, void *key,
			    size_t room, size_t *key_len, size_t *end);

/*
 * The name of a key, ended by a zero that text_len does not count. SAPWOOD_KEY_DNS_TEXT_MAX
 * bytes are enough for any. -EINVAL: not the key of a name.
 */
int sapwood_key_dns_text(const void *key, size_t key_len, char *text, size_t room,
			 size_t *text_len);

/* ---- Routes ---------------------------------------------------------------------------------- */

/*
 * Common to the tables of this part and the next. Readers never wait; one writer works at a
 * time, and others wait for it. Values are numbers, which are copied out, so nothing that a
 * lookup stored can become stale. Where a function takes a reader, NULL means: pin this thread
 * for the moment, which costs some nanoseconds; a reader costs nothing. All functions of a
 * table may be called by any thread, unless something else is said. A thread that has a
 * transaction or a reservation of a table open gets -EDEADLK from functions that would wait
 * for it. Places for results may be NULL where their names are in parentheses in the comment.
 *
 * Changes return -ENOMEM at the memory limit, and -EAGAIN at the domain's hard limit of
 * garbage; then nothing has changed. After -EFAULT a table is as it was, or refuses changes
 * (its lock is poisoned).
 */

/* A prefix of an address, in network order. Bytes after addr_len are not looked at. */
typedef struct sapwood_prefix {
	uint8_t addr[16];
	uint8_t addr_len; /* 4 or 16 */
	uint8_t bits;     /* the length of the prefix */
} sapwood_prefix;

/*
 * Reads a prefix such as 10.0.0.0/8 or 2001:db8::/32; an address without a length is a prefix
 * of all its bits. -EINVAL: it is not one, or has bits set after its length. Any thread.
 */
int sapwood_prefix_parse(const char *text, sapwood_prefix *out);

/* Writes a prefix as text, cut to len - 1 bytes and ended by a zero; returns the whole length. */
int sapwood_prefix_format(const sapwood_prefix *prefix, char *buf, size_t len);

/*
 * A table that finds the longest prefix of an address: both families in one table, with
 * numbers as next hops.
 */
typedef struct sapwood_fib sapwood_fib;

/* The choices for a sapwood_fib and for sapwood_routes. */
typedef struct sapwood_fib_options {
	size_t size;            /* sizeof(struct sapwood_fib_options) */
	unsigned int flags;     /* SAPWOOD_CHECKED; for sapwood_routes also SAPWOOD_COVER_VOID */
	unsigned int root_bits; /* that one load resolves: 6, 12, 18 or 24; 0: 18 */
	size_t memory_limit;    /* of the prefixes of each family, in bytes; 0: none */
} sapwood_fib_options;

/*
 * Makes an empty table. domain may be NULL for one of its own, which only pins can read.
 * O(root).
 */
int sapwood_fib_new(const sapwood_domain *domain, const sapwood_fib_options *options,
		    sapwood_fib **out);

/*
 * Makes a table of `count` prefixes in any order, with `values[i]` for `prefixes[i]`; of equal
 * prefixes the last wins. Quicker than inserting them one by one. O(n log n).
 */
int sapwood_fib_build(const sapwood_domain *domain, const sapwood_fib_options *options,
		      const sapwood_prefix *prefixes, const uint64_t *values, size_t count,
		      sapwood_fib **out);

/*
 * Loads a table from a file whose next hops are numbers, after checking all of it. -EPROTO:
 * the file is damaged, or has other next hops, which sapwood_fib_file_open reads. O(n log n).
 */
int sapwood_fib_open(const sapwood_domain *domain, const sapwood_fib_options *options,
		     const char *path, sapwood_fib **out);

/* Frees the handle. Transactions, snapshots and iterators may stay. One thread at a time. */
void sapwood_fib_free(sapwood_fib *fib);

/*
 * Inserts a prefix, or replaces its value. Returns 1 if it is new, 0 if it was there; then
 * (old) has the value before. -EINVAL: bits are set after its length. O(bits).
 */
int sapwood_fib_insert(sapwood_fib *fib, const sapwood_prefix *prefix, uint64_t value,
		       uint64_t *old);

/* Removes a prefix; (old) is its value. -ENOENT: it is not there. O(bits). */
int sapwood_fib_remove(sapwood_fib *fib, const sapwood_prefix *prefix, uint64_t *old);

/* Stores the (value) of exactly this prefix. -ENOENT: it is not there. O(bits). */
int sapwood_fib_get(const sapwood_fib *fib, const sapwood_prefix *prefix, uint64_t *value);

/*
 * Finds the longest prefix of an address of 4 or 16 bytes in network order: (matched),
 * (value). -ENOENT: there is none. With a reader: its thread. O(bits).
 */
int sapwood_fib_lookup(const sapwood_fib *fib, const sapwood_reader *reader, const void *addr,
		       size_t addr_len, sapwood_prefix *matched, uint64_t *value);

/* The value for an IPv4 address in the host's order: the quickest lookup. -ENOENT as above. */
int sapwood_fib_lookup4(const sapwood_fib *fib, const sapwood_reader *reader, uint32_t addr,
			uint64_t *value);

/* The value for an IPv6 address of 16 bytes in network order. -ENOENT as above. */
int sapwood_fib_lookup6(const sapwood_fib *fib, const sapwood_reader *reader, const uint8_t *addr,
			uint64_t *value);

/*
 * One family of a table, for lookups that the compiler puts into the caller: they are in
 * sapwood_inline.h. Made by sapwood_fib_view_ipv4 and sapwood_fib_view_ipv6. It may be used on
 * its reader's thread until the next quiescent state, and sees all commits meanwhile. Its
 * fields are for that header.
 */
typedef struct sapwood_fib_view {
	/* root words; NULL: lookups are calls, since the reader is a checked one */
	const uint64_t *root;
	const void *memory;       /* what references count from */
	unsigned int root_bits;   /* of an address, that the root resolves */
	unsigned int counts_bits; /* whether the processor counts bits in one instruction */
	const sapwood_fib *fib;
	const sapwood_reader *reader;
	uint64_t reserved[2];
} sapwood_fib_view;

/*
 * Makes a view of the IPv4 prefixes, or of the IPv6 prefixes, for this reader's thread.
 * -EINVAL: the reader is not one of the table's domain. O(1).
 */
int sapwood_fib_view_ipv4(const sapwood_fib *fib, const sapwood_reader *reader,
			  sapwood_fib_view *out);
int sapwood_fib_view_ipv6(const sapwood_fib *fib, const sapwood_reader *reader,
			  sapwood_fib_view *out);

/*
 * Looks up `count` IPv4 addresses in the host's order, whose waits for memory overlap.
 * `values[i]` becomes the value for `addrs[i]`, or `none` where no prefix has it.
 */
int sapwood_fib_lookup4_bulk(const sapwood_fib *fib, const sapwood_reader *reader,
			     const uint32_t *addrs, size_t count, uint64_t none, uint64_t *values);

/* The same for IPv6 addresses: addrs has count times 16 bytes. */
int sapwood_fib_lookup6_bulk(const sapwood_fib *fib, const sapwood_reader *reader,
			     const uint8_t *addrs, size_t count, uint64_t none, uint64_t *values);

/* The number of prefixes. O(1). */
int sapwood_fib_len(const sapwood_fib *fib, size_t *len);

/* The bytes that the table takes from the system. Waits for an open transaction. */
int sapwood_fib_memory(const sapwood_fib *fib, size_t *bytes);

/*
 * Frees about `budget` nodes that no reader reaches any more; returns how many. Changes do so,
 * too.
 */
int sapwood_fib_reclaim(sapwood_fib *fib, size_t budget);

/* Checks every invariant, for tests. -EUCLEAN: one does not hold. O(size). */
int sapwood_fib_verify(const sapwood_fib *fib);

/*
 * A transaction: nobody else sees its changes before they are committed. It stays on its
 * thread.
 */
typedef struct sapwood_fib_txn sapwood_fib_txn;

/*
 * Begins a transaction, after waiting for that of another thread. It belongs to the thread
 * that began it, which ends it by a commit or a rollback. sapwood_fib_try_begin does not wait:
 * -EBUSY.
 */
int sapwood_fib_begin(sapwood_fib *fib, sapwood_fib_txn **out);
int sapwood_fib_try_begin(sapwood_fib *fib, sapwood_fib_txn **out);

/* As the functions of the table. Its thread. */
int sapwood_fib_txn_insert(sapwood_fib_txn *txn, const sapwood_prefix *prefix, uint64_t value,
			   uint64_t *old);
int sapwood_fib_txn_remove(sapwood_fib_txn *txn, const sapwood_prefix *prefix, uint64_t *old);
int sapwood_fib_txn_lookup(sapwood_fib_txn *txn, const void *addr, size_t addr_len,
			   uint64_t *value);

/*
 * Publishes all changes, and frees the handle. It cannot fail on its thread. O(what was
 * changed).
 */
int sapwood_fib_txn_commit(sapwood_fib_txn *txn);

/* Discards all changes, and frees the handle. NULL does nothing. Its thread. */
int sapwood_fib_txn_rollback(sapwood_fib_txn *txn);

/*
 * A version that stays as it is. Any thread may read it; it holds back what was replaced
 * since.
 */
typedef struct sapwood_fib_snapshot sapwood_fib_snapshot;

/* Makes a snapshot of the newest version of both families. O(root). */
int sapwood_fib_snapshot_new(const sapwood_fib *fib, sapwood_fib_snapshot **out);

/* Frees a snapshot. Its iterators may stay. One thread at a time. */
void sapwood_fib_snapshot_free(sapwood_fib_snapshot *snapshot);

/* As the functions of the table. */
int sapwood_fib_snapshot_lookup(const sapwood_fib_snapshot *snapshot, const void *addr,
				size_t addr_len, uint64_t *value);
int sapwood_fib_snapshot_len(const sapwood_fib_snapshot *snapshot, size_t *len);

/*
 * Saves a snapshot. The file is written beside `path`, flushed and renamed, so that `path` is
 * always the whole old file or the whole new one. Fails with the system's number.
 */
int sapwood_fib_snapshot_save(const sapwood_fib_snapshot *snapshot, const char *path);

/* A walk over a snapshot: IPv4 first, each family in the order of addresses. */
typedef struct sapwood_fib_iter sapwood_fib_iter;

/* Makes an iterator over a snapshot. */
int sapwood_fib_iter_new(const sapwood_fib_snapshot *snapshot, sapwood_fib_iter **out);

/* Stores the next (prefix) and its (value). -ENOENT: that was the last. One thread at a time. */
int sapwood_fib_iter_next(sapwood_fib_iter *iter, sapwood_prefix *prefix, uint64_t *value);

/* Frees an iterator. */
void sapwood_fib_iter_free(sapwood_fib_iter *iter);

/*
 * Finds the longest prefix that covers this one, which may be this one itself: (matched),
 * (value). -ENOENT: there is none. With a reader: its thread. O(bits).
 */
int sapwood_fib_lookup_prefix(const sapwood_fib *fib, const sapwood_reader *reader,
			      const sapwood_prefix *prefix, sapwood_prefix *matched,
			      uint64_t *value);

/*
 * Finds all prefixes that cover this one, which may be one of them, shortest first. Returns
 * how many there are, and stores the first (room) of them in (prefixes) and (values). An
 * address has at most 129. With a reader: its thread. O(bits).
 */
int sapwood_fib_covering(const sapwood_fib *fib, const sapwood_reader *reader,
			 const sapwood_prefix *prefix, sapwood_prefix *prefixes, uint64_t *values,
			 size_t room);

/*
 * Makes an iterator over a prefix, if the snapshot has it, and all prefixes inside it; or over
 * this prefix and all that come after it in order.
 */
int sapwood_fib_iter_covered(const sapwood_fib_snapshot *snapshot, const sapwood_prefix *prefix,
			     sapwood_fib_iter **out);
int sapwood_fib_iter_from(const sapwood_fib_snapshot *snapshot, const sapwood_prefix *prefix,
			  sapwood_fib_iter **out);

/*
 * Makes an iterator over the fewest prefixes that give each address the value that it has in
 * the snapshot; an address without a prefix stays without one. O(n log n).
 */
int sapwood_fib_iter_aggregated(const sapwood_fib_snapshot *snapshot, sapwood_fib_iter **out);

/* A difference between two snapshots. */
typedef struct sapwood_fib_change {
	int kind;              /* enum sapwood_change_kind */
	unsigned int reserved; /* 0 */
	sapwood_prefix prefix;
	uint8_t padding[6];    /* 0 */
	uint64_t old_value;    /* its value in the old one; 0 when it is not there */
	uint64_t new_value;    /* its value in the new one; 0 when it is not there */
} sapwood_fib_change;

/*
 * Is called with differences in the order of prefixes, IPv4 first. It returns 0 to go on;
 * another number ends the walk.
 */
typedef int (*sapwood_fib_diff_fn)(const sapwood_fib_change *change, void *ctx);

/*
 * Calls each(change, ctx) with all that differs, and returns 0 or what `each` returned. The
 * snapshots may be of one table or of two. A table becomes the other by a transaction that
 * inserts what was added or changed, and removes what was removed. O(both).
 */
int sapwood_fib_diff(const sapwood_fib_snapshot *before, const sapwood_fib_snapshot *after,
		     sapwood_fib_diff_fn each, void *ctx);

/*
 * The longest prefix that covers all of these. -ENOENT: there is none, since they are of both
 * families or count is 0. Any thread.
 */
int sapwood_prefix_supernet(const sapwood_prefix *prefixes, size_t count, sapwood_prefix *out);

/*
 * A set of addresses of both families, in sorted ranges. Threads may read one at the same
 * time; nobody reads a set while it is changed. Out of memory, the process ends.
 */
typedef struct sapwood_ip_set sapwood_ip_set;

/*
 * Makes the empty set; the set of all addresses of `count` prefixes; of a text with a prefix,
 * an address or a range (192.0.2.1-192.0.2.9) in each line, where a # begins a comment; or of
 * all prefixes of a snapshot. -EINVAL: a line is none of these; the message says which. O(n
 * log n).
 */
int sapwood_ip_set_new(sapwood_ip_set **out);
int sapwood_ip_set_build(const sapwood_prefix *prefixes, size_t count, sapwood_ip_set **out);
int sapwood_ip_set_parse(const char *text, sapwood_ip_set **out);
int sapwood_ip_set_of_fib(const sapwood_fib_snapshot *snapshot, sapwood_ip_set **out);

/* Frees a set. NULL does nothing. */
void sapwood_ip_set_free(sapwood_ip_set *set);

/*
 * Inserts or removes all addresses of a prefix; bits after its length are taken as zeros.
 * O(n), as ranges behind it move.
 */
int sapwood_ip_set_insert(sapwood_ip_set *set, const sapwood_prefix *prefix);
int sapwood_ip_set_remove(sapwood_ip_set *set, const sapwood_prefix *prefix);

/*
 * Inserts or removes the addresses from `first` to `last`, both included, of 4 or 16 bytes in
 * network order. -EINVAL: the last one is before the first.
 */
int sapwood_ip_set_insert_range(sapwood_ip_set *set, const void *first, const void *last,
				size_t addr_len);
int sapwood_ip_set_remove_range(sapwood_ip_set *set, const void *first, const void *last,
				size_t addr_len);

/*
 * Returns 1 if the set has this address of 4 or 16 bytes in network order, otherwise 0.
 * O(log n).
 */
int sapwood_ip_set_contains(const sapwood_ip_set *set, const void *addr, size_t addr_len);

/* Returns 1 if the set has all addresses of a prefix, or any of them, otherwise 0. O(log n). */
int sapwood_ip_set_covers(const sapwood_ip_set *set, const sapwood_prefix *prefix);
int sapwood_ip_set_overlaps(const sapwood_ip_set *set, const sapwood_prefix *prefix);

/* How two sets are combined. */
enum sapwood_set_operation {
	SAPWOOD_SET_UNION = 1,               /* the addresses of either */
	SAPWOOD_SET_INTERSECTION = 2,        /* the addresses of both */
	SAPWOOD_SET_DIFFERENCE = 3, /* the addresses of the first that the second does not have */
	SAPWOOD_SET_SYMMETRIC_DIFFERENCE = 4 /* the addresses of one of them only */
};

/* Makes a new set of two; or of all addresses that a set does not have. O(n). */
int sapwood_ip_set_combine(const sapwood_ip_set *set, int operation, const sapwood_ip_set *other,
			   sapwood_ip_set **out);
int sapwood_ip_set_complement(const sapwood_ip_set *set, sapwood_ip_set **out);

/*
 * Returns 1 if both have the same addresses, or if all addresses of `set` are in `other`,
 * otherwise 0. O(n).
 */
int sapwood_ip_set_equal(const sapwood_ip_set *set, const sapwood_ip_set *other);
int sapwood_ip_set_is_subset(const sapwood_ip_set *set, const sapwood_ip_set *other);

/* The number of ranges that do not touch each other; 0: the set is empty. O(1). */
int sapwood_ip_set_ranges(const sapwood_ip_set *set, size_t *count);

/*
 * Is called with prefixes or ranges in order, IPv4 first. It returns 0 to go on; another
 * number ends the walk.
 */
typedef int (*sapwood_ip_set_fn)(const sapwood_prefix *prefix, void *ctx);
typedef int (*sapwood_ip_set_range_fn)(const uint8_t *first, const uint8_t *last, size_t addr_len, void *ctx);

/*
 * Calls each(...) with the fewest prefixes of the set, or with its ranges, and returns 0 or
 * what `each` returned. O(n).
 */
int sapwood_ip_set_each(const sapwood_ip_set *set, sapwood_ip_set_fn each, void *ctx);
int sapwood_ip_set_each_range(const sapwood_ip_set *set, sapwood_ip_set_range_fn each, void *ctx);

/*
 * A saved table of routes, read where it lies. The program `sapwood`, the Python package, and
 * the snapshots of sapwood_fib and of sapwood_routes save such files. Its next hops may have
 * names; of one whose next hops are numbers, sapwood_fib_open makes a table, and of one with
 * groups of numbers sapwood_routes_open.
 */
typedef struct sapwood_fib_file sapwood_fib_file;

/* What a prefix leads to. */
enum sapwood_hop_kind {
	SAPWOOD_HOP_NUMBER = 1, /* a next hop by number */
	SAPWOOD_HOP_NAME = 2,   /* a next hop by name, which may be empty */
	SAPWOOD_HOP_BYTES = 3,  /* a next hop of more than 8 bytes */
	SAPWOOD_HOP_NULL = 4,   /* a null route */
	SAPWOOD_HOP_GROUP = 5   /* a group of next hops */
};

/* A next hop. Name and bytes lie in the file until it is freed, without a zero behind them. */
typedef struct sapwood_hop {
	int kind;              /* enum sapwood_hop_kind */
	unsigned int reserved; /* 0 */
	/* of a null route: 0 blackhole, 1 unreachable, 2 prohibit, 3 throw; of a group: members */
	uint64_t number;
	sapwood_bytes bytes;   /* the name, or the bytes */
} sapwood_hop;

/*
 * Maps a saved table into memory. Each step in it is checked, so a damaged file gives wrong
 * answers at worst. -EPROTO: it is damaged, of another kind, or of an earlier version; the
 * message says which. O(bytes); O(1) with SAPWOOD_UNVERIFIED. The file may be replaced by a
 * rename, but not be changed or cut.
 */
int sapwood_fib_file_open(const char *path, unsigned int flags, sapwood_fib_file **out);

/* Any thread. What they give is valid until sapwood_fib_file_free. */
void sapwood_fib_file_free(sapwood_fib_file *file);
int sapwood_fib_file_len(const sapwood_fib_file *file, size_t *len);

/*
 * The longest (prefix) of an address, or exactly this one, and what it leads to. prefix and
 * hop may be NULL. -ENOENT: there is none.
 */
int sapwood_fib_file_lookup(const sapwood_fib_file *file, const void *addr, size_t addr_len,
			    sapwood_prefix *prefix, sapwood_hop *hop);
int sapwood_fib_file_get(const sapwood_fib_file *file, const sapwood_prefix *prefix,
			 sapwood_hop *hop);

/*
 * Is called with routes in order, IPv4 first. It returns 0 to go on; another number ends the
 * walk.
 */
typedef int (*sapwood_fib_file_fn)(const sapwood_prefix *prefix, const sapwood_hop *hop, void *ctx);

/* Calls each(prefix, hop, ctx) with all routes, and returns 0 or what `each` returned. O(n). */
int sapwood_fib_file_each(const sapwood_fib_file *file, sapwood_fib_file_fn each, void *ctx);

/* Checks everything. -EPROTO: the file is damaged; the message says where. O(bytes). */
int sapwood_fib_file_verify(const sapwood_fib_file *file);

/*
 * A table of routes: the longest prefix chooses a group of next hops, and the hash of the flow
 * chooses one of them by weight. When a next hop goes, only its flows move.
 */
typedef struct sapwood_routes sapwood_routes;

/* Why the packets of a prefix go nowhere. */
enum sapwood_null_route {
	SAPWOOD_BLACKHOLE = 1,   /* they are dropped without a reply */
	SAPWOOD_UNREACHABLE = 2, /* their sender is told that the destination cannot be reached */
	SAPWOOD_PROHIBIT = 3,    /* their sender is told that the way is forbidden */
	SAPWOOD_THROW = 4        /* the search goes on in the next table */
};

/* A member of a group; or, as the only one of a list, a null route. */
typedef struct sapwood_member {
	uint64_t hop;        /* the next hop, a number of the caller */
	uint32_t weight;     /* its share, relative to the others; 0: it gets no flow */
	uint32_t null_route; /* enum sapwood_null_route, with 0 for hop and weight; 0: a next hop */
} sapwood_member;

/* sapwood_fib_options, for sapwood_routes: packets whose prefix has a group of which no member has a weight follow the longest shorter prefix that has a null route or a weight. Without it, they have no next hop. */
#define SAPWOOD_COVER_VOID 4096u

/* As the functions of sapwood_fib of these names. */
int sapwood_routes_new(const sapwood_domain *domain, const sapwood_fib_options *options,
		       sapwood_routes **out);
int sapwood_routes_open(const sapwood_domain *domain, const sapwood_fib_options *options,
			const char *path, sapwood_routes **out);
void sapwood_routes_free(sapwood_routes *routes);

/*
 * Inserts a prefix with a group, or replaces its group. Returns 1 if it is new, 0 if it was
 * there. Equal groups share memory. A group without members, or of weight 0, matches and has
 * no next hop.
 */
int sapwood_routes_insert(sapwood_routes *routes, const sapwood_prefix *prefix,
			  const sapwood_member *members, size_t count);

/* Removes a prefix. -ENOENT: it is not there. */
int sapwood_routes_remove(sapwood_routes *routes, const sapwood_prefix *prefix);

/*
 * Stores the members of the group of exactly this prefix, at most `room` of them, and the
 * (count) of all. -ENOENT: the prefix is not there. Waits for an open transaction.
 */
int sapwood_routes_get(const sapwood_routes *routes, const sapwood_prefix *prefix,
		       sapwood_member *members, size_t room, size_t *count);

/*
 * The next hop of a flow to an address of 4 or 16 bytes in network order. -ENOENT: no prefix
 * has it, or its group has no next hop, or it has a null route.
 */
int sapwood_routes_lookup(const sapwood_routes *routes, const sapwood_reader *reader,
			  const void *addr, size_t addr_len, uint64_t flow, uint64_t *hop);

/*
 * What becomes of a packet. Returns 0 with its next hop (hop); a positive number, enum
 * sapwood_null_route, when it meets a null route; -ENETDOWN: its prefix has a group of which
 * no member has a weight; -ENOENT: no prefix has the address. After -ENOENT and SAPWOOD_THROW,
 * callers with several tables go on in the next one. (matched) becomes the prefix that was
 * used; it may be NULL.
 */
int sapwood_routes_decide(const sapwood_routes *routes, const sapwood_reader *reader,
			  const void *addr, size_t addr_len, uint64_t flow,
			  sapwood_prefix *matched, uint64_t *hop);

/*
 * Stores all prefixes of an address, shortest first, at most `room` of them, and the (count)
 * of all.
 */
int sapwood_routes_matches(const sapwood_routes *routes, const sapwood_reader *reader,
			   const void *addr, size_t addr_len, sapwood_prefix *prefixes,
			   size_t room, size_t *count);

/*
 * Stores the prefixes whose groups have no member with a weight and are no null routes, such
 * as those whose members were all removed: as sapwood_routes_matches. O(prefixes).
 */
int sapwood_routes_emptied(const sapwood_routes *routes, sapwood_prefix *prefixes, size_t room,
			   size_t *count);

/* The group of the longest prefix of an address, as sapwood_routes_get stores it. */
int sapwood_routes_group(const sapwood_routes *routes, const sapwood_reader *reader,
			 const void *addr, size_t addr_len, sapwood_member *members, size_t room,
			 size_t *count);

/* The next hops of many flows, as sapwood_fib_lookup4_bulk: `flows[i]` goes to `addrs[i]`. */
int sapwood_routes_lookup4_bulk(const sapwood_routes *routes, const sapwood_reader *reader,
				const uint32_t *addrs, const uint64_t *flows, size_t count,
				uint64_t none, uint64_t *hops);
int sapwood_routes_lookup6_bulk(const sapwood_routes *routes, const sapwood_reader *reader,
				const uint8_t *addrs, const uint64_t *flows, size_t count,
				uint64_t none, uint64_t *hops);

/*
 * Removes a next hop from every group that has it, or changes its weight there, or replaces a
 * group by another one. One store for each group, however many prefixes use it. Returns how
 * many prefixes use these groups. They cannot fail for want of memory limits.
 */
int sapwood_routes_remove_member(sapwood_routes *routes, uint64_t hop);
int sapwood_routes_set_weight(sapwood_routes *routes, uint64_t hop, uint32_t weight);
int sapwood_routes_replace_group(sapwood_routes *routes, const sapwood_member *old_members,
				 size_t old_count, const sapwood_member *new_members,
				 size_t new_count);

/* The number of prefixes (len) and of different groups (groups). */
int sapwood_routes_len(const sapwood_routes *routes, size_t *len, size_t *groups);

/* As the functions of sapwood_fib. */
int sapwood_routes_memory(const sapwood_routes *routes, size_t *bytes);
int sapwood_routes_reclaim(sapwood_routes *routes, size_t budget);
int sapwood_routes_verify(const sapwood_routes *routes);

/* Transactions, as those of sapwood_fib. */
typedef struct sapwood_routes_txn sapwood_routes_txn;
int sapwood_routes_begin(sapwood_routes *routes, sapwood_routes_txn **out);
int sapwood_routes_try_begin(sapwood_routes *routes, sapwood_routes_txn **out);
int sapwood_routes_txn_insert(sapwood_routes_txn *txn, const sapwood_prefix *prefix,
			      const sapwood_member *members, size_t count);
int sapwood_routes_txn_remove(sapwood_routes_txn *txn, const sapwood_prefix *prefix);
int sapwood_routes_txn_commit(sapwood_routes_txn *txn);
int sapwood_routes_txn_rollback(sapwood_routes_txn *txn);

/* Snapshots and walks, as those of sapwood_fib. */
typedef struct sapwood_routes_snapshot sapwood_routes_snapshot;
int sapwood_routes_snapshot_new(const sapwood_routes *routes, sapwood_routes_snapshot **out);
void sapwood_routes_snapshot_free(sapwood_routes_snapshot *snapshot);
int sapwood_routes_snapshot_group(const sapwood_routes_snapshot *snapshot, const void *addr,
				  size_t addr_len, sapwood_member *members, size_t room,
				  size_t *count);
int sapwood_routes_snapshot_len(const sapwood_routes_snapshot *snapshot, size_t *len);
int sapwood_routes_snapshot_save(const sapwood_routes_snapshot *snapshot, const char *path);
typedef struct sapwood_routes_iter sapwood_routes_iter;
int sapwood_routes_iter_new(const sapwood_routes_snapshot *snapshot, sapwood_routes_iter **out);
int sapwood_routes_iter_next(sapwood_routes_iter *iter, sapwood_prefix *prefix,
			     sapwood_member *members, size_t room, size_t *count);
void sapwood_routes_iter_free(sapwood_routes_iter *iter);

/* What a packet's flow is known by. */
typedef struct sapwood_flow {
	uint8_t source[16];        /* in network order */
	uint8_t destination[16];   /* in network order */
	uint8_t addr_len;          /* 4 or 16, of both */
	uint8_t protocol;          /* the IP protocol number */
	uint16_t source_port;      /* in the host's order; 0 where there is none */
	uint16_t destination_port; /* the same */
	uint16_t reserved;         /* 0 */
} sapwood_flow;

#define SAPWOOD_SYMMETRIC 1u /* the same hash in both directions */

/*
 * The hash of a flow, the same on every machine and in programs of eBPF. Without the seed,
 * nobody can choose packets that all take one path. Any thread. O(1).
 */
int sapwood_flow_hash(uint64_t seed, const sapwood_flow *flow, unsigned int flags, uint64_t *hash);

/*
 * A cache of a slow resolver's answers, such as next hops, in memory that is all taken at the
 * beginning. Keys have at most 31 bytes (-E2BIG), values are numbers. The caller gives the
 * time in nanoseconds of a monotonic clock. Readers take no lock, and need no sapwood_reader.
 */
typedef struct sapwood_cache sapwood_cache;

#define SAPWOOD_SINGLE_FLIGHT 4u /* caches: one thread at a time resolves a key, others wait */

typedef struct sapwood_cache_options {
	size_t size;          /* sizeof(struct sapwood_cache_options) */
	unsigned int flags;   /* SAPWOOD_CHECKED, SAPWOOD_SINGLE_FLIGHT */
	unsigned int threads; /* with counters of their own; 0: as many as processors */
	size_t capacity;      /* the most entries; 0: 8,192 */
	uint64_t fresh_ns;    /* for how long an answer is returned; 0: 100 ms; 2^61 at most */
	uint64_t keep_ns;     /* after which a sweep removes it; 0: 1 s */
	uint64_t negative_ns; /* for how long a failure is remembered; 0: it is not */
} sapwood_cache_options;

/* Makes a cache with all of its memory. */
int sapwood_cache_new(const sapwood_cache_options *options, sapwood_cache **out);

/* Frees a cache. One thread at a time. */
void sapwood_cache_free(sapwood_cache *cache);

/*
 * Stores the fresh value of a key. -ENOENT: there is none. -ENODATA: the resolver failed less
 * than negative_ns ago. O(1).
 */
int sapwood_cache_get(const sapwood_cache *cache, const void *key, size_t key_len, uint64_t now_ns,
		      uint64_t *value);

/* Stores a value of the time now_ns. Resolvers that run now do not replace it. O(1). */
int sapwood_cache_put(const sapwood_cache *cache, const void *key, size_t key_len, uint64_t now_ns,
		      uint64_t value);

/* Finds the value of a key: stores it in *value and returns 0, or returns -errno. */
typedef int (*sapwood_resolve_fn)(const void *key, size_t key_len, uint64_t *value, void *ctx);

/*
 * Stores the fresh value of a key or else the resolver's, which goes into the cache. now_ns is
 * read before the call. No lock is held while the resolver runs, except that with
 * SAPWOOD_SINGLE_FLIGHT others who ask for its key wait. Returns what the resolver returned
 * when it failed, or -ENODATA as sapwood_cache_get.
 */
int sapwood_cache_resolve(const sapwood_cache *cache, const void *key, size_t key_len,
			  uint64_t now_ns, sapwood_resolve_fn resolve, void *ctx, uint64_t *value);

/*
 * Removes a key. -ENOENT: it was not there. Resolvers that run for it do not store their
 * answers.
 */
int sapwood_cache_invalidate(const sapwood_cache *cache, const void *key, size_t key_len);

/* Removes everything. O(1). */
int sapwood_cache_invalidate_all(const sapwood_cache *cache);

/* Removes entries older than keep_ns, of about `budget` slots; returns how many it removed. */
int sapwood_cache_sweep(const sapwood_cache *cache, uint64_t now_ns, size_t budget);

/* Counters since the cache was made. They are exact while nobody uses the cache. */
typedef struct sapwood_cache_stats {
	size_t size;          /* sizeof(struct sapwood_cache_stats) */
	size_t occupancy;     /* slots that are taken now */
	size_t capacity;      /* all slots */
	size_t bytes;         /* that the cache took when it was made */
	uint64_t hit;         /* lookups that it answered, failures that it remembers among them */
	uint64_t miss;        /* lookups that it did not answer */
	uint64_t refresh;     /* entries written again in their slot */
	uint64_t insert;      /* entries inserted */
	uint64_t evict;       /* entries evicted for others */
	uint64_t full;        /* of these, younger than keep_ns: the cache is too small */
	uint64_t stale;       /* misses that found an entry which was too old */
	uint64_t negative;    /* hits that found a failure */
	uint64_t error;       /* resolvers that failed */
	uint64_t swept;       /* entries that a sweep removed for their age */
	uint64_t invalidated; /* entries that were invalidated */
	uint64_t overtaken;   /* answers that were returned but not stored */
	uint64_t busy;        /* answers that were not stored because others wrote */
	uint64_t clock_back;  /* how often a thread's clock stepped back */
} sapwood_cache_stats;

/* Stores the counters; the caller has set stats->size. O(slots). */
int sapwood_cache_stats_get(const sapwood_cache *cache, sapwood_cache_stats *stats);

/* Checks the invariants while nobody uses the cache, for tests. -EUCLEAN: one does not hold. */
int sapwood_cache_verify(const sapwood_cache *cache);

/* ---- Ranges ---------------------------------------------------------------------------------- */

/*
 * A map from ranges of 64-bit numbers to numbers, and the gaps between them: for allocators of
 * addresses, ports and identifiers. Entries do not overlap; their bounds are inclusive. What
 * the part on routes says of its tables holds here, too.
 */
typedef struct sapwood_ranges sapwood_ranges;

typedef struct sapwood_ranges_options {
	size_t size;           /* sizeof(struct sapwood_ranges_options) */
	unsigned int flags;    /* SAPWOOD_CHECKED */
	unsigned int reserved; /* 0 */
	size_t memory_limit;   /* in bytes; 0: none */
} sapwood_ranges_options;

/* An entry. */
typedef struct sapwood_range {
	uint64_t start;
	uint64_t end; /* the last index */
	uint64_t value;
} sapwood_range;

#define SAPWOOD_FROM_END 1u /* windows: the highest place, not the lowest */
#define SAPWOOD_NEAR 2u /* windows: first places from `near` on; with SAPWOOD_FROM_END, up to it */
#define SAPWOOD_TIGHTEST 4u /* windows: a place in the smallest gap that has one (best fit) */
/* windows: the place that begins nearest to `near`, on either side; without the first two */
#define SAPWOOD_NEAREST 8u

/*
 * Where a search looks for a gap, and which it takes: the lowest that fits, unless flags say
 * else.
 */
typedef struct sapwood_window {
	size_t size;           /* sizeof(struct sapwood_window) */
	uint64_t start;
	uint64_t end;          /* the last index */
	uint64_t align;        /* a power of two; places begin at multiples of it. 0: 1 */
	uint64_t modulus;      /* places begin at indices that leave `rest`; 0: any. Without align */
	uint64_t rest;
	uint64_t guard;        /* indices that are free on each side of a place */
	uint64_t near;
	unsigned int flags;    /* SAPWOOD_FROM_END, SAPWOOD_NEAR, SAPWOOD_TIGHTEST, SAPWOOD_NEAREST */
	unsigned int reserved; /* 0 */
} sapwood_window;

/* Makes an empty map. domain may be NULL for one of its own. O(1). */
int sapwood_ranges_new(const sapwood_domain *domain, const sapwood_ranges_options *options,
		       sapwood_ranges **out);

/*
 * Loads a map from a file whose values are numbers. -EPROTO: it is damaged, or has strings.
 * O(n log n).
 */
int sapwood_ranges_open(const sapwood_domain *domain, const sapwood_ranges_options *options,
			const char *path, sapwood_ranges **out);

/* Frees the handle. Transactions, reservations and snapshots may stay. One thread at a time. */
void sapwood_ranges_free(sapwood_ranges *ranges);

/* Is called with entries in order. It returns 0 to go on; another number ends the walk. */
typedef int (*sapwood_range_fn)(const sapwood_range *entry, void *ctx);

/*
 * Is called with the parts of entries that lie in a range, in order, and sets *value, which is
 * the part's own, to the new one. It returns 0 to go on; after another number, nothing is
 * changed.
 */
typedef int (*sapwood_range_modify_fn)(const sapwood_range *part, uint64_t *value, void *ctx);

/*
 * Makes a range one entry. Entries that it overlaps keep the indices outside. -ERANGE: it
 * is empty. This and all changes: O(log n), and O(entries that are covered).
 */
int sapwood_ranges_store(sapwood_ranges *ranges, uint64_t start, uint64_t end, uint64_t value);

/*
 * The same, and joins neighbours that touch and have the same value; (entry) is the whole
 * entry.
 */
int sapwood_ranges_store_coalescing(sapwood_ranges *ranges, uint64_t start, uint64_t end,
				    uint64_t value, sapwood_range *entry);

/* The same as sapwood_ranges_store if no entry is in the way. -EEXIST: one is. */
int sapwood_ranges_insert_new(sapwood_ranges *ranges, uint64_t start, uint64_t end,
			      uint64_t value);

/* Removes the whole entry that holds an index: (old). -ENOENT: there is none. */
int sapwood_ranges_remove(sapwood_ranges *ranges, uint64_t index, sapwood_range *old);

/*
 * Makes a range a gap. Entries that it overlaps keep the indices outside. -ERANGE: it is
 * empty.
 */
int sapwood_ranges_clear(sapwood_ranges *ranges, uint64_t start, uint64_t end);

/*
 * As sapwood_ranges_clear and sapwood_ranges_store. When that is done, they call
 * each(entry, ctx) with what was in the range: entries, and the parts of those that it
 * cuts. They return 0, or what `each` returned, which then is told no more; the change
 * stays. `each` may use the map. A failure changes nothing, and tells nothing.
 */
int sapwood_ranges_take(sapwood_ranges *ranges, uint64_t start, uint64_t end,
			sapwood_range_fn each, void *ctx);
int sapwood_ranges_replace(sapwood_ranges *ranges, uint64_t start, uint64_t end, uint64_t value,
			   sapwood_range_fn each, void *ctx);

/*
 * Calls modify(part, value, ctx) with the parts of entries in a range, and then gives them
 * the values that it chose. Neighbours that touch and are then equal are joined. Readers
 * see all of it, or nothing. Returns 0, or what `modify` returned: then nothing has
 * changed. `modify` may read the map; its changes are -EDEADLK. -ERANGE: the range is
 * empty. O(parts * log n).
 */
int sapwood_ranges_modify(sapwood_ranges *ranges, uint64_t start, uint64_t end,
			  sapwood_range_modify_fn modify, void *ctx);

/*
 * Moves what is in a range, entries and gaps, to the range of the same length that begins
 * at `to`; what was there is cleared. They may overlap. Readers see all of it, or nothing.
 * -ERANGE: the range is empty, or would end beyond the highest index. O(parts * log n).
 */
int sapwood_ranges_move(sapwood_ranges *ranges, uint64_t start, uint64_t end, uint64_t to);

/*
 * Stores at the lowest `size` indices of a window that no entry has, or where the window
 * chooses, and stores their *start. window may be NULL for all indices. -ENOSPC: no gap
 * has room. -ERANGE: the window is too small. -EINVAL: size is 0, align is no power of
 * two, or the window asks for what excludes each other.
 */
int sapwood_ranges_alloc(sapwood_ranges *ranges, uint64_t size, const sapwood_window *window,
			 uint64_t value, uint64_t *start);

/* As the functions of sapwood_fib. */
int sapwood_ranges_len(const sapwood_ranges *ranges, size_t *len);
int sapwood_ranges_memory(const sapwood_ranges *ranges, size_t *bytes);
int sapwood_ranges_reclaim(sapwood_ranges *ranges, size_t budget);
int sapwood_ranges_verify(const sapwood_ranges *ranges);

/* The value at an index. -ENOENT: it lies in a gap. With a reader: its thread. O(log n). */
int sapwood_ranges_get(const sapwood_ranges *ranges, const sapwood_reader *reader, uint64_t index,
		       uint64_t *value);

/* The (entry) that holds an index. -ENOENT as above. */
int sapwood_ranges_get_entry(const sapwood_ranges *ranges, const sapwood_reader *reader,
			     uint64_t index, sapwood_range *entry);

/*
 * The first (entry) that has an index from `from` on, or the last that has one up to `to`; the
 * entry is whole. -ENOENT: there is none. A walk goes on at entry.end + 1, or entry.start - 1.
 */
int sapwood_ranges_next(const sapwood_ranges *ranges, const sapwood_reader *reader, uint64_t from,
			sapwood_range *entry);
int sapwood_ranges_prev(const sapwood_ranges *ranges, const sapwood_reader *reader, uint64_t to,
			sapwood_range *entry);

/*
 * Calls each(entry, ctx) with the entries that have an index in a range, and returns 0 or what
 * `each` returned. The quickest walk. Garbage is held back meanwhile. O(log n + entries).
 */
int sapwood_ranges_each(const sapwood_ranges *ranges, const sapwood_reader *reader, uint64_t start,
			uint64_t end, sapwood_range_fn each, void *ctx);

/*
 * The *start of a gap for `size` indices, as sapwood_ranges_alloc finds it. -ENOSPC: none
 * fits.
 */
int sapwood_ranges_find_gap(const sapwood_ranges *ranges, const sapwood_reader *reader,
			    uint64_t size, const sapwood_window *window, uint64_t *start);

/* The first gap within a range, cut to it: (start), (end). -ENOENT: there is none. */
int sapwood_ranges_next_gap(const sapwood_ranges *ranges, const sapwood_reader *reader,
			    uint64_t from, uint64_t to, uint64_t *start, uint64_t *end);

/*
 * How many (indices) entries have: the sum of their lengths; 2^64 is told as one less.
 * O(entries).
 */
int sapwood_ranges_covered(const sapwood_ranges *ranges, const sapwood_reader *reader,
			   uint64_t *indices);

/*
 * A transaction: nobody else sees its changes before they are committed. It stays on its
 * thread. It is also a reservation of many changes: each can fail, and the commit cannot.
 */
typedef struct sapwood_ranges_txn sapwood_ranges_txn;

/*
 * Begins a transaction, after waiting for that of another thread, or its reservation. It
 * belongs to the thread that began it, which ends it by a commit or a rollback. Until then
 * that thread changes the map through the transaction: -EDEADLK. sapwood_ranges_try_begin does
 * not wait: -EBUSY.
 */
int sapwood_ranges_begin(sapwood_ranges *ranges, sapwood_ranges_txn **out);
int sapwood_ranges_try_begin(sapwood_ranges *ranges, sapwood_ranges_txn **out);

/*
 * As the functions of the map. Its thread. A change that fails leaves the transaction as
 * it was; of one that modifies or moves, a part may be made when memory fails, so roll
 * back. -EBUSY: a function runs that the transaction was given to walk over it or to
 * modify it; such a function may only read it.
 */
int sapwood_ranges_txn_store(sapwood_ranges_txn *txn, uint64_t start, uint64_t end,
			     uint64_t value);
int sapwood_ranges_txn_store_coalescing(sapwood_ranges_txn *txn, uint64_t start, uint64_t end,
					uint64_t value, sapwood_range *entry);
int sapwood_ranges_txn_insert_new(sapwood_ranges_txn *txn, uint64_t start, uint64_t end,
				  uint64_t value);
int sapwood_ranges_txn_remove(sapwood_ranges_txn *txn, uint64_t index, sapwood_range *old);
int sapwood_ranges_txn_clear(sapwood_ranges_txn *txn, uint64_t start, uint64_t end);
int sapwood_ranges_txn_take(sapwood_ranges_txn *txn, uint64_t start, uint64_t end,
			    sapwood_range_fn each, void *ctx);
int sapwood_ranges_txn_replace(sapwood_ranges_txn *txn, uint64_t start, uint64_t end,
			       uint64_t value, sapwood_range_fn each, void *ctx);
int sapwood_ranges_txn_modify(sapwood_ranges_txn *txn, uint64_t start, uint64_t end,
			      sapwood_range_modify_fn modify, void *ctx);
int sapwood_ranges_txn_move(sapwood_ranges_txn *txn, uint64_t start, uint64_t end, uint64_t to);
int sapwood_ranges_txn_alloc(sapwood_ranges_txn *txn, uint64_t size, const sapwood_window *window,
			     uint64_t value, uint64_t *start);

/* Read what the transaction has made of the map. Its thread. */
int sapwood_ranges_txn_get(const sapwood_ranges_txn *txn, uint64_t index, uint64_t *value);
int sapwood_ranges_txn_next(const sapwood_ranges_txn *txn, uint64_t from, sapwood_range *entry);
int sapwood_ranges_txn_each(const sapwood_ranges_txn *txn, uint64_t start, uint64_t end,
			    sapwood_range_fn each, void *ctx);
int sapwood_ranges_txn_find_gap(const sapwood_ranges_txn *txn, uint64_t size,
				const sapwood_window *window, uint64_t *start);
int sapwood_ranges_txn_len(const sapwood_ranges_txn *txn, size_t *len);
int sapwood_ranges_txn_covered(const sapwood_ranges_txn *txn, uint64_t *indices);

/*
 * Publishes all changes with one store, and frees the handle. It takes no memory, and cannot
 * fail on its thread. O(nodes that were made and replaced).
 */
int sapwood_ranges_txn_commit(sapwood_ranges_txn *txn);

/* Discards all changes, and frees the handle. NULL does nothing. Its thread. */
int sapwood_ranges_txn_rollback(sapwood_ranges_txn *txn);

/* Snapshots, as those of sapwood_fib; their functions are as those of the map. */
typedef struct sapwood_ranges_snapshot sapwood_ranges_snapshot;
int sapwood_ranges_snapshot_new(const sapwood_ranges *ranges, sapwood_ranges_snapshot **out);
void sapwood_ranges_snapshot_free(sapwood_ranges_snapshot *snapshot);
int sapwood_ranges_snapshot_get(const sapwood_ranges_snapshot *snapshot, uint64_t index,
				uint64_t *value);
int sapwood_ranges_snapshot_next(const sapwood_ranges_snapshot *snapshot, uint64_t from,
				 sapwood_range *entry);
int sapwood_ranges_snapshot_each(const sapwood_ranges_snapshot *snapshot, uint64_t start,
				 uint64_t end, sapwood_range_fn each, void *ctx);
int sapwood_ranges_snapshot_find_gap(const sapwood_ranges_snapshot *snapshot, uint64_t size,
				     const sapwood_window *window, uint64_t *start);
int sapwood_ranges_snapshot_len(const sapwood_ranges_snapshot *snapshot, size_t *len);
int sapwood_ranges_snapshot_covered(const sapwood_ranges_snapshot *snapshot, uint64_t *indices);
int sapwood_ranges_snapshot_save(const sapwood_ranges_snapshot *snapshot, const char *path);

/* A part of the indices whose values differ in two snapshots. */
typedef struct sapwood_range_change {
	size_t size;
	int kind;              /* enum sapwood_change_kind */
	unsigned int reserved; /* 0 */
	uint64_t start;
	uint64_t end;          /* the last index */
	uint64_t old_value;    /* 0 if added */
	uint64_t new_value;    /* 0 if removed */
} sapwood_range_change;

/* Returns 0 to go on; anything else ends the walk. */
typedef int (*sapwood_range_change_fn)(const sapwood_range_change *change, void *ctx);

/*
 * Calls each(change, ctx) with the parts whose values differ in two snapshots, in order. A
 * part lies in one entry or one gap of each. Returns 0, or what ended the walk. The snapshots
 * may be of two maps. O(entries of both).
 */
int sapwood_ranges_snapshot_diff(const sapwood_ranges_snapshot *before,
				 const sapwood_ranges_snapshot *after,
				 sapwood_range_change_fn each, void *ctx);

/* A plan: what a change would need of memory. It holds nothing. */
typedef struct sapwood_ranges_plan sapwood_ranges_plan;

/* Plan what the functions of the map without plan_ do, with their failures. */
int sapwood_ranges_plan_store(const sapwood_ranges *ranges, uint64_t start, uint64_t end,
			      sapwood_ranges_plan **out);
int sapwood_ranges_plan_insert_new(const sapwood_ranges *ranges, uint64_t start, uint64_t end,
				   sapwood_ranges_plan **out);
int sapwood_ranges_plan_alloc(const sapwood_ranges *ranges, uint64_t size,
			      const sapwood_window *window, sapwood_ranges_plan **out);
int sapwood_ranges_plan_clear(const sapwood_ranges *ranges, uint64_t start, uint64_t end,
			      sapwood_ranges_plan **out);
int sapwood_ranges_plan_remove(const sapwood_ranges *ranges, uint64_t index,
			       sapwood_ranges_plan **out);

/* The (nodes) and (bytes) that the planned change makes, if the map stays as it is until then. */
int sapwood_ranges_plan_cost(const sapwood_ranges_plan *plan, size_t *nodes, size_t *bytes);

/*
 * Lets a plan keep its range: if somebody has stored there when it is reserved, that fails
 * with -EEXIST. A plan of sapwood_ranges_plan_alloc would search another place, one of
 * sapwood_ranges_plan_store would store over it; sapwood_ranges_plan_insert_new plans so.
 * -ENOTSUP: the plan is for a removal. One thread at a time. O(1).
 */
int sapwood_ranges_plan_if_free(sapwood_ranges_plan *plan);

/* Frees a plan. */
void sapwood_ranges_plan_free(sapwood_ranges_plan *plan);

/* The memory of a planned change, and the map's lock. It stays on its thread. */
typedef struct sapwood_ranges_reservation sapwood_ranges_reservation;

/*
 * Takes the memory of a plan, and the map's lock: this is the only step that can fail. The
 * plan stays the caller's. If the map was changed since, it is planned anew. -ENOSPC: the gap
 * has gone. -EEXIST: the plan keeps its range, and an entry is in the way. Other threads that
 * change the map wait until the reservation ends.
 */
int sapwood_ranges_reserve(sapwood_ranges *ranges, const sapwood_ranges_plan *plan,
			   sapwood_ranges_reservation **out);

/* The range that will be filled: (start), (end). -ENOTSUP: it is for a removal. Its thread. */
int sapwood_ranges_reservation_range(const sapwood_ranges_reservation *reservation,
				     uint64_t *start, uint64_t *end);

/* Store, or remove, and free the handle. They take no memory. -ENOTSUP: it is for the other. */
int sapwood_ranges_reservation_store(sapwood_ranges_reservation *reservation, uint64_t value);
int sapwood_ranges_reservation_erase(sapwood_ranges_reservation *reservation);

/* Gives the memory and the lock back without a change. Its thread. */
void sapwood_ranges_reservation_free(sapwood_ranges_reservation *reservation);

/*
 * The most memory that some changes may need, wherever they will be. It does not hold the
 * lock; one thread at a time uses it. Its changes cannot fail for want of memory. -ENOBUFS:
 * all are made.
 */
typedef struct sapwood_ranges_later sapwood_ranges_later;
int sapwood_ranges_reserve_later(sapwood_ranges *ranges, size_t changes,
				 sapwood_ranges_later **out);
int sapwood_ranges_later_store(sapwood_ranges_later *later, uint64_t start, uint64_t end,
			       uint64_t value);
int sapwood_ranges_later_alloc(sapwood_ranges_later *later, uint64_t size,
			       const sapwood_window *window, uint64_t value, uint64_t *start);
int sapwood_ranges_later_clear(sapwood_ranges_later *later, uint64_t start, uint64_t end);
int sapwood_ranges_later_left(const sapwood_ranges_later *later, size_t *changes);
void sapwood_ranges_later_free(sapwood_ranges_later *later);

/* ---- Live maps ------------------------------------------------------------------------------- */

/*
 * A live map is a directory, for example in /dev/shm: one process writes it, and any number of
 * others read it in place, without locks and without system calls. Linux. docs/live.md has the
 * protocol.
 *
 * Failures of the functions that make or open:
 *   -EEXIST  the directory has a live map already    -EBUSY   another process writes it
 *   -ENOENT  there is no live map, or not yet     -EACCES  others can write it, see below
 *   -EPROTO  it is damaged, another structure, or has other values
 *   -ENOSPC  the file system is full: nothing is left behind, and a map stays as it was
 * and those of the system. The message names the file. A change of a map that needs more
 * memory than the file system has fails with -ENOSPC, too, and changes nothing. Whoever comes
 * before the writer gets -ENOENT, and may wait: sapwood_live_reader_open_within. A map is
 * there whole or not at all.
 */

/* Writers. A live map in the directory of this process, beside the handle of its structure. */
typedef struct sapwood_live sapwood_live;

typedef struct sapwood_live_options {
	size_t size;                          /* sizeof(struct sapwood_live_options) */
	const sapwood_domain_options *domain; /* of the domain that it gets; NULL: the defaults */
	uint64_t evict_after_ms; /* how long it waits for readers that check; 0: for ever */
	uint32_t read_by; /* enum sapwood_live_read_by: who may register as a reader */
	uint32_t group;                       /* the number of the group of SAPWOOD_LIVE_BY_GROUP */
} sapwood_live_options;

/* Who may register as a reader, beside root. It sets the modes of the directory and its files. */
enum sapwood_live_read_by {
	SAPWOOD_LIVE_AS_IS = 0, /* of a new map the owner; one that is taken over keeps its modes */
	SAPWOOD_LIVE_BY_OWNER = 1,
	SAPWOOD_LIVE_BY_GROUP = 2, /* nobody else may read it then */
	SAPWOOD_LIVE_BY_ALL = 3
};

/*
 * Makes an empty live map, and its directory if that is not there. *out is an ordinary
 * handle: all functions of its type work. Readers of this process belong to the domain of
 * sapwood_live_domain, so options->domain is NULL. Values are numbers or bytes: -EINVAL for
 * pointers. memory_limit is that of each part, at most 8 GiB; a fib has two parts of at most 1
 * GiB. Tables of routes with groups (sapwood_routes) cannot be live: the library for Rust has
 * another type for these. After a failure nothing is left of the map. O(1).
 *
 * This process is the writer until its last handle is freed that belongs to the map: *live,
 * *out, and domains, readers, transactions, reservations and snapshots. Then readers go on
 * with what was written last.
 */
int sapwood_store_live_create(const char *folder, const sapwood_live_options *live_options,
			      const sapwood_options *options, sapwood_live **live,
			      sapwood_store **out);
int sapwood_shared_live_create(const char *folder, const sapwood_live_options *live_options,
			       const sapwood_options *options, sapwood_live **live,
			       sapwood_shared **out);
int sapwood_point_live_create(const char *folder, const sapwood_live_options *live_options,
			      const sapwood_options *options, sapwood_live **live,
			      sapwood_point **out);
int sapwood_fib_live_create(const char *folder, const sapwood_live_options *live_options,
			    const sapwood_fib_options *options, sapwood_live **live,
			    sapwood_fib **out);
int sapwood_ranges_live_create(const char *folder, const sapwood_live_options *live_options,
			       const sapwood_ranges_options *options, sapwood_live **live,
			       sapwood_ranges **out);

/*
 * Takes over the map of a writer that has ended. It checks every node of what the writer left,
 * copies it, and points readers there. A change that had returned is there; one that the
 * writer's death interrupted is there as a whole or not at all, except that a transaction of a
 * fib may be there in part. The copy needs room beside the old map: as much as the entries
 * take. After a failure (-ENOSPC) the map is as it was. O(bytes of the map).
 */
int sapwood_store_live_open(const char *folder, const sapwood_live_options *live_options,
			    const sapwood_options *options, sapwood_live **live,
			    sapwood_store **out);
int sapwood_shared_live_open(const char *folder, const sapwood_live_options *live_options,
			     const sapwood_options *options, sapwood_live **live,
			     sapwood_shared **out);
int sapwood_point_live_open(const char *folder, const sapwood_live_options *live_options,
			    const sapwood_options *options, sapwood_live **live,
			    sapwood_point **out);
int sapwood_fib_live_open(const char *folder, const sapwood_live_options *live_options,
			  const sapwood_fib_options *options, sapwood_live **live,
			  sapwood_fib **out);
int sapwood_ranges_live_open(const char *folder, const sapwood_live_options *live_options,
			     const sapwood_ranges_options *options, sapwood_live **live,
			     sapwood_ranges **out);

/* Frees the handle; the structure's own stays. One thread at a time. */
void sapwood_live_free(sapwood_live *live);

/* Makes a handle of the map's domain, for readers of this process and for stalls. Any thread. */
int sapwood_live_domain(const sapwood_live *live, sapwood_domain **out);

/* Stores how many times processes have taken the map over. Any thread. O(1). */
int sapwood_live_generation(const sapwood_live *live, uint64_t *generation);

#define SAPWOOD_LIVE_HOLDS_BACK 1u /* readers: it has not announced the newest grace period */
/* readers: the writer does not wait for it; quiescent brings it back */
#define SAPWOOD_LIVE_EVICTED 2u

typedef struct sapwood_live_reader_info {
	size_t size;
	const char *name;   /* of its file; valid until the callback returns */
	uint64_t seen;      /* the newest grace period that it has announced; 0: it is offline */
	uint32_t pid;       /* its process, as it says */
	unsigned int flags; /* SAPWOOD_LIVE_HOLDS_BACK, SAPWOOD_LIVE_EVICTED, SAPWOOD_LIVE_CHECKED */
} sapwood_live_reader_info;

typedef void (*sapwood_live_reader_fn)(const sapwood_live_reader_info *info, void *ctx);

/*
 * Calls each(info, ctx) for each living reader in all processes, and returns their number.
 * each may be NULL. Any thread. O(readers).
 */
int sapwood_live_readers(const sapwood_live *live, sapwood_live_reader_fn each, void *ctx);

/*
 * Deletes the directory, and frees the handle, also on failure. Nobody opens the map any more;
 * readers that have it open go on with what was written last. The structure's own handle is
 * freed before or after. One thread at a time.
 */
int sapwood_live_remove(sapwood_live *live);

/*
 * Readers, in any process. A reader belongs to the thread that opened it. The child of a fork
 * opens readers of its own: those of its parent, and the live maps that it writes, are -EPERM
 * there. The child holds the writer's lock, too, until its parent frees the sapwood_live, or
 * the child frees its copy, ends, or calls exec.
 */
typedef struct sapwood_live_reader sapwood_live_reader;

/* The structures that can be live. */
enum sapwood_live_kind {
	SAPWOOD_LIVE_STORE = 1,
	SAPWOOD_LIVE_SHARED = 2,
	SAPWOOD_LIVE_POINT = 3,
	SAPWOOD_LIVE_FIB = 6,
	SAPWOOD_LIVE_RANGES = 8
};

#define SAPWOOD_LIVE_CHECKED 32u /* the reader relies on nothing that lies in the memory */
#define SAPWOOD_LIVE_UNREGISTERED 64u /* and the writer does not know of it */

/*
 * Opens a live map of a structure (enum sapwood_live_kind) with values (enum sapwood_values;
 * SAPWOOD_NUMBERS for tables and ranges). The reader is online. Flags: SAPWOOD_CHECKED, as for
 * sapwood_reader, SAPWOOD_LIVE_CHECKED and SAPWOOD_LIVE_UNREGISTERED:
 *
 *   Without SAPWOOD_LIVE_CHECKED, the reader trusts the memory, and opens only a map that no
 *   other user than root can write: otherwise -EACCES. It gives out what lies in the map, and
 *   copies of the keys of a store (struct sapwood_entry).
 *
 *   With SAPWOOD_LIVE_CHECKED, the reader checks every word and copies what it gives out, so
 *   it may read a map that anybody can write. It has no views, and not the functions of which
 *   that is said. It can be evicted. Its lookups also return -EPROTO: the memory is damaged;
 *   -EAGAIN: changes disturbed each attempt; -ESTALE: it was evicted, and
 *   sapwood_live_reader_quiescent brings it back.
 *
 *   With SAPWOOD_LIVE_UNREGISTERED as well, the reader writes no file, so that it can read a
 *   map on a read-only mount, or one of a user who lets nobody register (-EROFS, -EACCES
 *   otherwise). The writer does not wait for it: it is evicted as soon as the writer uses
 *   memory again.
 */
int sapwood_live_reader_open(const char *folder, int kind, int values, unsigned int flags,
			     sapwood_live_reader **out);

/*
 * The same, which waits up to (wait_ms) milliseconds for a map that is not there yet; then
 * -ENOENT. UINT64_MAX: as long as it takes.
 */
int sapwood_live_reader_open_within(const char *folder, int kind, int values, unsigned int flags,
				    uint64_t wait_ms, sapwood_live_reader **out);

/* The same with a descriptor of the directory, which stays the caller's. */
int sapwood_live_reader_open_at(int folder, int kind, int values, unsigned int flags,
				sapwood_live_reader **out);

/* Ends the reader. Its thread. Nothing that was read with it may be used any more. */
void sapwood_live_reader_free(sapwood_live_reader *reader);

/*
 * As the functions of sapwood_reader. When another process has taken the map over, or the map
 * has grown, the reader maps what there is now; a failure of that is returned, and the reader
 * stays where it was. -ENOENT: the map was removed; a reader that is opened anew finds the one
 * that may have been made in its place. Its thread. O(1), without a system call, unless it
 * moves.
 */
int sapwood_live_reader_quiescent(sapwood_live_reader *reader);
int sapwood_live_reader_offline(sapwood_live_reader *reader);
int sapwood_live_reader_online(sapwood_live_reader *reader);

/* Stores how many times processes had taken over the data that it reads. Its thread. */
int sapwood_live_reader_generation(const sapwood_live_reader *reader, uint64_t *generation);

/* Returns whether the map's writer lives: 1 or 0. Its thread. A few system calls. */
int sapwood_live_reader_has_writer(const sapwood_live_reader *reader);

/*
 * Lookups. Its thread, while it is online. What a structure does not have is -ENOTSUP.
 *
 * Makes a view of a store (of its newest version), or of a shared map, for all functions of
 * sapwood_view. It is valid until the next quiescent state. sapwood_view_len of a shared map
 * counts its entries. -ENOTSUP: a reader that checks.
 */
int sapwood_live_view(const sapwood_live_reader *reader, sapwood_view *view);

/* As the functions of stores, shared maps and point maps. -ENOTSUP: a reader that checks. */
int sapwood_live_get(const sapwood_live_reader *reader, const void *key, size_t key_len,
		     sapwood_value *value);
int sapwood_live_get_many(const sapwood_live_reader *reader, const sapwood_bytes *keys,
			  size_t count, sapwood_value *values, unsigned char *found);

/* Room for a copy of an entry. A number has the 8 bytes of a uint64_t. */
typedef struct sapwood_copy {
	size_t size;       /* sizeof(struct sapwood_copy), set by the caller */
	void *key;         /* room for the key; NULL: it is not wanted */
	size_t key_room;   /* in bytes, set by the caller */
	size_t key_len;
	void *value;       /* room for the value; NULL: it is not wanted */
	size_t value_room; /* in bytes, set by the caller */
	size_t value_len;
} sapwood_copy;

/*
 * Copies the entry of a key, the one with the least greater key, or the one with the
 * longest key that is a prefix of `key`. The lengths are stored also where there is no
 * room: -E2BIG. Readers of both kinds. A point map has no order.
 */
int sapwood_live_copy(const sapwood_live_reader *reader, const void *key, size_t key_len,
		      sapwood_copy *out);
int sapwood_live_copy_after(const sapwood_live_reader *reader, const void *key, size_t key_len,
			    sapwood_copy *out);
int sapwood_live_copy_longest_prefix(const sapwood_live_reader *reader, const void *key,
				     size_t key_len, sapwood_copy *out);

/*
 * Calls each(entry, ctx) for all entries; returns 0, or what ended the walk. The keys of a
 * store, and what a reader that checks gives, are copies, which are valid until the callback
 * returns.
 */
int sapwood_live_each(const sapwood_live_reader *reader, sapwood_entry_fn each, void *ctx);

/* As the functions of sapwood_fib. A reader that checks looks up many one after the other. */
int sapwood_live_lookup(const sapwood_live_reader *reader, const void *addr, size_t addr_len,
			sapwood_prefix *matched, uint64_t *value);
int sapwood_live_lookup4(const sapwood_live_reader *reader, uint32_t addr, uint64_t *value);
int sapwood_live_lookup6(const sapwood_live_reader *reader, const uint8_t *addr, uint64_t *value);
int sapwood_live_lookup4_bulk(const sapwood_live_reader *reader, const uint32_t *addrs,
			      size_t count, uint64_t none, uint64_t *values);
int sapwood_live_lookup6_bulk(const sapwood_live_reader *reader, const uint8_t *addrs,
			      size_t count, uint64_t none, uint64_t *values);

/* As sapwood_ranges_get_entry and sapwood_ranges_next. */
int sapwood_live_range(const sapwood_live_reader *reader, uint64_t index, sapwood_range *entry);
int sapwood_live_range_next(const sapwood_live_reader *reader, uint64_t from,
			    sapwood_range *entry);

/* ---- Block lists and response policies ------------------------------------------------------- */

/*
 * The maps of "sapwood lists build" and "sapwood lists serve": docs/lists.md says what their
 * rules are, and which of them wins. A handle is for one thread at a time; each thread opens
 * its own. The pages of the map are in memory once.
 */
typedef struct sapwood_lists sapwood_lists;

/* What happens to a question. */
enum sapwood_lists_action {
	SAPWOOD_LISTS_NXDOMAIN = 0, /* the name does not exist */
	SAPWOOD_LISTS_NODATA = 1,   /* the name has no records of this type */
	SAPWOOD_LISTS_REFUSED = 2,
	SAPWOOD_LISTS_DROP = 3,     /* there is no answer */
	SAPWOOD_LISTS_TRUNCATE = 4, /* the answer is truncated, so that the client asks by TCP */
	SAPWOOD_LISTS_PASS = 5,     /* the question is answered as without lists */
	SAPWOOD_LISTS_NULL = 6,     /* 0.0.0.0 or :: */
	SAPWOOD_LISTS_ADDRESSES = 7,
	SAPWOOD_LISTS_NAME = 8,     /* the name is another name for `target` */
	SAPWOOD_LISTS_RECORDS = 9
};

/* The rank of a rule, the first one first. */
enum sapwood_lists_rank {
	SAPWOOD_LISTS_REWRITING = 0,
	SAPWOOD_LISTS_IMPORTANT_EXCEPTION = 1,
	SAPWOOD_LISTS_IMPORTANT = 2,
	SAPWOOD_LISTS_EXCEPTION = 3,
	SAPWOOD_LISTS_ORDINARY = 4
};

/*
 * A record of an answer: type, time to live in seconds, data in wire form. Addresses for which
 * a list has no time to live have 300 seconds.
 */
typedef struct sapwood_lists_record {
	uint32_t rtype;
	uint32_t ttl;
	const void *data;
	size_t len;
} sapwood_lists_record;

/*
 * The rule that answers a question. All that it points to belongs to the handle, and is valid
 * until its next question or its end.
 */
typedef struct sapwood_verdict {
	size_t size;
	int action;                          /* enum sapwood_lists_action */
	int list; /* the number of the list, from 0; -1 if no rule applies */
	int rank;                            /* enum sapwood_lists_rank */
	int others;                          /* how many other rules apply */
	/* the rule's name, with "*." in front if it is for the names below alone; NULL if none */
	const char *rule;
	const char *list_name;               /* the list's name: the path of its file */
	const char *target;                  /* of SAPWOOD_LISTS_NAME: the other name */
	/* of 0.0.0.0 or ::, addresses and records: those of the type of the question. If there are none, the name has no records of this type. */
	const sapwood_lists_record *records;
	size_t count;
} sapwood_verdict;

/*
 * Opens a map of rules, or a table of fingerprints. All of it is checked, in O(bytes); with
 * SAPWOOD_UNVERIFIED a map opens at once, and what is damaged is -EPROTO when it is read.
 * -EPROTO: it is damaged, or another file. Other errors are those of the system. The file may
 * be replaced by a rename, but not be changed or cut.
 */
int sapwood_lists_open(const char *path, unsigned int flags, sapwood_lists **out);
void sapwood_lists_free(sapwood_lists *lists);

/*
 * What happens to a question for a name in text, of this type. Returns 1 if a rule answers it,
 * which (*verdict) says then; 0 if no rule applies: then the action is SAPWOOD_LISTS_PASS. O(
 * rules of the name and of those above it).
 *
 * What cannot be told is an error, and never "no rule applies": -EINVAL, it is no name;
 * -E2BIG, the name is too long for the place of an asterisk in a rule; -EPROTO, the map is
 * damaged; of a live map also -ENOENT, it was removed, -EAGAIN and -ESTALE, changes disturbed
 * each attempt. *verdict is unchanged then. Who takes an error for 0 lets names pass that
 * somebody has made for that.
 */
int sapwood_lists_ask(sapwood_lists *lists, const char *name, uint16_t rtype,
		      sapwood_verdict *verdict);

/* The same for a name in wire form without compression, and nothing behind it. */
int sapwood_lists_ask_wire(sapwood_lists *lists, const void *wire, size_t wire_len, uint16_t rtype,
			   sapwood_verdict *verdict);

/* The same for a key, as sapwood_key_dns_message makes it of a whole message. */
int sapwood_lists_ask_key(sapwood_lists *lists, const void *key, size_t key_len, uint16_t rtype,
			  sapwood_verdict *verdict);

/*
 * Stores the number of the line, in the list's file as it is now, of the rule that answered
 * the last question. -ENOENT: no rule answered it, the file has no such line any more, or
 * there is no such file. -EPROTO: it is no such list any more. O(bytes of the file).
 */
int sapwood_lists_line(sapwood_lists *lists, uint64_t *line);

/*
 * Opens the live map of "sapwood lists serve" in a directory, and waits up to (wait_ms)
 * milliseconds for one that is not there yet; then -ENOENT. UINT64_MAX: as long as it takes.
 * Each question sees the newest map, and all of one version; between two questions, the handle
 * holds nothing back. A map that another process has taken over, or that was removed and made
 * again, is followed.
 *
 * Without SAPWOOD_LIVE_CHECKED, the reader trusts a map that no other user than root can
 * write. Others it checks at each step, as all with this flag. Where this process may not
 * register, the reader writes no file, and asks again when memory was used again meanwhile.
 * -EPROTO: it is another map. The child of a fork opens the map anew.
 */
int sapwood_lists_open_live(const char *folder, unsigned int flags, uint64_t wait_ms,
			    sapwood_lists **out);

#ifdef __cplusplus
}
#endif

#endif /* SAPWOOD_H */
