// Paces that run in the core: how far the next step goes, and whether it stands. Each is the twin of one in
// upbeat.master.paces.pace, bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "machine.hpp"
#include "reasons.hpp"

namespace upbeat {

// Where the next step should end, why (a number that `Pace::reason` knows), and with which block.
struct Proposal {
  double until;
  std::int32_t reason;
  std::int32_t block;
};

// The last of many numbers.
template <class T>
struct Latest {
  static constexpr std::size_t most = 8;
  T kept[most] = {};
  std::size_t count = 0;  // of all

  void add(T value) { kept[count++ % most] = value; }
  std::size_t first() const { return count - (count < most ? count : most); }  // of those that are kept
  T operator[](std::size_t i) const { return kept[i % most]; }
};

// At which events steps have ended of late, and what has happened there.
struct Landings {
  Latest<double> times;
  Latest<std::int32_t> reasons;
  Latest<std::int32_t> fired;
};

// What a pace remembers is a flat array of numbers; it sees cells, never units.
class Pace {
 public:
  // `reasons`: where to look up what its numbers of reasons mean; a pace around another one shares them with it.
  explicit Pace(std::shared_ptr<Reasons> reasons = std::make_shared<Reasons>()) : reasons_(std::move(reasons)) {}
  virtual ~Pace() = default;

  // Whether `review` may send a step back; then every unit needs save and restore.
  virtual bool retries() const { return false; }

  // Before the first step, at the start time `t` of a run to `limit` (infinity: not known yet).
  virtual void begin(double t, double limit) = 0;

  // The next step from `t`, not beyond `limit`.
  virtual Proposal propose(double t, double limit, const Cell* cells) = 0;

  // What the pace tells the program before a step, in cells that are its own for that.
  virtual void tell(Cell*) const {}

  // True lets the step from `t` to `reached` stand; false sends it back, to be done as `step` says then. If its
  // `until` is no number, the pace gives up and ends the run, for its `reason`.
  virtual bool review(double t, double reached, const Cell* cells, Proposal& step) = 0;

  // These events fired at the new time `t`.
  virtual void note(double t, const Fired* fired, std::size_t count, const Cell* cells) = 0;

  // Somebody has changed inputs at the time `t` where it stands already; `fired`: events have followed from that.
  virtual void anew(double /*t*/, bool /*fired*/, const Cell*) {}

  // The last cell that it looks at; -1: none.
  virtual std::int32_t sees() const { return -1; }

  // What a number in a proposal means.
  const Reason& reason(std::int32_t number) const { return reasons_->of(number); }
  const std::shared_ptr<Reasons>& reasons() const { return reasons_; }

  // Kept by the loop, to say which events chatter.
  Landings landings;

  // What it remembers, the same numbers as the state of its twin.
  virtual const std::vector<double>& state() const { return state_; }

  // Go on from what such a pace remembered. False: these are not such numbers, and nothing has changed.
  virtual bool stand(const std::vector<double>& state) {
    if (state.size() != state_.size()) return false;
    std::copy(state.begin(), state.end(), state_.begin());
    return true;
  }

 protected:
  std::int32_t why(const Reason& reason) { return reasons_->number(reason); }

  std::vector<double> state_;

 private:
  std::shared_ptr<Reasons> reasons_;
};

// Steps of one size on the grid origin + k·step; points are computed from their index, never summed, also
// after a step that ended early. State: [origin, step].
class Fixed final : public Pace {
 public:
  Fixed(double step, std::int32_t block) : block_(block) { state_ = {0.0, step}; }

  void begin(double t, double) override {
    state_[0] = t;
    safe_limit_ = none;
  }

  bool stand(const std::vector<double>& state) override {
    if (state.size() != 2 || !(state[1] > 0.0) || !Pace::stand(state)) return false;
    safe_limit_ = none;  // the next index is computed, not counted on
    return true;
  }

  Proposal propose(double t, double limit, const Cell*) override {
    const double origin = state_[0];
    const double step = state_[1];
    if (t == point_ && limit == safe_limit_) {
      index_ += 1.0;
    } else {
      index_ = whole((t - origin) / step + sliver) + 1.0;
      if (!(origin + index_ * step > t)) index_ += 1.0;  // late in a run rounding may be more than that
      const double most = std::fmax(std::fabs(origin), std::fabs(limit));
      safe_limit_ = step > 1e-8 * most ? limit : none;
    }
    const double until = origin + index_ * step;
    point_ = until > limit - slack * step ? limit : until;
    return {point_, number_of(Why::Fixed), block_};
  }

