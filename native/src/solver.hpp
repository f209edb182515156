// Explicit Runge-Kutta integrators over a Butcher tableau: equal steps, or an embedded pair
// with step-size control. The order of floating-point operations is the one that the Python twin
// (units/solving/integrate.py) documents; both give the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "solver_statistics.hpp"
#include "located.hpp"

namespace upbeat {

enum class Method : std::int32_t { Fixed = 0, Adaptive = 1 };

struct SolverTables {
  Method method = Method::Fixed;
  std::int64_t steps = 1;   // Fixed: solver steps per communication step,
  double step = 0.0;        // or, when positive, the longest solver step
  double rtol = 1e-6;       // Adaptive
  double atol = 1e-9;
  double first = 0.0;       // 0: chosen from the equations
  double longest = 0.0;     // 0: unlimited
  std::int64_t max_steps = 100000;
  std::vector<double> c;    // the tableau; `a` is square, row after row, and strictly lower triangular
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> e;
  std::vector<double> d;    // Adaptive: the top term of the dense output; empty: it has none
};

// Why these tables are no solver, or an empty text.
std::string problem_in(const SolverTables& tables);

// Whether a machine is wanted to stop. Its solvers look once a step, so that one communication step of theirs, which may
// take hours, need not end first.
struct Stop {
  std::atomic<bool> asked{false};
  std::atomic<bool> interruptible{false};  // Ctrl-C counts, too
  bool wanted() const {
    return asked.load(std::memory_order_relaxed) ||
           (interruptible.load(std::memory_order_relaxed) && interrupted.load(std::memory_order_relaxed));
  }
  static std::atomic<bool> interrupted;  // for a signal handler, which must not touch anything that may be gone
};

// Whom this thread works for, if it is a machine.
class Working {
 public:
  explicit Working(const Stop& stop) : before_(now_) { now_ = &stop; }
  ~Working() { now_ = before_; }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

  static bool should_stop() { return now_ && now_->wanted(); }

 private:
  static thread_local const Stop* now_;
  const Stop* before_;
};

// Derivatives of the state: what a solver integrates.
class Dynamics {
 public:
  virtual void derivatives(double t, const double* x, double* out) = 0;

 protected:
  ~Dynamics() = default;
};

class Solver {
 public:
  Solver(const SolverTables& tables, std::size_t states);

  // Moves `x` from `t` to `to` > t. `h` is the step to try next, kept by the caller between calls
  // (0: choose one; equal steps ignore it). A watch may stop it before: then the state is the one at its
  // time. False: see `message`. What `f` throws passes through.
  bool advance(Dynamics& f, double t, double to, double* x, double& h, Watch* watch = nullptr);
  const std::string& message() const { return message_; }
  const SolverStatistics& statistics() const { return statistics_; }
  void forget_statistics() { statistics_ = {}; }

  // The absolute tolerance of each component becomes `atol` times the size that it usually has.
  void scale(const double* nominals);

 private:
  struct Weight {
    std::size_t stage;
    double value;
  };
  using Weights = std::vector<Weight>;

  bool fixed(Dynamics& f, double t, double to, double* x, Watch* watch);
  bool adaptive(Dynamics& f, double t, double to, double* x, double& h, Watch* watch);
  bool still(double t, double to, Watch& watch);
  std::int64_t micro_steps(double length);
  const Dense& dense(double t, double h, const double* x, const double* after, bool top);
  void stages(Dynamics& f, double t, double h, const double* x);
  void moved(const Weights& weights, double h, const double* x, double* to) const;
  double combined(const Weights& weights, std::size_t j) const;
  double norm(const double* values, const double* x, const double* next) const;
  double limited(double h) const;
  double first(double t, double to, const double* x) const;
  bool refuse(const char* format, ...);

  SolverTables tables_;
  std::size_t n_;
  std::vector<Weights> rows_;
  Weights b_;
  Weights e_;
  Weights d_;
  Dense dense_;
  std::vector<double> atol_;
  std::vector<double> k_;      // stage after stage
  std::vector<double> stage_;  // the state at a stage
  std::vector<double> new_;
  std::vector<double> error_;
  std::string message_;
  SolverStatistics statistics_;
};

}  // namespace upbeat
