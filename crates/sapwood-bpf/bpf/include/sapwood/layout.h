/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Written from crates/sapwood-bpf/src/layout.rs by `SAPWOOD_WRITE=1 cargo test -p sapwood-bpf --test layout`. */
#ifndef SAPWOOD_LAYOUT_H
#define SAPWOOD_LAYOUT_H

#define SW_MAP_EXTRA 0x100000000000ull
#define SW_MAGIC 0x46504257504153ull
#define SW_VERSION 1u
#define SW_VERSION_AT 8u
#define SW_ZERO_AT 12u
#define SW_SPARE_AT 40u
#define SW_WINDOWS_AT 64u
#define SW_WINDOWS_MAX 32u
#define SW_WINDOW_BYTES 64u
#define SW_WINDOW_KIND 0u
#define SW_WINDOW_AT 8u
#define SW_WINDOW_LEN 16u
#define SW_EXTRA_AT 1024u
#define SW_KIND_NONE 0u
#define SW_KIND_QP 1u
#define SW_KIND_LPM4 2u
#define SW_KIND_LPM6 3u
#define SW_KIND_KERNEL_QP 4u
#define SW_KIND_ROUTE 5u
#define SW_QP_VALUE_BYTES 48u
#define SW_QP_HAS_INDEX 56u
#define SW_QP_ROOT 64u
#define SW_QP_TABLE 72u
#define SW_QP_SECRETS 1024u
#define SW_QP_END 16777216u
#define SW_QP_BIG 33554432u
#define SW_QP_LEAF 1u
#define SW_QP_SMALL_MAX 32u
#define SW_QP_DEPTH_MAX 65537u
#define SW_QP_TABLE_HOMES 0u
#define SW_QP_TABLE_TOTAL 4u
#define SW_QP_TABLE_SHIFT 8u
#define SW_QP_TABLE_NEXT 12u
#define SW_QP_TABLE_DIRECTORY 16u
#define SW_QP_TABLE_NOTHING 4294967295u
#define SW_QP_BUCKET_BYTES 64u
#define SW_QP_BUCKET_SLOTS 12u
#define SW_QP_BUCKET_LEAVES 16u
#define SW_QP_BUCKET_LOCK 0x100000000ull
#define SW_QP_BUCKET_MOVED 0x200000000ull
#define SW_QP_BUCKET_OUT 34u
#define SW_QP_BUCKET_REACH 40u
#define SW_QP_BUCKET_SPILLED 48u
#define SW_QP_BUCKET_FILTER 56u
#define SW_LPM_VALUE_BYTES 48u
#define SW_LPM_WIDTH 56u
#define SW_LPM_ROOT 64u
#define SW_LPM_SHELF 72u
#define SW_LPM_LEN 80u
#define SW_LPM_REF 134217727u
#define SW_LPM_CHILD 2147483648u
#define SW_LPM_FRESH 2147483648u
#define SW_LPM_STRIDE 6u
#define SW_LPM_WORD_MARK 27u
#define SW_LPM_WORD_VALUE 32u
#define SW_LPM_NODE_RUNS 0u
#define SW_LPM_NODE_BASE 8u
#define SW_LPM_NODE_COUNT 12u
#define SW_LPM_NODE_SLOTS 16u
#define SW_LPM_SHELF_KIDS 16u
#define SW_LPM_SHELF_VALUES 24u
#define SW_HOP_BYTES 36u
#define SW_HOP_FORWARD 0u
#define SW_HOP_KERNEL 1u
#define SW_HOP_RESOLVE 2u

#endif
