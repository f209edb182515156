// Why a run stopped: data that the host turns into a message. The core itself never throws.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace upbeat {

enum class Call : std::int32_t {
  None = 0,
  Get = 1,
  Set = 2,
  Advance = 3,
  Jump = 4,
  Save = 5,
  Restore = 6,
  Begin = 7,
  Slope = 8,
  Pack = 9,
  Due = 10,
  Unpack = 11
};

enum class Fault : std::int32_t {
  None = 0,
  Refused = 1,     // the unit's call returned a failure; `message` is the unit's own
  NotFinite = 2,   // cell `cell` of an output is `value`; a due time is no number
  NotReached = 3,  // the unit stopped at `value`, where it must not
  Unable = 4,      // the unit has no such call
  Exhausted = 5,   // a Repeat that may not be accepted used up its rounds
  EmptySlot = 6,   // Restore before Save
  NoProgress = 7,  // a step ended where it began, and no event fired
  BadStep = 8,     // the pace asked for a step to `until`, which is not between `time` and `value`; if it
                   // is no number, the pace gave up for the reason in its cells
  Rejected = 9,    // the pace sent a step back too often, last for the reason in its cells
  Stopped = 10,    // a nested machine was asked to stop
  BadBytes = 11,   // these bytes are not a state of this machine
  Called = 13,     // a function of the host failed
  Chattering = 12,  // too many steps ended at events, one every `value` seconds; `message` has the latest, one a line:
                    // ' and the number of the pace's reason for ending at an event, # and the number of a unit that stopped, -: somebody
                    // stopped; then ! and the number of an event that has happened
};

// What a unit's call returns that was not even tried, because something it shares with another unit failed for good there:
// where both are known, the other one is told of.
constexpr int lost_status = std::numeric_limits<int>::min();

// What the call of a unit returns that has asked before, when all was well, to end the run: no failure.
constexpr int ended_status = lost_status + 1;

struct Inside;

struct Error {
  Fault fault = Fault::None;
  Call call = Call::None;
  std::int32_t row = -1;   // of the code table; -1 outside any block
  std::int32_t unit = -1;
  std::int32_t cell = 0;   // also the port, where `set` was called outside any block
  double time = 0.0;       // the unit's own time, or the start of the step
  double start = 0.0;      // of an Advance
  double until = 0.0;
  double value = 0.0;
  std::int32_t status = 0;  // what the unit's call returned
  std::string message;
  std::shared_ptr<const Inside> inside;  // the unit is a nested scenario: what failed in it
};

// What failed inside a nested unit, and what the host's words for it are made of.
struct Inside {
  Error error;
  std::vector<double> cells;  // all of the machine inside, as expressions see them
  std::string way;            // to the unit that failed, such as "axle.wheel"
};

inline bool is_aftermath(const Error& error) {
  return error.inside ? is_aftermath(error.inside->error) : error.fault == Fault::Refused && error.status == lost_status;
}

}  // namespace upbeat
