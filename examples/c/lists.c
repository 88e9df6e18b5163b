/*
 * Says what happens to questions for names, by a map of "sapwood lists":
 *
 *	sapwood lists build ads.txt -o blocked.lists
 *	./lists blocked.lists www.ads.example example.org
 *	./lists --live /dev/shm/blocked www.ads.example
 *
 * What cannot be told is neither listed nor not listed: the program says why, and ends with 2.
 */
#include <stdio.h>
#include <string.h>

#include <sapwood.h>

static int failed(const char *what)
{
	char message[300];

	sapwood_last_error(message, sizeof message);
	fprintf(stderr, "%s: %s\n", what, message);
	return 2;
}

int main(int argc, char **argv)
{
	static const char *const actions[] = {"nxdomain", "nodata", "refused", "drop", "truncate",
					      "pass", "null", "addresses", "name", "records"};
	const int live = argc > 1 && strcmp(argv[1], "--live") == 0;
	const int first = live ? 3 : 2;
	sapwood_lists *lists;
	int i, result, all = 0;

	if (argc <= first) {
		fprintf(stderr, "usage: %s [--live] MAP NAME...\n", argv[0]);
		return 2;
	}
	if (live)
		result = sapwood_lists_open_live(argv[2], 0, 0, &lists);
	else
		result = sapwood_lists_open(argv[1], 0, &lists);
	if (result < 0)
		return failed(argv[first - 1]);
	for (i = first; i < argc; i++) {
		sapwood_verdict verdict = {sizeof verdict, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0};
		uint64_t line;

		result = sapwood_lists_ask(lists, argv[i], 1, &verdict);
		if (result < 0) {
			all = failed(argv[i]);
			continue;
		}
		if (result == 0) {
			printf("%s: not listed\n", argv[i]);
			continue;
		}
		printf("%s: %s, by %s of %s", argv[i], actions[verdict.action], verdict.rule, verdict.list_name);
		if (sapwood_lists_line(lists, &line) == 0)
			printf(", line %lu", (unsigned long)line);
		printf("\n");
	}
	sapwood_lists_free(lists);
	return all;
}
