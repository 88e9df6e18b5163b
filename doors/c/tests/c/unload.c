/* dlclose is allowed, and leaves the library in memory: a thread's memory of it ends later. */
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

typedef int (*new_fn)(const sapwood_options *, sapwood_map **);
typedef void (*free_fn)(sapwood_map *);
typedef int (*len_fn)(const sapwood_map *, size_t *);

static void *use(void *path)
{
	void *library = dlopen((const char *)path, RTLD_NOW);
	sapwood_map *map = NULL;
	size_t len = 1;
	new_fn make;
	free_fn end;
	len_fn length;

	CHECK(library != NULL);
	*(void **)&make = dlsym(library, "sapwood_map_new");
	*(void **)&end = dlsym(library, "sapwood_map_free");
	*(void **)&length = dlsym(library, "sapwood_map_len");
	CHECK(make && end && length);
	/* A failure leaves a message in the thread's memory. */
	CHECK(make(NULL, NULL) < 0);
	CHECK(make(NULL, &map) == 0);
	CHECK(dlclose(library) == 0);
	/* Still there. */
	CHECK(length(map, &len) == 0 && len == 0);
	end(map);
	return NULL;
}

int main(void)
{
	/* The tests say where it is; other ways to link have it in the program. */
	char *path = getenv("SAPWOOD_LIBRARY");
	pthread_t thread;
	int i;

	for (i = 0; path && i < 3; i++) {
		CHECK(pthread_create(&thread, NULL, use, path) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	return 0;
}
