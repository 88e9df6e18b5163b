/*
 * Four processes forward by one live table of routes, which another process changes. Each takes
 * bursts of packets, looks their destinations up without a lock and without a system call, and
 * passes a quiescent state after each burst.
 *
 *   cc -O2 -o forward forward.c $(pkg-config --cflags --libs sapwood)
 *
 * forward FOLDER [SECONDS] makes the table in a directory, such as /dev/shm/routes, and starts the
 * four. It prints what each has forwarded by each next hop, and removes the table at the end. A
 * table of "sapwood routes serve" is read in the same way. It is C99 and C++17, for Linux.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* Processes, also where the compiler keeps to the standard of C. */
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sapwood.h>

#define WORKERS 4
#define BURST 32
#define NONE UINT64_MAX

/* The next hops. What else a table may say about a prefix has numbers of its own. */
enum { LEFT, RIGHT, DROP, END, KINDS };

static void must(int result, const char *what)
{
	char message[300];

	if (result >= 0)
		return;
	sapwood_last_error(message, sizeof message);
	fprintf(stderr, "%s: %s\n%s\n", what, sapwood_strerror(result), message);
	exit(1);
}

static uint32_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)*state;
}

/* Forwards until the table says that it is enough. */
static int work(const char *folder, int number)
{
	uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)number, hops[BURST], sent[KINDS], end;
	uint32_t packets[BURST];
	sapwood_live_reader *reader = NULL;
	int i;

	memset(sent, 0, sizeof sent);
	must(sapwood_live_reader_open_within(folder, SAPWOOD_LIVE_FIB, SAPWOOD_NUMBERS, 0, 5000,
					     &reader), "the table");
	do {
		for (i = 0; i < BURST; i++) /* In place of a burst of a network interface. */
			packets[i] = 0x0a000000u | (draw(&state) & 0xffffff);
		must(sapwood_live_lookup4_bulk(reader, packets, BURST, NONE, hops), "lookup");
		for (i = 0; i < BURST; i++) {
			/* 10.0.0.0/8 is always there, whatever the writer does meanwhile. */
			if (hops[i] >= END) {
				fprintf(stderr, "%08x: %" PRIu64 "\n", packets[i], hops[i]);
				return 1;
			}
			sent[hops[i]]++;
		}
		must(sapwood_live_reader_quiescent(reader), "quiescent");
		/* 192.0.2.255 */
		i = sapwood_live_lookup4(reader, 0xc00002ffu, &end);
		if (i != -ENOENT)
			must(i, "lookup");
	} while (i != 0 || end != END);
	sapwood_live_reader_free(reader);
	printf("process %d: %" PRIu64 " left, %" PRIu64 " right, %" PRIu64 " dropped\n", number,
	       sent[LEFT], sent[RIGHT], sent[DROP]);
	return sent[LEFT] == 0 || sent[RIGHT] == 0 || sent[DROP] == 0;
}

static void set(sapwood_fib *fib, uint32_t address, unsigned char bits, uint64_t hop)
{
	sapwood_prefix prefix;
	int i;

	memset(&prefix, 0, sizeof prefix);
	prefix.addr_len = 4;
	prefix.bits = bits;
	for (i = 0; i < 4; i++)
		prefix.addr[i] = (unsigned char)(address >> (24 - 8 * i));
	must(sapwood_fib_insert(fib, &prefix, hop, NULL), "insert");
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 1.0;
	struct timespec millisecond = {0, 1000000};
	sapwood_live *live = NULL;
	sapwood_fib *fib = NULL;
	pid_t workers[WORKERS];
	int i, status, failed = 0;
	long turn;

	if (argc == 4 && strcmp(argv[1], "--worker") == 0)
		return work(argv[2], atoi(argv[3]));
	if (argc < 2 || argc > 3 || seconds < 0) {
		fprintf(stderr, "usage: %s FOLDER [SECONDS]\n", argv[0]);
		return 2;
	}
	must(sapwood_fib_live_create(argv[1], NULL, NULL, &live, &fib), "making the table");
	set(fib, 0x0a000000u, 8, LEFT);
	set(fib, 0x0a090000u, 16, DROP);
	for (i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		if (workers[i] == 0) {
			char number[12];

			/* A child that does not exec must not use the map of its parent. */
			snprintf(number, sizeof number, "%d", i + 1);
			execl("/proc/self/exe", argv[0], "--worker", argv[1], number, (char *)NULL);
			_exit(127);
		}
		if (workers[i] < 0)
			return 1;
	}
	/* Until all four are readers. */
	while ((i = sapwood_live_readers(live, NULL, NULL)) < WORKERS) {
		must(i, "readers");
		nanosleep(&millisecond, NULL);
	}
	/* The route changes a thousand times a second, and never is it not there. */
	for (turn = 0; (double)turn < seconds * 1000; turn++) {
		set(fib, 0x0a000000u, 8, turn % 2 ? LEFT : RIGHT);
		nanosleep(&millisecond, NULL);
	}
	set(fib, 0xc00002ffu, 32, END);
	for (i = 0; i < WORKERS; i++) {
		if (waitpid(workers[i], &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "process %d failed\n", i + 1);
			failed = 1;
		}
	}
	sapwood_fib_free(fib);
	must(sapwood_live_remove(live), "removing the table");
	return failed;
}
