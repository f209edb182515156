// The loop, the same for every master: propose, step, review, commit, instant, note, record.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "log.hpp"
#include "machine.hpp"
#include "recorder.hpp"

namespace upbeat {

enum class Status : std::int32_t {
  Finished = 0,
  Full = 1,       // the recorder or the log: drain both and go on
  Paused = 2,     // enough steps or enough time for now: go on when you like
  Failed = 3,     // see the machine's error
  Stopped = 4,    // the machine was asked to stop
  Abandoned = 5,  // the same in the middle of a step, of which nothing is left to go on from
};

// The numbers of reasons that are not the pace's: the step has ended at an event that was known before; or the first of the
// units which may end one has ended it (those of the others count down from it). All other reasons count from 0.
constexpr std::int32_t known_event = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t first_stop = -1;

// How often a step may be sent back.
constexpr std::int64_t most_retries = 100;

// The last of many numbers.
template <class T>
struct Latest {
  static constexpr std::size_t capacity = 8;
  T kept[capacity] = {};
  std::size_t count = 0;  // of all

  void add(T value) { kept[count++ % capacity] = value; }
  std::size_t first() const { return count - (count < capacity ? count : capacity); }  // of those that are kept
  T operator[](std::size_t i) const { return kept[i % capacity]; }
};

// Reasons by number: those that say all by themselves have the numbers that the program gives them; any other, with a time
// or an error of its own, stays as it is told, until the run is over.
class Reasons {
 public:
  using ReasonCells = std::array<double, 4>;  // what the cells of a reason hold

  std::int32_t number(const PaceTables& pace, const Cell* reason);
  ReasonCells of(std::int32_t number) const;

 private:
  std::int32_t first_ = 0;  // numbers below are the program's
  std::vector<ReasonCells> known_;
  std::map<std::array<std::uint64_t, 4>, std::int32_t> numbers_;  // by their bits
};

// What the loop itself keeps of a run: the reasons of steps, and at which events they have ended of late.
struct Memory {
  Reasons reasons;
  Latest<double> times;
  Latest<std::int32_t> why;    // the number that the program gives the reason, or that of a unit which stopped
  Latest<std::int32_t> fired;  // what has happened there
  std::int64_t steps = 0;      // that stand
  std::int64_t rejected = 0;   // that were sent back
};

// Everything that happens at the start time, which is in the register `now`. The recorder (or none) needs
// room for one offer. `limit` is where the run will end, as far as that is known. False: see the machine's error.
bool begin(Machine& machine, Memory& memory, Recorder* recorder,
           double limit = std::numeric_limits<double>::infinity());

// Goes on from the time in the register `now`: to `limit`, until something is full, for `max_steps` steps, for
// about `budget` seconds, or until the machine is asked to stop. Events that fired outside any step
// count as those of the next one; committed ones have an index, and stay in the machine until taken away. Without a log,
// steps are only counted.
Status run(Machine& machine, Memory& memory, Recorder* recorder, StepLog* log, double limit, double budget,
           std::int64_t max_steps, double pause = std::numeric_limits<double>::infinity());

// What is seen of a machine from outside, as it was before something happened at the present time; and who is told of
// events.
struct Before {
  std::vector<std::int32_t> cells;
  std::vector<Cell> values;  // as many
  bool taken = false;
  bool happened = false;  // at the end of the last step: an event, or a change of what is seen
  void (*say)(void* to, std::int32_t event, double time) = nullptr;
  void* to = nullptr;

  void take(const Cell* from);
  void look(Machine& machine);
};

// The same for a machine inside another one, without log and clock, and events are forgotten: on to `limit`, or to where the
// program is over. With `early` a step that a unit has ended before its proposed end is the last one; with `before`, one at
// whose end something has happened.
Status follow(Machine& machine, Memory& memory, double limit, bool early, Before* before = nullptr);

// Whether the program is over at the present time: no loop goes any further.
inline bool over(Machine& machine) {
  const std::int32_t ends = machine.tables().ends;
  return ends >= 0 && machine.cells()[ends].r != 0.0;
}

// What the pace makes of a change by hand at the present time, with all that has fired by it.
bool hear_of_change(Machine& machine);

}  // namespace upbeat
