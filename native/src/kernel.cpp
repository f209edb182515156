// The evaluator of expression kernels.
#include "kernel.hpp"

#include <cmath>

#include "upbeat/opcodes.h"

namespace upbeat {

void run(const KernelTables& kernel, double* const work) {
  const Operation* at = kernel.code.data();
  const Operation* const end = at + kernel.code.size();
  for (; at != end; ++at) {
    switch (at->op) {
#define UPBEAT_CASE(name, number, value)    \
  case number: {                            \
    const double a = work[at->a];           \
    work[at->to] = (value);                 \
    break;                                  \
  }
      UPBEAT_UNARY(UPBEAT_CASE)
#undef UPBEAT_CASE
#define UPBEAT_CASE(name, number, value)    \
  case number: {                            \
    const double a = work[at->a];           \
    const double b = work[at->b];           \
    work[at->to] = (value);                 \
    break;                                  \
  }
      UPBEAT_BINARY(UPBEAT_CASE)
#undef UPBEAT_CASE
#define UPBEAT_CASE(name, number, value)    \
  case number: {                            \
    const double a = work[at->a];           \
    const double b = work[at->b];           \
    const double c = work[at->c];           \
    work[at->to] = (value);                 \
    break;                                  \
  }
      UPBEAT_TERNARY(UPBEAT_CASE)
#undef UPBEAT_CASE
      case UPBEAT_LOOKUP1: work[at->to] = lookup1(kernel.lookups[at->a], work[at->b]); break;
      case UPBEAT_LOOKUP2: work[at->to] = lookup2(kernel.lookups[at->a], work[at->b], work[at->c]); break;
      default: break;  // `problem_in` has refused it
    }
  }
}

namespace {

int arity_of(std::int32_t op) {
  switch (op) {
#define UPBEAT_CASE(name, number, value) case number:
    UPBEAT_UNARY(UPBEAT_CASE) return 1;
    UPBEAT_BINARY(UPBEAT_CASE) return 2;
    UPBEAT_TERNARY(UPBEAT_CASE) return 3;
#undef UPBEAT_CASE
    default: return 0;
  }
}

bool fits(const LookupTables& table, int variables) {
  if (table.x.empty() || table.origin_x.size() != table.x.size() + 1) return false;
  if (variables == 1) return table.coefficients.size() == 2 * (table.x.size() + 1);
  return !table.y.empty() && table.origin_y.size() == table.y.size() + 1 &&
         table.coefficients.size() == 4 * (table.x.size() + 1) * (table.y.size() + 1);
}

}  // namespace

std::string problem_in(const KernelTables& kernel) {
  const auto fixed = static_cast<std::int64_t>(kernel.inputs) + static_cast<std::int64_t>(kernel.constants.size());
  if (kernel.inputs < 0 || fixed > kernel.size) return "a kernel's work array is too small";
  const auto readable = [&](std::int32_t index) { return index >= 0 && index < kernel.size; };
  for (const Operation& operation : kernel.code) {
    if (operation.to < fixed || operation.to >= kernel.size) return "a kernel writes outside its temporaries";
    if (operation.op == UPBEAT_LOOKUP1 || operation.op == UPBEAT_LOOKUP2) {
      const int variables = operation.op == UPBEAT_LOOKUP1 ? 1 : 2;
      if (operation.a < 0 || static_cast<std::size_t>(operation.a) >= kernel.lookups.size() ||
          !fits(kernel.lookups[static_cast<std::size_t>(operation.a)], variables)) {
        return "a kernel names a table that it does not have";
      }
      if (!readable(operation.b) || (variables == 2 && !readable(operation.c))) return "a kernel reads outside its work array";
      continue;
    }
    const int arity = arity_of(operation.op);
    if (arity == 0) return "a kernel has the unknown operation " + std::to_string(operation.op);
    if (!readable(operation.a) || (arity > 1 && !readable(operation.b)) || (arity > 2 && !readable(operation.c))) {
      return "a kernel reads outside its work array";
    }
  }
  for (const std::int32_t result : kernel.results) {
    if (!readable(result)) return "a kernel's result lies outside its work array";
  }
  return "";
}

}  // namespace upbeat
