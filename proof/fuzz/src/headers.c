/* The headers for programs, compiled for user space, in the fuzzer's process. */
#define main user_main
#include "../../../kernel/bpf/tests/program_map/user.c"

void sapwood_fuzz_answer(struct ask *ask, void *base, unsigned long bytes)
{
	sw_base = base;
	sw_limit = bytes;
	answer(ask);
}
