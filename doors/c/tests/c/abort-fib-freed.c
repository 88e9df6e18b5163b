/* sapwood_fib_insert: the fib was freed before */
#include "check.h"

int main(void)
{
	sapwood_fib_options options = {sizeof options, SAPWOOD_CHECKED, 0, 0};
	sapwood_fib *fib = NULL;
	sapwood_prefix prefix;

	IS(sapwood_prefix_parse("10.0.0.0/8", &prefix), 0);
	IS(sapwood_fib_new(NULL, &options, &fib), 0);
	sapwood_fib_free(fib);
	sapwood_fib_insert(fib, &prefix, 1, NULL);
	return 0;
}
