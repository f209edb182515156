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
struct Part {
  std::int32_t row;
  std::vector<Spot> waits;
};

// For each core what it does, in order. No core waits forever (see `problem_in`).
using Shares = std::vector<std::vector<Part>>;

}  // namespace upbeat
