/* sapwood_live_view: the reader of a live map was freed before */
#include "live.h"

int main(int argc, char **argv)
{
	sapwood_live_reader *reader;
	sapwood_view view;

	CHECK(argc == 2);
	reader = checked_reader(argv[1]);
	IS(sapwood_live_view(reader, &view), 0);
	sapwood_live_reader_free(reader);
	sapwood_live_view(reader, &view);
	return 0;
}
