// The innermost loop: one block of a program, instruction by instruction.
#include <cstring>

#include "linked.hpp"

namespace upbeat {

namespace {

constexpr std::int32_t code(Op op) { return static_cast<std::int32_t>(op); }

bool finite(double value) { return value - value == 0.0; }

}  // namespace

double Machine::compute(Expression& expression) {
  double* const work = expression.work.data();
  const std::int32_t* const from = expression.from.data();
  const std::int32_t* const to = expression.to.data();
  const std::int32_t* const results = expression.kernel->results.data();
  const std::size_t inputs = expression.from.size();
  const std::size_t outputs = expression.to.size();
  if (expression.plain) {
    for (std::size_t i = 0; i < inputs; ++i) work[i] = cells_[from[i]].r;
    run(*expression.kernel, work);
    for (std::size_t i = 0; i < outputs; ++i) cells_[to[i]].r = work[results[i]];
  } else {
    for (std::size_t i = 0; i < inputs; ++i) work[i] = to_double(cells_[from[i]], tables_.kinds[from[i]]);
    run(*expression.kernel, work);
    for (std::size_t i = 0; i < outputs; ++i) cells_[to[i]] = from_double(work[results[i]], tables_.kinds[to[i]]);
  }
  return work[results[0]];
}

bool Machine::execute(std::int32_t block) {
  Cell* const cells = cells_.data();
  const Step* const first = steps_.data();
  const Step* at = first + tables_.entries[block];
  const auto failed = [&](Fault fault, Call call) {
    return fail(fault, call, at->unit, static_cast<std::int32_t>(at - first));
  };
  const auto refused = [&](int status, Call call) {
    error_.status = status;
    return failed(Fault::Refused, call);
  };
  // Programs come in runs of one kind (all Advance, all Get, all Set), so the hot cases stay in
  // a loop of their own as long as such a run lasts.
  for (;;) {
    switch (at->code) {
      case Step::GetReal:
        do {
          Cell* const to = cells + at->b;
          if (const int status = at->get(at->self, at->a, to)) return refused(status, Call::Get);
          if (!finite(to->r)) {
            error_.cell = 0;
            error_.value = to->r;
            return failed(Fault::NotFinite, Call::Get);
          }
          ++at;
        } while (at->code == Step::GetReal);
        break;
      case Step::GetReals: {
        Cell* const to = cells + at->b;
        if (const int status = at->get(at->self, at->a, to)) return refused(status, Call::Get);
        for (std::int32_t i = 0; i < at->c; ++i) {
          if (finite(to[i].r)) continue;
          error_.cell = i;
          error_.value = to[i].r;
          return failed(Fault::NotFinite, Call::Get);
        }
        ++at;
        break;
      }
      case code(Op::Get):
        if (const int status = at->get(at->self, at->a, cells + at->b)) return refused(status, Call::Get);
        ++at;
        break;
      case code(Op::Set):
        do {
          if (const int status = at->set(at->self, at->a, cells + at->b, at->c)) return refused(status, Call::Set);
          ++at;
        } while (at->code == code(Op::Set));
        break;
      case code(Op::Gather): {
        const std::size_t width = static_cast<std::size_t>(at->d);
        const std::int32_t* const from = tables_.operands.data() + at->b;
        for (std::int32_t k = 0; k < at->c; ++k) {
          std::memcpy(gathered_.data() + static_cast<std::size_t>(k) * width, cells + from[k], sizeof(Cell) * width);
        }
        if (const int status = at->set(at->self, at->a, gathered_.data(), at->c)) return refused(status, Call::Set);
        ++at;
        break;
      }
      case code(Op::Advance):
        do {
          const double start = cells[at->a].r;
          const double until = cells[at->b].r;
          double reached = until;
          if (const int status = at->advance(at->self, start, until, at->d, &reached)) return refused(status, Call::Advance);
          if (reached != until && !(at->d && start <= reached && reached <= until)) {
            error_.value = reached;
            return failed(Fault::NotReached, Call::Advance);
          }
          cells[at->c].r = reached;
          clocks_[at->unit] = reached;
          ++at;
        } while (at->code == code(Op::Advance));
        break;
      case code(Op::Compute):
        compute(*at->expression);
        ++at;
        break;
      case code(Op::Copy):
        std::memmove(cells + at->b, cells + at->a, sizeof(Cell) * static_cast<std::size_t>(at->c));
        ++at;
        break;
      case code(Op::Jump): {
        int again = 0;
        if (const int status = at->jump ? at->jump(at->self, &again) : 0) return refused(status, Call::Jump);
        cells[at->a] = from_double(again != 0 ? 1.0 : 0.0, static_cast<Kind>(at->b));
        ++at;
        break;
      }
      case code(Op::Save):
        if (!save_slot(static_cast<std::int32_t>(at - first))) return false;
        ++at;
        break;
      case code(Op::Restore):
        if (!restore_slot(static_cast<std::int32_t>(at - first))) return false;
        ++at;
        break;
      case code(Op::Begin):
        loops_[at->a] = 0;
        ++at;
        break;
      case code(Op::Until):
        if (compute(*at->expression) != 0.0) {
          ++at;
        } else if (++loops_[at->a] < at->b) {
          at = first + at->c;
        } else if (at->d != 0) {
          return failed(Fault::Exhausted, Call::None);
        } else {
          ++at;
        }
        break;
      case code(Op::Unless): at = compute(*at->expression) != 0.0 ? at + 1 : first + at->a; break;
      case code(Op::Goto): at = first + at->a; break;
      case code(Op::Fire):
        fired_.push_back({at->a, 0, cells[tables_.now].r});
        ++at;
        break;
      default: return true;  // End
    }
  }
}

}  // namespace upbeat
