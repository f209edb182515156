// FMUs as units of the engine: for co-simulation, or for model exchange, where an FMU gives derivatives and indicators
// and one of our solvers integrates them and locates its events.
#pragma once

#include <memory>
#include <variant>

#include "fmi/fmu.hpp"
#include "solver.hpp"

namespace upbeat::fmi {

class Fmi2;
class Fmi3;

// An instance of either version; the one of FMI 2 may be null: none.
using AnyFmu = std::variant<std::shared_ptr<Fmi2>, std::shared_ptr<Fmi3>>;

// Whom a solver that is not ours asks: in model exchange, at any time and state. False: the FMU refused.
class System {
 public:
  virtual bool place(double t, const double* x) = 0;
  virtual bool derivatives_at(double t, const double* x, double* to) = 0;
  virtual bool indicators_at(double t, const double* x, double* to) = 0;
  virtual bool accepted_at(double t, const double* x, bool* stop) = 0;

 protected:
  ~System() = default;
};

// A solver that is not ours.
class OtherSolver {
 public:
  virtual ~OtherSolver() = default;

  // From `t` to `to` > t, or as far as an event; `x` and `z` are the states and the indicators, before and after. False:
  // it could not, and its maker knows why.
  virtual bool advance(double t, double to, std::vector<double>& x, std::vector<double>& z, double* reached, bool* stopped) = 0;
  // How large the states usually are.
  virtual void scale(const std::vector<double>& nominals) = 0;
  // What it remembers is of no use any more.
  virtual void forget() = 0;
};

// What is asked of a unit besides the calls of unit.h, by those who know that it is an FMU.
class Face {
 public:
  // Its strings are numbers of this pool from now on.
  virtual void use(Strings& strings) = 0;
  virtual double time() const = 0;
  // Steps of all lengths are tried, whatever the FMU declares.
  virtual void take_any_length() {}

  // Model exchange: its states and indicators, the values of its real inputs at a time, which of these move, and its
  // equations. Null: it is for co-simulation.
  virtual System* system() { return nullptr; }
  virtual const std::vector<double>* states() const { return nullptr; }
  virtual bool put(const std::vector<double>&) { return true; }
  virtual bool look(std::vector<double>&) { return true; }
  virtual std::vector<double> inputs_at(double) { return {}; }
  virtual const std::vector<double>* trajectories() const { return nullptr; }
  virtual bool moving() const { return false; }
  virtual bool continuous() const { return false; }

  // What a call returns after something was refused, which its message says.
  virtual int refused() = 0;

 protected:
  ~Face() = default;
};

// A unit as the engine enters it. The table owns it, and with it the FMU's instance: `destroy` terminates and frees that.
struct Entered {
  upbeat_unit table{};
  Face* face = nullptr;
};

// What model exchange needs beyond the tables of an instance. Inputs that wait for event mode are `discrete`.
struct ExchangeTables : FmuTables {
  std::size_t states = 0;
  std::size_t indicators = 0;
  bool completes = true;            // it wants to know of each accepted step
  std::vector<double> input_start;  // of the real inputs, cell by cell, in the order of the ports
  std::vector<std::int64_t> held_start;  // of the other inputs; of texts their numbers in `texts`
  std::vector<std::string> texts;
  SolverTables solver;
  std::shared_ptr<OtherSolver> other;  // in its place
  // The number of the first port that shows an indicator: each has two, one that falls where it does and one where it
  // rises; then come, if the usual step is known, the first and the second derivatives of all these. -1: not looked at.
  std::int32_t shown = -1;
};

// Why no unit can be made from these tables, or an empty text.
std::string problem_in(const FmuTables& tables);
std::string problem_in(const ExchangeTables& tables);

// The tables must be sound. `fmu` is the instance; without one it is made from the tables, whose pointer is the FMU's.
Entered make_cosimulation(const FmuTables& tables, const AnyFmu& fmu = {});
Entered make_exchange(const ExchangeTables& tables, const AnyFmu& fmu = {});

// The length that an FMU is told for a step: that of the grid (0: there is none), if the step is one of it.
//
// The difference of two times on a grid is not its step but a few bits off (1.1 - 1.0 is not 0.1), and FMUs with fixed
// steps inside refuse that. So do multiples and whole parts of the grid, for units with rates of their own.
double nominal(double t, double to, double grid);

}  // namespace upbeat::fmi
