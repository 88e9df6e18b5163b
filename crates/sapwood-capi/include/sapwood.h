/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sapwood.h - ordered maps for the data path, whose readers never lock.
 *
 * Results.   A function that returns int returns 0 or a positive number, or -errno.
 *            sapwood_strerror has a fixed text for each; sapwood_last_error has the whole message
 *            of this thread's last failure. A lookup that finds nothing returns -ENOENT and
 *            leaves no message.
 *            All functions may return, beside what they say:
 *              -EINVAL  an argument is NULL or has no meaning
 *              -EPERM   a handle was used against its rules, where that is seen
 *              -EFAULT  an internal error was caught; nothing crosses into C
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
 * fork.      A child may read, and change owned maps, if no other thread was inside the library at
 *            the time of fork. It has only the forking thread's readers: those of other threads
 *            stay registered and hold garbage back. Memory is copied, not shared.
 * dlclose.   Is allowed, and leaves the library in memory.
 */
#ifndef SAPWOOD_H
#define SAPWOOD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Failures ------------------------------------------------------------------------------- */

/* A fixed text for a result. It belongs to the library. Any thread. */
const char *sapwood_strerror(int result);

/*
 * Copies the message of this thread's last failure, cut to len - 1 bytes and ended by a zero.
 * Returns the length of the whole message. buf may be NULL if only that is wanted. It never fails.
 */
int sapwood_last_error(char *buf, size_t len);

/* ---- Values --------------------------------------------------------------------------------- */

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
 * gives out, its key and its bytes lie inside the map: they are valid as long as the view, or until
 * the reader's next quiescent state. Copy what is needed longer.
 */
typedef struct sapwood_entry {
	sapwood_bytes key; /* data is NULL where there is no entry; that of an empty key is not */
	sapwood_value value;
} sapwood_entry;

/*
 * Takes a value (a pointer) back when the library has let go of it, after the grace period. It is
 * called exactly once for each value, by the thread that frees it: one that changes or frees the
 * structure, reclaims, or polls the domain. A value that was not inserted stays the caller's: the
 * insertion failed, or found that the key is (not) there.
 */
typedef void (*sapwood_retire_fn)(void *value, void *ctx);

/* ---- Domains and readers --------------------------------------------------------------------- */

/*
 * A domain: what is replaced or removed in its structures is freed when all of its readers have
 * passed a quiescent state. Several structures may share a domain.
 */
typedef struct sapwood_domain sapwood_domain;

/* A thread that is registered with a domain. It belongs to the thread that made it. */
typedef struct sapwood_reader sapwood_reader;

/* Flags of structures and domains. */
#define SAPWOOD_CHECKED 1u /* misuse ends the process with a message */
#define SAPWOOD_BLOCK 2u   /* domains: a change at the hard limit waits, instead of -EAGAIN */

typedef struct sapwood_domain_options {
	size_t size;             /* sizeof(struct sapwood_domain_options) */
	unsigned int flags;      /* SAPWOOD_CHECKED: also its readers and structures; SAPWOOD_BLOCK */
	unsigned int max_readers; /* 0: no limit */
	size_t soft_limit;       /* bytes of garbage from which writers free more; 0: none */
	size_t hard_limit;       /* bytes of garbage that changes do not pass; 0: none */
	uint64_t stall_after_ms; /* from when on sapwood_domain_stalls names a reader; 0: a default */
} sapwood_domain_options;

/* Makes a domain. O(1). */
int sapwood_domain_new(const sapwood_domain_options *options, sapwood_domain **out);

/*
 * Frees the handle. The domain itself lives as long as its readers and structures, so the order
 * does not matter. One thread at a time.
 */
void sapwood_domain_free(sapwood_domain *domain);

/*
 * Runs at most `most` deferred functions whose grace period is over, and returns how many ran. It
 * does not wait. An event loop calls it in each turn. Any thread.
 */
int sapwood_domain_poll(const sapwood_domain *domain, size_t most);

/*
 * Defers run(ctx) to the end of a grace period. It runs once, on a thread that polls, or on the one
 * that lets go of the domain. Until then `bytes` count as garbage. -EAGAIN: the hard limit is
 * reached, and run is not called. Any thread.
 */
