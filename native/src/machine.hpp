// The machine: a program linked to its units, with all the memory a run needs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cell.hpp"
#include "error.hpp"
#include "packing.hpp"
#include "program.hpp"
#include "seen.hpp"
#include "solver.hpp"
#include "workers.hpp"

namespace upbeat {

// An event that fired: at which time, and as which one of that time. The index is -1 as long as the
// time it belongs to is not committed.
struct Fired {
  std::int32_t event;
  std::int32_t index;
  double time;
};

// The events that fired and have not been taken away yet, with their values: those of each event lie in a row of
// cells. Where it begins is kept next to the entries, of which every step asks how many there are.
class FiredLog {
 public:
  FiredLog() {
    entries_.reserve(64);
    firsts_.reserve(64);
    values_.reserve(64);
  }

  void append(std::int32_t event, double time, const Cell* from, std::int32_t cells) {
    entries_.push_back({event, -1, time});
    firsts_.push_back(values_.size());
    values_.insert(values_.end(), from, from + cells);
  }
  std::size_t size() const { return entries_.size(); }
  Fired* data() { return entries_.data(); }
  const Cell* values() const { return values_.data(); }

  // Where the values of entry `i` begin, and those of entry `size()` would.
  std::size_t first(std::size_t i) const { return i < firsts_.size() ? firsts_[i] : values_.size(); }

  // Forget all entries from `mark` on.
  void cut(std::size_t mark) {
    if (mark == entries_.size()) return;
    values_.resize(first(mark));
    firsts_.resize(mark);
    entries_.resize(mark);
  }

  // Forget the first `count` entries.
  void drop(std::size_t count) {
    const std::size_t cells = first(count);
    values_.erase(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(cells));
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count));
    firsts_.erase(firsts_.begin(), firsts_.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t& first : firsts_) first -= cells;
  }

 private:
  std::vector<Fired> entries_;
  std::vector<std::size_t> firsts_;
  std::vector<Cell> values_;
};

// Runs blocks of one program. Everything is allocated when it is made; several machines are
// independent of each other, and a unit of one may own another (a nested scenario).
class Machine {
 public:
  // Takes over the units: each one's `destroy` is called in the end. The tables must be sound
  // (see `problem_in`).
  Machine(std::shared_ptr<const ProgramTables> program, std::vector<upbeat_unit> units, double start);
  Machine(ProgramTables program, std::vector<upbeat_unit> units, double start)
      : Machine(std::make_shared<const ProgramTables>(std::move(program)), std::move(units), start) {}
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // One block from its first instruction to its end. False: see `error`, and run nothing more.
  bool execute(std::int32_t block);

  // Hold an input at the value in `cells` from the unit's own time on.
  bool set_input(std::int32_t unit, std::int32_t port, const Cell* coefficients, std::int32_t count);

  // Keeps all registers and all units under a number from 0 on; sets them back, any number of times.
  // Places are made on demand: only the first use of a number allocates.
  bool save(std::int32_t place);
  bool restore(std::int32_t place);

  // Whether every unit can begin again; all of them and the registers as when the machine was made, for another run.
  // A unit with `values`, by its number, gets these numbers, the others keep theirs (see unit.h). `begin_units` comes next.
  bool resets() const;
  bool reset(double start, const double* const* values = nullptr);

  // Whether every unit can be set back; whether the states of all can be turned into bytes.
  bool has_rollback() const;
  bool packs() const;

  // How hard the solver of a unit has worked (see unit.h); false if it has none, or does not tell.
  bool statistics(std::int32_t unit, std::int64_t* to) const;

  // What happens at the start time inside the units that are scenarios themselves. Call it before any block.
  bool begin_units();

  // What a place holds as bytes, strings as texts, and back, in another process too (see packing.cpp). These
  // allocate. After a refused `unpack` the place is empty and the machine as it was.
  bool pack(std::int32_t place, const Strings& strings, Bytes& to);
  bool unpack(std::int32_t place, Strings& strings, const void* from, std::uint64_t size);

  // What `Call` does with a number; false if that failed.
  void set_call(std::function<bool(std::int32_t)> call) { call_ = std::move(call); }

  // What the caller's thread does around a long wait for other cores.
  void set_pause(const Pause& pause);

