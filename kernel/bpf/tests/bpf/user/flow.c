// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * flow.bpf.h in user space. Reads flows with their hashes and buckets, and reports differences.
 *
 *     flow IMAGE QUESTIONS
 */
#include <stdio.h>
#include "sapwood/flow.bpf.h"

/* A flow, and the answers, as tests/flow.rs writes them. */
struct question {
	__u64 seed;
	struct sw_flow_addr6 src, dst;
	__u32 family, protocol, sport, dport;
	__u64 hash, symmetric;
	__u32 buckets, bucket;
};

int main(int argc, char **argv)
{
	unsigned long count = 0, wrong = 0;
	struct question q;
	FILE *file;

	if (argc != 3) {
		fprintf(stderr, "usage: %s IMAGE QUESTIONS\n", argv[0]);
		return 2;
	}
	file = fopen(argv[2], "rb");
	if (!file) {
		perror(argv[2]);
		return 2;
	}
	while (fread(&q, sizeof(q), 1, file) == 1) {
		struct sw_flow_secrets s = sw_flow_secrets(q.seed);
		__u32 src = (__u32)q.src.low, dst = (__u32)q.dst.low;
		__u64 hash, symmetric;

		if (q.family == 4) {
			hash = sw_flow_hash4(&s, src, dst, q.protocol, q.sport, q.dport);
			symmetric = sw_flow_hash4_symmetric(&s, src, dst, q.protocol, q.sport, q.dport);
		} else {
			hash = sw_flow_hash6(&s, q.src, q.dst, q.protocol, q.sport, q.dport);
			symmetric = sw_flow_hash6_symmetric(&s, q.src, q.dst, q.protocol, q.sport, q.dport);
		}
		count++;
		if (hash == q.hash && symmetric == q.symmetric &&
		    sw_flow_bucket(hash, q.buckets) == q.bucket)
			continue;
		wrong++;
		printf("flow %lu: %llx, %llx instead of %llx, %llx\n", count, (unsigned long long)hash,
		       (unsigned long long)symmetric, (unsigned long long)q.hash,
		       (unsigned long long)q.symmetric);
	}
	fclose(file);
	if (count == 0)
		printf("no flows\n");
	return wrong != 0 || count == 0;
}
