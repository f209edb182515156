// The recorder: rows of [time, cells...] in a buffer that the host hands over and drains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cell.hpp"
#include "seen.hpp"

namespace upbeat {

class Recorder {
 public:
  // Records `columns` (cells): the first row offered, every `every`-th one after it, and the last.
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
    used_.set(0);
    left_out_ = false;
  }

  // Go on after `count` rows have been offered to another recorder, so that the same ones are kept.
  void after(std::int64_t count) { until_due_ = (every_ - count % every_) % every_ + 1; }

  // A row for which there must be room. One that is left out waits behind the others, where the next one takes its
  // place: if the run ends here, before its time, it is the last.
  void offer(double time, const Cell* cells, bool last) {
    const bool due = --until_due_ == 0;
    if (due) until_due_ = every_;
    Cell* const to = row(time, cells);
    left_out_ = !due && !last;
    if (left_out_) return;
    to_ = to;
    used_.set(used_.get() + 1);  // after the row: whoever sees the number sees the rows
  }

  // For how many more rows there is room.
  std::int64_t room() const { return static_cast<std::int64_t>(capacity_ - used_.get()); }
  std::size_t rows() const { return used_.get(); }
  // Whether one more row, which was left out, lies behind them.
  bool left_out() const { return left_out_; }
  std::size_t width() const { return width_; }

 private:
  struct Run {
    std::size_t from;
    std::size_t count;
  };

  Cell* row(double time, const Cell* cells) {
    Cell* to = to_;
    *to++ = real(time);
    for (const Run& run : runs_) {
      copy(to, cells + run.from, run.count);
      to += run.count;
    }
    return to;
  }

  // The cells have just been written one by one. Reading two of them at once, as memcpy does, makes
  // the processor wait until both have left its store buffer: for a few cells that is most of the cost.
  static void copy(Cell* to, const Cell* from, std::size_t count) {
    if (count > 8) {
      std::memcpy(to, from, sizeof(Cell) * count);
      return;
    }
    switch (count) {
      case 8: to[7].i = from[7].i; [[fallthrough]];
      case 7: to[6].i = from[6].i; [[fallthrough]];
      case 6: to[5].i = from[5].i; [[fallthrough]];
      case 5: to[4].i = from[4].i; [[fallthrough]];
      case 4: to[3].i = from[3].i; [[fallthrough]];
      case 3: to[2].i = from[2].i; [[fallthrough]];
      case 2: to[1].i = from[1].i; [[fallthrough]];
      default: to[0].i = from[0].i;
    }
  }

  std::vector<Run> runs_;
  std::int64_t every_;
  std::int64_t until_due_ = 1;
  std::size_t width_;
  Cell* to_ = nullptr;
  std::size_t capacity_ = 0;
  Seen<std::size_t> used_{0};
  bool left_out_ = false;
};

}  // namespace upbeat