  bool review(double, double, const Cell*, Proposal&) override { return true; }
  void note(double, const Fired*, std::size_t, const Cell*) override {}

 private:
  // The part of a step below which a remainder counts as rounding, and the one that is not worth a step of its own.
  static constexpr double slack = 1e-6;
  static constexpr double sliver = 1e-3;

  // As std::floor, which is a call into a library unless one compiles for a particular processor.
  static double whole(double value) {
    if (!(std::fabs(value) < 4503599627370496.0)) return std::floor(value);
    const auto towards_zero = static_cast<double>(static_cast<std::int64_t>(value));
    return towards_zero > value ? towards_zero - 1.0 : towards_zero;
  }

  static constexpr double none = std::numeric_limits<double>::quiet_NaN();

  std::int32_t block_;

  // Where the last proposal ended and its index: from there the next index is known without the division, for
  // which the whole step would have to wait. That is exact as long as the rounding of a grid point, some
  // 1e-15 of the largest time, is far below `slack` steps: up to `safe_limit_`.
  double point_ = 0.0;
  double index_ = 0.0;
  double safe_limit_ = none;
};

// From one known event, which bounds every step, to the next, in steps of at most `most`. State: [].
class EventDriven final : public Pace {
 public:
  EventDriven(double most, std::int32_t block) : most_(most), block_(block) {}

  void begin(double, double) override {}
  Proposal propose(double t, double limit, const Cell*) override {
    const double until = t + most_;
    // What is left of the way to `limit` by rounding alone is no step.
    const double room = std::isinf(most_) ? limit : limit - slack * most_;
    return {t < until && until < room ? until : limit, number_of(Why::Far), block_};
  }
  bool review(double, double, const Cell*, Proposal&) override { return true; }
  void note(double, const Fired*, std::size_t, const Cell*) override {}

 private:
  static constexpr double slack = 1e-6;  // the part of a step below which a remainder counts as rounding

  double most_;
  std::int32_t block_;
};

// Steps and blocks in an order that repeats; points are computed from the number of the round, never summed. State:
// [which one comes next, the origin, the round].
class Pattern final : public Pace {
 public:
  Pattern(std::vector<double> steps, std::vector<std::int32_t> blocks) : steps_(std::move(steps)), blocks_(std::move(blocks)) {
    state_ = {0.0, 0.0, 0.0};
    for (const double step : steps_) sums_.push_back(sums_.back() + step);
  }

  void begin(double t, double) override { state_ = {0.0, t, 0.0}; }

  bool stand(const std::vector<double>& state) override {
    const bool sane = state.size() == 3 && state[0] >= 0.0 && state[0] < static_cast<double>(steps_.size());
    return sane && state[0] == std::floor(state[0]) && Pace::stand(state);
  }

  Proposal propose(double t, double limit, const Cell*) override {
    const auto place = static_cast<std::size_t>(state_[0]);
    const double step = steps_[place];
    const double whole = sums_.back();
    if (!(std::fabs(t - (state_[1] + state_[2] * whole + sums_[place])) <= slack * step)) {
      state_[1] = t - sums_[place];
      state_[2] = 0.0;
    }
    const bool last = place + 1 == steps_.size();
    const double until = last ? state_[1] + (state_[2] + 1.0) * whole : state_[1] + state_[2] * whole + sums_[place + 1];
    state_[0] = last ? 0.0 : static_cast<double>(place + 1);
    if (last) state_[2] += 1.0;
    return {until > limit - slack * step ? limit : until, number_of(Why::Pattern), blocks_[place]};
  }

  bool review(double, double, const Cell*, Proposal&) override { return true; }
  void note(double, const Fired*, std::size_t, const Cell*) override {}

 private:
  static constexpr double slack = 1e-6;  // the part of a step below which a remainder counts as rounding

  std::vector<double> steps_;
  std::vector<double> sums_{0.0};  // how far into a round each step begins, and how long a round is
  std::vector<std::int32_t> blocks_;
};

// The pace of this name (see `Pace.native` in Python), or null. `blocks` are the numbers of the program's
// step blocks, the usual one first, and `texts` the names that its reasons are about.
std::unique_ptr<Pace> make_pace(const std::string& name, const std::vector<double>& parameters,
                                const std::vector<std::int32_t>& blocks, const std::vector<std::string>& texts = {});

}  // namespace upbeat
