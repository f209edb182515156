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
  // Records `columns` (cells): the first row offered, every `every`-th one after it, and the last. With `jumps`, where
  // something changes at an instant, always: the row before that and the one after it.
  Recorder(const std::vector<std::int32_t>& columns, std::int64_t every, bool jumps = false)
      : every_(every), width_(1 + columns.size()), left_(jumps ? width_ : 0) {
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

  // The next row offered is the first of another run.
  void begin() {
    until_due_ = 1;
    told_ = false;
  }

  // Go on after `count` rows have been offered to another recorder, so that the same ones are kept.
  void after(std::int64_t count) { until_due_ = (every_ - count % every_) % every_ + 1; }

  // What there is before something happens at the present time, which is told right before the next `offer`.
  void before(double time, const Cell* cells) {
    if (left_.empty()) return;
    row(left_.data(), time, cells);
    told_ = true;
  }

  // A row for which there must be room. One that is left out waits behind the others, where the next one takes its
  // place: if the run ends here, before its time, it is the last.
  void offer(double time, const Cell* cells, bool last) {
    const bool due = --until_due_ == 0;
    if (due) until_due_ = every_;
    std::size_t count = 1;
    if (told_ && jumped(cells)) {
      std::memcpy(to_, left_.data(), sizeof(Cell) * width_);
      to_ += width_;
      count = 2;
    }
    told_ = false;
    Cell* const to = row(to_, time, cells);
    left_out_ = !due && !last && count == 1;
    if (left_out_) return;
    to_ = to;
    used_.set(used_.get() + count);  // after the rows: who sees the number sees the rows
  }

  // For how many more offers there is room.
  std::int64_t room() const { return static_cast<std::int64_t>((capacity_ - used_.get()) / (left_.empty() ? 1 : 2)); }
  std::size_t rows() const { return used_.get(); }
  // Whether one more row, which was left out, lies behind them.
  bool left_out() const { return left_out_; }
  std::size_t width() const { return width_; }

 private:
  struct Run {
    std::size_t from;
    std::size_t count;
  };

  Cell* row(Cell* to, double time, const Cell* cells) const {
    *to++ = real(time);
    for (const Run& run : runs_) {
      copy(to, cells + run.from, run.count);
      to += run.count;
    }
    return to;
  }

  // Whether any bit differs from what `before` was told.
  bool jumped(const Cell* cells) const {
    const Cell* was = left_.data() + 1;
    for (const Run& run : runs_) {
      if (std::memcmp(was, cells + run.from, sizeof(Cell) * run.count) != 0) return true;
      was += run.count;
    }
    return false;
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
  std::vector<Cell> left_;  // a row; empty: jumps are not recorded
  bool told_ = false;
};

}  // namespace upbeat
