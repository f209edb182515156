// The innermost loop: one block of a program, instruction by instruction.
#include <algorithm>
#include <cstring>

#include "linked.hpp"

namespace upbeat {

namespace {

constexpr std::int32_t code(Op op) { return static_cast<std::int32_t>(op); }

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
  if (sharing_ && !tables_.shares[static_cast<std::size_t>(block)].empty()) return share(block);
  return work(tables_.entries[block], lanes_.front());
}

// From a row to the next End. Several cores may do so at once, each in its own lane, with rows of which no two
// touch the same cells or units.
bool Machine::work(std::int32_t row, Lane& lane) {
  Cell* const cells = cells_.data();
  double* const clocks = clocks_.data();
  const Step* const first = steps_.data();
  const Step* at = first + row;
  // These take `at` by value, so that it stays in a machine register.
  const auto failed = [this, first, &lane](const Step* here, Fault fault, Call call) {
    return fail(lane, fault, call, here->unit, static_cast<std::int32_t>(here - first));
  };
  const auto refused = [failed, &lane](const Step* here, int status, Call call) {
    lane.error.status = status;
    return failed(here, Fault::Refused, call);
  };
  // Programs come in runs of one kind (all Advance, all Get, all Set), so the hot cases stay in
  // a loop of their own as long as such a run lasts, and hand over to the usual next one directly:
  // with units that do nothing, dispatch is what remains.
  for (;;) {
    switch (at->code) {
      case Step::GetReal:
      get_reals:
        do {
          Cell* const to = cells + at->b;
          if (const int status = at->get(at->self, at->a, to)) return refused(at, status, Call::Get);
          if (!finite(*to)) {
            lane.error.cell = 0;
            lane.error.value = to->r;
            return failed(at, Fault::NotFinite, Call::Get);
          }
          ++at;
        } while (at->code == Step::GetReal);
        if (at->code == code(Op::Set)) goto sets;
        break;
      case Step::GetReals: {
        Cell* const to = cells + at->b;
        if (const int status = at->get(at->self, at->a, to)) return refused(at, status, Call::Get);
        if (!lane.are_numbers(to, at->c, at->c)) return failed(at, Fault::NotFinite, Call::Get);
        ++at;
        break;
      }
      case code(Op::Get):
        if (const int status = at->get(at->self, at->a, cells + at->b)) return refused(at, status, Call::Get);
        ++at;
        break;
      case code(Op::Set):
      sets:
        do {
          if (const int status = at->set(at->self, at->a, cells + at->b, at->c)) return refused(at, status, Call::Set);
          ++at;
        } while (at->code == code(Op::Set));
        if (at->code == code(Op::End)) return true;
        break;
      case Step::CheckedSet: {
        const Cell* const from = cells + at->b;
        if (!lane.are_numbers(from, at->c * at->d, at->d)) return failed(at, Fault::NotFinite, Call::Set);
        if (const int status = at->set(at->self, at->a, from, at->c)) return refused(at, status, Call::Set);
        ++at;
        break;
      }
      case code(Op::Gather): {
        const std::size_t width = static_cast<std::size_t>(at->d);
        const std::int32_t* const from = tables_.operands.data() + at->b;
        for (std::int32_t k = 0; k < at->c; ++k) {
          std::memcpy(lane.gathered.data() + static_cast<std::size_t>(k) * width, cells + from[k], sizeof(Cell) * width);
        }
        // A trajectory of several coefficients has been computed, so it may be anything.
        if (!lane.are_numbers(lane.gathered.data(), at->c * at->d, at->d)) return failed(at, Fault::NotFinite, Call::Set);
        if (const int status = at->set(at->self, at->a, lane.gathered.data(), at->c)) return refused(at, status, Call::Set);
        ++at;
        break;
      }
#define UPBEAT_RUN(name, number)                                                                                          \
  case code(Op::name):                                                                                                    \
    computations::name::run(cells, {at->a, at->b, at->c, at->d}, tables_.operands.data(), lane.room.data());             \
    ++at;                                                                                                                 \
    break;
        UPBEAT_COMPUTATIONS(UPBEAT_RUN)
#undef UPBEAT_RUN
      case code(Op::Call):
        if (!call_ || !call_(at->a)) return failed(at, Fault::Called, Call::None);
        ++at;
        break;
      case code(Op::Slope):
        if (!at->slope) return failed(at, Fault::Unable, Call::Slope);
        if (const int status = at->slope(at->self, at->a, at->b, cells + at->c)) return refused(at, status, Call::Slope);
        ++at;
        break;
      case code(Op::Advance):
        do {
          const double start = cells[at->a].r;
          const double until = cells[at->b].r;
          double* const reached = &cells[at->c].r;
          *reached = until;
          lane.advancing.set(at->unit);
          const int status = at->advance(at->self, start, until, at->d, reached);
          if (status != 0 || (*reached != until && !(at->d && start <= *reached && *reached <= until))) {
            lane.error.start = start;
            lane.error.until = until;
            lane.error.value = *reached;
            return status != 0 ? refused(at, status, Call::Advance) : failed(at, Fault::NotReached, Call::Advance);
          }
          clocks[at->unit] = *reached;
          ++at;
        } while (at->code == code(Op::Advance));
        lane.advancing.set(-1);
        if (at->code == Step::GetReal) goto get_reals;
        break;
      case code(Op::Compute):
        compute(*at->expression);
        ++at;
        break;
      case code(Op::Copy):
        std::memmove(cells + at->b, cells + at->a, sizeof(Cell) * static_cast<std::size_t>(at->c));
        ++at;
        break;
      case code(Op::Save):
        if (!save_slot(static_cast<std::int32_t>(at - first), lane)) return false;
        ++at;
        break;
      case code(Op::Restore):
        if (!restore_slot(static_cast<std::int32_t>(at - first), lane)) return false;
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
          return failed(at, Fault::Exhausted, Call::None);
        } else {
          ++at;
        }
        break;
      case code(Op::Unless): at = compute(*at->expression) != 0.0 ? at + 1 : first + at->a; break;
      case code(Op::Goto): at = first + at->a; break;
      case code(Op::Jump):
      case code(Op::GetEvent):
      case code(Op::Due):
      case code(Op::Fire):
        if (!happen(*at, lane)) return false;
        ++at;
        break;
      default: return true;  // End
    }
  }
}

}  // namespace upbeat
