// See reasons.hpp.
#include "reasons.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace upbeat {

namespace {

struct Words {
  const char* name;
  const char* sentence;
};

// By the numbers of `Why`. Places are written as Python writes them: {about}, {at:.9g}, {0:.2g}.
constexpr Words words[all_reasons] = {
    {"fixed step", ""},
    {"as far as possible", ""},
    {"usual step", ""},
    {"first step", ""},
    {"after an event", ""},
    {"the stop time", ""},
    {"half of the rest", ""},
    {"the longest step", ""},
    {"error control", ""},
    {"known event", ""},
    {"what is left, which no proof covers", ""},
    {"after a step that should have been shorter, where no shorter one is proven", ""},
    {"as the pattern says", ""},
    {"expected", "event '{about}' expected at {at:.9g}"},
    {"over", "event '{about}' over at {at:.9g}"},
    {"back", "back to event '{about}' at {at:.9g}"},
    {"between", "between two of event '{about}' at {at:.9g}"},
    {"endless",
     "events come one right after the other at t = {at:.9g}, and event '{about}' is the next. A chain that does not "
     "end, such as a ball that bounces lower and lower, needs an end of its own: let it come to rest once it is slow "
     "enough, and put it where it lies. If they really come that often, take a smaller step"},
    {"stopped", "{about} stopped"},
    {"error", "error {0:.2g} × tolerance at {about}"},
    {"error before", "error {0:.2g} × tolerance at {about} in the step before"},
    {"stuck",
     "the step from t = {at:.9g} has an error {0:.2g} × tolerance at {about}, and cannot be shorter than {1:.3g}. A "
     "jump that is no event, or a tolerance below what the units' own solvers give, looks like this: raise the "
     "tolerance or 'shortest', or let such steps stand with correct=\"next\"."},
    {"rounded", "{about}, the next of the proven steps"},
    {"replaced", "{about}, which is not proven here"},
};

// A number as Python's format gives it by `spec`, such as ".9g".
std::string shown(double value, const std::string& spec) {
  if (std::isnan(value)) return "nan";  // the C library may give it a sign
  char text[40];
  std::snprintf(text, sizeof text, ("%" + spec).c_str(), value);
  return text;
}

std::string place(const Reason& reason, const std::string& written) {
  if (written == "about") return reason.about;
  const std::size_t colon = written.find(':');
  const std::string spec = written.substr(colon + 1);
  if (written.compare(0, colon, "at") == 0) return shown(reason.at, spec);
  return shown(reason.of.at(static_cast<std::size_t>(std::atoi(written.c_str()))), spec);
}

}  // namespace

std::pair<const char*, const char*> words_of(Why kind) {
  const Words& found = words[static_cast<std::size_t>(kind)];
  return {found.name, found.sentence};
}

std::string sentence(const Reason& reason) {
  const auto [name, places] = words_of(reason.kind);
  if (*places == '\0') return name;
  std::string text;
  for (const char* at = places; *at != '\0';) {
    if (*at != '{') {
      text += *at++;
      continue;
    }
    const char* const end = std::strchr(at, '}');
    text += place(reason, std::string(at + 1, end));
    at = end + 1;
  }
  return text;
}

Reasons::Reasons() {
  for (std::size_t kind = 0; kind < plain_reasons; ++kind) known_.push_back({static_cast<Why>(kind)});
}

std::int32_t Reasons::number(const Reason& reason) {
  if (static_cast<std::size_t>(reason.kind) < plain_reasons) return number_of(reason.kind);
  std::string key(1, static_cast<char>(reason.kind));
  const auto add = [&](double value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    key.append(bytes, sizeof value);
  };
  add(reason.at);
  for (const double value : reason.of) add(value);
  key += reason.about;
  const auto [found, is_new] = numbers_.emplace(std::move(key), static_cast<std::int32_t>(known_.size()));
  if (is_new) known_.push_back(reason);
  return found->second;
}

}  // namespace upbeat
