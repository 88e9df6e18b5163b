/*
 * Threads that poll, as those of DPDK: each takes bursts of packets, looks their destinations up in
 * one table, and passes a quiescent state after each burst. Meanwhile another thread changes
 * routes.
 *
 *   cc -O2 -o packets packets.c $(pkg-config --cflags --libs sapwood) -lpthread
 *
 * packets [PREFIXES [SECONDS]] prints the lookups a second of each thread. It is C99 and C++17.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* Clocks, also where the compiler keeps to the standard of C. */
#endif
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sapwood.h>

#define BURST 32
#define THREADS 2
#define NONE UINT64_MAX
#define HOPS 64

static sapwood_fib *fib;
static sapwood_domain *domain;
/* Set by the main thread; the compiler's own functions are the same in C99 and C++. */
static int stop;

struct port {
	int number;
	uint64_t lookups, found, bursts;
};

static void must(int result, const char *what)
{
	char message[300];

	if (result >= 0)
		return;
	sapwood_last_error(message, sizeof message);
	fprintf(stderr, "%s: %s\n%s\n", what, sapwood_strerror(result), message);
	exit(1);
}

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *poll_port(void *arg)
{
	struct port *port = (struct port *)arg;
	uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)port->number, hops[BURST];
	uint32_t packets[BURST];
	sapwood_reader *reader = NULL;
	char name[20];
	int i;

	snprintf(name, sizeof name, "port %d", port->number);
	must(sapwood_reader_new(domain, name, &reader), "reader");
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (i = 0; i < BURST; i++) /* In place of rte_eth_rx_burst. */
			packets[i] = 0x0a000000u | (uint32_t)(draw(&state) & 0xffffff);
		must(sapwood_fib_lookup4_bulk(fib, reader, packets, BURST, NONE, hops), "lookup");
		for (i = 0; i < BURST; i++) {
			/* A route has one of the next hops that the writer gives it. */
			if (hops[i] != NONE && hops[i] >= HOPS) {
				fprintf(stderr, "%08x: %" PRIu64 "\n", packets[i], hops[i]);
				exit(1);
			}
			port->found += hops[i] != NONE;
		}
		port->lookups += BURST;
		port->bursts++;
		must(sapwood_reader_quiescent(reader), "quiescent");
	}
	sapwood_reader_free(reader);
	return NULL;
}

static sapwood_prefix route(uint64_t number)
{
	sapwood_prefix prefix;

	memset(&prefix, 0, sizeof prefix);
	prefix.addr_len = 4;
	prefix.bits = 24;
	prefix.addr[0] = 10;
	prefix.addr[1] = (uint8_t)(number >> 8);
	prefix.addr[2] = (uint8_t)number;
	return prefix;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	uint64_t prefixes = argc > 1 ? strtoull(argv[1], NULL, 10) : 40000, state = 1, changes = 0, i;
	double length = argc > 2 ? atof(argv[2]) : 1.0, start;
	struct port ports[THREADS];
	pthread_t threads[THREADS];
	struct timespec millisecond = {0, 1000000};
	sapwood_domain_options options;
	sapwood_prefix *nets;
	uint64_t *hops;
	size_t garbage = 0;
	int failed = 0;

	if (prefixes < 1 || prefixes > 65536)
		return 2;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.hard_limit = (size_t)64 << 20; /* Of what waits for the ports. */
	must(sapwood_domain_new(&options, &domain), "domain");
	nets = (sapwood_prefix *)malloc(prefixes * sizeof *nets);
	hops = (uint64_t *)malloc(prefixes * sizeof *hops);
	if (!nets || !hops)
		return 1;
	for (i = 0; i < prefixes; i++) {
		nets[i] = route(i);
		hops[i] = i % HOPS;
	}
	must(sapwood_fib_build(domain, NULL, nets, hops, (size_t)prefixes, &fib), "build");
	free(nets);
	free(hops);

	memset(ports, 0, sizeof ports);
	for (i = 0; i < THREADS; i++) {
		ports[i].number = (int)i;
		if (pthread_create(&threads[i], NULL, poll_port, &ports[i]) != 0)
			return 1;
	}
	start = seconds();
	while (seconds() - start < length) {
		sapwood_fib_txn *txn = NULL;
		int k;

		must(sapwood_fib_begin(fib, &txn), "begin");
		for (k = 0; k < 10; k++) {
			sapwood_prefix prefix = route(draw(&state) % prefixes);

			must(sapwood_fib_txn_insert(txn, &prefix, draw(&state) % HOPS, NULL), "insert");
		}
		must(sapwood_fib_txn_commit(txn), "commit");
		changes += 10;
		nanosleep(&millisecond, NULL);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		printf("port %d: %.1f M lookups/s, %.1f %% with a route\n", ports[i].number,
		       (double)ports[i].lookups / (seconds() - start) / 1e6,
		       100.0 * (double)ports[i].found / (double)ports[i].lookups);
		failed |= ports[i].bursts == 0 || (prefixes == 65536 && ports[i].found != ports[i].lookups);
	}
	while (sapwood_fib_reclaim(fib, 1000000) > 0)
		;
	must(sapwood_domain_garbage(domain, &garbage), "garbage");
	printf("%" PRIu64 " changes, %zu bytes of garbage left\n", changes, garbage);
	sapwood_fib_free(fib);
	sapwood_domain_free(domain);
	return failed || changes == 0;
}
