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
