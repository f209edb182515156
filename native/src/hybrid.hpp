// A unit given by equations with events: the twin of upbeat.units.equations.hybrid, which says what happens when.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "located.hpp"
#include "ode.hpp"

namespace upbeat {

// One event. `indicator` is its place among the indicators (-1: none), `on` are numbers of ports among those that
// hear; writes are pairs of a target (states from 0 on, then parameters and variables) and the place of its new
// value among the results, sends pairs of a port among those that send and the place of its first result, which says
// whether it is there at all.
struct ReactionTables {
  std::string name;
  std::int32_t indicator = -1;
  std::vector<std::int32_t> on;
  std::vector<std::pair<std::int32_t, std::int32_t>> writes;
  std::vector<std::pair<std::int32_t, std::int32_t>> sends;
};

struct HybridTables {
  OdeTables ode;
  std::vector<PortTables> heard;
  std::vector<PortTables> sent;
  std::vector<ReactionTables> events;
  std::vector<std::int32_t> changing;  // the places of parameters and variables that ever change
  std::shared_ptr<const KernelTables> indicators;  // [time, states, inputs, parameters, variables]
  std::shared_ptr<const KernelTables> actions;     // ... and the cells of the events that are heard
  Compiled compiled_indicators = nullptr;
  Compiled compiled_actions = nullptr;
};

// How many of them have an indicator.
std::size_t indicators_in(const std::vector<ReactionTables>& events);

// Why no unit can be made from these tables, or an empty text.
std::string problem_in(const HybridTables& tables);

class Hybrid final : public Ode {
 public:
  Hybrid(const HybridTables& tables, double start);

  int get(int port, Cell* to);
  int set(int port, const Cell* coefficients, int count);
  int advance(double t, double to, bool early, double* reached);
  int jump(int* again);
  int due(double* time);
  int reset(double start, const double* values);

  void indicators_now(double* to) override { indicators(state_[0], state_.data() + 1, to); }
  std::size_t indicator_count() const override { return watched_; }

  static upbeat_unit make(const HybridTables& tables, double start);

 private:
  struct Event {
    PortTables port;
    std::size_t cell;   // of its first cell among all that are heard, or sent
    std::size_t state;  // where it is in the state: whether it is there, then its cells
  };

  // How the solver looks at the unit.
  class IndicatorWatch final : public Watch {
   public:
    IndicatorWatch(Hybrid& unit, std::size_t indicators, std::size_t states) : Watch(indicators, states), unit_(unit) {}

   private:
    void indicators(double t, const double* x, double* to) override { unit_.indicators(t, x, to); }
    bool accepted(double, const double*) override { return false; }
    Hybrid& unit_;
  };

  void refresh() override;
  void indicators(double t, const double* x, double* to);

  bool waits() const;
  void look();
  const double* results();
  void act();
  void collect(const double* results);
  bool happens(std::int32_t indicator) const;
  void clear(const std::vector<Event>& events);
  bool go(double to);
  std::string endless() const;

  std::vector<ReactionTables> events_;
  std::vector<std::int32_t> changing_;
  std::vector<std::vector<std::int32_t>> rivals_;  // by indicator: those of events before it that write the same
  std::vector<Event> heard_;
  std::vector<Event> sent_;
  std::size_t watched_;
  IndicatorWatch watch_;
  Evaluator z_;
  Evaluator actions_;
  std::vector<double> found_;    // the indicators, as they are
  std::vector<double> results_;  // of the actions
  std::vector<double> waiting_;  // a copy of what waits to be sent
  // Where in the state they begin: what can change, which events are armed and which are due. What was heard and what
  // waits to be sent come last.
  std::size_t changes_at_;
  std::size_t armed_at_;
  std::size_t due_at_;
  bool fresh_ = false;
};

}  // namespace upbeat
