/* sapwood_shared_insert: this process is a child of fork */
#include <string.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"

/* A child of fork that writes a checked live map of its parent. */
int main(int argc, char **argv)
{
	sapwood_options options = {sizeof options, SAPWOOD_CHECKED, SAPWOOD_NUMBERS, NULL, NULL, 0,
				   0, NULL};
	sapwood_live *live = NULL;
	sapwood_shared *map = NULL;
	sapwood_value value;
	char folder[400];
	int status = 0;
	pid_t pid;

	CHECK(argc == 2);
	snprintf(folder, sizeof folder, "%s/live", argv[1]);
	value.number = 1;
	IS(sapwood_shared_live_create(folder, NULL, &options, &live, &map), 0);
	pid = fork();
	if (pid == 0) {
		sapwood_shared_insert(map, "elm", 3, &value);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	IS(sapwood_shared_insert(map, "elm", 3, &value), 1);
	sapwood_shared_free(map);
	IS(sapwood_live_remove(live), 0);
	/* As the child ended. */
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	return 0;
}
