/* sapwood_iter_next: the map was changed after the view was made */
#include "check.h"

int main(void)
{
	sapwood_options options = {sizeof options, SAPWOOD_CHECKED, 0, NULL, NULL, 0, 0, NULL};
	sapwood_map *map = NULL;
	sapwood_view view;
	sapwood_iter *iter = NULL;
	sapwood_entry entry;
	sapwood_value value;

	value.number = 1;
	IS(sapwood_map_new(&options, &map), 0);
	IS(sapwood_map_insert(map, "a", 1, &value), 1);
	IS(sapwood_map_view(map, &view), 0);
	IS(sapwood_iter_new(&view, &iter), 0);
	IS(sapwood_map_insert(map, "b", 1, &value), 1);
	sapwood_iter_next(iter, &entry);
	return 0;
}
