// The event mode of an FMU for co-simulation: what leads into it, what a round of it does, and when the next is due.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "fmi/clocks.hpp"
#include "fmi/memory.hpp"
#include "text.hpp"

namespace upbeat::fmi {

template <class F>
class EventMode {
 public:
  // `clock` is where others look for the time.
  EventMode(F& fmu, Memory& memory, const FmuTables& tables, double* clock)
      : fmu_(fmu),
        memory_(memory),
        clocks_(fmu, tables.clocks, tables.start, memory.clocks()),
        exists_(tables.event_mode),
        clock_(clock) {}

  bool exists() const { return exists_; }

  // Of the events that the FMU, or one of its clocks, has planned.
  double next() { return std::min(memory_.next_event(), clocks_.due()); }
  double due() {
    if (fmu_.over()) return std::numeric_limits<double>::infinity();
    if (memory_.mode() == Memory::Initialization || waits() || memory_.any(Port::Sent)) return memory_.now();
    return next();
  }
  bool happens() { return !fmu_.over() && (waits() || next() <= memory_.now()); }

  bool leave_initialization() {
    if (!fmu_.steps() || !fmu_.leave_initialization()) return false;
    memory_.mode() = exists_ ? Memory::Event : Memory::Stepping;
    memory_.pending() = exists_ ? 1 : 0;
    return !exists_ || clocks_.begin();
  }

  // A discrete input that changes is an event of its own.
  bool hear(const Port& given, const Cell* value) {
    Cell* const mine = memory_.own(given);
    const bool known = mine[0].i != 0 && std::equal(value, value + given.cells, mine + 1, [&](Cell a, Cell b) {
                         return given.kind() == Kind::Real ? a.r == b.r : a.i == b.i;
                       });
    if (memory_.mode() != Memory::Initialization) {
      if (known) return true;
      if (!enter()) return false;
      memory_.pending() = 1;
    }
    std::copy_n(value, given.cells, mine + 1);
    mine[0].i = 1;
    return fmu_.set(given, value);
  }

  // So is a parameter that is set.
  bool tune(const Port& given, const Cell* value) {
    if (exists_ && memory_.mode() != Memory::Initialization) {
      if (!enter()) return false;
      memory_.pending() = 1;
    }
    return fmu_.set(given, value);
  }

  // Into step mode, with everything done that is to be done at this time.
  bool leave() {
    if (exists_ && !settle()) return false;
    if (memory_.mode() == Memory::Event && !fmu_.over()) {
      if (!fmu_.enter_step_mode()) return false;
      memory_.mode() = Memory::Stepping;
    }
    sent();
    return true;
  }

  // Rounds until nothing is left to do at this time.
  bool settle() {
    for (int rounds = 0; rounds < most_rounds; ++rounds) {
      if (!happens()) return true;
      if (!round()) return false;
    }
    return fmu_.refuse("event iteration at t = " + shorter(memory_.now()) + " did not end within " +
                       std::to_string(most_rounds) + " rounds");
  }

  // One round: what ticks is told, clocked values are exchanged, discrete states renewed.
  bool round() {
    *clock_ = memory_.now();
    memory_.count() += 1;
    if (!enter()) return false;
    for (const std::int32_t number : memory_.all(Port::Heard)) {
      if (own(number)->i != 0 && !fmu_.tick(memory_.port(number).reference)) return false;
    }
    if (!clocks_.tick(memory_.now())) return false;
    if (!exchange() || !clocks_.ticked(memory_.now())) return false;
    for (const std::int32_t number : memory_.all(Port::Heard)) own(number)->i = 0;
    Updated updated;
    if (!fmu_.update(updated)) return false;
    if (updated.terminate) fmu_.end(memory_.now());
    memory_.pending() = updated.again ? 1 : 0;
    memory_.next_event() = fmu_.next_event(memory_.now(), updated.next);
    return clocks_.look(memory_.now());
  }

  // What ticked has been seen by others.
  void sent() {
    for (const std::int32_t number : memory_.all(Port::Sent)) own(number)->i = 0;
  }

 private:
  static constexpr int most_rounds = 1000;  // of event iteration at one instant

  Cell* own(std::int32_t number) { return memory_.own(memory_.port(number)); }

  // Whether something is to be done that is not a matter of time.
  bool waits() { return exists_ && (memory_.pending() != 0 || memory_.any(Port::Heard)); }

  bool enter() {
    if (memory_.mode() == Memory::Event) return true;
    if (!fmu_.enter_event_mode()) return false;
    memory_.mode() = Memory::Event;
    memory_.forget_rates();
    return true;
  }

  // Hands over inputs whose clock ticks, and looks at the outputs of those that do. Whether an output clock ticks may
  // depend on what the input clocks bring: it is asked after that.
  bool exchange() {
    ticking_.clear();
    for (const std::int32_t number : memory_.all(Port::Heard)) {
      if (own(number)->i != 0) ticking_.push_back(memory_.port(number).reference);
    }
    clocks_.append_ticking(ticking_);
    if (!hand_over(0)) return false;
    const std::size_t first_sent = ticking_.size();
    for (const std::int32_t number : memory_.all(Port::Sent)) {
      bool ticks = false;
      if (!fmu_.ticking(memory_.port(number).reference, &ticks)) return false;
      if (!ticks) continue;
      own(number)->i = 1;
      ticking_.push_back(memory_.port(number).reference);
    }
    if (!hand_over(first_sent)) return false;
    for (const std::int32_t number : memory_.all(Port::Seen)) {
      const Port& output = memory_.port(number);
      if (tick_now(output.clocks, 0) && !fmu_.get(output, own(number))) return false;
    }
    return true;
  }
  // The inputs that wait for a clock that ticks, from the `first` of them on.
  bool hand_over(std::size_t first) {
    for (const std::int32_t number : memory_.all(Port::Clocked)) {
      const Port& input = memory_.port(number);
      if (own(number)[0].i != 0 && tick_now(input.clocks, first) && !fmu_.set(input, own(number) + 2)) return false;
    }
    return true;
  }
  bool tick_now(const std::vector<std::uint32_t>& clocks, std::size_t first) const {
    const auto begin = ticking_.begin() + static_cast<std::ptrdiff_t>(first);
    return std::find_first_of(begin, ticking_.end(), clocks.begin(), clocks.end()) != ticking_.end();
  }

  F& fmu_;
  Memory& memory_;
  Clocks<F> clocks_;
  bool exists_;
  double* clock_;
  std::vector<std::uint32_t> ticking_;  // references of the clocks that do, in this round
};

}  // namespace upbeat::fmi
