// See lookahead.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "lookahead.hpp"

#include <algorithm>
#include <cmath>

#include "chains.hpp"

namespace upbeat {

namespace {

// The places of the state.
enum : std::size_t { Count, Fresh, Newest, Before, Oldest, Last, Chain, Samples };
constexpr std::size_t depth = 3;

// What the steps are called by what the state says: usual ones, at the start, after an event.
constexpr Why kinds[] = {Why::Usual, Why::First, Why::After};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double slack = 1e-6;  // the part of a step below which a remainder counts as rounding
constexpr double close = 0.05;  // a sample so much closer than the last two are takes the place of the newest
constexpr double part = 0.8;    // of the way to an event that a step which is to end before it goes
constexpr double further = 1.3;  // so many steps ahead is looked for one that a step is to end before
constexpr double near = 0.1;    // samples closer than this part of the step say little about its end

}  // namespace

LookAhead::LookAhead(LookAheadSettings settings, std::vector<std::string> names, std::int32_t block)
    : is_(std::move(settings)), names_(std::move(names)), block_(block) {
  state_.resize(Samples + depth * sample_width * is_.orders.size() + 2 * names_.size());
  waits_.resize(names_.size());
  begin(0.0, 0.0);
  curves_.resize(is_.orders.size());
}

void LookAhead::begin(double, double) {
  std::fill(state_.begin(), state_.end(), 0.0);
  std::fill(state_.begin() + static_cast<std::ptrdiff_t>(predictions()), state_.end(), -infinity);
}

bool LookAhead::stand(const std::vector<double>& state) {
  if (state.size() != state_.size() || !(state[Count] >= 0.0 && state[Count] <= static_cast<double>(depth))) return false;
  if (!(state[Fresh] >= 0.0 && state[Fresh] <= 2.0)) return false;
  return Pace::stand(state);
}

Proposal LookAhead::propose(double t, double limit, const Cell*) {
  const bool fresh = state_[Fresh] != 0.0;
  const double usual = fresh ? is_.after * is_.step : is_.step;
  std::size_t event = 0;
  const Landing next = expected(t, usual, event);
  predict(t, usual);
  const bool seen = next.wait < usual;
  if (seen && next.before && next.wait < tiny(t)) {
    return {std::numeric_limits<double>::quiet_NaN(), why({Why::Endless, names_[event], t}), block_};
  }
  const double until = t + (seen ? next.wait : usual);
  const bool last = until > limit - slack * is_.step;
  const double to = last ? limit : until;
  if (last && !(seen && until <= limit)) return {to, number_of(Why::Stop), block_};
  if (!seen) return {to, number_of(kinds[static_cast<std::size_t>(state_[Fresh])]), block_};
  return {to, why({next.before ? Why::Over : Why::Expected, names_[event], until}), block_};
}

// Keeps the first predictions of events that are expected within the step, and of no others.
void LookAhead::predict(double t, double usual) {
  double* kept = state_.data() + predictions();
  for (const double wait : waits_) {
    if (!(wait < usual)) {
      kept[0] = kept[1] = -infinity;
    } else if (kept[0] == -infinity) {
      kept[0] = t;
      kept[1] = t + wait;
    }
    kept += 2;
  }
}

void LookAhead::tell(Cell* cells) const {
  const double* const kept = state_.data() + predictions();
  for (std::size_t i = 0; i < 2 * names_.size(); ++i) cells[is_.told + static_cast<std::int32_t>(i)].r = kept[i];
}

void LookAhead::note(double t, const Fired*, std::size_t, const Cell* cells) {
  const bool again = cells[is_.jumped].i != 0;
  double count = again ? 0.0 : state_[Count];
  if (again) {
    state_[Chain] = chains::longer(state_[Chain], state_[Last], t, chains::right_after(least(t), is_.step));
    state_[Last] = t;
  }
  const bool moved = count < 2.0 || is_.method == LookAheadSettings::Published ||
                     t - state_[Newest] > close * (state_[Newest] - state_[Before]);
  if (moved) {
    state_[Oldest] = state_[Before];
    state_[Before] = state_[Newest];
    count = std::min(count + 1.0, static_cast<double>(depth));
  }
  state_[Newest] = t;
  look(moved, cells);
  state_[Count] = count;
  state_[Fresh] = again ? 2.0 : count == 1.0 ? 1.0 : 0.0;
}

// The latest samples are no longer true; nor are those before, if something has jumped.
void LookAhead::anew(double t, bool fired, const Cell* cells) {
  const bool again = cells[is_.jumped].i != 0;
  if (again) {
    state_[Oldest] = state_[Before];
    state_[Before] = state_[Newest];
    state_[Newest] = t;
    state_[Count] = 1.0;
  }
  if (fired) state_[Fresh] = 2.0;
  look(again, cells);
}

// Takes a sample of all conditions: another one, or in place of the newest.
void LookAhead::look(bool moved, const Cell* cells) {
  double* kept = state_.data() + Samples;
  const Cell* now = cells + is_.first;
  for (std::size_t k = 0; k < is_.orders.size(); ++k) {
    if (moved) {
      for (std::size_t i = depth * sample_width - 1; i >= sample_width; --i) kept[i] = kept[i - sample_width];
    }
    for (std::size_t i = 0; i < sample_width; ++i) kept[i] = now[i].r;
    kept += depth * sample_width;
    now += sample_width;
  }
  // An event that fired has taken its prediction away.
  for (std::size_t i = 0; i < 2 * names_.size(); ++i) kept[i] = cells[is_.told + static_cast<std::int32_t>(i)].r;
}

std::int32_t LookAhead::sees() const {
  const auto cells = static_cast<std::int32_t>(sample_width * is_.orders.size());
  const auto told = static_cast<std::int32_t>(2 * names_.size());
  return std::max({is_.jumped, is_.first + cells - 1, is_.told + told - 1});
}

double LookAhead::least(double t) const { return visible(is_.least, t, grains); }

double LookAhead::tiny(double t) const { return visible(chains::tiny * least(t), t, 1.0); }

const double* LookAhead::samples(std::size_t condition) const {
  return state_.data() + Samples + depth * sample_width * condition;
}

// How long to wait for the first event within `span`, and which; infinity if there is none.
Landing LookAhead::expected(double t, double span, std::size_t& event) {
  std::fill(waits_.begin(), waits_.end(), infinity);
  Landing found{infinity, false};
  if (state_[Count] == 0.0) return found;
  std::size_t first = 0;
  for (std::size_t e = 0; e < is_.counts.size(); ++e) {
    const std::size_t count = is_.counts[e];
    const Landing wait = is_.method == LookAheadSettings::Published  ? Landing{publicly(first, count, t), false}
                         : is_.method == LookAheadSettings::Approach ? Landing{before(first, count, t, span), false}
                                                                     : closely(first, count, t, span);
    first += count;
    waits_[e] = wait.before ? infinity : wait.wait;
    if (wait.wait < found.wait) {
      found = wait;
      event = e;
    }
  }
  return found;
}

double LookAhead::publicly(std::size_t first, std::size_t count, double t) const {
  if (state_[Count] < 2.0) return infinity;
  const double last = state_[Newest] - state_[Before];
  double found = -1.0;
  for (std::size_t k = first; k < first + count; ++k) {
    const double now = samples(k)[0];
    const double before = samples(k)[sample_width];
    if (!(now + is_.forecast * (now - before) < 0.0)) return infinity;
    if (now > 0.0) found = std::max({found, is_.safety * last * now / (before - now), least(t)});
  }
  return found >= least(t) ? found : infinity;
}

// A part of the way to an event, until it is near; then over it, in a short step.
double LookAhead::before(std::size_t first, std::size_t count, double t, double span) {
  bool above = false;
  for (std::size_t k = 0; k < count; ++k) {
    curves_[k] = curve(first + k, span);
    above = above || curves_[k].value(0.0) > 0.0;
  }
  if (!above) return infinity;
  const double root = first_zero(curves_.data(), count, further * span);
  const double shortest = least(t);
  if (root <= shortest) return root + shortest;
  const double wait = part * root;
  return root - wait > 0.5 * shortest ? wait : root - 0.5 * shortest;
}

// Rounding may lift what rests on its border by a hair; that is nothing, unless it comes from ever shorter leaps. The
// last of them do not even leave the border any more.
Landing LookAhead::closely(std::size_t first, std::size_t count, double t, double span) {
  for (std::size_t k = 0; k < count; ++k) curves_[k] = curve(first + k, span);
  const Landing found = landing(curves_.data(), count, span, least(t));
  const bool leaps = state_[Chain] >= chains::few;
  if (std::isinf(found.wait) && leaps && state_[Fresh] == 2.0 && rises_below(curves_.data(), count, span)) return {0.0, true};
  if (!(found.wait < tiny(t))) return found;
  if (!found.before) return {tiny(t), false};
  return leaps ? found : Landing{infinity, false};
}

Curve LookAhead::curve(std::size_t condition, double span) const {
  const double* const s = samples(condition);
  const std::int32_t order = known(is_.orders[condition], s, s);
  const double count = state_[Count];
  const double h = state_[Newest] - state_[Before];
  if (order == 0) {
    if (count < 2.0) return taylor(s[0], 0.0, 0.0);
    if (count < 3.0 || is_.method == LookAheadSettings::Secant) return through(s, 0, h);
    return parabola(s, h, state_[Before] - state_[Oldest]);
  }
  const bool before = std::isnan(s[sample_width + 1]) || (order == 2 && std::isnan(s[sample_width + 2]));
  if (count < 2.0 || h < near * span || before) return taylor(s[0], s[1], order == 2 ? s[2] : 0.0);
  return through(s, order, h);
}

std::unique_ptr<Pace> make_look_ahead(const std::vector<double>& p, const std::vector<std::string>& texts,
                                      std::int32_t block) {
  constexpr std::size_t head = 9;
  const auto cell = [](double number) { return number >= 0.0 && number < 2147483647.0; };
  if (texts.empty() || p.size() < head + texts.size() || !(p[0] > 0.0) || !cell(p[6]) || !cell(p[7]) || !cell(p[8])) return nullptr;
  LookAheadSettings settings;
  settings.step = p[0];
  settings.method = static_cast<LookAheadSettings::Method>(p[1]);
  settings.forecast = p[2];
  settings.safety = p[3];
  settings.least = p[4];
  settings.after = p[5];
  settings.first = static_cast<std::int32_t>(p[6]);
  settings.jumped = static_cast<std::int32_t>(p[7]);
  settings.told = static_cast<std::int32_t>(p[8]);
  std::size_t all = 0;
  for (std::size_t e = 0; e < texts.size(); ++e) {
    if (!(p[head + e] >= 1.0 && p[head + e] < 1e6)) return nullptr;
    settings.counts.push_back(static_cast<std::size_t>(p[head + e]));
    all += settings.counts.back();
  }
  if (p.size() != head + texts.size() + all) return nullptr;
  for (std::size_t k = head + texts.size(); k < p.size(); ++k) {
    settings.orders.push_back(static_cast<std::int32_t>(p[k]));
  }
  return std::make_unique<LookAhead>(std::move(settings), texts, block);
}

}  // namespace upbeat
