/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The questions of tests/ranges.rs. */
#ifndef SAPWOOD_RANGES_ASK_H
#define SAPWOOD_RANGES_ASK_H

#include "sapwood/maple.bpf.h"

enum { ASK_GET, ASK_GAP };

/* A question, and its answer. */
struct question {
	__u32 what;
	__u32 window;
	__u64 index; /* the index, or the size of a gap */
	__u64 from;  /* the borders of the search */
	__u64 to;
	__s64 result;
	__u64 start; /* of the entry, or of the gap */
	__u64 end;
	__u64 value;
	__u64 first; /* the first 8 bytes of the value */
};

SW_INLINE void answer(struct question *q)
{
	struct sw_range range = {};
	__u64 start = 0;

	q->start = q->end = q->value = q->first = 0;
	if (q->what == ASK_GET) {
		q->result = sw_ranges_get(q->window, q->index, &range);
		if (q->result)
			return;
		q->start = range.start;
		q->end = range.end;
		q->value = range.value;
		q->first = sw_u64(range.at);
	} else {
		q->result = sw_ranges_find_gap(q->window, q->index, q->from, q->to, &start);
		q->start = start;
	}
}

#endif
