/* A live store between processes: readers that exec makes, a writer that is killed, its heir. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#ifdef VALGRIND
enum { COMMITS = 500 };
#else
enum { COMMITS = 20000 };
#endif

enum { KEYS = 16 };

static sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};

/* One transaction, after which all keys have the same number. */
static void commit(sapwood_store *store, uint64_t number)
{
	sapwood_txn *txn = NULL;
	sapwood_value value;
	unsigned char key;

	value.number = number;
	IS(sapwood_store_begin(store, 0, &txn), 0);
	for (key = 0; key < KEYS; key++)
		CHECK(sapwood_txn_insert(txn, &key, 1, &value) >= 0);
	IS(sapwood_txn_commit(txn, NULL), 0);
}

/* The number under all keys, in one version. */
static uint64_t read_version(sapwood_live_reader *reader)
{
	sapwood_view view;
	sapwood_value value, first;
	unsigned char key;

	first.number = 0;
	IS(sapwood_live_view(reader, &view), 0);
	for (key = 0; key < KEYS; key++) {
		IS(sapwood_view_get(&view, &key, 1, &value), 0);
		if (key == 0)
			first = value;
		CHECK(value.number == first.number);
	}
	return first.number;
}

/* The number under one key, as a reader that checks copies it. */
static uint64_t read_copy(sapwood_live_reader *reader)
{
	uint64_t number = 0;
	sapwood_copy copy;
	int result;

	memset(&copy, 0, sizeof copy);
	copy.size = sizeof copy;
	copy.value = &number;
	copy.value_room = sizeof number;
	do /* changes may disturb each attempt */
		result = sapwood_live_copy(reader, "\1", 1, &copy);
	while (result == -EAGAIN);
	IS(result, 0);
	CHECK(copy.value_len == sizeof number);
	return number;
}

/* A process that reads until the last commit. */
static int reader_process(const char *folder, unsigned int flags)
{
	sapwood_live_reader *reader = NULL;
	uint64_t now, least = 0;

	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, flags, &reader), 0);
	do {
		now = flags ? read_copy(reader) : read_version(reader);
		CHECK(now >= least);
		least = now;
		IS(sapwood_live_reader_quiescent(reader), 0);
	} while (now < COMMITS);
	CHECK(now == COMMITS);
	sapwood_live_reader_free(reader);
	return 0;
}

/* A process that comes before the map, and waits for it. */
static int early_process(const char *folder)
{
	static const unsigned int flags[3] = {
	    0, SAPWOOD_LIVE_CHECKED, SAPWOOD_LIVE_CHECKED | SAPWOOD_LIVE_UNREGISTERED};
	sapwood_live_reader *reader = NULL;
	int i;

	IS(sapwood_live_reader_open_within(folder, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, 1,
					   &reader),
	   -ENOENT);
	CHECK(write(1, "x", 1) == 1);
	for (i = 0; i < 3; i++) {
		IS(sapwood_live_reader_open_within(folder, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS,
						   flags[i], i ? 60000 : UINT64_MAX, &reader),
		   0);
		IS(sapwood_live_reader_has_writer(reader), 1);
		sapwood_live_reader_free(reader);
	}
	return 0;
}

static pid_t start_reader(char *program, char *folder, const char *kind)
{
	char word[8];
	char *args[4] = {program, folder, word, NULL};
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(strlen(kind) < sizeof word);
		memcpy(word, kind, strlen(kind) + 1);
		execv(program, args);
		_exit(2);
	}
	return pid;
}

