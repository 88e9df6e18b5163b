/*
 * Runs a command, and prints how often each file was opened on the machine meanwhile, in order of
 * the paths:
 *
 *     opens COMMAND [ARGUMENT...]
 *
 * The program in the kernel is opens.bpf.c, loaded by the skeleton that bpftool made of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <sapwood/layout.h>
#include <sapwood_bpf.h>

#include "opens.skel.h"

/* Ends the process with the library's message if a call failed. */
static int must(int result)
{
	char message[4000];

	if (result >= 0)
		return result;
	sapwood_last_error(message, sizeof message);
	fprintf(stderr, "opens: %s\n", message);
	exit(1);
}

/* The same for calls of libbpf, which prints why. */
static void loaded(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "opens: cannot %s: %s\n", what, strerror(-result));
	exit(1);
}

static int print(const sapwood_entry *entry, void *ctx)
{
	uint64_t count;

	(void)ctx;
	memcpy(&count, entry->value.bytes.data, sizeof count);
	printf("%6llu %.*s\n", (unsigned long long)count, (int)entry->key.len,
	       (const char *)entry->key.data);
	return 0;
}

int main(int argc, char **argv)
{
	sapwood_bpf_map_options options = {.size = sizeof options};
	size_t processors = (size_t)libbpf_num_possible_cpus();
	sapwood_bpf_arena *arena;
	sapwood_bpf_words *rooms;
	sapwood_bpf_map *counts;
	struct opens *opens;
	int status = 1;
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: opens COMMAND [ARGUMENT...]\n");
		return 2;
	}
	/* The memory: a map, and rooms for long paths. */
	must(sapwood_bpf_arena_create(64 << 20, 0, &arena));
	options.bytes = 32 << 20;
	options.max_entries = 20000;
	options.longest_key = 4096;
	must(sapwood_bpf_map_create(arena, "counts", &options, &counts));
	must(sapwood_bpf_words_create(arena, "rooms", processors * SW_KEY_ROOM_BYTES / 8, &rooms));

	/* The program: it gets the arena in the place of its map sw_arena. */
	opens = opens__open();
	if (!opens) {
		fprintf(stderr, "opens: cannot open the skeleton\n");
		return 1;
	}
	opens->rodata->counts = (__u32)must(sapwood_bpf_map_number(counts));
	opens->rodata->rooms = (__u32)must(sapwood_bpf_words_number(rooms));
	opens->rodata->processors = (__u32)processors;
	loaded(bpf_map__reuse_fd(opens->maps.sw_arena, must(sapwood_bpf_arena_fd(arena))),
	       "give the program its arena");
	loaded(opens__load(opens), "load the program");

	/* A thread that gives the program memory for new entries, every millisecond. */
	must(sapwood_bpf_map_serve(counts, 1000));
	loaded(opens__attach(opens), "attach the program");

	pid = fork();
	if (pid == 0) {
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		perror("opens");

	opens__detach(opens);
	must(sapwood_bpf_map_each(counts, print, NULL));
	if (opens->bss->missed)
		fprintf(stderr, "opens: %llu calls were not counted\n",
			(unsigned long long)opens->bss->missed);
	opens__destroy(opens);
	sapwood_bpf_map_free(counts);
	sapwood_bpf_words_free(rooms);
	sapwood_bpf_arena_free(arena);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
