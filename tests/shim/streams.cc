// What C++ programs do: text and blocks through streams.
#include <fstream>
#include <iostream>

int
main (int, char **words)
{
	const std::string place = words[1], block (100000, 'b');

	std::ofstream text (place + "/text");
	for (int i = 0; i < 5000; i++)
		text << i << " line\n";
	std::ofstream binary (place + "/binary", std::ios::binary);
	for (int i = 0; i < 5; i++)
		binary.write (block.data (), block.size ());
	std::cout << "done" << std::endl;
}
