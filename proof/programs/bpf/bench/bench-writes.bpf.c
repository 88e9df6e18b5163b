// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The benchmark of maps that programs write. See run.h. */
#include "run.h"
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The result of a change: the expected answer if the change was done. */
SW_INLINE __u64 done(long error, __u64 value)
{
	return error ? ~value : value;
}

RUN(sw_run_empty, 0)
RUN(sw_run_insert, done(sw_qp_insert(map, key, expected, SW_NOEXIST), expected))
RUN(sw_run_overwrite, done(sw_qp_insert(map, key, expected, SW_EXIST), expected))
RUN(sw_run_remove, done(sw_qp_remove(map, key), expected))