static void ended_well(pid_t pid)
{
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct seen {
	uint32_t pids[4];
	unsigned int checked;
	int count;
};

static void note(const sapwood_live_reader_info *info, void *ctx)
{
	struct seen *seen = (struct seen *)ctx;
	CHECK(seen->count < 4);
	seen->pids[seen->count++] = info->pid;
	seen->checked += (info->flags & SAPWOOD_LIVE_CHECKED) != 0;
}

/* Readers that exec has made see whole commits, in order. */
static void readers_in_other_processes(char *program, char *folder)
{
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_memory memory;
	struct seen seen;
	pid_t trusting, checking, early;
	uint64_t i;
	char word;
	int ends[2], out = dup(1);

	CHECK(out >= 0 && pipe(ends) == 0 && dup2(ends[1], 1) == 1);
	early = start_reader(program, folder, "early");
	CHECK(dup2(out, 1) == 1 && read(ends[0], &word, 1) == 1);
	close(out);
	close(ends[0]);
	close(ends[1]);
	IS(sapwood_store_live_create(folder, NULL, &options, &live, &store), 0);
	ended_well(early);
	commit(store, 1);
	trusting = start_reader(program, folder, "view");
	checking = start_reader(program, folder, "copy");
	do {
		memset(&seen, 0, sizeof seen);
		CHECK(sapwood_live_readers(live, note, &seen) == seen.count);
	} while (seen.count < 2);
	CHECK(seen.count == 2 && seen.checked == 1);
	CHECK(seen.pids[0] == (uint32_t)trusting || seen.pids[1] == (uint32_t)trusting);
	CHECK(seen.pids[0] == (uint32_t)checking || seen.pids[1] == (uint32_t)checking);
	for (i = 2; i <= COMMITS; i++)
		commit(store, i);
	ended_well(trusting);
	ended_well(checking);
	IS(sapwood_live_readers(live, NULL, NULL), 0);
	/* Nobody reads, so everything is freed that was replaced. */
	for (i = 0; i < 5; i++)
		CHECK(sapwood_store_reclaim(store, 1u << 30) >= 0);
	memory.size = sizeof memory;
	IS(sapwood_store_memory(store, &memory), 0);
	CHECK(memory.entries == KEYS && memory.waiting == 0);
	sapwood_store_free(store);
	IS(sapwood_live_remove(live), 0);
}

/* A process that commits until it is killed. */
static void writer_process(const char *folder, int tell)
{
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	uint64_t i;

	IS(sapwood_store_live_create(folder, NULL, &options, &live, &store), 0);
	commit(store, 1);
	CHECK(write(tell, "1", 1) == 1);
	for (i = 2;; i++)
		commit(store, i);
}

static void a_killed_writer_has_an_heir(const char *folder)
{
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_live_reader *reader = NULL;
	uint64_t last, inherited, generation = 9;
	int ends[2], status;
	pid_t writer;
	char byte;

	CHECK(pipe(ends) == 0);
	writer = fork();
	CHECK(writer >= 0);
	if (writer == 0)
		writer_process(folder, ends[1]);
	CHECK(read(ends[0], &byte, 1) == 1);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, &reader), 0);
	IS(sapwood_live_reader_has_writer(reader), 1);
	IS(sapwood_store_live_open(folder, NULL, &options, &live, &store), -EBUSY);
	/* A writer that has ended by itself, as under a valgrind that fails, would not get there. */
	while (read_version(reader) < 50) {
		CHECK(waitpid(writer, &status, WNOHANG) == 0);
		IS(sapwood_live_reader_quiescent(reader), 0);
	}
	CHECK(kill(writer, SIGKILL) == 0 && waitpid(writer, &status, 0) == writer);
	CHECK(WIFSIGNALED(status));

	IS(sapwood_live_reader_quiescent(reader), 0);
	IS(sapwood_live_reader_has_writer(reader), 0);
	last = read_version(reader);
	CHECK(last >= 50);
	IS(sapwood_store_live_open(folder, NULL, &options, &live, &store), 0);
	IS(sapwood_live_reader_has_writer(reader), 1);
	commit(store, last + 10);
	inherited = read_version(reader);
	CHECK(inherited == last);
	IS(sapwood_live_reader_quiescent(reader), 0);
	CHECK(read_version(reader) == last + 10);
	IS(sapwood_live_reader_generation(reader, &generation), 0);
	CHECK(generation == 1);
	sapwood_live_reader_free(reader);
	sapwood_store_free(store);
	IS(sapwood_live_remove(live), 0);
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
	char folder[400];
	CHECK(argc == 2 || argc == 3);
	if (argc == 3 && strcmp(argv[2], "early") == 0)
		return early_process(argv[1]);
	if (argc == 3)
		return reader_process(argv[1], strcmp(argv[2], "copy") ? 0 : SAPWOOD_LIVE_CHECKED);
	CHECK((size_t)snprintf(folder, sizeof folder, "%s/live", argv[1]) < sizeof folder);
	a_killed_writer_has_an_heir(folder);
	readers_in_other_processes(argv[0], folder);
	return 0;
}
