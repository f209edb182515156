// Reasons of steps: numbers that stand for them, and the words. That Python has the same ones is tested from there.
#include "check.hpp"
#include "reasons.hpp"

using namespace upbeat;

TEST(a_reason_is_data_and_has_a_sentence) {
  CHECK(sentence({Why::Expected, "hit {x}", 0.4515236409857309}) == "event 'hit {x}' expected at 0.451523641");
  CHECK(sentence({Why::Rounded, "slow 0.5", 0.0, {0.5}}) == "slow 0.5, the next of the proven steps");
  CHECK(sentence({Why::Fixed}) == "fixed step");
}

TEST(equal_reasons_have_one_number) {
  Reasons all;
  CHECK(all.number({Why::Stop}) == number_of(Why::Stop) && all.of(number_of(Why::Stop)).kind == Why::Stop);
  const auto first = all.number({Why::Back, "a", 1.0});
  CHECK(all.number({Why::Back, "a", 1.0}) == first);
  for (const Reason& other : {Reason{Why::Back, "a", 2.0}, Reason{Why::Back, "b", 1.0}, Reason{Why::Over, "a", 1.0},
                              Reason{Why::Back, "a", 1.0, {1.0}}}) {
    const auto number = all.number(other);
    CHECK(number > first && sentence(all.of(number)) == sentence(other));
  }
}
