/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sapwood.h - ordered maps for the data path, whose readers never lock.
 *
 * Results.   A function that returns int returns 0 or a positive number, or -errno. sapwood_strerror
 *            has a fixed text for each; sapwood_last_error has the whole message of this thread's
 *            last failure. A lookup that finds nothing returns -ENOENT and leaves no message.
 *            All functions may return, beside what they say:
 *              -EINVAL  an argument is NULL or has no meaning
 *              -EPERM   a handle was used against its rules, where that is seen
 *              -EFAULT  an internal error was caught; nothing crosses into C
 * Handles.   A function that makes a handle stores it in *out, and *out belongs to the caller, who
 *            frees it with the function named so. Freeing NULL does nothing. On failure *out stays
 *            as it was.
 * Threads.   "Any thread" means: from several threads at once. "One thread at a time" means that the
 *            caller keeps other calls with this handle away. "Its thread" is the one that made it.
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

/*
 * Takes a value (a pointer) back when the library has let go of it, after the grace period. It is
 * called exactly once for each value, by the thread that frees it: one that changes or frees the
 * structure, reclaims, or polls the domain.
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
 * Frees the handle. The domain itself lives as long as its readers and structures, so the order does
 * not matter. One thread at a time.
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
 * Registers this thread with a domain, under a name for stall reports. The reader is online: what is
 * replaced from now on stays until it passes a quiescent state. -EAGAIN: too many readers.
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

/* ---- Maps over byte strings ------------------------------------------------------------------ */

/* ---- Routes ---------------------------------------------------------------------------------- */

/* ---- Ranges ---------------------------------------------------------------------------------- */

#ifdef __cplusplus
}
#endif

#endif /* SAPWOOD_H */
