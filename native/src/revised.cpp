// See revised.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "revised.hpp"

#include "bracketing.hpp"
#include "chains.hpp"

namespace upbeat {

namespace {

// The places of the state.
enum : std::size_t { Which, Rounds, Low, High, Streak, Tolerance, Last, Chain };

constexpr double infinity = std::numeric_limits<double>::infinity();
// So many times the tolerance behind an event, conditions are believed to have come there without a jump.
constexpr double nearby = 2.0;
constexpr double part = 1e-5;  // how close to an event is close enough, as a part of the step

Curve between(const double* low, const double* end, std::int32_t order, double span) {
  double both[2 * sample_width];
  for (std::size_t i = 0; i < sample_width; ++i) {
    both[i] = low[i];
    both[sample_width + i] = end[i];
  }
  return through(both, known(order, low, end), -span);
}

}  // namespace

Revised::Revised(RevisedSettings settings, std::vector<std::string> names, std::unique_ptr<Pace> inside)
    : Wrapping(std::move(inside), head + 3 * sample_width * settings.orders.size()),
      is_(std::move(settings)),
      names_(std::move(names)),
      size_(sample_width * is_.orders.size()),
      now_(size_),
      curves_(is_.orders.size()) {}

void Revised::begin(double t, double limit) {
  state_.assign(state_.size(), 0.0);
  state_[Which] = -1.0;
  state_[Low] = state_[High] = t;
  state_[Last] = -infinity;
  Wrapping::begin(t, limit);
}

bool Revised::fits(const double* own) const { return own[Which] >= -1.0 && own[Which] <= 2.0; }

Proposal Revised::propose(double t, double limit, const Cell* cells) {
  Proposal step = Wrapping::propose(t, limit, cells);
  if (state_[Which] > 0.0 && is_.after < 1.0) {
    const double until = t + is_.after * (is_.usual > 0.0 ? is_.usual : step.until - t);
    if (t < until && until < step.until) {
      step.until = until;
      step.reason = number_of(state_[Which] == 2.0 ? Why::After : Why::First);
    }
  }
  return step;
}

void Revised::note(double t, const Fired* fired, std::size_t count, const Cell* cells) {
  state_[Which] = state_[Which] < 0.0 ? 1.0 : 0.0;
  if (cells[is_.jumped].i != 0) {
    const double within = chains::right_after(state_[Tolerance], is_.usual > 0.0 ? is_.usual : infinity);
    state_[Chain] = chains::longer(state_[Chain], state_[Last], t, within);
    state_[Last] = t;
    state_[Which] = 2.0;
  }
  state_[Rounds] = state_[Streak] = state_[Tolerance] = 0.0;
  state_[Low] = state_[High] = t;
  look(start(), cells);
  take_over(low(), start());
  take_over(high(), start());
  Wrapping::note(t, fired, count, cells);
}

void Revised::anew(double t, bool fired, const Cell* cells) {
  if (fired) state_[Which] = 2.0;
  look(start(), cells);
  take_over(low(), start());
  take_over(high(), start());
  Wrapping::anew(t, fired, cells);
}

bool Revised::review(double t, double reached, const Cell* cells, Proposal& step) {
  if (state_[Rounds] == 0.0) {
    state_[Tolerance] = visible(is_.tolerance > 0.0 ? is_.tolerance : part * (reached - t), reached, grains);
  }
  look(now_.data(), cells);
  double end = reached;
  if (due()) {
    take_over(high(), now_.data());
    state_[High] = reached;
    state_[Streak] = state_[Streak] > 0.0 ? state_[Streak] + 1.0 : 1.0;
  } else if (state_[High] > state_[Low]) {
    take_over(low(), now_.data());
    state_[Low] = reached;
    end = state_[High];
    state_[Streak] = state_[Streak] < 0.0 ? state_[Streak] - 1.0 : -1.0;
  }
  const bool known = state_[High] > state_[Low];
  const Estimate found = estimate(t, low(), known ? high() : now_.data(), end - state_[Low]);
  double until;
  const bool back = again(reached, found, known && sure(), near(), until);
  if (found.tiny) {
    step.until = std::numeric_limits<double>::quiet_NaN();
    step.reason = why({Why::Endless, names_[found.event], t});
    return false;
  }
  if (back) {
    state_[Rounds] += 1.0;
    step.until = until;
    step.reason = why({found.before ? Why::Between : Why::Back, names_[found.event], found.at});
    return false;
  }
  const bool stands = Wrapping::review(t, reached, cells, step);
  state_[Rounds] = state_[Streak] = 0.0;
  state_[Low] = state_[High] = t;
  take_over(low(), start());
  take_over(high(), start());
  return stands;
}

std::int32_t Revised::sees() const {
  const std::int32_t last = std::max(is_.jumped, is_.first + static_cast<std::int32_t>(size_) - 1);
  return std::max(last, Wrapping::sees());
}

// Where the next attempt should end, if this one ends too far from the event.
bool Revised::again(double reached, const Estimate& found, bool sure, bool near, double& until) const {
  const double tolerance = state_[Tolerance];
  const bool may = state_[Rounds] < is_.most;
  if (found.before) {
    until = found.at;
    return may && found.at < reached;
  }
  if (!(state_[High] > state_[Low])) {
    until = found.end;
    return may && until < reached - tolerance;
  }
  const Bracket bracket{state_[Low], state_[High], state_[Streak], sure, near};
  return attempt(bracket, found.at, tolerance, static_cast<int>(state_[Rounds]), static_cast<int>(is_.most), until);
}

void Revised::look(double* sample, const Cell* cells) const {
  for (std::size_t i = 0; i < size_; ++i) sample[i] = cells[static_cast<std::size_t>(is_.first) + i].r;
}

void Revised::take_over(double* to, const double* from) const { std::copy(from, from + size_, to); }

double Revised::largest(const double* sample, std::size_t first, std::size_t count) const {
  double found = sample[sample_width * first];
  for (std::size_t k = first + 1; k < first + count; ++k) {
    const double other = sample[sample_width * k];
    if (other > found) found = other;
  }
  return found;
}

// Whether an event that was still to come at the start has happened by now.
bool Revised::due() const {
  std::size_t first = 0;
  for (const std::size_t count : is_.counts) {
    if (largest(state_.data() + head, first, count) > 0.0 && largest(now_.data(), first, count) <= 0.0) return true;
    first += count;
  }
  return false;
}

// Whether rates of all these conditions are known.
bool Revised::rates_known(std::size_t first, std::size_t count) const {
  for (std::size_t k = first; k < first + count; ++k) {
    if (is_.orders[k] <= 0) return false;
  }
  return true;
}

// Whether rates of all events are known that have happened by now.
bool Revised::sure() {
  std::size_t first = 0;
  for (const std::size_t count : is_.counts) {
    const bool due = largest(start(), first, count) > 0.0 && largest(high(), first, count) <= 0.0;
    if (due && !rates_known(first, count)) return false;
    first += count;
  }
  return true;
}

// Whether each event that is due has a condition that fell through zero just before `high`, and did not jump.
bool Revised::near() {
  std::size_t first = 0;
  for (const std::size_t count : is_.counts) {
    if (largest(start(), first, count) > 0.0 && largest(high(), first, count) <= 0.0) {
      bool found = false;
      for (std::size_t k = first; k < first + count && !found; ++k) {
        const double* const now = high() + sample_width * k;
        found = low()[sample_width * k] > 0.0 && now[1] < 0.0 && now[0] >= nearby * state_[Tolerance] * now[1];
      }
      if (!found) return false;
    }
    first += count;
  }
  return true;
}

// Where the first event came true between two samples, and which; at their end if it cannot be seen. Rounding may lift
// what rests on its border by a hair; that is nothing, unless it comes from ever shorter leaps.
Revised::Estimate Revised::estimate(double t, const double* from, const double* to, double span) {
  const double origin = state_[Low];
  const double tiny = visible(chains::tiny * state_[Tolerance], t, 1.0);
  const bool leaps = state_[Chain] >= chains::few;
  double found = infinity;
  bool any = false;
  Estimate best{origin + span, 0, false, false, infinity};
  std::size_t happened = 0;
  std::size_t first = 0;
  for (std::size_t e = 0; e < is_.counts.size(); ++e) {
    const std::size_t count = is_.counts[e];
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t at = sample_width * (first + k);
      curves_[k] = between(from + at, to + at, is_.orders[first + k], span);
    }
    const double wait = first_zero(curves_.data(), count, span);
    if (largest(start(), first, count) > 0.0) {
      if (largest(to, first, count) <= 0.0) happened = e;
      if (wait < found) {
        found = wait;
        best = {origin + wait, e, false, false, behind(count, wait)};
        any = true;
      }
    } else if (wait < found) {
      const double at = origin + (largest(from, first, count) > 0.0 ? 0.0 : highest(curves_.data(), count, wait));
      const bool hair = at - t < tiny;
      if (leaps || !hair) {
        found = wait;
        best = {at, e, true, hair, infinity};
        any = true;
      }
    } else if (std::isinf(wait) && leaps && state_[Which] == 2.0 && state_[Rounds] == 0.0 && rates_known(first, count) &&
               rises_below(curves_.data(), count, span)) {
      found = 0.0;
      best = {t, e, true, true, infinity};
      any = true;
    }
    first += count;
  }
  if (!any) best.event = happened;
  return best;
}

