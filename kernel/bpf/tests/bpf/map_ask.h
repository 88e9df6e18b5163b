/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Operations on maps that programs write, for programs or C in user space. The answer replaces the
 * question. The test's headers of these maps come before this one.
 */
#ifndef SAPWOOD_MAP_ASK_H
#define SAPWOOD_MAP_ASK_H

/* An operation: its kind, the window, the flags and the key, and the answer. */
struct ask {
	__u32 what;
	__u32 window;
	__u64 flags;
	__s64 result;
	struct sw_qp_value value;
	struct sw_key key;
};

/* The first words of the value whose place is the answer. */
SW_INLINE void answer_value(struct ask *ask)
{
	__u32 i;

	if (ask->result > 0) {
		for (i = 0; i < 8; i++)
			ask->value.words[i] = sw_u64(ask->result + i * 8);
	}
}

#ifdef SAPWOOD_QP_FIRST_BPF_H
SW_INLINE void answer_ask(struct ask *ask)
{
	switch (ask->what) {
	case 0:
		ask->result = sw_qp_trie_lookup(ask->window, &ask->key);
		break;
	case 1:
		ask->result = sw_qp_index_lookup(ask->window, &ask->key);
		break;
	case 2:
		ask->result = sw_qp_lookup(ask->window, &ask->key);
		break;
	case 3:
		ask->result = sw_qp_insert(ask->window, &ask->key, ask->value.words[0], ask->flags);
		break;
	case 4:
		ask->result = sw_qp_insert_value(ask->window, &ask->key, &ask->value, ask->flags);
		break;
	case 5:
		ask->result = sw_qp_remove(ask->window, &ask->key);
		break;
	case 6:
		ask->result = sw_qp_compare_exchange(ask->window, &ask->key, &ask->flags, ask->value.words[0]);
		break;
	case 7:
		ask->result = sw_qp_get_or_insert(ask->window, &ask->key, ask->value.words[0]);
		break;
	case 8:
		ask->result = sw_qp_pop_first(ask->window, &ask->key, &ask->value);
		break;
	case 9:
		ask->result = sw_qp_pop_due(ask->window, ask->flags, &ask->key, &ask->value);
		break;
	case 10:
		ask->result = sw_qp_push_due(ask->window, &ask->key, ask->flags, ask->value.words[1],
					     ask->value.words[0]);
		break;
	case 11:
		ask->result = sw_qp_take(ask->window, &ask->key);
		break;
	default:
		ask->result = -EINVAL;
	}
	answer_value(ask);
}
#endif

#endif
