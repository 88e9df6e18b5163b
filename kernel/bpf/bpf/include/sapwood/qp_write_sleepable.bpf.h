/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps that programs write (qp_write.bpf.h), for objects with programs that may sleep: of type
 * `syscall`, and of sections that end in `.s`.
 *
 *     #include "sapwood/qp_write_sleepable.bpf.h"   // in place of qp_write.bpf.h, and before others
 *
 *     SEC("lsm.s/file_open")
 *     int BPF_PROG(opened, struct file *file)
 *     {
 *             ...
 *             long error = sw_qp_insert(OPENED, key, bpf_ktime_get_ns(), SW_ANY);
 *
 * The functions are those of qp_write.bpf.h, with the same arguments and answers. During a change,
 * the processor runs nothing else but interrupts (`bpf_preempt_disable`), so that nobody waits for
 * a writer that was preempted while it has a lock. Between changes, the program may sleep. It must
 * not call these functions where it may not disable preemption.
 *
 * Such programs need Linux 6.15 or newer, whose verifier admits calls of global functions while
 * preemption is disabled, and an arena that allows them (`BpfArena::allow_sleepable`). Programs of
 * the object that do not sleep use the same functions.
 *
 * All that claims a lane has to be behind one of these functions. So the names below are poisoned:
 * a header that has other ways to write does not compile behind this one.
 */
#ifndef SAPWOOD_QP_WRITE_SLEEPABLE_BPF_H
#define SAPWOOD_QP_WRITE_SLEEPABLE_BPF_H

#ifdef SAPWOOD_QP_WRITE_BPF_H
#error "include qp_write_sleepable.bpf.h before qp_write.bpf.h, and before headers that include that one"
#endif

/* The loader knows by these names that changes are not preempted. */
#define sw_qp_insert sw_awake_insert
#define sw_qp_insert_value sw_awake_insert_value
#define sw_qp_take sw_awake_take
#define sw_qp_remove sw_awake_remove
#include "qp_write.bpf.h"
#undef sw_qp_insert
#undef sw_qp_insert_value
#undef sw_qp_take
#undef sw_qp_remove

#ifdef __bpf__
extern void bpf_preempt_disable(void) SEC(".ksyms");
extern void bpf_preempt_enable(void) SEC(".ksyms");
#else
#define bpf_preempt_disable() ((void)0)
#define bpf_preempt_enable() ((void)0)
#endif

SW_INLINE long sw_qp_insert(__u32 map, const struct sw_key *key, __u64 value, __u64 flags)
{
	long result;

	bpf_preempt_disable();
	result = sw_awake_insert(map, key, value, flags);
	bpf_preempt_enable();
	return result;
}

SW_INLINE long sw_qp_insert_value(__u32 map, const struct sw_key *key, const struct sw_qp_value *value, __u64 flags)
{
	long result;

	bpf_preempt_disable();
	result = sw_awake_insert_value(map, key, value, flags);
	bpf_preempt_enable();
	return result;
}

/* The place stays until the run of the program ends, however long it sleeps. */
SW_INLINE long sw_qp_take(__u32 map, const struct sw_key *key)
{
	long result;

	bpf_preempt_disable();
	result = sw_awake_take(map, key);
	bpf_preempt_enable();
	return result;
}

SW_INLINE long sw_qp_remove(__u32 map, const struct sw_key *key)
{
	long result;

	bpf_preempt_disable();
	result = sw_awake_remove(map, key);
	bpf_preempt_enable();
	return result;
}

#pragma GCC poison sw_kqp_claim sw_kqp_claim_lane sw_kqp_quick
#pragma GCC poison sw_awake_insert sw_awake_insert_value sw_awake_take sw_awake_remove

#endif
