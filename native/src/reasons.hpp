// Why a step ends where it does: the twin of upbeat.core.reasons, with the same kinds and the same sentences.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace upbeat {

enum class Why : std::int32_t {
  // Those that say all by themselves.
  Fixed, Far, Usual, First, After, Stop, Half, Longest, Controlled, Known, Left, Stood, Pattern,
  // Those that are about something.
  Expected, Over, Back, Between, Endless, Stopped, Error, Before, Stuck, Rounded, Replaced,
};

constexpr auto plain_reasons = static_cast<std::size_t>(Why::Expected);
constexpr auto all_reasons = static_cast<std::size_t>(Why::Replaced) + 1;

// `about` names an event, a unit or a port, `at` is a time (not a number: there is none), `of` are other numbers.
struct Reason {
  Why kind;
  std::string about = {};
  double at = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> of = {};
};

// What Python calls a kind, and the sentence with places for what it is about; "" where the name is the sentence.
std::pair<const char*, const char*> words_of(Why kind);

std::string sentence(const Reason& reason);

// Reasons by number, in the order in which they were first given; those that say all by themselves come first, so that
// their numbers are known beforehand. Every reason stays: one with a time or an error of its own, such as an event that was
// seen coming, takes a few hundred bytes until the run is over.
class Reasons {
 public:
  Reasons();

  std::int32_t number(const Reason& reason);
  const Reason& of(std::int32_t number) const { return known_.at(static_cast<std::size_t>(number)); }

 private:
  std::deque<Reason> known_;  // a deque, so that what `of` gives stays good
  std::unordered_map<std::string, std::int32_t> numbers_;
};

constexpr std::int32_t number_of(Why plain) { return static_cast<std::int32_t>(plain); }

}  // namespace upbeat