  // Ends the run from outside any block. False, for the caller to pass on.
  bool stop(const Error& error);

  // From any thread: a loop that runs this machine, or one inside its units, comes back before its next step.
  void ask_to_stop();
  bool asked_to_stop() const { return stop_.wanted(); }
  // For whoever works for this machine, and to say whether Ctrl-C ends that.
  Stop& stop_flag() { return stop_; }

  // Whether blocks that are shared out are done by several cores; the results are the same.
  void share(bool on) { sharing_ = on && workers_; }
  // Find out in the first steps from now on whether that makes them quicker, and go on as it does (see `Trial`).
  void try_cores();
  // What was found out about a block; nullptr if it is not shared out, or not for long enough.
  const Trial* tried(std::size_t block) const;

  std::size_t units() const { return units_.size(); }
  const upbeat_unit& unit(std::int32_t number) const { return units_[static_cast<std::size_t>(number)]; }
  // From any thread: the units that are being advanced just now.
  std::vector<std::int32_t> advancing() const {
    std::vector<std::int32_t> found;
    for (const Lane& lane : lanes_) {
      const std::int32_t unit = lane.advancing.get();
      if (unit >= 0) found.push_back(unit);
    }
    return found;
  }
  Cell* cells() { return cells_.data(); }
  const ProgramTables& tables() const { return tables_; }
  const Error& error() const { return lanes_.front().error; }
  FiredLog& fired() { return fired_; }

 private:
  struct Step;
  struct Expression;
  struct Slot {
    std::int32_t row = -1;  // the Save that filled it
    std::vector<Cell> cells;
    std::vector<double> clocks;
  };
  // What each core has for itself: why it stopped, and room to work in.
  struct alignas(64) Lane {
    Error error;
    std::vector<Cell> gathered;
    std::vector<double> room;
    Seen<std::int32_t> advancing{-1};  // the unit that is just being advanced

    // Whether these are numbers to go on with: those of a port of `width` cells, or several trajectories of one.
    bool are_numbers(const Cell* from, std::int32_t count, std::int32_t width) {
      for (std::int32_t i = 0; i < count; ++i) {
        if (finite(from[i])) continue;
        error.cell = i % width;
        error.value = from[i].r;
        return false;
      }
      return true;
    }
  };
  struct Kept {
    bool filled = false;
    std::vector<Cell> cells;
    std::vector<double> clocks;
  };

  void link();
  double compute(Expression& expression);
  bool work(std::int32_t row, Lane& lane);
  bool share(std::int32_t block);
  bool spread(const Shares& shares);
  bool happen(const Step& step, Lane& lane);

  bool save_slot(std::int32_t row, Lane& lane);
  bool restore_slot(std::int32_t row, Lane& lane);
  bool save_unit(std::int32_t unit, std::int32_t slot, std::int32_t row, Lane& lane);
  bool restore_unit(std::int32_t unit, std::int32_t slot, std::int32_t row, Lane& lane);
  bool pack_unit(std::int32_t unit, std::int32_t slot, Bytes& to);
  bool fail(Lane& lane, Fault fault, Call call, std::int32_t unit, std::int32_t row);

  std::shared_ptr<const ProgramTables> program_;  // shared by all machines that run it
  const ProgramTables& tables_;
  std::vector<upbeat_unit> units_;
  std::vector<double> clocks_;  // each unit's own time, as far as its Advances tell
  std::vector<Cell> cells_;
  std::vector<Step> steps_;
  std::vector<Expression> expressions_;
  std::vector<std::int32_t> loops_;
  std::vector<Slot> slots_;
  std::vector<Kept> kept_;
  FiredLog fired_;
  std::function<bool(std::int32_t)> call_;
  std::vector<Lane> lanes_;  // see `Workers`; the first is that of the caller
  Stop stop_;
  bool sharing_ = false;
  std::unique_ptr<Workers> workers_;  // where there is a block to share out
  std::vector<Trial> trials_;         // and for each block, what is known of that
};

// Why these tables cannot be run with this many units (an index out of range, a missing End), or
// an empty text. Tables may come from a file, so they are checked before they are trusted.
std::string problem_in(const ProgramTables& tables, std::size_t units);

}  // namespace upbeat
