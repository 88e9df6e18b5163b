/* What the programs about fork share: a folder, and children that must end well. */
#ifndef FORK_H
#define FORK_H

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static const char *base;
static sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};

static const char *folder(const char *name)
{
	static char path[400];
	CHECK((size_t)snprintf(path, sizeof path, "%s/%s", base, name) < sizeof path);
	return path;
}

static sapwood_value number(uint64_t n)
{
	sapwood_value value;
	value.number = n;
	return value;
}

static void moment(void)
{
	struct timespec millisecond = {0, 1000000};
	nanosleep(&millisecond, NULL);
}

/* Begins a child; the caller does what it does there, and ends it with ended. */
static pid_t begin(void)
{
	pid_t pid;
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	return pid;
}

static void ended(pid_t pid)
{
	int status = 0;
	if (pid == 0)
		_exit(0);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "the child ended with %#x\n", (unsigned int)status);
		exit(1);
	}
}

#endif
