// How the cores share a block out: lists of parts, and what comes before what across cores.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace upbeat {

// A part in the list of some core.
struct Spot {
  std::int32_t core;
  std::int32_t position;
};

// Rows from `row` to the next End, done by one core after all of `waits`, which are on other cores.
//
// A part at the head of a list may be `loose`: it needs nothing that is done in this block, so that any core may do it.
// The one in whose list it is does, unless another one that would have to wait has taken it.
struct Part {
  std::int32_t row;
  std::vector<Spot> waits;
  bool loose = false;
};

// For each core what it does, in order. No core waits forever (see `problem_in`).
using Shares = std::vector<std::vector<Part>>;

// How many parts at the head of a list are loose.
inline std::size_t loose_in(const std::vector<Part>& list) {
  std::size_t count = 0;
  while (count < list.size() && list[count].loose) ++count;
  return count;
}

// Finds out in the first steps of a run whether several cores make a block quicker: some steps in a row are made by
// several, some by one, and the medians decide. Results are the same in both ways, so nothing else depends on it.
class Trial {
 public:
  // Steps in a row that are made in the same way. The first of them does not count: threads may have gone to sleep.
  static constexpr std::size_t batch = 4;
  static constexpr std::size_t max_batches = 16;  // stretches, after one that does not count
  static constexpr std::size_t samples = max_batches / 2 * (batch - 1);

  // Measure from now on. Without that, several cores do it.
  void begin() { *this = Trial(Fresh{}); }
  Trial() = default;

  bool over() const { return over_; }
  // Whether several cores make the next step; when it is over, all steps.
  bool several() const { return several_; }

  // The step took so long.
  void took(double seconds) {
    const std::size_t number = steps_++ / batch;
    if (number > 0 && steps_ % batch != 1) {
      Times& times = times_[several_ ? 1 : 0];
      times.seconds[times.count++] = seconds;
    }
    if (steps_ % batch != 0) return;
    if ((number == 4 || number == 8) && apart()) over_ = true;
    if (number == max_batches) over_ = true;
    several_ = over_ ? median(true) < median(false) : turn(number);
  }

  // Half of the steps made by several cores, or by one, took less; 0 if none was measured.
  double median(bool several) const {
    Times times = times_[several ? 1 : 0];
    if (times.count == 0) return 0.0;
    double* const middle = times.seconds.data() + times.count / 2;
    std::nth_element(times.seconds.data(), middle, times.seconds.data() + times.count);
    return *middle;
  }

 private:
  struct Fresh {};
  explicit Trial(Fresh) : over_(false) {}
  struct Times {
    std::array<double, samples> seconds{};
    std::size_t count = 0;
  };

  // Who makes a stretch: in the order of Thue and Morse, so that neither drifts nor periods favour anybody.
  static bool turn(std::size_t number) {
    bool several = true;
    for (; number > 0; number >>= 1) several ^= (number & 1) != 0;
    return several;
  }

  // Whether the slowest step in one of the two ways was quicker than the quickest in the other.
  bool apart() const {
    const auto ends = [](const Times& times) {
      return std::minmax_element(times.seconds.begin(), times.seconds.begin() + static_cast<std::ptrdiff_t>(times.count));
    };
    const auto one = ends(times_[0]);
    const auto many = ends(times_[1]);
    return *one.second < *many.first || *many.second < *one.first;
  }

  std::array<Times, 2> times_{};  // of one core, of several
  std::size_t steps_ = 0;
  bool over_ = true;
  bool several_ = true;
};

}  // namespace upbeat
