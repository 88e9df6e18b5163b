/* What the benchmark asks of DPDK, as plain functions. Compiled when the benchmark runs, if DPDK is installed. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_config.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm6.h>
#include <rte_malloc.h>
#include <rte_memory.h>

/* "No route": the most that a slot of four bytes holds beside its flag; of 21 bits for rte_lpm6. */
#define NONE 0x7fffffff

static int huge(const struct rte_memseg_list *list, void *unused)
{
	(void)unused;
	/* There are no reserved huge pages: let the kernel give transparent ones. */
	madvise(list->base_va, list->len, MADV_HUGEPAGE);
	return 0;
}

int shim_init(const char *megabytes)
{
	char *arguments[] = {
		"sapwood-bench", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",
		"--log-level=*:error", "--force-max-simd-bitwidth=512", "-m", (char *)megabytes, NULL,
	};
	if (rte_eal_init(9, arguments) < 0)
		return -rte_errno;
	rte_memseg_list_walk(huge, NULL);
	return 0;
}

uint64_t shim_allocated(void)
{
	struct rte_malloc_socket_stats stats;
	uint64_t sum = 0;
	for (int socket = 0; socket < RTE_MAX_NUMA_NODES; socket++)
		if (rte_malloc_get_socket_stats(socket, &stats) == 0)
			sum += stats.heap_allocsz_bytes;
	return sum;
}

static const char *fresh_name(void)
{
	static char name[16];
	static unsigned number;
	snprintf(name, sizeof(name), "table%u", number++);
	return name;
}

void *shim_fib_new(int routes, uint32_t tbl8s)
{
	struct rte_fib_conf conf;
	memset(&conf, 0, sizeof(conf));
	conf.type = RTE_FIB_DIR24_8;
	conf.default_nh = NONE;
	conf.max_routes = routes;
	conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_4B;
	conf.dir24_8.num_tbl8 = tbl8s;
	return rte_fib_create(fresh_name(), SOCKET_ID_ANY, &conf);
}

int shim_fib_add(void *fib, const uint32_t *ip, uint8_t depth, uint32_t hop)
{
	return rte_fib_add(fib, *ip, depth, hop);
}

int shim_fib_delete(void *fib, const uint32_t *ip, uint8_t depth)
{
	return rte_fib_delete(fib, *ip, depth);
}

int shim_fib_lookup(void *fib, uint32_t *ips, uint64_t *hops, int n)
{
	return rte_fib_lookup_bulk(fib, ips, hops, n);
}

void shim_fib_free(void *fib)
{
	rte_fib_free(fib);
}

void *shim_fib6_new(int routes, uint32_t tbl8s)
{
	struct rte_fib6_conf conf;
	memset(&conf, 0, sizeof(conf));
	conf.type = RTE_FIB6_TRIE;
	conf.default_nh = NONE;
	conf.max_routes = routes;
	conf.trie.nh_sz = RTE_FIB6_TRIE_4B;
	conf.trie.num_tbl8 = tbl8s;
	return rte_fib6_create(fresh_name(), SOCKET_ID_ANY, &conf);
}

int shim_fib6_add(void *fib, const uint8_t *ip, uint8_t depth, uint32_t hop)
{
	return rte_fib6_add(fib, ip, depth, hop);
}

int shim_fib6_delete(void *fib, const uint8_t *ip, uint8_t depth)
{
	return rte_fib6_delete(fib, ip, depth);
}

int shim_fib6_lookup(void *fib, uint8_t (*ips)[16], uint64_t *hops, int n)
{
	return rte_fib6_lookup_bulk(fib, ips, hops, n);
}

void shim_fib6_free(void *fib)
{
	rte_fib6_free(fib);
}

void *shim_lpm6_new(int routes, uint32_t tbl8s)
{
	struct rte_lpm6_config config = {.max_rules = routes, .number_tbl8s = tbl8s, .flags = 0};
	return rte_lpm6_create(fresh_name(), SOCKET_ID_ANY, &config);
}

int shim_lpm6_add(void *lpm, const uint8_t *ip, uint8_t depth, uint32_t hop)
{
	return rte_lpm6_add(lpm, ip, depth, hop);
}

int shim_lpm6_delete(void *lpm, const uint8_t *ip, uint8_t depth)
{
	return rte_lpm6_delete(lpm, ip, depth);
}

int shim_lpm6_lookup(void *lpm, uint8_t (*ips)[16], uint64_t *hops, int n)
{
	int32_t found[64];
	int result = rte_lpm6_lookup_bulk_func(lpm, ips, found, n);
	for (int i = 0; i < n; i++)
		hops[i] = found[i] < 0 ? NONE : (uint64_t)found[i];
	return result;
}

void shim_lpm6_free(void *lpm)
{
	rte_lpm6_free(lpm);
}
