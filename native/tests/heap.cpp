// See heap.hpp. The usual operators, with a counter; those for arrays end here, too.
#include "heap.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t requests = 0;

}  // namespace

std::size_t heap_requests() { return requests; }

void* operator new(std::size_t size) {
  ++requests;
  if (void* const found = std::malloc(size == 0 ? 1 : size)) return found;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
