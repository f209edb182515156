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

// How long the character is that begins at `text[0]`, in bytes; 0 if there is none of UTF-8.
inline std::size_t character(const char* text, std::size_t left) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t size = first < 0x80 ? 1 : first >= 0xC2 && first < 0xE0 ? 2 : (first & 0xF0) == 0xE0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
  if (size == 0 || size > left) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;   // longer than it need be
  if (first == 0xED && byte(1) >= 0xA0) return 0;  // half of a pair of UTF-16
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) >= 0x90) return 0;  // beyond Unicode
  return size;
}

inline bool is_text(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character(text.data() + at, text.size() - at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

// The same, with a sign for whatever is no text.
inline std::string sound_text(const std::string& text) {
  if (is_text(text)) return text;
  std::string sound;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character(text.data() + at, text.size() - at);
    if (size == 0) {
      sound += "\xEF\xBF\xBD";
      ++at;
    } else {
      sound.append(text, at, size);
      at += size;
    }
  }
  return sound;
}

// Why a number that was computed cannot be stored as `kind`, or an empty text.
inline std::string misfit(double value, Kind kind) {
  if (kind == Kind::Boolean && value != value) return "nan is neither true nor false";
  if (kind == Kind::Integer && !(std::fabs(value) < 9223372036854775808.0)) return shortest(value) + " is not an integer";
  return "";
}

}  // namespace upbeat
