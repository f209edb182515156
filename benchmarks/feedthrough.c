/* An FMU of FMI 2.0 for co-simulation with one input and one output, y = k u + 0.001: what the ring benchmark rings.
 *
 * All functions that the standard asks for are there, because importers that look for all of them at once are
 * among those measured. It checks what it is given and in which mode it is, as exported FMUs do. With MICRO > 0 a
 * step is made of so many micro-steps of a solver that calls the model, as exported FMUs do, too (there is
 * nothing to integrate in this one); without, the three calls of a step do next to nothing, and what is
 * measured is the price of the calls alone. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef unsigned int Reference;
typedef struct {
  void* logger;
  void* allocate;
  void* release;
  void* finished;
  void* environment;
} Callbacks;
#ifndef MICRO
#define MICRO 0
#endif

typedef struct Instance Instance;
struct Instance {
  double time, k, u, y;
  int mode;
  void (*model)(Instance*);
};

enum { OK, WARNING, DISCARD, ERROR };
enum { TIME, K, U, Y };
enum { INSTANTIATED, INITIALIZING, STEPPING, TERMINATED };

static void model(Instance* one) { one->y = one->k * one->u + 0.001; }

EXPORT const char* fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char* fmi2GetVersion(void) { return "2.0"; }
EXPORT int fmi2SetDebugLogging(void* c, int on, size_t n, const char* const* names) { return OK; }

EXPORT void* fmi2Instantiate(const char* name, int type, const char* guid, const char* resources,
                             const Callbacks* functions, int visible, int log) {
  Instance* one = calloc(1, sizeof *one);
  if (one) {
    one->k = 0.999;
    one->u = 1.0;
    one->model = model;
  }
  return one;
}
EXPORT void fmi2FreeInstance(void* c) { free(c); }
EXPORT int fmi2SetupExperiment(void* c, int tolerant, double tolerance, double start, int stops, double stop) {
  ((Instance*)c)->time = start;
  return OK;
}
static int enter(void* c, int from, int to) {
  Instance* one = c;
  if (!one || one->mode != from) return ERROR;
  one->mode = to;
  return OK;
}
EXPORT int fmi2EnterInitializationMode(void* c) { return enter(c, INSTANTIATED, INITIALIZING); }
EXPORT int fmi2ExitInitializationMode(void* c) { return enter(c, INITIALIZING, STEPPING); }
EXPORT int fmi2Terminate(void* c) { return enter(c, STEPPING, TERMINATED); }
EXPORT int fmi2Reset(void* c) { return c ? OK : ERROR; }

EXPORT int fmi2GetReal(void* c, const Reference* references, size_t n, double* to) {
  Instance* one = c;
  if (!one || one->mode < INITIALIZING || (n > 0 && (!references || !to))) return ERROR;
  for (size_t i = 0; i < n; ++i) {
    switch (references[i]) {
      case TIME: to[i] = one->time; break;
      case K: to[i] = one->k; break;
      case U: to[i] = one->u; break;
      case Y:
        one->model(one);
        to[i] = one->y;
        break;
      default: return ERROR;
    }
  }
  return OK;
}
EXPORT int fmi2SetReal(void* c, const Reference* references, size_t n, const double* from) {
  Instance* one = c;
  if (!one || one->mode > STEPPING || (n > 0 && (!references || !from))) return ERROR;
  for (size_t i = 0; i < n; ++i) {
    switch (references[i]) {
      case K: one->k = from[i]; break;
      case U: one->u = from[i]; break;
      default: return ERROR;
    }
  }
  return OK;
}
#define NONE(Name, T)                                                                                     \
  EXPORT int fmi2Get##Name(void* c, const Reference* r, size_t n, T* to) { return n ? ERROR : OK; }       \
  EXPORT int fmi2Set##Name(void* c, const Reference* r, size_t n, const T* from) { return n ? ERROR : OK; }
NONE(Integer, int)
NONE(Boolean, int)
NONE(String, const char*)

EXPORT int fmi2DoStep(void* c, double t, double length, int no_set_prior) {
  Instance* one = c;
  if (!one || one->mode != STEPPING || !(length > 0.0)) return ERROR;
#if MICRO > 0
  for (int i = 1; i <= MICRO; ++i) {
    one->time = t + i * (length / MICRO);
    one->model(one);
  }
#endif
  one->time = t + length;
  one->model(one);
  return OK;
}
EXPORT int fmi2CancelStep(void* c) { return ERROR; }

EXPORT int fmi2GetFMUstate(void* c, void** state) { return ERROR; }
EXPORT int fmi2SetFMUstate(void* c, void* state) { return ERROR; }
EXPORT int fmi2FreeFMUstate(void* c, void** state) { return ERROR; }
EXPORT int fmi2SerializedFMUstateSize(void* c, void* state, size_t* size) { return ERROR; }
EXPORT int fmi2SerializeFMUstate(void* c, void* state, char* to, size_t size) { return ERROR; }
EXPORT int fmi2DeSerializeFMUstate(void* c, const char* from, size_t size, void** state) { return ERROR; }
EXPORT int fmi2GetDirectionalDerivative(void* c, const Reference* z, size_t nz, const Reference* v, size_t nv,
                                        const double* dv, double* dz) {
  return ERROR;
}
EXPORT int fmi2SetRealInputDerivatives(void* c, const Reference* r, size_t n, const int* order, const double* from) {
  return ERROR;
}
EXPORT int fmi2GetRealOutputDerivatives(void* c, const Reference* r, size_t n, const int* order, double* to) {
  return ERROR;
}
#define STATUS(Name, T) \
  EXPORT int fmi2Get##Name##Status(void* c, int kind, T* to) { return DISCARD; }
STATUS(, int)
STATUS(Real, double)
STATUS(Integer, int)
STATUS(Boolean, int)
STATUS(String, const char*)
