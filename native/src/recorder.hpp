// The recorder: rows of [time, cells...] in a buffer that the host hands over and drains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cell.hpp"

namespace upbeat {

class Recorder {
 public:
  // Records `columns` (cells) of every `every`-th row offered, and of those that must not be missed.
  Recorder(const std::vector<std::int32_t>& columns, std::int64_t every) : every_(every), width_(1 + columns.size()) {
    for (const std::int32_t column : columns) {
      const auto from = static_cast<std::size_t>(column);
      if (!runs_.empty() && runs_.back().from + runs_.back().count == from) {
        ++runs_.back().count;
      } else {
        runs_.push_back({from, 1});
      }
    }
  }

  // From now on rows go to `rows`, which has room for `capacity` of them.
  void open(Cell* rows, std::size_t capacity) {
    to_ = rows;
    capacity_ = capacity;
    used_ = 0;
  }

  bool wants(std::int64_t index, bool last) const { return last || index % every_ == 0; }
  bool full() const { return used_ == capacity_; }
  std::size_t rows() const { return used_; }
  std::size_t width() const { return width_; }

  // Needs room: not `full`.
  void row(double time, const Cell* cells) {
    *to_++ = real(time);
    for (const Run& run : runs_) {
      std::memcpy(to_, cells + run.from, sizeof(Cell) * run.count);
      to_ += run.count;
    }
    ++used_;
  }

 private:
  struct Run {
    std::size_t from;
    std::size_t count;
  };

  std::vector<Run> runs_;
  std::int64_t every_;
  std::size_t width_;
  Cell* to_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

}  // namespace upbeat
