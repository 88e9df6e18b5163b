/* Plain functions around one flavour of liburcu. FLAVOUR is its header; the macros below it give
 * its functions the names of the API. */

#define _LGPL_SOURCE
#define URCU_API_MAP

#include FLAVOUR
#include <stdlib.h>

/* Something that goes when no reader can hold it. */
struct retired {
    struct rcu_head head;
    void *what;
    void (*release)(void *);
};

static void release(struct rcu_head *head)
{
    struct retired *retired = caa_container_of(head, struct retired, head);

    retired->release(retired->what);
    free(retired);
}

void shim_register(void)
{
    rcu_register_thread();
}

void shim_unregister(void)
{
    rcu_unregister_thread();
}

void shim_enter(void)
{
    rcu_read_lock();
}

void shim_leave(void)
{
    rcu_read_unlock();
}

void shim_quiescent(void)
{
    rcu_quiescent_state();
}

void shim_retire(void *what, void (*release_it)(void *))
{
    struct retired *retired = malloc(sizeof(*retired));

    if (!retired)
        abort();
    retired->what = what;
    retired->release = release_it;
    call_rcu(&retired->head, release);
}

void shim_barrier(void)
{
    rcu_barrier();
}
