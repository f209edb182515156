// A unit given by equations: states that its own solver advances, outputs computed from time, states
// and inputs. Without states it is a function. The twin of upbeat.units.solving.unit, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calls.hpp"
#include "cell.hpp"
#include "kernel.hpp"
#include "solver.hpp"

namespace upbeat {

struct PortTables {
  std::int32_t cells = 1;
  Kind kind = Kind::Real;
  std::int32_t port = 0;  // the number under which the engine knows it: its place among all ports of the model
};

// A kernel compiled to machine code, with the same inputs and outputs.
using Compiled = void (*)(const double* in, double* out);

// The derivatives of an output by an input, row by row: both by the numbers of their ports. By time: how fast the output
// changes while all inputs stay what they are.
struct SlopeTables {
  static constexpr std::int32_t by_time = -1;
  std::int32_t output = 0;
  std::int32_t input = 0;
  std::shared_ptr<const KernelTables> kernel;
  Compiled compiled = nullptr;  // used instead of the kernel when given
};

// All kernels take [time, states..., input cells..., parameter cells...].
struct OdeTables {
  std::vector<PortTables> inputs;
  std::vector<PortTables> outputs;
  std::vector<double> states;       // start values
  std::vector<double> input_start;  // cell by cell
  std::vector<double> parameters;   // cell by cell, then the variables
  std::vector<PortTables> tunable;  // the parameters, as ports that can be set
  std::shared_ptr<const KernelTables> derivatives;  // one result per state; null without states
  std::shared_ptr<const KernelTables> compute;      // one result per output cell
  Compiled compiled_derivatives = nullptr;          // used instead of the kernel when given
  Compiled compiled_compute = nullptr;
  std::vector<SlopeTables> slopes;                  // those that a program asks for
  SolverTables solver;
  std::vector<SolverTables> others;  // solvers that can take its place while it runs: with equal steps, as it is
  std::int32_t chooser = -1;         // the input that says which: its place among `inputs`
};

// Why no unit can be made from these tables, or an empty text.
std::string problem_in(const OdeTables& tables);

class Ode : protected Dynamics {
 public:
  Ode(const OdeTables& tables, double start);
  virtual ~Ode() = default;

  int get(int port, Cell* to);
  int set(int port, const Cell* coefficients, int count);
  int slope(int output, int input, Cell* to);
  int advance(double t, double to, bool early, double* reached);
  int save(int slot);
  int restore(int slot);
  int pack(int slot, void* to, std::uint64_t* size);
  int unpack(int slot, const void* from, std::uint64_t size);
  int reset(double start, const double* values);
  const char* message() const { return message_.c_str(); }
  SolverStatistics statistics() const {
    SolverStatistics all;
    for (const Solver& solver : solvers_) all += solver.statistics();
    return all;
  }

  // For a solver that is not ours: the time and the states from now on (null: they stay); the states, their derivatives, and
  // the event indicators, of which equations without events have none.
  void place(double t, const double* x);
  void read(double* to) const { std::copy_n(state_.begin() + 1, n_, to); }
  void rates(double* to) { derivatives(state_[0], state_.data() + 1, to); }
  virtual void indicators_now(double*) {}
  std::size_t state_count() const { return n_; }
  virtual std::size_t indicator_count() const { return 0; }
  // All that kernels take, at the unit's own time.
  const double* now() { return arguments(); }

  // [time, states, step to try next (adaptive only), then for each input: origin, number of
  // coefficients, all of them coefficient by coefficient]: everything the future depends on.
  // Parameters are no part of it: one that was set keeps its value when a state is restored.
  const std::vector<double>& state() const { return state_; }

  // A unit as the engine enters it; the table owns the unit.
  static upbeat_unit make(const OdeTables& tables, double start);

 protected:
  static constexpr std::size_t rows = UPBEAT_MAX_DEGREE + 1;  // the most coefficients of an input

  class Evaluator {
   public:
    Evaluator(const std::shared_ptr<const KernelTables>& kernel, Compiled compiled);
    double* in() { return work_.data(); }
    void operator()(double* out);

   private:
    std::shared_ptr<const KernelTables> kernel_;
    Compiled compiled_;
    std::vector<double> work_;
  };
  struct Input {
    PortTables port;
    std::size_t state;  // where its trajectory begins in the state
    std::size_t cell;   // of its first cell among all input cells
  };
  struct Output {
    PortTables port;
    std::size_t cell;
  };
  struct Slope {
    std::int32_t output;
    std::int32_t input;
    Evaluator evaluator;
    std::vector<double> values;
  };

  // The calls of a unit, or of one that is more than this, which the table owns.
  template <class Unit>
  static upbeat_unit table_of(Unit* made) {
    upbeat_unit table = Calls<Unit>::table(made);
    Calls<Unit>::add_rollback(table);
    Calls<Unit>::packs(table);
    table.slope = Calls<Unit>::slope;
    table.message = Calls<Unit>::message;
    table.reset = Calls<Unit>::reset;
    return table;
  }

  template <class Port>
  static const Port* find(const std::vector<Port>& ports, const std::vector<std::int32_t>& numbers, int port) {
    const auto number = static_cast<std::size_t>(port);
    if (number >= numbers.size() || numbers[number] < 0) return nullptr;
    return &ports[static_cast<std::size_t>(numbers[number])];
  }
  void derivatives(double t, const double* x, double* out) override;
  double* arguments();
  bool evaluate();
  bool convertible();
  void settle(const Input& input);
  // Its first part as at the start, with these numbers for states, inputs and parameters.
  // Null: those of the last time. Gives where the parameters begin among them.
  const double* begin(double start, const double* values);
  // What is in the state has been changed from outside: everything that was derived from it is not right any more.
  virtual void refresh();
  void follow(double t, double* in);
  int tune(int port, const Cell* cells, int count);
  int refuse(std::string message);
  // The solver that its inputs ask for now; null, and a message, if there is none like that.
  Solver* solver();

  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Output> tunable_;  // the parameters; `cell` is that of the first among all of them
  std::vector<std::int32_t> input_at_;  // port number -> place in inputs_, -1 if it is none
  std::vector<std::int32_t> output_at_;
  std::size_t n_;
  bool adaptive_;
  Evaluator derivatives_;
  Evaluator compute_;
  std::vector<Slope> slopes_;
  std::size_t width_;      // how many arguments a kernel takes
  std::size_t constants_;  // where parameters and variables begin among them
  std::vector<Solver> solvers_;
  std::int32_t chooser_;
  std::vector<double> made_;  // the numbers that it began with
  std::vector<double> state_;
  std::vector<std::vector<double>> slots_;
  std::vector<double> values_;  // of the outputs
  bool plain_ = true;           // whether all outputs are real
  bool current_ = false;        // whether `values_` are those of the present state
  bool moving_ = false;         // whether any input is more than a constant
  std::string message_;
};

}  // namespace upbeat
