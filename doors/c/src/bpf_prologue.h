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
