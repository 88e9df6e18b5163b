/* Domains and readers: deferred functions wait for readers; failures have texts. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "check.h"

static void count(void *ctx)
{
	++*(int *)ctx;
}

static void named(const sapwood_stall *stall, void *ctx)
{
	CHECK(strcmp(stall->name, "worker") == 0 && stall->kind == SAPWOOD_STALL_READER);
	++*(int *)ctx;
}

int main(void)
{
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL, *second = NULL;
	sapwood_domain_options options;
	size_t garbage = 0;
	struct timespec pause = {0, 10000000};
	int ran = 0, stalls = 0;
	char message[100];

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.max_readers = 1;
	options.hard_limit = 100;
	options.stall_after_ms = 1;
	IS(sapwood_domain_new(&options, &domain), 0);
	IS(sapwood_reader_new(domain, "worker", &reader), 0);
	IS(sapwood_reader_new(domain, "one too many", &second), -EAGAIN);
	CHECK(second == NULL);
	CHECK(sapwood_last_error(message, sizeof message) > 0);
	CHECK(strncmp(message, "sapwood_reader_new: ", 20) == 0);
	CHECK(sapwood_last_error(message, 8) > 8 && strcmp(message, "sapwood") == 0);

	IS(sapwood_domain_defer(domain, 64, count, &ran), 0);
	IS(sapwood_domain_defer(domain, 64, count, &ran), -EAGAIN);
	IS(sapwood_domain_garbage(domain, &garbage), 0);
	CHECK(garbage == 64);
	IS(sapwood_domain_poll(domain, 10), 0);
	nanosleep(&pause, NULL);
	IS(sapwood_domain_stalls(domain, NULL, NULL), 1);
	IS(sapwood_domain_stalls(domain, named, &stalls), 1);
	CHECK(stalls == 1);
	IS(sapwood_reader_quiescent(reader), 0);
	IS(sapwood_domain_poll(domain, 10), 1);
	CHECK(ran == 1);
	IS(sapwood_reader_offline(reader), 0);
	IS(sapwood_domain_synchronize(domain), 0);
	IS(sapwood_reader_online(reader), 0);
	IS(sapwood_reader_synchronize(reader), 0);
	/* The reader is online again, and of this thread. */
	IS(sapwood_domain_synchronize(domain), -EDEADLK);

	/* Bad arguments. */
	IS(sapwood_domain_new(NULL, NULL), -EINVAL);
	IS(sapwood_reader_quiescent(NULL), -EINVAL);
	IS(sapwood_domain_poll((sapwood_domain *)(void *)reader, 1), -EINVAL);
	options.size = 0;
	IS(sapwood_domain_new(&options, &domain), -EINVAL);
	options.size = sizeof options;
	options.flags = 1u << 30;
	IS(sapwood_domain_new(&options, &domain), -EINVAL);
	CHECK(strcmp(sapwood_strerror(0), "success") == 0);
	CHECK(strlen(sapwood_strerror(-ENOENT)) > 0 && strlen(sapwood_strerror(-9999)) > 0);

	sapwood_reader_free(reader);
	sapwood_reader_free(NULL);
	sapwood_domain_free(domain);
	return 0;
}
