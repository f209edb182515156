// What a program does at instants: events read, jumps, due times, entries of the log. Apart from the innermost
// loop, which scenarios without events should not pay for.
#include <cmath>
#include <limits>

#include "linked.hpp"

namespace upbeat {

bool Machine::happen(const Step& step, Lane& lane) {
  const auto failed = [&](Fault fault, Call call) {
    return fail(lane, fault, call, step.unit, static_cast<std::int32_t>(&step - steps_.data()));
  };
  const auto refused = [&](int status, Call call) {
    lane.error.status = status;
    return failed(Fault::Refused, call);
  };
  Cell* const cells = cells_.data();
  switch (static_cast<Op>(step.code)) {
    case Op::Jump: {
      int again = 0;
      if (const int status = step.jump ? step.jump(step.self, &again) : 0) return refused(status, Call::Jump);
      cells[step.a] = from_double(again != 0 ? 1.0 : 0.0, static_cast<Kind>(step.b));
      return true;
    }
    case Op::GetEvent: {
      Cell* const to = cells + step.b;
      if (const int status = step.get(step.self, step.a, to)) return refused(status, Call::Get);
      if (to[step.c].i == 0 && step.d != static_cast<std::int32_t>(Kind::String)) {
        for (std::int32_t i = 0; i < step.c; ++i) to[i].i = 0;  // as on the other engine, to the bit
      } else if (step.d == static_cast<std::int32_t>(Kind::Real) && !lane.are_numbers(to, step.c, step.c)) {
        return failed(Fault::NotFinite, Call::Get);
      }
      return true;
    }
    case Op::Due: {
      double* const to = &cells[step.a].r;
      *to = std::numeric_limits<double>::infinity();
      if (const int status = step.due ? step.due(step.self, to) : 0) return refused(status, Call::Due);
      return !std::isnan(*to) || failed(Fault::NotFinite, Call::Due);
    }
    default:  // Fire
      fired_.append(step.a, cells[tables_.now].r, cells + (step.c != 0 ? step.b : 0), step.c);
      return true;
  }
}

}  // namespace upbeat