// Half of the tolerance behind the event of the first curves, or within it where it lasts less than that.
double Revised::behind(std::size_t count, double wait) const {
  const double half = 0.5 * state_[Tolerance];
  const double stop = just_behind(curves_.data(), count, wait, half);
  return stop == wait + half ? state_[Low] + wait + half : state_[Low] + stop;
}

std::unique_ptr<Pace> make_revised(const std::vector<double>& p, const std::vector<std::string>& texts,
                                   const std::vector<std::int32_t>& blocks) {
  constexpr std::size_t numbers = 7;
  const auto cell = [](double number) { return number >= 0.0 && number < 2147483647.0; };
  if (p.size() < numbers || !cell(p[4]) || !cell(p[5]) || !(p[6] >= 1.0 && p[6] < 1e6)) return nullptr;
  if (!(p[2] > 0.0 && p[2] <= 1.0) || !(p[3] >= 1.0)) return nullptr;
  RevisedSettings settings;
  settings.usual = p[0];
  settings.tolerance = p[1];
  settings.after = p[2];
  settings.most = p[3];
  settings.first = static_cast<std::int32_t>(p[4]);
  settings.jumped = static_cast<std::int32_t>(p[5]);
  const auto events = static_cast<std::size_t>(p[6]);
  if (p.size() < numbers + events || texts.size() < 1 + events) return nullptr;
  std::size_t all = 0;
  for (std::size_t e = 0; e < events; ++e) {
    if (!(p[numbers + e] >= 1.0 && p[numbers + e] < 1e6)) return nullptr;
    settings.counts.push_back(static_cast<std::size_t>(p[numbers + e]));
    all += settings.counts.back();
  }
  const std::size_t own = numbers + events + all;
  if (p.size() < own) return nullptr;
  for (std::size_t k = numbers + events; k < own; ++k) settings.orders.push_back(static_cast<std::int32_t>(p[k]));
  const auto after = texts.begin() + static_cast<std::ptrdiff_t>(1 + events);
  auto inside = make_pace(texts[0], {p.begin() + static_cast<std::ptrdiff_t>(own), p.end()}, blocks, {after, texts.end()});
  if (!inside) return nullptr;
  return std::make_unique<Revised>(std::move(settings), std::vector<std::string>(texts.begin() + 1, after),
                                   std::move(inside));
}

}  // namespace upbeat
