/* The ring of FMUs as one would write it by hand in C: load, make the instances, and a loop that steps all, gets
 * all, sets all and records a row. For FMI 2 and FMI 3; `seconds` is the processor time of the loop alone. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  void (*log)(void*, const char*, int, const char*, const char*, ...);
  void* (*allocate)(size_t, size_t);
  void (*release)(void*);
  void (*finished)(void*, int);
  void* environment;
} Callbacks;

static void note2(void* e, const char* name, int status, const char* category, const char* message, ...) {}
static void note3(void* e, int status, const char* category, const char* message) {}
static const Callbacks callbacks = {note2, calloc, free, NULL, NULL};

static double processor(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A pointer to the function `name` of the library. */
#define FIND(Result, name, ...)                                                    \
  Result (*name)(__VA_ARGS__) = (Result(*)(__VA_ARGS__))dlsym(library, #name);     \
  if (!name) {                                                                     \
    fprintf(stderr, "the library has no %s\n", #name);                             \
    return 1;                                                                      \
  }
#define MUST(call) \
  if ((call) > 1) return 2

/* `record` has room for (steps + 1) rows of n + 1 values: the time, then every output. */
__attribute__((visibility("default"))) int ring2(const char* path, const char* guid, const char* resources, int n, long steps, double h, uint32_t input,
          uint32_t output, double* record, double* seconds) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return 1;
  FIND(void*, fmi2Instantiate, const char*, int, const char*, const char*, const Callbacks*, int, int)
  FIND(int, fmi2SetupExperiment, void*, int, double, double, int, double)
  FIND(int, fmi2EnterInitializationMode, void*)
  FIND(int, fmi2ExitInitializationMode, void*)
  FIND(int, fmi2DoStep, void*, double, double, int)
  FIND(int, fmi2GetReal, void*, const uint32_t*, size_t, double*)
  FIND(int, fmi2SetReal, void*, const uint32_t*, size_t, const double*)
  FIND(int, fmi2Terminate, void*)
  FIND(void, fmi2FreeInstance, void*)
  void** c = calloc((size_t)n, sizeof *c);
  double* y = calloc((size_t)n, sizeof *y);
  for (int i = 0; i < n; ++i) {
    char name[32];
    snprintf(name, sizeof name, "u%d", i);
    if (!(c[i] = fmi2Instantiate(name, 1, guid, resources, &callbacks, 0, 0))) return 2;
    MUST(fmi2SetupExperiment(c[i], 0, 0.0, 0.0, 0, 0.0));
    MUST(fmi2EnterInitializationMode(c[i]));
  }
  for (int i = 0; i < n; ++i) {
    MUST(fmi2GetReal(c[i], &output, 1, &y[i]));
    MUST(fmi2SetReal(c[(i + 1) % n], &input, 1, &y[i]));
  }
  for (int i = 0; i < n; ++i) MUST(fmi2ExitInitializationMode(c[i]));
  double now = 0.0;
  *record++ = now;
  memcpy(record, y, (size_t)n * sizeof *y);
  record += n;
  const double began = processor();
  for (long k = 1; k <= steps; ++k) {
    const double next = (double)k * h;
    for (int i = 0; i < n; ++i) MUST(fmi2DoStep(c[i], now, next - now, 1));
    for (int i = 0; i < n; ++i) MUST(fmi2GetReal(c[i], &output, 1, &y[i]));
    for (int i = 0; i < n; ++i) MUST(fmi2SetReal(c[i], &input, 1, &y[i ? i - 1 : n - 1]));
    now = next;
    *record++ = now;
    memcpy(record, y, (size_t)n * sizeof *y);
    record += n;
  }
  *seconds = processor() - began;
  for (int i = 0; i < n; ++i) {
    fmi2Terminate(c[i]);
    fmi2FreeInstance(c[i]);
  }
  free(c);
  free(y);
  return 0;
}

__attribute__((visibility("default"))) int ring3(const char* path, const char* token, const char* resources, int n, long steps, double h, uint32_t input,
          uint32_t output, double* record, double* seconds) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return 1;
  FIND(void*, fmi3InstantiateCoSimulation, const char*, const char*, const char*, bool, bool, bool, bool, const uint32_t*, size_t, void*,
                 void (*)(void*, int, const char*, const char*), void*)
  FIND(int, fmi3EnterInitializationMode, void*, bool, double, double, bool, double)
  FIND(int, fmi3ExitInitializationMode, void*)
  FIND(int, fmi3DoStep, void*, double, double, bool, bool*, bool*, bool*, double*)
  FIND(int, fmi3GetFloat64, void*, const uint32_t*, size_t, double*, size_t)
  FIND(int, fmi3SetFloat64, void*, const uint32_t*, size_t, const double*, size_t)
  FIND(int, fmi3Terminate, void*)
  FIND(void, fmi3FreeInstance, void*)
  void** c = calloc((size_t)n, sizeof *c);
  double* y = calloc((size_t)n, sizeof *y);
  for (int i = 0; i < n; ++i) {
    char name[32];
    snprintf(name, sizeof name, "u%d", i);
    c[i] = fmi3InstantiateCoSimulation(name, token, resources, false, false, false, false, NULL, 0, NULL, note3, NULL);
    if (!c[i]) return 2;
    MUST(fmi3EnterInitializationMode(c[i], false, 0.0, 0.0, false, 0.0));
  }
  for (int i = 0; i < n; ++i) {
    MUST(fmi3GetFloat64(c[i], &output, 1, &y[i], 1));
    MUST(fmi3SetFloat64(c[(i + 1) % n], &input, 1, &y[i], 1));
  }
  for (int i = 0; i < n; ++i) MUST(fmi3ExitInitializationMode(c[i]));
  double now = 0.0;
  *record++ = now;
  memcpy(record, y, (size_t)n * sizeof *y);
  record += n;
  const double began = processor();
  for (long k = 1; k <= steps; ++k) {
    const double next = (double)k * h;
    for (int i = 0; i < n; ++i) {
      bool event, terminate, early;
      double reached;
      MUST(fmi3DoStep(c[i], now, next - now, true, &event, &terminate, &early, &reached));
    }
    for (int i = 0; i < n; ++i) MUST(fmi3GetFloat64(c[i], &output, 1, &y[i], 1));
    for (int i = 0; i < n; ++i) MUST(fmi3SetFloat64(c[i], &input, 1, &y[i ? i - 1 : n - 1], 1));
    now = next;
    *record++ = now;
    memcpy(record, y, (size_t)n * sizeof *y);
    record += n;
  }
  *seconds = processor() - began;
  for (int i = 0; i < n; ++i) {
    fmi3Terminate(c[i]);
    fmi3FreeInstance(c[i]);
  }
  free(c);
  free(y);
  return 0;
}
