// What the rows of a program become once they are linked to the units of a machine.
#pragma once

#include "machine.hpp"

namespace upbeat {

// An instruction with the unit's function and its `self` resolved, small so that long programs
// stay in the cache. Codes beyond those of `Op` are special cases worth a loop of their own.
struct Machine::Step {
  enum Special : std::int32_t { GetReal = 64, GetReals = 65, CheckedSet = 66 };
  std::int32_t code = 0;
  std::int32_t a = 0;
  std::int32_t b = 0;
  std::int32_t c = 0;
  std::int32_t d = 0;
  std::int32_t unit = -1;
  void* self = nullptr;
  union {
    decltype(upbeat_unit::get) get = nullptr;
    decltype(upbeat_unit::set) set;
    decltype(upbeat_unit::advance) advance;
    decltype(upbeat_unit::jump) jump;
    decltype(upbeat_unit::due) due;
    decltype(upbeat_unit::slope) slope;
    Expression* expression;
  };
};

struct Machine::Expression {
  const KernelTables* kernel;
  std::vector<double> work;
  std::vector<std::int32_t> from;
  std::vector<std::int32_t> to;
  bool plain;  // every cell it touches is real
};

}  // namespace upbeat
