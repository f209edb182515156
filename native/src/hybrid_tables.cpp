// Whether the tables of a unit given by equations with events make sense: they may come from anywhere.
#include <algorithm>

#include "trajectories.hpp"
#include "hybrid.hpp"

namespace upbeat {

namespace {

bool within(std::int32_t number, std::size_t size) { return number >= 0 && static_cast<std::size_t>(number) < size; }

std::string problem_in_events(const HybridTables& tables) {
  const std::size_t results = tables.actions->results.size();
  const std::size_t targets = tables.ode.states.size() + tables.ode.parameters.size();
  std::int32_t indicator = 0;
  for (const ReactionTables& event : tables.events) {
    if (event.indicator >= 0 && event.indicator != indicator++) return "indicators in another order than events";
    for (const std::int32_t port : event.on) {
      if (!within(port, tables.heard.size())) return "an event that waits for a port that is none";
    }
    for (const auto& [target, place] : event.writes) {
      if (!within(target, targets) || !within(place, results)) return "an event that changes nothing there is";
    }
    for (const auto& [port, first] : event.sends) {
      if (!within(port, tables.sent.size())) return "an event that is sent through a port that is none";
      const std::int32_t last = first + tables.sent[static_cast<std::size_t>(port)].cells;
      if (first < 0 || !within(last, results)) return "an event that sends what is not computed";
    }
  }
  return "";
}

}  // namespace

std::size_t indicators_in(const std::vector<ReactionTables>& events) {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [](const ReactionTables& event) { return event.indicator >= 0; }));
}

std::string problem_in(const HybridTables& tables) {
  std::string problem = problem_in(tables.ode);
  if (!problem.empty()) return problem;
  if (tables.ode.states.empty()) return "events without states";
  for (const auto* ports : {&tables.heard, &tables.sent}) {
    for (const PortTables& port : *ports) {
      if (port.cells < 1 || port.kind == Kind::String) return "an event port that cannot be";
    }
  }
  const std::int32_t width = tables.ode.compute->inputs;
  if (!tables.indicators || tables.indicators->inputs != width ||
      tables.indicators->results.size() != indicators_in(tables.events)) {
    return "the kernel of the indicators does not fit the events";
  }
  if (!tables.actions || tables.actions->inputs != width + static_cast<std::int32_t>(cells_in(tables.heard))) {
    return "the kernel of the actions does not fit the ports";
  }
  for (const std::int32_t place : tables.changing) {
    if (!within(place, tables.ode.parameters.size())) return "a variable that is none changes";
  }
  for (const auto* kernel : {&tables.indicators, &tables.actions}) {
    problem = problem_in(**kernel);
    if (!problem.empty()) return problem;
  }
  return problem_in_events(tables);
}

}  // namespace upbeat
