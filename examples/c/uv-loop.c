/*
 * An event loop of libuv that reads a map which another thread changes.
 *
 *   cc -o uv-loop uv-loop.c $(pkg-config --cflags --libs sapwood libuv)
 *
 * The loop's thread is a reader. Before the loop waits for events (uv_prepare) the reader goes
 * offline, so that a loop without work holds nothing back; after it (uv_check) it comes online. So
 * each turn of the loop is a quiescent state, and a callback must not keep what it has read beyond
 * its turn. It is C99 and C++17.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* For libuv's header, where the compiler keeps to C99. */
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sapwood.h>
#include <uv.h>

#define TURNS 200
#define NAMES 1000

static sapwood_domain *domain;
static sapwood_shared *map;
static sapwood_reader *reader;
static uv_timer_t timer;
static uv_prepare_t prepare;
static uv_check_t check;
static int turns;

static void must(int result, const char *what)
{
	char message[300];

	if (result >= 0)
		return;
	sapwood_last_error(message, sizeof message);
	fprintf(stderr, "%s: %s\n%s\n", what, sapwood_strerror(result), message);
	exit(1);
}

static void before_waiting(uv_prepare_t *handle)
{
	(void)handle;
	must(sapwood_reader_offline(reader), "offline");
}

static void after_waiting(uv_check_t *handle)
{
	(void)handle;
	must(sapwood_reader_online(reader), "online");
}

/* A request: it looks names up, and finds whole values. */
static void request(uv_timer_t *handle)
{
	char key[20];
	int i;

	(void)handle;
	/* Timers run before uv_prepare in the first turn, and after uv_check in the others. */
	must(sapwood_reader_online(reader), "online");
	for (i = 0; i < NAMES; i++) {
		sapwood_value value;
		int length = snprintf(key, sizeof key, "name-%d", i);

		must(sapwood_shared_get(map, reader, key, (size_t)length, &value), "get");
		/* The writer stores the number of the name and a round: both in one value. */
		if (value.number % NAMES != (uint64_t)i) {
			fprintf(stderr, "%s has %llu\n", key, (unsigned long long)value.number);
			exit(1);
		}
	}
	if (++turns == TURNS) {
		uv_timer_stop(&timer);
		uv_prepare_stop(&prepare);
		uv_check_stop(&check);
	}
}

static void *writer(void *rounds)
{
	char key[20];
	uint64_t round;
	int i;

	for (round = 1; round <= *(uint64_t *)rounds; round++)
		for (i = 0; i < NAMES; i++) {
			sapwood_value value;
			int length = snprintf(key, sizeof key, "name-%d", i);

			value.number = round * NAMES + (uint64_t)i;
			must(sapwood_shared_insert(map, key, (size_t)length, &value), "insert");
		}
	return NULL;
}

int main(void)
{
	sapwood_options options;
	uint64_t first = 1, rounds = 100;
	pthread_t thread;
	size_t garbage = 0;
	uv_loop_t loop;

	must(sapwood_domain_new(NULL, &domain), "domain");
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.domain = domain;
	must(sapwood_shared_new(&options, &map), "map");
	writer(&first);
	must(sapwood_reader_new(domain, "event loop", &reader), "reader");

	uv_loop_init(&loop);
	uv_prepare_init(&loop, &prepare);
	uv_check_init(&loop, &check);
	uv_timer_init(&loop, &timer);
	uv_prepare_start(&prepare, before_waiting);
	uv_check_start(&check, after_waiting);
	uv_timer_start(&timer, request, 0, 1);
	if (pthread_create(&thread, NULL, writer, &rounds) != 0)
		return 1;
	uv_run(&loop, UV_RUN_DEFAULT);
	pthread_join(thread, NULL);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_close((uv_handle_t *)&prepare, NULL);
	uv_close((uv_handle_t *)&check, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);

	/* Nobody reads any more: everything that was replaced can be freed. */
	sapwood_reader_free(reader);
	must(sapwood_shared_reclaim(map, (size_t)1 << 30), "reclaim");
	must(sapwood_domain_garbage(domain, &garbage), "garbage");
	printf("%d turns, %llu changes, %zu bytes of garbage left\n", turns,
	       (unsigned long long)rounds * NAMES, garbage);
	sapwood_shared_free(map);
	sapwood_domain_free(domain);
	return turns == TURNS && garbage < 100000 ? 0 : 1;
}
