// How the processor computes in this thread: rounding, what becomes of tiny numbers, which faults end the process.
//
// Code that changes this changes the results of everybody who computes after it. Looking costs a nanosecond or two.
#pragma once

#include <cstdint>

namespace upbeat {

// What all arithmetic of doubles depends on.
inline std::uint32_t arithmetic_of_doubles() {
#if defined(__x86_64__)
  std::uint32_t vector = 0;
  asm volatile("stmxcsr %0" : "=m"(vector));
  return vector & 0xFFC0u;
#elif defined(__aarch64__)
  std::uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return static_cast<std::uint32_t>(control);
#else
  return 0;
#endif
}

// All of it as one number; which faults have happened so far is no part of it.
inline std::uint64_t arithmetic() {
#if defined(__x86_64__)
  std::uint16_t stack = 0;  // of the old unit, which long double uses
  asm volatile("fnstcw %0" : "=m"(stack));
  return arithmetic_of_doubles() | static_cast<std::uint64_t>(stack) << 32;
#elif defined(__aarch64__)
  std::uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return 0;
#endif
}

inline void set_arithmetic(std::uint64_t wanted) {
#if defined(__x86_64__)
  const auto vector = static_cast<std::uint32_t>(wanted);
  const auto stack = static_cast<std::uint16_t>(wanted >> 32);
  asm volatile("fnclex");  // a fault that is still pending would strike now
  asm volatile("fldcw %0" : : "m"(stack));
  asm volatile("ldmxcsr %0" : : "m"(vector));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(wanted));
#else
  (void)wanted;
#endif
}

}  // namespace upbeat
