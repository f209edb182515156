// The log of steps: runs of equal ones, merged by the rule of upbeat.trace.log.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace upbeat {

// Handed to Python as it lies in memory: `upbeat.trace.log.RUNS` names the same members.
struct StepRun {
  double first;
  double last;
  std::int64_t count;
  std::int32_t reason;
  std::int32_t block;
  std::int64_t rejected;
};
static_assert(sizeof(StepRun) == 40, "no gaps between the members");

class StepLog {
 public:
  StepLog() { entries_.reserve(static_cast<std::size_t>(capacity)); }

  // For how many more steps there is room, whatever they are: drain when there is none.
  std::int64_t room() const { return capacity - 1 - (drained_ ? 0 : static_cast<std::int64_t>(entries_.size())); }

  void append(double t0, double t1, std::int32_t reason, std::int32_t block, std::int64_t rejected) {
    const bool goes_on = open_.last == t0 && open_.reason == reason && open_.block == block && rejected == 0;
    if (goes_on && std::fabs(t1 - t0 - usual_) <= band_) {
      open_.last = t1;
      ++open_.count;
      return;
    }
    consider(t0, t1, reason, block, rejected);
  }

  // Everything since the last call, valid until the next `append`. A run that goes on is handed over in
  // pieces, and yet compared as a whole: how often it is drained must not show in the log.
  const std::vector<StepRun>& drain() {
    hand_over();
    drained_ = true;
    return entries_;
  }

 private:
  static constexpr std::int64_t capacity = 4096;

  // Hands over what of the open run has not been handed over yet.
  void hand_over();

  // The rule itself. `append` need not ask as long as all sizes of the open run lie within a narrow band around the
  // first one, because then their mean does, too: no division, no call.
  void consider(double t0, double t1, std::int32_t reason, std::int32_t block, std::int64_t rejected);

  std::vector<StepRun> entries_;
  StepRun open_{};
  StepRun done_{};  // the part of the open run that has been handed over
  double usual_ = 0.0;
  double band_ = -1.0;  // below 0: a size of the open run lay outside
  bool drained_ = false;
};

}  // namespace upbeat
