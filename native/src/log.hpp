// The log of steps: runs of equal ones, merged by the rule of upbeat.trace.log.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace upbeat {

struct StepRun {
  double first;
  double last;
  std::int64_t count;
  std::int32_t reason;
  std::int32_t block;
  std::int64_t rejected;
};

class StepLog {
 public:
  StepLog() { entries_.reserve(static_cast<std::size_t>(capacity)); }

  // For how many more steps there is room, whatever they are: drain when there is none.
  std::int64_t room() const { return capacity - 1 - (drained_ ? 0 : static_cast<std::int64_t>(entries_.size())); }

  void append(double t0, double t1, std::int32_t reason, std::int32_t block, std::int64_t rejected) {
    if (open_.last == t0 && open_.reason == reason && open_.block == block && open_.count > 0 && agrees(t1 - t0, t1)) {
      open_.last = t1;
      ++open_.count;
      if (rejected != 0) open_.rejected += rejected;
      return;
    }
    hand_over();
    open_ = {t0, t1, 1, reason, block, rejected};
    done_ = {t0, t0, 0, reason, block, 0};
    usual_ = t1 - t0;
    band_ = 0.25e-9 * std::fabs(usual_);
  }

  // Everything since the last call, valid until the next `append`. A run that goes on is handed over in
  // pieces, and yet compared as a whole: how often somebody drains must not show in the log.
  const std::vector<StepRun>& drain() {
    hand_over();
    drained_ = true;
    return entries_;
  }

 private:
  static constexpr std::int64_t capacity = 4096;

  // What of the open run has not been handed over yet.
  void hand_over() {
    if (drained_) {
      entries_.clear();
      drained_ = false;
    }
    if (open_.count == done_.count) return;
    entries_.push_back({done_.last, open_.last, open_.count - done_.count, open_.reason, open_.block,
                        open_.rejected - done_.rejected});
    done_ = open_;
  }

  // If all sizes of a run lie this close to its first one, their mean does, too: nearly always that settles it,
  // without a division.
  bool agrees(double size, double at) {
    if (std::fabs(size - usual_) <= band_) return true;
    const double mean = (open_.last - open_.first) / static_cast<double>(open_.count);
    band_ = -1.0;
    return std::fabs(size - mean) <= 1e-9 * std::fabs(mean) + 4.0 * ulp(at);
  }

  // The distance to the next double, from the bits: std::nextafter would cost more than the step.
  static double ulp(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const std::uint64_t exponent = (bits >> 52) & 0x7ff;
    bits = exponent > 52 ? (exponent - 52) << 52 : std::uint64_t{1} << (exponent > 0 ? exponent - 1 : 0);
    std::memcpy(&value, &bits, sizeof bits);
    return value;
  }

  std::vector<StepRun> entries_;
  StepRun open_{};
  StepRun done_{};  // the part of the open run that has been handed over
  double usual_ = 0.0;
  double band_ = -1.0;  // below 0: a size of the open run lay outside
  bool drained_ = false;
};

}  // namespace upbeat
