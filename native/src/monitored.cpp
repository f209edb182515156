// See monitored.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "monitored.hpp"

namespace upbeat {

namespace {

// The places of the state.
enum : std::size_t { Node, Taken, Until, Stood, Head };

// The texts of its own; then one for each step that is made in place of a longer wish, and one for each pair of a
// step asked for and one made instead.
enum : std::int32_t { WhatIsLeft, AfterOneThatStood, Rounded };

constexpr double slack = 1e-6;  // the part of a step below which a remainder counts as rounding

}  // namespace

Monitored::Monitored(MonitoredSettings settings, std::unique_ptr<Pace> inside)
    : is_(std::move(settings)), size_(static_cast<std::int32_t>(is_.steps.size())), inside_(std::move(inside)) {
  state_.assign(Head, 0.0);
}

void Monitored::begin(double t, double limit) {
  state_[Node] = static_cast<double>(is_.start);
  state_[Taken] = -1.0;
  state_[Until] = t;
  state_[Stood] = 0.0;
  inside_->begin(t, limit);
}

bool Monitored::stand(const std::vector<double>& state) {
  const auto nodes = static_cast<double>(is_.leads.size()) / static_cast<double>(size_);
  if (state.size() < Head || !(state[Node] >= 0.0 && state[Node] < nodes)) return false;
  if (!(state[Taken] >= -1.0 && state[Taken] < static_cast<double>(size_))) return false;
  if (!inside_->stand({state.begin() + Head, state.end()})) return false;
  std::copy(state.begin(), state.begin() + Head, state_.begin());
  return true;
}

const std::vector<double>& Monitored::state() const {
  const std::vector<double>& inner = inside_->state();
  whole_.assign(state_.begin(), state_.end());
  whole_.insert(whole_.end(), inner.begin(), inner.end());
  return whole_;
}

// Texts of the pace inside have even numbers, its own odd ones.
const char* Monitored::reason(std::int32_t code) const {
  return code % 2 == 0 ? inside_->reason(code / 2) : is_.texts.at(static_cast<std::size_t>(code / 2)).c_str();
}

const std::int32_t* Monitored::row(const std::vector<std::int32_t>& table) const {
  return table.data() + static_cast<std::size_t>(state_[Node]) * static_cast<std::size_t>(size_);
}

Proposal Monitored::propose(double t, double limit, const Cell* cells) {
  Proposal step = inside_->propose(t, limit, cells);
  step.reason = 2 * step.reason;
  const std::int32_t fits = count(limit - t);
  const std::int32_t asked = std::max(count(step.until - t) - 1, 0);
  std::int32_t taken = row(is_.grants)[asked];
  if (taken >= fits) taken = nearest(asked, fits);
  if (taken < 0) {
    step.until = limit;
    step.reason = 2 * WhatIsLeft + 1;
  } else {
    make(step, t, limit, asked, taken);
  }
  if (state_[Stood] != 0.0) step.reason = 2 * AfterOneThatStood + 1;
  state_[Taken] = static_cast<double>(taken);
  state_[Until] = step.until;
  state_[Stood] = 0.0;
  return step;
}

bool Monitored::review(double t, double reached, const Cell* cells, Proposal& step) {
  Proposal again = step;
  if (inside_->review(t, reached, cells, again)) return true;
  again.reason = 2 * again.reason;
  if (std::isnan(again.until)) {  // the pace inside gives up
    step = again;
    return false;
  }
  const std::int32_t below = count((state_[Until] - t) * (1.0 - 2.0 * slack));
  const std::int32_t asked = std::max(count(again.until - t) - 1, 0);
  const std::int32_t taken = nearest(asked, below);
  if (taken < 0) {
    state_[Stood] = 1.0;
    return true;
  }
  step = again;
  make(step, t, state_[Until], asked, taken);
  state_[Taken] = static_cast<double>(taken);
  state_[Until] = step.until;
  return false;
}

void Monitored::note(double t, const Fired* fired, std::size_t count, const Cell* cells) {
  if (state_[Taken] >= 0.0) {
    const auto taken = static_cast<std::size_t>(state_[Taken]);
    if (t >= state_[Until] - slack * is_.steps[taken]) state_[Node] = static_cast<double>(row(is_.leads)[taken]);
  }
  inside_->note(t, fired, count, cells);
  state_[Taken] = -1.0;
  state_[Until] = t;
}

// The step `taken`, on the pace's own grid where it asked for just that one.
void Monitored::make(Proposal& step, double t, double limit, std::int32_t asked, std::int32_t taken) const {
  const double size = is_.steps[static_cast<std::size_t>(taken)];
  double until = t + size;
  const bool exact = std::fabs(step.until - until) <= slack * size;
  if (exact) until = step.until;
  if (until > limit - slack * size) until = limit;
  step.until = until;
  if (taken != asked) {
    step.reason = 2 * (Rounded + size_ + asked * size_ + taken) + 1;
  } else if (!exact) {
    step.reason = 2 * (Rounded + taken) + 1;
  }
}

// How many of the steps are not longer than this.
std::int32_t Monitored::count(double length) const {
  const double room = length * (1.0 + slack);
  std::int32_t found = 0;
  for (const double step : is_.steps) found += step <= room ? 1 : 0;
  return found;
}

// The allowed one of the first `below` steps that is nearest to the one asked for; -1: none.
std::int32_t Monitored::nearest(std::int32_t asked, std::int32_t below) const {
  const std::int32_t* const leads = row(is_.leads);
  std::int32_t found = -1;
  double away = 0.0;
  for (std::int32_t k = 0; k < below; ++k) {
    const double distance =
        std::fabs(is_.steps[static_cast<std::size_t>(k)] - is_.steps[static_cast<std::size_t>(asked)]);
    if (leads[k] >= 0 && (found < 0 || distance < away)) {
      found = k;
      away = distance;
    }
  }
  return found;
}

std::unique_ptr<Pace> make_monitored(const std::vector<double>& p, const std::vector<std::string>& texts,
                                     const std::vector<std::int32_t>& blocks) {
  constexpr std::size_t numbers = 3;
  const auto whole = [](double number, double low, double high) {
    return number >= low && number < high && number == std::floor(number);
  };
  if (p.size() < numbers || !whole(p[0], 1.0, 1e4) || !whole(p[1], 1.0, 1e6) || !whole(p[2], 0.0, p[1])) return nullptr;
  const auto count = static_cast<std::size_t>(p[0]);
  const auto cells = count * static_cast<std::size_t>(p[1]);
  const std::size_t own = numbers + count + 2 * cells;
  const std::size_t words = 1 + Rounded + count + count * count;
  if (p.size() < own || texts.size() < words) return nullptr;
  MonitoredSettings settings;
  settings.start = static_cast<std::int32_t>(p[2]);
  settings.steps.assign(p.begin() + numbers, p.begin() + static_cast<std::ptrdiff_t>(numbers + count));
  for (std::size_t k = 0; k < count; ++k) {
    if (!(settings.steps[k] > (k == 0 ? 0.0 : settings.steps[k - 1]))) return nullptr;
  }
  for (std::size_t k = 0; k < cells; ++k) {
    const double lead = p[numbers + count + k];
    const double grant = p[numbers + count + cells + k];
    if (!whole(lead, -1.0, p[1]) || !whole(grant, 0.0, p[0])) return nullptr;
    settings.leads.push_back(static_cast<std::int32_t>(lead));
    settings.grants.push_back(static_cast<std::int32_t>(grant));
  }
  const auto after = texts.begin() + static_cast<std::ptrdiff_t>(words);
  settings.texts.assign(texts.begin() + 1, after);
  auto inside =
      make_pace(texts[0], {p.begin() + static_cast<std::ptrdiff_t>(own), p.end()}, blocks, {after, texts.end()});
  if (!inside) return nullptr;
  return std::make_unique<Monitored>(std::move(settings), std::move(inside));
}

}  // namespace upbeat
