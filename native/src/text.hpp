// Numbers in messages, as Python writes them.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cell.hpp"

namespace upbeat {

// The shortest text that reads back as `value`.
inline std::string shortest(double value) {
  if (value != value) return "nan";
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

// To nine digits, as messages show times.
inline std::string shorter(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// Why a number that was computed cannot be stored as `kind`, or an empty text.
inline std::string misfit(double value, Kind kind) {
  if (kind == Kind::Boolean && value != value) return "nan is neither true nor false";
  if (kind == Kind::Integer && !(std::fabs(value) < 9223372036854775808.0)) return shortest(value) + " is not an integer";
  return "";
}

}  // namespace upbeat
