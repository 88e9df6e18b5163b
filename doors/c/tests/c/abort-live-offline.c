/* sapwood_live_get: the reader is offline */
#include "live.h"

int main(int argc, char **argv)
{
	sapwood_live_reader *reader;

	CHECK(argc == 2);
	reader = checked_reader(argv[1]);
	IS(sapwood_live_reader_offline(reader), 0);
	sapwood_live_get(reader, "elm", 3, NULL);
	return 0;
}
