// See error_control.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "error_control.hpp"

#include <algorithm>

namespace upbeat {

namespace {

// The places of the state.
enum : std::size_t { Step, LastError, Port, Held, Length, Least, Most, Places };

constexpr double slack = 1e-6;  // the part of a step below which a remainder counts as rounding
constexpr double tiny = 1e-3;   // errors below this count as this

}  // namespace

ErrorControl::ErrorControl(const ErrorControlSettings& settings, std::vector<std::string> ports, std::int32_t block)
    : is_(settings), ports_(std::move(ports)), block_(block) {
  state_.assign(Places, 0.0);
}

// How long the run is may come only with the first proposal: in a nested scenario, how far it goes first.
void ErrorControl::begin(double t, double limit) {
  state_.assign(Places, 0.0);
  if (std::isfinite(limit)) start(t, limit);
}

bool ErrorControl::stand(const std::vector<double>& state) {
  if (state.size() != Places || !(state[Port] >= 0.0 && state[Port] < is_.count)) return false;
  return Pace::stand(state);
}

void ErrorControl::start(double t, double limit) {
  const double length = limit - t;
  const double least =
      is_.least > 0.0 ? is_.least : 1e-12 * length + 1e-14 * std::max(std::fabs(t), std::fabs(limit));
  const double most = is_.most > 0.0 ? is_.most : 0.1 * length;
  const double first = is_.first > 0.0 ? is_.first : length * std::min(1e-3, is_.tolerance);
  state_[Step] = std::min(std::max(first, least), most);
  state_[Length] = length;
  state_[Least] = least;
  state_[Most] = std::max(least, most);
}

Proposal ErrorControl::propose(double t, double limit, const Cell*) {
  if (state_[Length] == 0.0) start(t, limit);
  const double remaining = limit - t;
  if (state_[Step] >= remaining * (1.0 - slack)) return {limit, number_of(Why::Stop), block_};
  if (2.0 * state_[Step] > remaining) return {t + 0.5 * remaining, number_of(Why::Half), block_};
  return {t + state_[Step], reason_to_go(), block_};
}

bool ErrorControl::review(double t, double reached, const Cell* cells, Proposal& again) {
  const double length = reached - t;
  std::size_t port = 0;
  double error = worst(cells, port);
  if (is_.shared) error = error * (state_[Length] / length);
  if (!(error <= 1.0)) {
    const double power = state_[Held] != 0.0 ? 1.0 : is_.power;
    const double change = std::min(is_.safety, std::max(is_.small, is_.safety * std::pow(error, -1.0 / power)));
    const double step = std::max(length * change, state_[Least]);
    if (!is_.repeat) {
      state_[Step] = step;
      state_[LastError] = error;
      state_[Port] = static_cast<double>(port);
      state_[Held] = 1.0;
      return true;
    }
    const double none = std::numeric_limits<double>::quiet_NaN();
    if (length <= state_[Least] * (1.0 + slack)) {
      again.until = none;
      again.reason = why({Why::Stuck, ports_[port], t, {error, state_[Least]}});
    } else {
      again.until = t + step;
      again.reason = why({Why::Error, ports_[port], none, {error}});
    }
    state_[Step] = step;
    state_[LastError] = 0.0;
    state_[Held] = 1.0;
    return false;
  }
  error = std::max(error, tiny);
  double change = std::min(is_.large, std::max(is_.small, factor(error, state_[LastError])));
  if (state_[Held] != 0.0) change = std::min(change, 1.0);
  double step = length * change;
  if (length < 0.99 * state_[Step]) step = std::max(step, state_[Step]);
  state_[Step] = std::min(std::max(step, state_[Least]), state_[Most]);
  state_[LastError] = error;
  state_[Port] = static_cast<double>(port);
  state_[Held] = 0.0;
  return true;
}

void ErrorControl::note(double, const Fired*, std::size_t count, const Cell*) {
  if (count > 0) state_[LastError] = 0.0;
}

double ErrorControl::worst(const Cell* cells, std::size_t& port) const {
  double found = 0.0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(is_.count); ++k) {
    const double error = cells[static_cast<std::size_t>(is_.errors) + k].r;
    if (error <= found) continue;
    found = error;
    port = k;
    if (std::isnan(error)) break;
  }
  return found;
}

double ErrorControl::factor(double error, double before) const {
  if (before == 0.0 || error == tiny) return is_.safety * std::pow(error, -1.0 / is_.power);
  return is_.safety * std::pow(error, -(is_.integral + is_.proportional) / is_.power) *
         std::pow(before, is_.proportional / is_.power);
}

std::int32_t ErrorControl::reason_to_go() {
  const double error = state_[LastError];
  if (error > 1.0) {
    const std::string& port = ports_[static_cast<std::size_t>(state_[Port])];
    return why({Why::Before, port, std::numeric_limits<double>::quiet_NaN(), {error}});
  }
  if (error == 0.0) return number_of(Why::First);
  return number_of(state_[Step] >= state_[Most] ? Why::Longest : Why::Controlled);
}

std::unique_ptr<Pace> make_error_control(const std::vector<double>& p, const std::vector<std::string>& ports,
                                         std::int32_t block) {
  if (p.size() != 14 || !(p[0] >= 0.0 && p[0] < 2147483647.0) || ports.empty() ||
      p[1] != static_cast<double>(ports.size())) {
    return nullptr;
  }
  ErrorControlSettings settings;
  settings.errors = static_cast<std::int32_t>(p[0]);
  settings.count = static_cast<std::int32_t>(p[1]);
  settings.power = p[2];
  settings.shared = p[3] != 0.0;
  settings.repeat = p[4] != 0.0;
  settings.tolerance = p[5];
  settings.first = p[6];
  settings.least = p[7];
  settings.most = p[8];
  settings.safety = p[9];
  settings.integral = p[10];
  settings.proportional = p[11];
  settings.small = p[12];
  settings.large = p[13];
  return std::make_unique<ErrorControl>(settings, ports, block);
}

}  // namespace upbeat
