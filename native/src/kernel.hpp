// Expression kernels: straight-line code over a work array [inputs | constants | temporaries].
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lookup.hpp"

namespace upbeat {

struct Operation {
  std::int32_t op;
  std::int32_t to;
  std::int32_t a;
  std::int32_t b;
  std::int32_t c;
};

struct KernelTables {
  std::int32_t inputs = 0;
  std::int32_t size = 0;  // of the work array
  std::vector<double> constants;
  std::vector<Operation> code;
  std::vector<std::int32_t> results;  // where in the work array the outputs lie
  std::vector<LookupTables> lookups;

  // A work array with the constants in place. It can be used again and again, by one thread.
  std::vector<double> workspace() const {
    std::vector<double> work(static_cast<std::size_t>(size));
    std::copy(constants.begin(), constants.end(), work.begin() + inputs);
    return work;
  }
};

// Computes every temporary from the inputs at the head of `work`.
void run(const KernelTables& kernel, double* work);

// Why this kernel cannot be run, or an empty text.
std::string problem_in(const KernelTables& kernel);

}  // namespace upbeat
