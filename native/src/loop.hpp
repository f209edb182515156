// The loop, the same for every master: propose, step, review, commit, instant, note, record.
#pragma once

#include <cstdint>
#include <limits>

#include "log.hpp"
#include "machine.hpp"
#include "pace.hpp"
#include "recorder.hpp"

namespace upbeat {

enum class Status : std::int32_t {
  Finished = 0,
  Full = 1,       // the recorder or the log: drain both and go on
  Paused = 2,     // enough steps or enough time for now: go on when you like
  Failed = 3,     // see the machine's error
  Stopped = 4,    // somebody asked the machine to stop
  Abandoned = 5,  // the same in the middle of a step, of which nothing is left to go on from
};

// The reason of a step that the first of the units which may end one has ended; those of the others count down from it.
// All other reasons count from 0.
constexpr std::int32_t first_stop = -1;

// How often a step may be sent back.
constexpr std::int64_t most_retries = 100;

// Everything that happens at the start time, which is in the register `now`. The recorder (or none) needs
// room for one row. `limit` is where the run will end, as far as that is known. False: see the machine's error.
bool begin(Machine& machine, Pace& pace, Recorder* recorder,
           double limit = std::numeric_limits<double>::infinity());

// Goes on from the time in the register `now`: to `limit`, until something is full, for `most` steps, for
// about `budget` seconds, or until the machine is asked to stop. Events that fired outside any step
// count as those of the next one; committed ones have an index, and stay in the machine until taken away.
Status run(Machine& machine, Pace& pace, Recorder* recorder, StepLog& log, double limit, double budget,
           std::int64_t most, double pause = std::numeric_limits<double>::infinity());

// The same for a machine inside another one, without log and clock, and events are forgotten: on to `limit`.
// With `early` a step that a unit has ended before its proposed end is the last one.
Status follow(Machine& machine, Pace& pace, double limit, bool early);

}  // namespace upbeat
