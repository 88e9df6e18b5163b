// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Pushes to and pops from a queue by time, for a test of all processors at once. See run in first.rs. */
#include <linux/bpf.h>
#include "sapwood/qp_first.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define TAKES 64

/* The packet of a run, and its answer. */
struct run {
	__u32 window;
	__u32 steps;
	__u32 pushes; /* of 256 steps */
	__u32 times; /* times are numbers below this */
	__u64 seed;
	__u64 first; /* the value of the first entry, without its time */
	__u32 pushed;
	__u32 taken;
	__u32 empty;
	__u32 no_memory;
	__u32 busy;
	__u32 other;
	__s64 error; /* the last other result */
	struct sw_qp_value value;
	struct sw_key key;
	struct take {
		__u64 due;
		__u64 sequence;
		__u64 value;
	} takes[TAKES];
};

static __attribute__((always_inline)) void count(struct run *run, long error)
{
	switch (error) {
	case -ENOENT:
		run->empty++;
		break;
	case -ENOMEM:
		run->no_memory++;
		break;
	case -EBUSY:
		run->busy++;
		break;
	default:
		run->other++;
		run->error = error;
	}
}

SEC("xdp")
int sw_run_queue(struct xdp_md *ctx)
{
	struct run *run = (void *)(long)ctx->data;
	__u64 random, due;
	struct take *take;
	__u32 left;
	long error;

	if ((void *)(run + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	for (left = sw_zero() + run->steps; left && sw_can_loop; left--) {
		random = run->seed = run->seed * 6364136223846793005ull + 1442695040888963407ull;
		random >>= 32;
		if ((random & 0xff) < run->pushes) {
			/* Few numbers, so that some are taken. */
			due = (random >> 8) % run->times;
			error = sw_qp_push_due(run->window, &run->key, due, random & 3,
					       (run->first + run->pushed) | due << 48);
			if (error)
				count(run, error);
			else
				run->pushed++;
			continue;
		}
		if (run->taken >= TAKES)
			continue;
		if (random & 0x100)
			error = sw_qp_pop_first(run->window, &run->key, &run->value);
		else
			error = sw_qp_pop_due(run->window, run->times, &run->key, &run->value);
		if (error) {
			count(run, error);
			continue;
		}
		take = run->takes + (run->taken & (TAKES - 1));
		if ((void *)(take + 1) > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		take->due = sw_key_due_at(&run->key);
		take->sequence = sw_key_due_sequence(&run->key);
		take->value = run->value.words[0];
		run->taken++;
	}
	return XDP_PASS;
}
