// The whole loop for steps of one size: propose, step, commit, instant, record.
#pragma once

#include <cstdint>

#include "machine.hpp"
#include "recorder.hpp"

namespace upbeat {

enum class Status : std::int32_t {
  Finished = 0,
  Full = 1,    // the recorder's buffer: drain it and go on
  Paused = 2,  // enough steps or enough time for now: go on when you like
  Failed = 3,  // see the machine's error
};

// Where a run on the grid start + k·step stands. Points are computed from their index, never summed.
struct FixedRun {
  double start = 0.0;
  double stop = 0.0;
  double step = 0.0;
  std::int64_t count = 0;  // of steps on the grid; the last one ends at `stop`
  std::int32_t block = 0;
  std::int32_t instant = -1;  // -1: there is none
  std::int64_t done = 0;
  double time = 0.0;
  bool pending = true;  // a row for the present time still has to be recorded
};

// Goes on until the end, until the buffer is full, for `most` steps, or for about `budget` seconds.
Status run_fixed(Machine& machine, FixedRun& run, Recorder& recorder, double budget, std::int64_t most);

}  // namespace upbeat
