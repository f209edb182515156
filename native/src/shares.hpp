// How the cores share a block out: lists of parts, and what comes before what across cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace upbeat {

// A part in the list of some core.
struct Spot {
  std::int32_t core;
  std::int32_t position;
};

// Rows from `row` to the next End, done by one core after all of `waits`, which are on other cores.
//
// A part at the head of a list may be `loose`: it needs nothing that is done in this block, so that any core may do it.
// The one in whose list it is does, unless another one that would have to wait has taken it.
struct Part {
  std::int32_t row;
  std::vector<Spot> waits;
  bool loose = false;
};

// For each core what it does, in order. No core waits forever (see `problem_in`).
using Shares = std::vector<std::vector<Part>>;

// How many parts at the head of a list are loose.
inline std::size_t loose_in(const std::vector<Part>& list) {
  std::size_t count = 0;
  while (count < list.size() && list[count].loose) ++count;
  return count;
}

}  // namespace upbeat
