// How much is asked of the heap: for what must not ask, such as a step that only looks something up.
#pragma once

#include <cstddef>

// How often this thread has asked for memory so far.
std::size_t heap_requests();
