// Whether tables can be trusted: every index they contain lies where it may.
#include <cstdint>

#include "machine.hpp"

namespace upbeat {

namespace {

class Check {
 public:
  Check(const ProgramTables& tables, std::size_t units) : tables_(tables), units_(units) {}

  std::string all() const {
    if (tables_.start.size() != tables_.kinds.size()) return "cells and kinds differ in number";
    if (!is_real(tables_.now) || !is_real(tables_.next)) return "time is not a real cell";
    if (tables_.due != -1 && !is_real(tables_.due)) return "the next event is not a real cell";
    if (tables_.stops != -1 && !is_real(tables_.stops)) return "who has ended a step is not a real cell";
    if (tables_.ends != -1 && !is_real(tables_.ends)) return "the end of a run is not a real cell";
    if (tables_.budget != -1 && !(is_real(tables_.budget) && is_real(tables_.budget + 1))) return "a budget has no real cells";
    if (tables_.slots < 0 || tables_.loops < 0) return "a negative count";
    for (const KernelTables& kernel : tables_.kernels) {
      const std::string problem = problem_in(kernel);
      if (!problem.empty()) return problem;
    }
    for (const CellKernel& expression : tables_.expressions) {
      if (!fits(expression)) return "an expression does not fit its kernel";
    }
    for (const std::int32_t entry : tables_.entries) {
      if (!target(entry)) return "a block begins outside the code";
    }
    if (!tables_.shares.empty() && tables_.shares.size() != tables_.entries.size()) return "blocks and shares differ in number";
    for (const Shares& shares : tables_.shares) {
      if (const char* const problem = problem_in(shares, tables_.code.size())) return problem;
    }
    if (!paced()) return "its pace has no such cells or blocks";
    if (!block(tables_.start_block) || !block(tables_.instant_block)) return "a block that there is not";
    if (tables_.code.empty() || static_cast<Op>(tables_.code.back()[0]) != Op::End) return "the code does not end";
    for (std::size_t i = 0; i < tables_.code.size(); ++i) {
      if (!sound(tables_.code[i])) return "row " + std::to_string(i) + " of the code has a bad operand";
    }
    return "";
  }

  // What computations ask for (see computations.hpp).
  bool reals(std::int64_t first, std::int64_t count) const {
    if (!cells(first, count)) return false;
    for (std::int64_t i = first; i < first + count; ++i) {
      if (!is_real(static_cast<std::int32_t>(i))) return false;
    }
    return true;
  }
  // So many operands in a row from `at` on, if there are; else nothing.
  const std::int32_t* listed(std::int64_t at, std::int64_t count) const {
    return within(at, count, tables_.operands.size()) ? tables_.operands.data() + at : nullptr;
  }