int sapwood_domain_defer(const sapwood_domain *domain, size_t bytes, void (*run)(void *ctx),
			 void *ctx);

/* Stores the number of bytes that wait for readers. Any thread. O(1). */
int sapwood_domain_garbage(const sapwood_domain *domain, size_t *bytes);

/*
 * Waits until each reader has passed a quiescent state or is offline. The caller's own reader must
 * be offline, otherwise it waits for ever. Any thread.
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
	uint64_t generations; /* begun since its last quiescent state; of a snapshot: versions */
	size_t bytes;         /* the most bytes that wait because of it */
} sapwood_stall;

typedef void (*sapwood_stall_fn)(const sapwood_stall *stall, void *ctx);

/*
 * Calls each(stall, ctx) for each reader and snapshot that holds garbage back for long, and returns
 * their number. each may be NULL. Any thread.
 */
int sapwood_domain_stalls(const sapwood_domain *domain, sapwood_stall_fn each, void *ctx);

/*
 * Registers this thread with a domain, under a name for stall reports. The reader is online: what
 * is replaced from now on stays until it passes a quiescent state. -EAGAIN: too many readers.
 */
int sapwood_reader_new(const sapwood_domain *domain, const char *name, sapwood_reader **out);

/* Ends the registration. Its thread. Nothing that was read with it may be used any more. */
void sapwood_reader_free(sapwood_reader *reader);

/*
 * Declares a quiescent state: this thread uses nothing any more that it read with this reader. An
 * event loop calls it in each turn, a packet loop after each burst. Its thread. O(1), no fence.
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
 * sapwood_map     an owned map: one thread at a time changes it, several may read between changes
 * sapwood_store   readers that never wait, one writer at a time, transactions, snapshots
 * sapwood_shared  many readers and many writers at once
 * sapwood_point   the same without order: whole keys only
 * sapwood_file    a saved map, read in place by any number of processes
 *
 * All have the same verbs. Order (ranges, prefixes, neighbours, the closest name) is read through a
 * sapwood_view of any of them.
 *
 * Lookups store the value, unless `value` is NULL, and return 0, or -ENOENT.
 * Insertions return 1 for a new key and 0 for a replaced value. Further errors of changes:
 *   -E2BIG   the key or value is too long        -ENOMEM  the memory limit is reached
 *   -EAGAIN  the domain's hard limit is reached  -ENOSPC  max_entries is reached
 * After each error, -EFAULT excepted, the map is as it was. After -EFAULT of a change, free the
 * map: the change may be made in part, and its value belongs to the library.
 * Costs: lookups and changes are O(length of the key).
 */
typedef struct sapwood_map sapwood_map;
typedef struct sapwood_store sapwood_store;
typedef struct sapwood_txn sapwood_txn;
typedef struct sapwood_snapshot sapwood_snapshot;
typedef struct sapwood_shared sapwood_shared;
typedef struct sapwood_point sapwood_point;
typedef struct sapwood_file sapwood_file;
typedef struct sapwood_view sapwood_view;
typedef struct sapwood_iter sapwood_iter;

#define SAPWOOD_INDEX 4u /* owned and shared maps: a point index, for quick lookups of whole keys */

typedef struct sapwood_options {
	size_t size;              /* sizeof(struct sapwood_options) */
	unsigned int flags;       /* SAPWOOD_CHECKED, SAPWOOD_INDEX */
	int values;               /* enum sapwood_values */
	sapwood_retire_fn retire; /* of pointers; NULL: nobody takes them back */
	void *ctx;                /* its second argument */
	size_t memory_limit;      /* bytes; 0: none */
	size_t max_entries;       /* of shared and point maps; 0: no limit */
	const sapwood_domain *domain; /* NULL: one of its own, without readers; not for owned maps */
} sapwood_options;

typedef struct sapwood_memory {
	size_t size;    /* sizeof(struct sapwood_memory), set by the caller */
	size_t entries; /* their number; all others but snapshots are bytes */
	size_t total;   /* all that the map takes from the system */
	size_t nodes;
	size_t leaves; /* with keys and values */
	size_t index;
	size_t waiting;   /* for readers and snapshots */
	size_t snapshots; /* their number */
} sapwood_memory;

