/* sapwood_view_first: the view was made before the reader's last quiescent state */
#include "live.h"

int main(int argc, char **argv)
{
	sapwood_live_reader *reader;
	sapwood_view view;
	sapwood_entry entry;

	CHECK(argc == 2);
	reader = checked_reader(argv[1]);
	IS(sapwood_live_view(reader, &view), 0);
	IS(sapwood_view_first(&view, &entry), 0);
	IS(sapwood_live_reader_quiescent(reader), 0);
	sapwood_view_first(&view, &entry);
	return 0;
}
