/* sapwood_live_get: the reader belongs to another thread */
#include <pthread.h>

#include "live.h"

static void *other(void *reader)
{
	sapwood_live_get((sapwood_live_reader *)reader, "elm", 3, NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	sapwood_live_reader *reader;
	pthread_t thread;

	CHECK(argc == 2);
	reader = checked_reader(argv[1]);
	IS(sapwood_live_get(reader, "elm", 3, NULL), 0);
	CHECK(pthread_create(&thread, NULL, other, reader) == 0);
	pthread_join(thread, NULL);
	return 0;
}
