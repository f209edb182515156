// See monitored.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "monitored.hpp"

#include <algorithm>
#include <cstdlib>

namespace upbeat {

namespace {

// The places of the state.
enum : std::size_t { Node, Taken, Until, Stood, Head };

constexpr double slack = 1e-6;  // the part of a step below which a remainder counts as rounding
constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr std::int32_t unnamed = -1;  // a reason that nobody has given yet

// How many of these steps, which ascend, are not longer than that.
std::int32_t up_to(const std::vector<double>& steps, double length) {
  const double room = length * (1.0 + slack);
  return static_cast<std::int32_t>(std::upper_bound(steps.begin(), steps.end(), room) - steps.begin());
}

}  // namespace

Monitored::Monitored(MonitoredSettings settings, std::unique_ptr<Pace> inside)
    : Wrapping(std::move(inside), Head), is_(std::move(settings)), size_(static_cast<std::int32_t>(is_.steps.size())),
      rounded_(is_.steps.size(), unnamed), replaced_(is_.steps.size()) {
  for (std::int32_t k = 0; k < size_; ++k) {
    const auto place = static_cast<std::size_t>(k);
    const std::int32_t block = is_.blocks[place];
    auto group = std::find_if(groups_.begin(), groups_.end(), [=](const Group& one) { return one.block == block; });
    if (group == groups_.end()) group = groups_.insert(group, {block, {}, {}});
    group->steps.push_back(is_.steps[place]);
    group->places.push_back(k);
  }
}

void Monitored::begin(double t, double limit) {
  state_[Node] = static_cast<double>(is_.start);
  state_[Taken] = -1.0;
  state_[Until] = t;
  state_[Stood] = 0.0;
  Wrapping::begin(t, limit);
}

bool Monitored::fits(const double* own) const {
  const auto nodes = static_cast<double>(is_.leads.size()) / static_cast<double>(size_);
  return own[Node] >= 0.0 && own[Node] < nodes && own[Taken] >= -1.0 && own[Taken] < static_cast<double>(size_);
}

const std::int32_t* Monitored::row(const std::vector<std::int32_t>& table) const {
  return table.data() + static_cast<std::size_t>(state_[Node]) * static_cast<std::size_t>(size_);
}

Proposal Monitored::propose(double t, double limit, const Cell* cells) {
  Proposal step = Wrapping::propose(t, limit, cells);
  if (std::isnan(step.until)) return step;  // the pace inside gives up
  const std::int32_t fits = count(limit - t);
  const std::int32_t asked = meant(step.until - t, step.block);
  std::int32_t taken = row(is_.grants)[asked];
  if (taken >= fits) taken = nearest(asked, fits);
  if (taken < 0) {
    step.until = limit;
    step.reason = number_of(Why::Left);
  } else {
    make(step, t, limit, asked, taken);
  }
  if (state_[Stood] != 0.0) step.reason = number_of(Why::Stood);
  state_[Taken] = static_cast<double>(taken);
  state_[Until] = step.until;
  state_[Stood] = 0.0;
  return step;
}

bool Monitored::review(double t, double reached, const Cell* cells, Proposal& step) {
  Proposal again = step;
  if (Wrapping::review(t, reached, cells, again)) return true;
  if (std::isnan(again.until)) {  // the pace inside gives up
    step = again;
    return false;
  }
  const std::int32_t below = count((state_[Until] - t) * (1.0 - 2.0 * slack));
  const std::int32_t asked = meant(again.until - t, again.block);
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
  Wrapping::note(t, fired, count, cells);
  state_[Taken] = -1.0;
  state_[Until] = t;
}

// The policy `taken`, on the pace's own grid where it asked for just that one.
void Monitored::make(Proposal& step, double t, double limit, std::int32_t asked, std::int32_t taken) {
  const double size = is_.steps[static_cast<std::size_t>(taken)];
  const std::int32_t block = is_.blocks[static_cast<std::size_t>(taken)];
  double until = t + size;
  const bool exact = std::fabs(step.until - until) <= slack * size && step.block == block;
  if (exact) until = step.until;
  if (until > limit - slack * size) until = limit;
  step.until = until;
  step.block = block;
  if (taken != asked) {
    step.reason = replaced(static_cast<std::size_t>(asked), static_cast<std::size_t>(taken));
  } else if (!exact) {
    step.reason = rounded(static_cast<std::size_t>(taken));
  }
}

// The numbers of these reasons are looked up; only the first time are there words to put together.
std::int32_t Monitored::replaced(std::size_t asked, std::size_t taken) {
  std::vector<std::int32_t>& numbers = replaced_[asked];
  if (numbers.empty()) numbers.assign(is_.steps.size(), unnamed);
  std::int32_t& number = numbers[taken];
  if (number == unnamed) {
    const std::string both = is_.labels[taken] + " instead of " + is_.labels[asked];
    number = why({Why::Replaced, both, none, {is_.steps[taken], is_.steps[asked]}});
  }
  return number;
}

std::int32_t Monitored::rounded(std::size_t taken) {
  std::int32_t& number = rounded_[taken];
  if (number == unnamed) number = why({Why::Rounded, is_.labels[taken], none, {is_.steps[taken]}});
  return number;
}

// How many of the policies are not longer than this.
std::int32_t Monitored::count(double length) const {
  return up_to(is_.steps, length);
}

// The policy that a request stands for: the longest of its block that is not longer, or else the shortest. A block
// that is not among them stands for any.
std::int32_t Monitored::meant(double length, std::int32_t block) const {
  for (const Group& group : groups_) {
    if (group.block == block) {
      return group.places[static_cast<std::size_t>(std::max(up_to(group.steps, length) - 1, 0))];
    }
  }
  return std::max(count(length) - 1, 0);
}

// The allowed one of the first `below` policies that is nearest to the one asked for; -1: none. Nearest in its step,
// then in the rank of its block.
std::int32_t Monitored::nearest(std::int32_t asked, std::int32_t below) const {
  const std::int32_t* const leads = row(is_.leads);
  const auto wish = static_cast<std::size_t>(asked);
  std::int32_t found = -1;
  double away = 0.0;
  std::int32_t apart = 0;
  for (std::int32_t k = 0; k < below; ++k) {
    const auto place = static_cast<std::size_t>(k);
    const double distance = std::fabs(is_.steps[place] - is_.steps[wish]);
    const std::int32_t other = std::abs(is_.ranks[place] - is_.ranks[wish]);
    if (leads[k] >= 0 && (found < 0 || distance < away || (distance == away && other < apart))) {
      found = k;
      away = distance;
      apart = other;
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
  const std::size_t own = numbers + 3 * count + 2 * cells;
  if (p.size() < own || texts.size() < 1 + count) return nullptr;
  MonitoredSettings settings;
  settings.start = static_cast<std::int32_t>(p[2]);
  settings.steps.assign(p.begin() + numbers, p.begin() + static_cast<std::ptrdiff_t>(numbers + count));
  for (std::size_t k = 0; k < count; ++k) {
    const double place = p[numbers + count + k];
    const double rank = p[numbers + 2 * count + k];
    if (!(settings.steps[k] > 0.0 && (k == 0 || settings.steps[k] >= settings.steps[k - 1]))) return nullptr;
    if (!whole(place, 0.0, static_cast<double>(blocks.size())) || !whole(rank, 0.0, p[0])) return nullptr;
    settings.blocks.push_back(blocks[static_cast<std::size_t>(place)]);
    settings.ranks.push_back(static_cast<std::int32_t>(rank));
  }
  for (std::size_t k = 0; k < cells; ++k) {
    const double lead = p[numbers + 3 * count + k];
    const double grant = p[numbers + 3 * count + cells + k];
    if (!whole(lead, -1.0, p[1]) || !whole(grant, 0.0, p[0])) return nullptr;
    settings.leads.push_back(static_cast<std::int32_t>(lead));
    settings.grants.push_back(static_cast<std::int32_t>(grant));
  }
  const auto after = texts.begin() + static_cast<std::ptrdiff_t>(1 + count);
  settings.labels.assign(texts.begin() + 1, after);
  auto inside =
      make_pace(texts[0], {p.begin() + static_cast<std::ptrdiff_t>(own), p.end()}, blocks, {after, texts.end()});
  if (!inside) return nullptr;
  return std::make_unique<Monitored>(std::move(settings), std::move(inside));
}

}  // namespace upbeat
