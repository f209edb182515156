// Whether the tables of a unit given by equations make sense: they may come from anywhere.
#include "ode.hpp"

#include "trajectories.hpp"

namespace upbeat {

namespace {

constexpr std::int32_t most_ports = 1 << 24;  // a table from a broken file should not take all memory

const PortTables* real_port(const std::vector<PortTables>& ports, std::int32_t number) {
  for (const PortTables& port : ports) {
    if (port.port == number && port.kind == Kind::Real) return &port;
  }
  return nullptr;
}

std::string problem_in_slopes(const OdeTables& tables, std::int64_t width) {
  for (const SlopeTables& slope : tables.slopes) {
    const PortTables* const output = real_port(tables.outputs, slope.output);
    const PortTables* const input = real_port(tables.inputs, slope.input);
    const bool by_time = slope.input == SlopeTables::by_time;
    if (!output || (!input && !by_time)) return "a slope of a port that has none";
    const auto cells = static_cast<std::size_t>(output->cells) * (by_time ? 1 : static_cast<std::size_t>(input->cells));
    if (!slope.kernel || slope.kernel->inputs != width || slope.kernel->results.size() != cells) {
      return "the kernel of a slope does not fit the ports";
    }
    std::string problem = problem_in(*slope.kernel);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string problem_in_choice(const OdeTables& tables) {
  if (tables.others.empty() && tables.chooser < 0) return "";
  const auto place = static_cast<std::size_t>(tables.chooser);
  if (tables.others.empty() || tables.chooser < 0 || place >= tables.inputs.size() ||
      tables.inputs[place].kind != Kind::Integer || tables.inputs[place].cells != 1) {
    return "what chooses a solver is no input that could";
  }
  if (tables.solver.method != Method::Fixed) return "a solver to choose from remembers something";
  for (const SolverTables& other : tables.others) {
    if (other.method != Method::Fixed) return "a solver to choose from remembers something";
    if (std::string problem = problem_in(other); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace

std::string problem_in(const OdeTables& tables) {
  for (const auto* ports : {&tables.inputs, &tables.outputs, &tables.tunable}) {
    for (const PortTables& port : *ports) {
      if (port.cells < 1) return "a port without cells";
      if (port.kind == Kind::String) return "equations have no strings";
      if (port.port < 0 || port.port > most_ports) return "a port with an impossible number";
    }
  }
  const std::size_t states = tables.states.size();
  const std::size_t inputs = cells_in(tables.inputs);
  if (tables.input_start.size() != inputs) return "start values do not fit the inputs";
  if (cells_in(tables.tunable) > tables.parameters.size()) return "more parameters than values of them";
  const auto width = static_cast<std::int64_t>(1 + states + inputs + tables.parameters.size());
  if (!tables.compute || tables.compute->inputs != width || tables.compute->results.size() != cells_in(tables.outputs)) {
    return "the kernel of the outputs does not fit the ports";
  }
  std::string problem = problem_in(*tables.compute);
  if (problem.empty()) problem = problem_in_slopes(tables, width);
  if (!problem.empty() || states == 0) return problem;
  if (!tables.derivatives || tables.derivatives->inputs != width || tables.derivatives->results.size() != states) {
    return "the kernel of the derivatives does not fit the states";
  }
  problem = problem_in(tables.solver);
  if (problem.empty()) problem = problem_in_choice(tables);
  return problem.empty() ? problem_in(*tables.derivatives) : problem;
}

}  // namespace upbeat