/* ---- Owned maps ------------------------------------------------------------------------------ */

/*
 * One thread at a time, except that several threads may read at once while nobody changes the map.
 * Values, views and entries are valid until the next change.
 */

/* Makes an empty map. O(1). */
int sapwood_map_new(const sapwood_options *options, sapwood_map **out);

/*
 * Makes a map of the entries of a saved one. -ENOTSUP: pointers with retire. -EPROTO: the file is
 * damaged, or its values are of another kind. Other errors are those of the system. O(entries).
 */
int sapwood_map_load(const sapwood_options *options, const char *path, sapwood_map **out);

/* Frees a map; its pointers are retired before it returns. O(entries). */
void sapwood_map_free(sapwood_map *map);

int sapwood_map_get(const sapwood_map *map, const void *key, size_t key_len, sapwood_value *value);

/*
 * Looks up many keys, interleaved in large maps. found[i] becomes 1 or 0, and values[i] the value
 * of keys[i] if it was found. Returns the number of those found.
 */
int sapwood_map_get_many(const sapwood_map *map, const sapwood_bytes *keys, size_t count,
			 sapwood_value *values, unsigned char *found);

/* Stores the number of entries. O(1). */
int sapwood_map_len(const sapwood_map *map, size_t *len);

int sapwood_map_insert(sapwood_map *map, const void *key, size_t key_len,
		       const sapwood_value *value);

/* -EEXIST: the key is there. */
int sapwood_map_insert_new(sapwood_map *map, const void *key, size_t key_len,
			   const sapwood_value *value);

/* -ENOENT: the key is not there. */
int sapwood_map_replace(sapwood_map *map, const void *key, size_t key_len,
			const sapwood_value *value);

/*
 * Stores where the number of a key lies, so that it can be changed in place until the next change
 * of the map. An absent key is inserted with 0: the function returns 1. -ENOTSUP: other values.
 */
int sapwood_map_number(sapwood_map *map, const void *key, size_t key_len, uint64_t **number);

/* -ENOENT: the key is not there. */
int sapwood_map_remove(sapwood_map *map, const void *key, size_t key_len);

/* Removes all keys with a prefix, and stores their number unless `removed` is NULL. */
int sapwood_map_remove_prefix(sapwood_map *map, const void *prefix, size_t prefix_len,
			      size_t *removed);

/* Rewrites the map, so that it takes the least memory and reads quickest. O(entries). */
int sapwood_map_compact(sapwood_map *map);

int sapwood_map_memory(const sapwood_map *map, sapwood_memory *memory);

/*
 * Saves the map: whoever opens the path finds the old file or the whole new one. -ENOTSUP: pointers
 * with retire. Other errors are those of the system. Without retire, pointers are saved as numbers.
 */
int sapwood_map_save(const sapwood_map *map, const char *path);

/* Makes a view, which is valid until the next change of the map. O(1). */
int sapwood_map_view(const sapwood_map *map, sapwood_view *view);

/* ---- Stores ---------------------------------------------------------------------------------- */

/*
 * Any thread, where nothing else is said. Readers are those of the store's domain; a reading
 * function is called by the reader's thread, and what it gives is valid until the reader's next
 * quiescent state. A store has one transaction at a time. -EDEADLK: this thread has one open.
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

/* Insert and remove in a transaction of their own; they wait for an open one. */
int sapwood_store_insert(const sapwood_store *store, const void *key, size_t key_len,
			 const sapwood_value *value);
int sapwood_store_remove(const sapwood_store *store, const void *key, size_t key_len);

/*
 * Frees at most `most` nodes that no reader and no snapshot uses any more, retires their values,
 * and returns how many. Commits do it as well. It does nothing while a transaction is open.
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
 * Transactions. Its thread only. They read their own changes; readers see none of them before the
 * commit. Views and values are valid until the next change. After a failure of a change, the
 * transaction can go on.
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

/* Snapshots. Any thread. What they give is valid until sapwood_snapshot_free. */
void sapwood_snapshot_free(sapwood_snapshot *snapshot);
int sapwood_snapshot_get(const sapwood_snapshot *snapshot, const void *key, size_t key_len,
			 sapwood_value *value);
