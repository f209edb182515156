// Many runs of one program, one after the other on one machine: each begins with numbers of its own, and of each only what
// was asked for is kept. Nothing is allocated from run to run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel.hpp"
#include "loop.hpp"

namespace upbeat {

// A number that differs from run to run: a column of the table of runs, and the value of a unit that it is (see `reset` of
// unit.h).
struct Varied {
  std::int32_t column = 0;
  std::int32_t unit = 0;
  std::int32_t place = 0;
};

// One number for a run, made of a signal at all of its rows, or of an event of this number. Times are those of rows.
struct Statistic {
  enum class What : std::int32_t {
    Initial = 0,
    Final = 1,
    Minimum = 2,
    Maximum = 3,
    Integral = 4,  // over time
    First = 5,     // when it is first other than zero; not a number if it never is
    Last = 6,
    Count = 7,  // how often the event has fired,
    FirstEvent = 8,
    LastEvent = 9,
  };
  What what = What::Final;
  std::int32_t of = 0;
};

// What is asked of every run.
struct Asked {
  std::vector<std::int32_t> cells;             // that signals are made of
  std::shared_ptr<const KernelTables> kernel;  // from [time, cells, the numbers that vary] to signals
  std::vector<bool> held;                      // for each signal: whether it is held between two rows, not interpolated
  std::vector<Statistic> statistics;
  std::vector<std::int32_t> sampled;  // signals,
  std::vector<double> grid;           // … at these times, rising
  std::int32_t events = 0;            // so many events are listed, the first ones
};

// Why this cannot be asked of a machine with so many columns in its table, or an empty text.
std::string problem_in(const Asked& asked, const std::vector<Varied>& varied, std::size_t columns, const ProgramTables& tables,
                       const std::vector<std::vector<double>>& values);

// Where the numbers of one run go.
struct Told {
  double* statistics = nullptr;  // one for each
  double* samples = nullptr;     // time after time; not a number where the run did not come to
  std::int32_t* events = nullptr;  // their numbers, -1 behind the last one,
  double* times = nullptr;         // … and when they fired
  double* totals = nullptr;        // steps, steps that were sent back, events, and the time reached
  static constexpr std::size_t totals_count = 4;
};

class Ensemble {
 public:
  // `values`: the numbers of each unit that something varies in, by its number; none of the others. `cells`: registers
  // and what they hold at the start, where that is not what the program says.
  Ensemble(Machine& machine, Asked asked, std::vector<Varied> varied, std::size_t columns,
           std::vector<std::vector<double>> values, std::vector<std::pair<std::int32_t, double>> cells, double start,
           double stop);

  // One run, with the numbers of a row of the table. What it was asked is told as far as it came, however it ended:
  // Finished, Failed (see the machine's error), or Stopped.
  Status run(const double* row, const Told& told);

 private:
  bool begin(const double* row);
  void clear(const Told& told);
  void take_rows(const Told& told);
  void take_events(const Told& told);
  void finish(const Told& told);

  Machine& machine_;
  Asked asked_;
  std::vector<Varied> varied_;
  std::size_t columns_;
  std::vector<std::vector<double>> values_;
  std::vector<const double*> handed_;  // the same as units take them
  std::vector<std::pair<std::int32_t, double>> cells_;
  double start_;
  double stop_;
  Memory memory_;
  std::vector<Kind> kinds_;
  Recorder recorder_;
  std::vector<Cell> rows_;
  std::vector<double> work_;
  std::vector<double> now_, before_;  // the signals of this row and of the one before
  double time_ = 0.0;                 // of the row before
  bool any_ = false;                  // whether there is one
  std::size_t sample_ = 0;            // the next time of the grid
  std::int64_t fired_ = 0;
};

}  // namespace upbeat
