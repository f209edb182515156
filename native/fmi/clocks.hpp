// When the input clocks of an FMU tick that tick by themselves: periodic ones and countdowns. The twin of
// upbeat.units.fmi.clocks.
#pragma once

#include <algorithm>
#include <cmath>

#include "fmi/fmu.hpp"
#include "text.hpp"

namespace upbeat::fmi {

// Ticks of a clock whose interval stays are computed from their number, never summed. The next tick and the
// number of ticks so far are kept outside, two cells for each clock, because they belong to the unit's state.
template <class F>
class Clocks {
 public:
  Clocks(F& fmu, const std::vector<ClockTables>& tables, double start, Cell* cells)
      : fmu_(fmu), tables_(tables), start_(start), cells_(cells), periods_(tables.size()), ticking_(tables.size()) {
    for (std::size_t i = 0; i < tables.size(); ++i) next(i) = std::numeric_limits<double>::infinity();
  }

  // Just out of initialization: ask for what the description leaves open.
  bool begin() {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const ClockTables& own = tables_[i];
      if (own.interval == ClockTables::Interval::Countdown) continue;
      if (own.interval == ClockTables::Interval::Changing) {
        next(i) = start_ + own.shift / own.resolution;
      } else if (!plan(i)) {
        return false;
      }
    }
    return look(start_);
  }

  double due() const {
    double earliest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < tables_.size(); ++i) earliest = std::min(earliest, cells_[2 * i].r);
    return earliest;
  }

  // Those that are due within four units in the last place tick together.
  bool tick(double now) {
    const double slack = 4.0 * (std::nextafter(std::fabs(now), std::numeric_limits<double>::infinity()) - std::fabs(now));
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      ticking_[i] = next(i) - now <= slack;
      if (ticking_[i] && !fmu_.tick(tables_[i].reference)) return false;
    }
    return true;
  }
  void append_ticking(std::vector<std::uint32_t>& references) const {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (ticking_[i]) references.push_back(tables_[i].reference);
    }
  }

  // Plans the next tick of those that tick, while they still do.
  bool ticked(double now) {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (!ticking_[i]) continue;
      ticking_[i] = false;
      ++cells_[2 * i + 1].i;
      if (tables_[i].interval == ClockTables::Interval::Countdown) {
        next(i) = std::numeric_limits<double>::infinity();
      } else if (tables_[i].interval == ClockTables::Interval::Changing) {
        double seconds = 0.0;
        int known = 0;
        if (!fmu_.interval(tables_[i].reference, &seconds, &known)) return false;
        if (known != 0 && !positive(i, seconds)) return false;
        next(i) = known != 0 ? now + seconds : std::numeric_limits<double>::infinity();
      } else if (!plan(i)) {
        return false;
      }
    }
    return true;
  }

  // Countdowns may have been set, in any event.
  bool look(double now) {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (tables_[i].interval != ClockTables::Interval::Countdown) continue;
      double seconds = 0.0;
      int known = 0;
      if (!fmu_.interval(tables_[i].reference, &seconds, &known)) return false;
      if (known != changed) continue;
      if (!(seconds >= 0.0)) {
        return fmu_.refuse("the countdown '" + tables_[i].name + "' has the interval " + shortest(seconds));
      }
      next(i) = now + seconds;
    }
    return true;
  }

 private:
  static constexpr int changed = 2;
  struct Period {
    double interval = 0.0;  // 0: not asked for yet
    double shift = 0.0;
  };

  double& next(std::size_t i) { return cells_[2 * i].r; }

  // The time of the tick whose turn it is.
  bool plan(std::size_t i) {
    const ClockTables& own = tables_[i];
    const auto count = static_cast<double>(cells_[2 * i + 1].i);
    if (own.interval == ClockTables::Interval::Given) {
      if (!positive(i, own.length)) return false;
      // Counted in 1/resolution, which is 1 where the description gives seconds.
      next(i) = start_ + (own.shift + count * own.length) / own.resolution;
      return true;
    }
    Period& period = periods_[i];
    if (period.interval == 0.0) {
      double seconds = 0.0;
      int known = 0;
      if (!fmu_.interval(own.reference, &seconds, &known)) return false;
      if (known == 0) return fmu_.refuse("the FMU does not know the interval of its clock '" + own.name + "'");
      if (!fmu_.shift(own.reference, &period.shift) || !positive(i, seconds)) return false;
      period.interval = seconds;
    }
    next(i) = start_ + (period.shift + count * period.interval);
    return true;
  }

  bool positive(std::size_t i, double seconds) {
    return seconds > 0.0 || fmu_.refuse("the clock '" + tables_[i].name + "' has the interval " + shortest(seconds) +
                                        ", and would never stop ticking");
  }

  F& fmu_;
  std::vector<ClockTables> tables_;
  double start_;
  Cell* cells_;
  std::vector<Period> periods_;
  std::vector<char> ticking_;
};

}  // namespace upbeat::fmi
