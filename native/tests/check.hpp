// A test framework of thirty lines: TEST(name) { CHECK(...); } and a main that runs them all.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

// How a function is handed to the core, which takes those of an FMU by address.
template <class Function>
std::uintptr_t address(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function);
}

struct Test {
  const char* name;
  void (*body)();
  static std::vector<Test>& all() {
    static std::vector<Test> tests;
    return tests;
  }
  static int& failures() {
    static int count = 0;
    return count;
  }
  Test(const char* test_name, void (*test_body)()) : name(test_name), body(test_body) { all().push_back(*this); }
};

#define TEST(name)                            \
  static void name();                         \
  static const Test test_of_##name(#name, name); \
  static void name()

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);      \
      ++Test::failures();                                                        \
    }                                                                            \
  } while (false)
