/* sapwood_view_first: the view was made before the reader's last quiescent state */
#include "check.h"

static sapwood_domain *domain;
static sapwood_reader *reader;
static sapwood_store *store;

static void prepare(void)
{
	sapwood_domain_options checked = {sizeof checked, SAPWOOD_CHECKED, 0, 0, 0, 0};
	sapwood_options options = {sizeof options, 0, 0, NULL, NULL, 0, 0, NULL};
	sapwood_value value;

	value.number = 1;
	IS(sapwood_domain_new(&checked, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	options.domain = domain;
	IS(sapwood_store_new(&options, &store), 0);
	IS(sapwood_store_insert(store, "elm", 3, &value), 1);
}

int main(void)
{
	sapwood_view view;
	sapwood_entry entry;
	prepare();
	IS(sapwood_store_view(store, reader, &view), 0);
	IS(sapwood_view_first(&view, &entry), 0);
	IS(sapwood_reader_quiescent(reader), 0);
	sapwood_view_first(&view, &entry);
	return 0;
}
