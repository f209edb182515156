// Whether the tables of a discrete-event unit make sense: they may come from anywhere.
#include "discrete.hpp"

namespace upbeat {

namespace {

constexpr std::int32_t most_ports = 1 << 24;  // a table from a broken file should not take all memory

std::string problem_in(const PieceTables& piece, std::size_t results, std::size_t arguments) {
  if (!piece.kernel || piece.kernel->results.size() != results) return "code with the wrong number of results";
  if (static_cast<std::size_t>(piece.kernel->inputs) != piece.from.size()) return "code with the wrong number of inputs";
  std::int32_t last = -1;
  for (const std::int32_t place : piece.from) {
    if (place <= last || static_cast<std::size_t>(place) >= arguments) return "code that reads what is not there";
    last = place;
  }
  return problem_in(*piece.kernel);
}

std::string problem_in(const AssigningTables& code, std::size_t variables, std::size_t arguments) {
  for (const std::int32_t place : code.to) {
    if (place < 0 || static_cast<std::size_t>(place) >= variables) return "code that writes what is not there";
  }
  return problem_in(code.piece, code.to.size(), arguments);
}

std::string problem_in(const ModeTables& mode, const DiscreteTables& tables, std::size_t arguments) {
  std::size_t results = 0;
  for (const std::int32_t place : mode.emitted) {
    if (place < 0 || static_cast<std::size_t>(place) >= tables.sent.size()) return "a mode that sends what is not there";
    results += 1 + static_cast<std::size_t>(tables.sent[static_cast<std::size_t>(place)].cells);
  }
  std::string problem = problem_in(mode.due, 1, arguments);
  if (problem.empty()) problem = problem_in(mode.emissions, results, arguments);
  if (problem.empty()) problem = problem_in(mode.internal, tables.kinds.size(), arguments);
  if (problem.empty()) problem = problem_in(mode.external, tables.kinds.size(), arguments);
  return problem;
}

}  // namespace

std::string problem_in(const DiscreteTables& tables) {
  for (const auto* ports : {&tables.inputs, &tables.heard, &tables.outputs, &tables.sent}) {
    for (const PortTables& port : *ports) {
      if (port.cells < 1) return "a port without cells";
      if (port.kind == Kind::String) return "a discrete unit has no strings";
      if (port.port < 0 || port.port > most_ports) return "a port with an impossible number";
    }
  }
  const std::size_t variables = tables.kinds.size();
  if (tables.start.size() != variables) return "start values do not fit the variables";
  if (tables.input_start.size() != cells_in(tables.inputs)) return "start values do not fit the inputs";
  if (tables.modes.empty()) return "a unit without modes";
  if (tables.mode >= 0) {
    if (static_cast<std::size_t>(tables.mode) >= variables) return "the mode is no variable";
    const double start = tables.start[static_cast<std::size_t>(tables.mode)];
    if (!(start >= 0.0 && start < static_cast<double>(tables.modes.size()))) return "a start in a mode that is not there";
  }
  const std::size_t arguments = 1 + variables + cells_in(tables.inputs) + cells_in(tables.heard) + tables.heard.size() +
                                tables.parameters.size();
  std::string problem = problem_in(tables.compute, cells_in(tables.outputs), arguments);
  for (const ModeTables& mode : tables.modes) {
    if (problem.empty()) problem = problem_in(mode, tables, arguments);
  }
  return problem;
}

}  // namespace upbeat