int sapwood_snapshot_len(const sapwood_snapshot *snapshot, size_t *len);
int sapwood_snapshot_version(const sapwood_snapshot *snapshot, uint64_t *version);
int sapwood_snapshot_view(const sapwood_snapshot *snapshot, sapwood_view *view);

/* As sapwood_map_save, with the number of the version. */
int sapwood_snapshot_save(const sapwood_snapshot *snapshot, const char *path);

enum sapwood_change_kind { SAPWOOD_ADDED = 0, SAPWOOD_REMOVED = 1, SAPWOOD_CHANGED = 2 };

typedef struct sapwood_change {
	size_t size;
	int kind;              /* enum sapwood_change_kind */
	unsigned int reserved; /* 0 */
	sapwood_bytes key;
	sapwood_value old_value; /* unless added */
	sapwood_value new_value; /* unless removed */
} sapwood_change;

/* Returns 0 to go on; anything else ends the walk. */
typedef int (*sapwood_change_fn)(const sapwood_change *change, void *ctx);

/*
 * Calls each(change, ctx) for each key that was written between two snapshots, in order. Returns 0,
 * or what ended the walk. O(changes), if the store was not compacted in between. -EINVAL: the kinds
 * of values differ.
 */
int sapwood_snapshot_diff(const sapwood_snapshot *before, const sapwood_snapshot *after,
			  sapwood_change_fn each, void *ctx);

/* ---- Shared maps and point maps -------------------------------------------------------------- */

/*
 * Any thread. Reading functions as for stores; changes need no reader. Values that change often:
 * let the value be a pointer to an atomic, or use sapwood_shared_add.
 */
/*
 * Returns 0 to go on; anything else ends the walk. The walk does not wait and keeps nobody waiting:
 * it gives no key twice, and each that is there throughout.
 */
typedef int (*sapwood_entry_fn)(const sapwood_entry *entry, void *ctx);

int sapwood_shared_new(const sapwood_options *options, sapwood_shared **out);
/* Nobody may use the map, or what was read from it. Its pointers are retired. */
void sapwood_shared_free(sapwood_shared *map);
int sapwood_shared_get(const sapwood_shared *map, const sapwood_reader *reader, const void *key,
		       size_t key_len, sapwood_value *value);
int sapwood_shared_get_many(const sapwood_shared *map, const sapwood_reader *reader,
			    const sapwood_bytes *keys, size_t count, sapwood_value *values,
			    unsigned char *found);
int sapwood_shared_len(const sapwood_shared *map, size_t *len);
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
 * Adds to a number, modulo 2^64, and stores the sum unless `sum` is NULL. An absent key is inserted
 * with delta: the function returns 1. -ENOTSUP: other values.
 */
int sapwood_shared_add(const sapwood_shared *map, const void *key, size_t key_len, uint64_t delta,
		       uint64_t *sum);
int sapwood_shared_remove(const sapwood_shared *map, const void *key, size_t key_len);
int sapwood_shared_reclaim(const sapwood_shared *map, size_t most);
/* It stops all writers for a moment. */
int sapwood_shared_memory(const sapwood_shared *map, sapwood_memory *memory);
/* Calls each(entry, ctx) for all entries, in order; returns 0, or what ended the walk. */
int sapwood_shared_each(const sapwood_shared *map, const sapwood_reader *reader,
			sapwood_entry_fn each, void *ctx);
/* Makes a view. Each call with it sees what is newest then. */
int sapwood_shared_view(const sapwood_shared *map, const sapwood_reader *reader,
			sapwood_view *view);

int sapwood_point_new(const sapwood_options *options, sapwood_point **out);
/* As sapwood_shared_free. */
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
 * Maps a saved map into memory. Each step in it is checked, so a damaged file gives wrong answers
 * at worst. values: SAPWOOD_NUMBERS or SAPWOOD_BYTES, as it was saved. -EPROTO: it is damaged, of
 * another kind, or no saved map. Other errors are those of the system. O(bytes); O(1) with
 * SAPWOOD_UNVERIFIED. The file may be replaced by a rename, but not be changed or cut.
 */
