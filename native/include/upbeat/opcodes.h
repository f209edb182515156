/* The operations of expression kernels and their numbers, the same as in upbeat.core.expr.operations
 * (which says what each one means). Never change or reuse a number: append.
 *
 * UPBEAT_UNARY(X) and so on call X(NAME, number, value) for each operation, where value computes the
 * result from the doubles a, b and c. */
#ifndef UPBEAT_OPCODES_H
#define UPBEAT_OPCODES_H

#define UPBEAT_UNARY(X)                                \
  X(NEG, 6, -a)                                        \
  X(NOT, 15, a == 0.0 ? 1.0 : 0.0)                     \
  X(ABS, 20, std::fabs(a))                             \
  X(SIGN, 21, static_cast<double>((a > 0.0) - (a < 0.0))) \
  X(FLOOR, 22, std::floor(a))                          \
  X(CEIL, 23, std::ceil(a))                            \
  X(ROUND, 24, std::nearbyint(a))                      \
  X(SQRT, 26, std::sqrt(a))                            \
  X(EXP, 27, std::exp(a))                              \
  X(LOG, 28, std::log(a))                              \
  X(LOG10, 29, std::log10(a))                          \
  X(SIN, 30, std::sin(a))                              \
  X(COS, 31, std::cos(a))                              \
  X(TAN, 32, std::tan(a))                              \
  X(ASIN, 33, std::asin(a))                            \
  X(ACOS, 34, std::acos(a))                            \
  X(ATAN, 35, std::atan(a))                            \
  X(SINH, 37, std::sinh(a))                            \
  X(COSH, 38, std::cosh(a))                            \
  X(TANH, 39, std::tanh(a))

#define UPBEAT_BINARY(X)                                                     \
  X(ADD, 1, a + b)                                                           \
  X(SUB, 2, a - b)                                                           \
  X(MUL, 3, a * b)                                                           \
  X(DIV, 4, a / b)                                                           \
  X(POW, 5, b == 2.0 ? a * a : b == 3.0 ? (a * a) * a : std::pow(a, b))      \
  X(LT, 7, a < b ? 1.0 : 0.0)                                                \
  X(LE, 8, a <= b ? 1.0 : 0.0)                                               \
  X(GT, 9, a > b ? 1.0 : 0.0)                                                \
  X(GE, 10, a >= b ? 1.0 : 0.0)                                              \
  X(EQ, 11, a == b ? 1.0 : 0.0)                                              \
  X(NE, 12, a != b ? 1.0 : 0.0)                                              \
  X(AND, 13, a != 0.0 && b != 0.0 ? 1.0 : 0.0)                               \
  X(OR, 14, a != 0.0 || b != 0.0 ? 1.0 : 0.0)                                \
  X(MIN, 17, a < b ? a : b)                                                  \
  X(MAX, 18, a > b ? a : b)                                                  \
  X(MOD, 25, a - std::floor(a / b) * b)                                      \
  X(ATAN2, 36, std::atan2(a, b))                                             \
  X(HYPOT, 40, std::hypot(a, b))

#define UPBEAT_TERNARY(X)               \
  X(WHERE, 16, a != 0.0 ? b : c)        \
  X(CLIP, 19, a < b ? b : (a > c ? c : a))

enum upbeat_opcode {
#define UPBEAT_NUMBER(name, number, value) UPBEAT_##name = number,
  UPBEAT_UNARY(UPBEAT_NUMBER)
  UPBEAT_BINARY(UPBEAT_NUMBER)
  UPBEAT_TERNARY(UPBEAT_NUMBER)
#undef UPBEAT_NUMBER
  UPBEAT_LOOKUP1 = 41, /* row: result, table, a, -- */
  UPBEAT_LOOKUP2 = 42  /* row: result, table, a, b */
};

#endif
