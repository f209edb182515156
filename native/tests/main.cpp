// Runs every test.
#include "check.hpp"

int main() {
  for (const Test& test : Test::all()) {
    const int before = Test::failures();
    test.body();
    std::printf("%s %s\n", Test::failures() == before ? "ok  " : "FAIL", test.name);
  }
  std::printf("%zu tests, %d failed checks\n", Test::all().size(), Test::failures());
  return Test::failures() == 0 ? 0 : 1;
}
