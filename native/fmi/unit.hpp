// What the units of FMUs have in common: clocks that tick by themselves, ports that clocks guard, states that are kept,
// derivatives, and the way into the engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "calls.hpp"
#include "fmi/memory.hpp"
#include "fmi/units.hpp"
#include "packing.hpp"
#include "text.hpp"

namespace upbeat::fmi {

// When the input clocks tick that tick by themselves: periodic ones and countdowns.
//
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

// A round of the clocks in event mode: what ticks is told, and the values that clocks guard are exchanged. What is
// remembered of them is in the cells of a `Memory`.
template <class F>
class Ticking {
 public:
  Ticking(F& fmu, Memory& memory, const FmuTables& tables)
      : fmu_(fmu), memory_(memory), clocks_(fmu, tables.clocks, tables.start, memory.clocks()) {
    ticking_.reserve(tables.clocks.size() + memory.all(Port::Heard).size() + memory.all(Port::Sent).size());
  }

  bool begin() { return clocks_.begin(); }
  // Of a clock that ticks by itself.
  double due() const { return clocks_.due(); }
  // Whether a clock has been set, and whether others must still see one that ticked.
  bool heard() const { return memory_.any(Port::Heard); }
  bool sending() const { return memory_.any(Port::Sent); }
  void sent() {
    for (const std::int32_t number : memory_.all(Port::Sent)) own(number)->i = 0;
  }

  // Before the discrete states are renewed …
  bool tick(double now) {
    for (const std::int32_t number : memory_.all(Port::Heard)) {
      if (own(number)->i != 0 && !fmu_.tick(memory_.port(number).reference)) return false;
    }
    if (!clocks_.tick(now) || !exchange() || !clocks_.ticked(now)) return false;
    for (const std::int32_t number : memory_.all(Port::Heard)) own(number)->i = 0;
    return true;
  }
  // … and after that.
  bool look(double now) { return clocks_.look(now); }

 private:
  Cell* own(std::int32_t number) { return memory_.own(memory_.port(number)); }

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
  std::vector<std::uint32_t> ticking_;  // references of the clocks that do, in this round
};

// The states that a unit keeps: the FMU's own by handle, and with it what the unit remembers.
//
// `M` is what the unit remembers: `cells`, `restore`, `write` and `read`, as in memory.hpp.
template <class F, class M>
class States {
 public:
  States(F& fmu, M& memory) : fmu_(fmu), memory_(memory) {}

  bool save(int number) {
    Slot& slot = at(number);
    slot.filled = false;
    if (!fmu_.save(&slot.state)) return false;
    slot.cells = memory_.cells();
    slot.filled = true;
    return true;
  }

  bool restore(int number) {
    const Slot* const slot = filled(number);
    if (!slot || !fmu_.restore(slot->state)) return false;
    memory_.restore(slot->cells);
    return true;
  }

  // What the unit remembers, then what the FMU makes of its state, as a chunk: its length before it.
  bool pack(int number, void* to, std::uint64_t* size) {
    const Slot* const slot = filled(number);
    if (!slot) return false;
    Bytes own;
    memory_.write(slot->cells, own);
    std::size_t bytes = 0;
    if (!fmu_.size(slot->state, &bytes)) return false;
    append_word(own, bytes);
    const std::uint64_t room = *size;
    *size = own.size() + bytes;
    if (room < *size) return true;
    std::memcpy(to, own.data(), own.size());
    return fmu_.serialise(slot->state, static_cast<unsigned char*>(to) + own.size(), bytes);
  }

  bool unpack(int number, const void* from, std::uint64_t size) {
    Reader reader(from, size);
    std::vector<Cell> cells;
    const std::string problem = memory_.read(reader, cells);
    if (!problem.empty()) return foreign(problem);
    const std::uint64_t length = reader.word();
    const unsigned char* const bytes = reader.bytes(length);
    if (!reader.finished()) return foreign("it has not the length that it says");
    Slot& slot = at(number);
    slot.filled = false;
    if (!fmu_.deserialise(bytes, static_cast<std::size_t>(length), &slot.state)) return false;
    slot.cells = std::move(cells);
    slot.filled = true;
    return true;
  }

  // The memory is going to have its texts in another pool.
  void use(Strings& strings) {
    for (Slot& slot : slots_) {
      if (slot.filled) memory_.translate(slot.cells.data(), memory_.strings(), strings);
    }
  }

  void drop_all() {
    for (Slot& slot : slots_) {
      if (slot.state && !fmu_.fatal()) fmu_.drop(&slot.state);
      slot.state = nullptr;
    }
  }

 private:
  struct Slot {
    void* state = nullptr;
    std::vector<Cell> cells;
    bool filled = false;
  };

  Slot& at(int number) {
    const auto index = static_cast<std::size_t>(number);
    if (index >= slots_.size()) slots_.resize(index + 1);
    return slots_[index];
  }
  const Slot* filled(int number) {
    const auto index = static_cast<std::size_t>(number);
    if (index < slots_.size() && slots_[index].filled) return &slots_[index];
    fmu_.refuse("nothing was saved here");
    return nullptr;
  }
  bool foreign(const std::string& why) { return fmu_.refuse("not a state of this unit: " + why); }

  F& fmu_;
  M& memory_;
  std::vector<Slot> slots_;
};

// The derivatives of an output by an input: column by column, or row by row where there are only adjoint ones.
template <class F>
class Slopes {
 public:
  explicit Slopes(const FmuTables& tables)
      : adjoint_(tables.adjoint), seed_(widest_of(tables)), found_(widest_of(tables)) {}

  bool find(F& fmu, const Variable& output, const Variable& input, Cell* to) {
    const std::int32_t rows = output.cells;
    const std::int32_t columns = input.cells;
    for (std::int32_t k = 0; k < (adjoint_ ? rows : columns); ++k) {
      std::fill(seed_.begin(), seed_.end(), 0.0);
      seed_[static_cast<std::size_t>(k)] = 1.0;
      if (adjoint_) {
        if (!fmu.adjoint(Variables(output), Variables(input), seed_.data(), found_.data())) return false;
        std::transform(found_.begin(), found_.begin() + columns, to + k * columns, real);
      } else {
        if (!fmu.directional(Variables(output), Variables(input), seed_.data(), found_.data())) return false;
        for (std::int32_t i = 0; i < rows; ++i) to[i * columns + k].r = found_[static_cast<std::size_t>(i)];
      }
    }
    return true;
  }

 private:
  bool adjoint_;
  std::vector<double> seed_, found_;
};

// A new unit as the engine calls it; `events`: whether it has instants of its own.
template <class Unit, class Tables>
Entered entered(std::unique_ptr<Unit> made, const Tables& tables, bool events) {
  Entered entered;
  entered.face = made.get();
  upbeat_unit& unit = entered.table;
  unit = Calls<Unit>::table(made.release());
  if (events) Calls<Unit>::has_events(unit);
  if (tables.saves) Calls<Unit>::add_rollback(unit);
  if (tables.saves && tables.serialises) Calls<Unit>::packs(unit);
  unit.slope = Calls<Unit>::slope;
  unit.message = Calls<Unit>::message;
  return entered;
}

}  // namespace upbeat::fmi