int sapwood_file_open(const char *path, int values, unsigned int flags, sapwood_file **out);

/* Any thread. What they give is valid until sapwood_file_free. */
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
 * A view lies in the caller's memory and needs no end. It may be copied. It is used where and as
 * long as what it was made of: on its reader's thread until the next quiescent state, or until the
 * next change of the map or transaction, or until the end of the snapshot or file. A use after that
 * is -EPERM where it is seen. Views are the query handles of name servers: one for each question.
 */
struct sapwood_view {
	uint64_t opaque[16];
};

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
 * Stores the entries whose keys are prefixes of `key`, shortest first, as many as there is room
 * for. Returns how many there are.
 */
int sapwood_view_prefixes(const sapwood_view *view, const void *key, size_t key_len,
			  sapwood_entry *entries, size_t room);

/* Returns something else than 0 for the entry of a zone cut. */
typedef int (*sapwood_cut_fn)(const sapwood_entry *entry, void *ctx);

typedef struct sapwood_closest {
	size_t size;          /* sizeof(struct sapwood_closest), set by the caller */
	sapwood_entry *chain; /* room for the entries at or above the name; may be NULL */
	size_t chain_room;    /* for how many there is room, set by the caller */
	size_t chain_len;     /* how many there are, topmost first; those beyond the room are left out */
	size_t encloser;      /* the closest encloser (RFC 4592) is this many bytes of the name */
	int exists;           /* the name has an entry, or one lies below it */
	unsigned int reserved;
	sapwood_entry exact;       /* of the name itself */
	sapwood_entry ancestor;    /* of the longest name at or above it that has one */
	sapwood_entry wildcard;    /* of `*` below the closest encloser, unless the name exists */
	sapwood_entry predecessor; /* with the greatest key less than the name */
	sapwood_entry cut;         /* the topmost for which is_cut returned something else than 0 */
} sapwood_closest;

/*
 * Stores what a name server needs to answer for a name, in one descent. Keys are those of
 * sapwood_key_dns_name. is_cut may be NULL. Returns 0 if the name has an entry, otherwise -ENOENT
 * with everything else stored.
 */
int sapwood_view_closest(const sapwood_view *view, const void *name, size_t name_len,
			 sapwood_cut_fn is_cut, void *ctx, sapwood_closest *out);

/* ---- Iterators ------------------------------------------------------------------------------- */

/*
 * After a step, an iterator stands at the entry that it gave: next gives the one after it, and prev
 * the one before it. After a move, or a step that found nothing, it stands between two entries. It
 * is used as long as its view, by one thread at a time, and freed then or later. Steps are
 * amortized O(1), turns and moves O(length of the key).
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
 * Keeps the iterator's place, so that it can go on in another view: in a long walk, pause before a
 * quiescent state or a change, then make a view and resume. Until then only sapwood_iter_free is
 * allowed. An entry at which it stands may go meanwhile: next gives the one after its place.
 */
int sapwood_iter_pause(sapwood_iter *iter);

/* Goes on in a view of the same kind of values. -EINVAL: it is not paused, or another kind. */
int sapwood_iter_resume(sapwood_iter *iter, const sapwood_view *view);

/* ---- Keys ------------------------------------------------------------------------------------ */

/*
 * The key of a domain name in text or wire form: its labels in reverse order and in lower case,
 * each ended by a zero byte; the root is empty. Keys sort in the canonical order of DNSSEC. 255
 * bytes are enough for any. The length is stored; -E2BIG if there is no room for it. -EINVAL: not a
 * name. Any thread.
 */
int sapwood_key_dns_name(const char *name, void *key, size_t room, size_t *key_len);
int sapwood_key_dns_wire(const void *wire, size_t wire_len, void *key, size_t room,
			 size_t *key_len);

/* The name of a key, ended by a zero that text_len does not count. 1,025 bytes are enough. */
int sapwood_key_dns_text(const void *key, size_t key_len, char *text, size_t room,
			 size_t *text_len);

/* ---- Routes ---------------------------------------------------------------------------------- */

/* ---- Ranges ---------------------------------------------------------------------------------- */

#ifdef __cplusplus
}
#endif

#endif /* SAPWOOD_H */
