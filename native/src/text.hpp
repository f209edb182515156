// Numbers in messages, as Python writes them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

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

}  // namespace upbeat