 private:
  static bool within(std::int64_t first, std::int64_t count, std::size_t size) {
    return first >= 0 && count >= 0 && first + count <= static_cast<std::int64_t>(size);
  }
  bool cells(std::int64_t first, std::int64_t count = 1) const { return within(first, count, tables_.start.size()); }
  bool is_real(std::int32_t cell) const {
    return cells(cell) && tables_.kinds[static_cast<std::size_t>(cell)] == Kind::Real;
  }
  bool block(std::int32_t number) const { return number == -1 || within(number, 1, tables_.entries.size()); }
  bool unit(std::int32_t number) const { return within(number, 1, units_); }
  bool target(std::int32_t row) const { return within(row, 1, tables_.code.size()); }
  bool expression(std::int32_t number, bool condition) const {
    if (!within(number, 1, tables_.expressions.size())) return false;
    const CellKernel& found = tables_.expressions[static_cast<std::size_t>(number)];
    return !condition || !tables_.kernels[static_cast<std::size_t>(found.kernel)].results.empty();
  }
  bool fits(const CellKernel& expression) const {
    if (!within(expression.kernel, 1, tables_.kernels.size())) return false;
    const KernelTables& kernel = tables_.kernels[static_cast<std::size_t>(expression.kernel)];
    if (static_cast<std::size_t>(kernel.inputs) != expression.from.size() || kernel.results.empty()) return false;
    if (expression.to.size() > kernel.results.size()) return false;
    for (const std::int32_t cell : expression.from) {
      if (!cells(cell)) return false;
    }
    for (const std::int32_t cell : expression.to) {
      if (!cells(cell)) return false;
    }
    return true;
  }
  bool operands(std::int32_t at, std::int32_t units, std::int32_t cells_saved) const {
    if (units < 0 || cells_saved < 0) return false;
    if (!within(at, static_cast<std::int64_t>(units) + cells_saved, tables_.operands.size())) return false;
    const std::int32_t* const from = tables_.operands.data() + at;
    for (std::int32_t i = 0; i < units; ++i) {
      if (!unit(from[i])) return false;
    }
    for (std::int32_t i = 0; i < cells_saved; ++i) {
      if (!cells(from[units + i])) return false;
    }
    return true;
  }
  bool gathers(const Row& row) const {
    if (row[3] < 1 || row[4] < 1 || !within(row[5], row[3], tables_.operands.size())) return false;
    for (std::int32_t k = 0; k < row[3]; ++k) {
      if (!cells(tables_.operands[static_cast<std::size_t>(row[5] + k)], row[4])) return false;
    }
    return true;
  }
  bool paced() const {
    const PaceTables& pace = tables_.pace;
    if (pace.limit == -1) return true;  // it is run block by block
    for (const std::int32_t number : {pace.review, pace.note, pace.changed, pace.keep, pace.back}) {
      if (!block(number)) return false;
    }
    for (const std::int32_t number : pace.steps) {
      if (number < 0 || !block(number)) return false;
    }
    if (pace.steps.empty()) return false;
    for (const ReasonTables& reason : pace.reasons) {
      if (reason.of < 0 || reason.of > 2) return false;
    }
    return pace.propose >= 0 && block(pace.propose) && (pace.keep < 0) == (pace.back < 0) && is_real(pace.limit) &&
           is_real(pace.until) && is_real(pace.block) && reals(pace.reason, 4) && is_real(pace.again) && is_real(pace.fired);
  }
  bool sound(const Row& row) const {
    switch (static_cast<Op>(row[0])) {
      case Op::End: return true;
      case Op::Get: return unit(row[1]) && row[4] >= 1 && cells(row[3], row[4]);
      case Op::Set:
        return unit(row[1]) && row[3] >= 1 && row[4] >= 1 && cells(row[5], static_cast<std::int64_t>(row[3]) * row[4]);
      case Op::Gather: return unit(row[1]) && gathers(row);
      case Op::Compute: return expression(row[1], false);
      case Op::Copy: return row[3] >= 1 && cells(row[1], row[3]) && cells(row[2], row[3]);
      case Op::Advance: return unit(row[1]) && is_real(row[2]) && is_real(row[3]) && is_real(row[4]);
      case Op::Jump: return unit(row[1]) && cells(row[2]);
      case Op::Save: return within(row[1], 1, static_cast<std::size_t>(tables_.slots)) && operands(row[2], row[3], row[4]);
      case Op::Restore: return within(row[1], 1, static_cast<std::size_t>(tables_.slots));
      case Op::Begin: return within(row[1], 1, static_cast<std::size_t>(tables_.loops));
      case Op::Until:
        return within(row[1], 1, static_cast<std::size_t>(tables_.loops)) && expression(row[2], true) && target(row[4]);
      case Op::Unless: return expression(row[1], true) && target(row[2]);
      case Op::Goto: return target(row[1]);
      case Op::Fire: return row[3] == 0 || cells(row[2], row[3]);
      case Op::Due: return unit(row[1]) && is_real(row[2]);
      case Op::GetEvent:
        return unit(row[1]) && row[4] >= 1 && cells(row[3], static_cast<std::int64_t>(row[4]) + 1);
#define UPBEAT_SOUND(name, number) \
  case Op::name: return computations::name::sound(*this, {row[1], row[2], row[3], row[4]});
      UPBEAT_COMPUTATIONS(UPBEAT_SOUND)
#undef UPBEAT_SOUND
      case Op::Call: return within(row[1], 1, static_cast<std::size_t>(tables_.calls));
      case Op::Slope: return unit(row[1]) && row[5] >= 1 && cells(row[4], row[5]) && is_real(row[4]);
    }
    return false;
  }

  const ProgramTables& tables_;
  std::size_t units_;
};

}  // namespace

std::string problem_in(const ProgramTables& tables, std::size_t units) { return Check(tables, units).all(); }

}  // namespace upbeat
