// See log.hpp.
#include "log.hpp"

#include "located.hpp"

namespace upbeat {

void StepLog::consider(double t0, double t1, std::int32_t reason, std::int32_t block, std::int64_t rejected) {
  if (open_.count > 0 && open_.last == t0 && open_.reason == reason && open_.block == block) {
    const double mean = (open_.last - open_.first) / static_cast<double>(open_.count);
    const double size = t1 - t0;
    if (std::fabs(size - mean) <= 1e-9 * std::fabs(mean) + 4.0 * ulp(t1)) {
      if (!(std::fabs(size - usual_) <= band_)) band_ = -1.0;
      open_.last = t1;
      ++open_.count;
      open_.rejected += rejected;
      return;
    }
  }
  hand_over();
  open_ = {t0, t1, 1, reason, block, rejected};
  done_ = {t0, t0, 0, reason, block, 0};
  usual_ = t1 - t0;
  band_ = 0.25e-9 * std::fabs(usual_);
}

void StepLog::hand_over() {
  if (drained_) {
    entries_.clear();
    drained_ = false;
  }
  if (open_.count == done_.count) return;
  entries_.push_back({done_.last, open_.last, open_.count - done_.count, open_.reason, open_.block,
                      open_.rejected - done_.rejected});
  done_ = open_;
}

}  // namespace upbeat
