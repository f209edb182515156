// Cells: the eight bytes in which every value of a run lives, and the pool of its strings.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "upbeat/unit.h"

namespace upbeat {

using Cell = upbeat_cell;

enum class Kind : std::int32_t { Real = 0, Integer = 1, Boolean = 2, String = 3 };

inline Cell real(double value) {
  Cell cell;
  cell.r = value;
  return cell;
}

inline Cell integer(std::int64_t value) {
  Cell cell;
  cell.i = value;
  return cell;
}

// In integers: a double that is not finite has all bits of its exponent set.
inline bool finite(Cell cell) { return (static_cast<std::uint64_t>(cell.i) << 1) < 0xffe0000000000000u; }

// How expressions see a cell: everything is a double there.
inline double to_double(Cell cell, Kind kind) {
  return kind == Kind::Real ? cell.r : static_cast<double>(cell.i);
}

// The nearest integer, halves to even. A double that has none becomes 0: where that could matter
// the value has been checked before.
inline std::int64_t to_integer(double value) {
  const double rounded = std::nearbyint(value);
  if (!(rounded >= -9223372036854775808.0 && rounded < 9223372036854775808.0)) return 0;
  return static_cast<std::int64_t>(rounded);
}

// How a cell takes what an expression has computed.
inline Cell from_double(double value, Kind kind) {
  switch (kind) {
    case Kind::Real: return real(value);
    case Kind::Boolean: return integer(value != 0.0);
    default: return integer(to_integer(value));
  }
}

// Strings by number. The pool only grows, so a number stays valid for the whole run.
// Any thread may ask: units of several cores share one.
class Strings {
 public:
  std::int64_t intern(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::int64_t>(texts_.size());
    texts_.push_back(text);
    numbers_.emplace(text, number);
    return number;
  }
  const std::string& text(std::int64_t number) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_.at(static_cast<std::size_t>(number));
  }
  std::size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::deque<std::string> texts_;  // which stay where they are when others come
  std::unordered_map<std::string, std::int64_t> numbers_;
};

}  // namespace upbeat
