/* An FMU that misbehaves: x' = u - x by Euler's method, y = x, and one deed that the file resources/deed names,
 * together with the function in which it is done ("segv step"). In DoStep it is done in the step that begins at or
 * after t = 0.5, in Get and Set once the time has come as far; elsewhere at once. FMI 2, or FMI 3 with -DFMI=3.
 *
 * Built and run by hostile.py, in processes that are made for it. It looks for shared memory by Upbeat's own names
 * only, and fills neither the disk nor the memory of the machine: the runner sets limits. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <fpu_control.h>
#include <xmmintrin.h>
#endif

#define EXPORT __attribute__((visibility("default")))
#define IS(name) (strcmp(deed, name) == 0)

typedef void (*Logger2)(void*, const char*, int, const char*, const char*, ...);
typedef void (*Logger3)(void*, int, const char*, const char*);
typedef struct {
  Logger2 logger;
  void *allocate, *release, *finished, *environment;
} Callbacks2;

typedef struct {
  double t, u, x;
  void* logger;
  void* environment;
  char* text;
} Unit;

static char deed[64], where[64], folder[PATH_MAX];
static char* longest;
static jmp_buf past;
static bool jumpable;

/* ------------------------------------------------------------------------------------------ what it finds out */

static void look_up(void) {
  Dl_info info;
  char path[PATH_MAX];
  FILE* file;
  int i;
  if (deed[0] || !dladdr((void*)&look_up, &info)) return;
  snprintf(folder, sizeof folder, "%s", info.dli_fname);
  for (i = 0; i < 3 && strrchr(folder, '/'); i++) *strrchr(folder, '/') = '\0'; /* binaries/PLATFORM/NAME.so */
  snprintf(path, sizeof path, "%.4000s/resources/deed", folder);
  file = fopen(path, "r");
  if (!file) return;
  if (fscanf(file, "%63s %63s", deed, where) != 2) deed[0] = '\0';
  fclose(file);
}

/* ------------------------------------------------------------------------------------------ what it does */

static void raise_exception(void) {
  /* From C, so that a C compiler is enough: std::__throw_logic_error(const char*). */
  void* cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
  void (*raise_it)(const char*) = cxx ? (void (*)(const char*))dlsym(cxx, "_ZSt19__throw_logic_errorPKc") : NULL;
  if (raise_it) raise_it("thrown by the FMU");
}

static int deeper(volatile char* from) {
  volatile char here[4096];
  here[0] = from ? from[0] : 1;
  return deeper(here) + here[1];
}

/* Only these: a library of Upbeat is mapped, too, and must not be destroyed for good. */
static bool shared_by_name(const char* name) { return strstr(name, "memfd:upbeat") != NULL; }

/* Every piece of memory that is shared with others and may be written, by its name in /proc/self/maps. */
static void scribble(int how) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024], flags[8];
  unsigned long from, to;
  unsigned seed = 12345;
  while (maps && fgets(line, sizeof line, maps)) {
    volatile unsigned char* at;
    if (sscanf(line, "%lx-%lx %7s", &from, &to, flags) != 3 || flags[3] != 's' || flags[1] != 'w') continue;
    if (!shared_by_name(line)) continue;
    for (at = (volatile unsigned char*)from; at < (volatile unsigned char*)to; at++) {
      seed = seed * 1103515245u + 12345u;
      *at = how == 0 ? 0 : how == 1 ? 0xFF : (unsigned char)(seed >> 16);
      if (how == 3 && at - (volatile unsigned char*)from >= 63) break; /* the first line only */
    }
  }
  if (maps) fclose(maps);
}

static void* scribble_for_ever(void* unused) {
  (void)unused;
  for (;;) {
    scribble(2);
    usleep(50);
  }
  return NULL;
}

static void* idle(void* unused) {
  (void)unused;
  for (;;) usleep(10000);
  return NULL;
}

static void thread(void* (*body)(void*)) {
  pthread_t one;
  if (pthread_create(&one, NULL, body, NULL) == 0) pthread_detach(one);
}

static void each_descriptor(const char* what) {
  char junk[256];
  int fd;
  memset(junk, 0xA5, sizeof junk);
  junk[255] = '\n';
  for (fd = 0; fd < 256; fd++) {
    struct stat found;
    if (fstat(fd, &found) != 0) continue;
    if (fd > 2 && S_ISREG(found.st_mode) && found.st_nlink > 0 && strcmp(what, "close") != 0) continue; /* somebody's file */
    if (strcmp(what, "write") == 0) {
      if (S_ISFIFO(found.st_mode)) fcntl(fd, F_SETFL, O_NONBLOCK);
      if (write(fd, junk, sizeof junk) < 0) continue;
    } else if (strcmp(what, "truncate") == 0) {
      if (ftruncate(fd, 0) != 0) continue;
    } else if (strcmp(what, "grow") == 0) {
      if (ftruncate(fd, (off_t)1 << 40) != 0) continue;
    } else if (strcmp(what, "close") == 0) {
      close(fd);
    } else if (strcmp(what, "replace") == 0) {
      int other = open("/dev/null", O_RDWR);
      if (other >= 0) dup2(other, fd);
      if (other >= 0 && other != fd) close(other);
    }
  }
}

/* What may be reached by another name: /dev/shm, and the descriptors of this process. */
static void shared_files(bool truncates) {
  static const char* const places[] = {"/dev/shm", "/proc/self/fd"};
  size_t i;
  for (i = 0; i < 2; i++) {
    DIR* place = opendir(places[i]);
    struct dirent* entry;
    while (place && (entry = readdir(place))) {
      char path[PATH_MAX], target[PATH_MAX];
      ssize_t size;
      snprintf(path, sizeof path, "%s/%.1000s", places[i], entry->d_name);
      size = readlink(path, target, sizeof target - 1);
      target[size < 0 ? 0 : size] = '\0';
      if (size < 0 ? strncmp(entry->d_name, "upbeat", 6) != 0 : !shared_by_name(target)) continue;
      if (truncates) {
        if (truncate(path, 0) != 0) continue;
      } else {
        unlink(path);
      }
    }
    if (place) closedir(place);
  }
}

static void flood(int fd, bool lines) {
  char block[65536];
  int i;
  memset(block, 'x', sizeof block);
  if (lines)
    for (i = 79; i < (int)sizeof block; i += 80) block[i] = '\n';
  for (i = 0; i < 4096; i++) /* 256 MB */
    if (write(fd, block, sizeof block) < 0) return;
}

static void say(Unit* unit, int status, const char* text) {
  if (!unit || !unit->logger) return;
#if FMI == 3
  ((Logger3)unit->logger)(unit->environment, status, "logStatusWarning", text);
#else
  ((Logger2)unit->logger)(unit->environment, "hostile", status, "logStatusWarning", "%s", text);
#endif
}

static void stay(bool daemon) {
  pid_t child = fork();
  if (child != 0) {
    if (daemon && child > 0) waitpid(child, NULL, 0);
    return;
  }
  if (daemon) {
    int fd;
    setsid();
    if (fork() != 0) _exit(0);
    for (fd = 0; fd < 256; fd++) close(fd);
  }
  for (;;) sleep(60);
}

static void handle(int number) { (void)number; }

static void in_folder(void) {
  char path[PATH_MAX];
  FILE* file;
  snprintf(path, sizeof path, "%.4000s/resources/mine", folder);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%.4000s/resources/mine/file", folder);
  file = fopen(path, "w");
  if (file) fclose(file);
  snprintf(path, sizeof path, "%.4000s/resources/mine", folder);
  chmod(path, 0);
  snprintf(path, sizeof path, "%.4000s/resources", folder);
  chmod(path, 0500);
}

static void in_temporary(void) {
  const char* place = getenv("TMPDIR");
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/hostile-XXXXXX", place ? place : "/tmp");
  if (mkdtemp(path)) chmod(path, 0);
  snprintf(path, sizeof path, "%s/hostile-file-XXXXXX", place ? place : "/tmp");
  close(mkstemp(path));
}

/* The status that the function is to give: 0 unless the deed is another one. */
static int act(const char* here, Unit* unit) {
  int i;
  if (!deed[0] || strcmp(here, where) != 0) return 0;
  /* ends of the process */
  if (IS("segv")) *(volatile int*)8 = 1;
  if (IS("bus")) raise(SIGBUS);
  if (IS("fpe")) raise(SIGFPE);
  if (IS("ill")) raise(SIGILL);
  if (IS("abort")) abort();
  if (IS("exit")) exit(3);
  if (IS("exit0")) exit(0);
  if (IS("_exit")) _exit(4);
  if (IS("_exit0")) _exit(0);
  if (IS("throw")) raise_exception();
  if (IS("overflow")) deeper(NULL);
  if (IS("longjmp") && jumpable) longjmp(past, 1);
  if (IS("kill")) raise(SIGKILL);
  if (IS("term")) raise(SIGTERM);
  if (IS("int")) raise(SIGINT);
  if (IS("stop")) raise(SIGSTOP);
  if (IS("killgroup")) kill(0, SIGKILL);
  if (IS("termgroup")) kill(0, SIGTERM);
  if (IS("doublefree")) {
    void* volatile lost = malloc(64);
    free(lost);
    free(lost);
  }
  if (IS("smash")) {
    char* volatile small = malloc(16);
    memset(small, 0xEE, 1 << 20);
  }
  if (IS("allocate")) {
    for (;;) memset(malloc((size_t)64 << 20), 1, (size_t)64 << 20);
  }
  /* it does not come back */
  while (IS("sleep")) sleep(60);
  while (IS("spin")) i = 0;
  /* memory and descriptors that others rely on */
  if (IS("zeros")) scribble(0);
  if (IS("ones")) scribble(1);
  if (IS("noise")) scribble(2);
  if (IS("head")) scribble(3);
  if (IS("scribbler")) thread(scribble_for_ever);
  if (IS("truncate")) each_descriptor("truncate"), shared_files(true);
  if (IS("grow")) each_descriptor("grow");
  if (IS("unlink")) shared_files(false);
  if (IS("write")) each_descriptor("write");
  if (IS("close")) each_descriptor("close");
  if (IS("replace")) each_descriptor("replace");
  if (IS("unmap")) {
    scribble(3);
    each_descriptor("close");
    abort();
  }
  /* what it says */
  if (IS("stdout")) flood(1, true);
  if (IS("stderr")) flood(2, true);
  if (IS("oneline")) flood(1, false);
  if (IS("messages"))
    for (i = 0; i < 20000; i++) say(unit, 1, "one of many messages");
  if (IS("message")) say(unit, 1, longest);
  if (IS("bytes")) say(unit, 1, "\xff\xfe\xc3(\xed\xa0\x80 and so on"), say(unit, 3, "\xff");
  if (IS("nowords")) say(unit, 1, NULL);
  if (IS("odd")) say(unit, 12345, "a status that is none");
  /* what all in the process share */
  if (IS("upward")) fesetround(FE_UPWARD);
  if (IS("tozero")) fesetround(FE_TOWARDZERO);
#if defined(__x86_64__)
  if (IS("flush")) _mm_setcsr(_mm_getcsr() | 0x8040);
  if (IS("single")) {
    fpu_control_t word;
    _FPU_GETCW(word);
    word &= (fpu_control_t)~_FPU_EXTENDED;
    _FPU_SETCW(word);
  }
#endif
  if (IS("traps")) feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
  if (IS("handlers"))
    for (i = 1; i < 32; i++) signal(i, handle);
  if (IS("ignore"))
    for (i = 1; i < 32; i++) signal(i, SIG_IGN);
  if (IS("mask")) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
  }
  if (IS("locale"))
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) setlocale(LC_ALL, "C.UTF-8");
  if (IS("umask")) umask(0777);
  if (IS("chdir") && chdir("/") != 0) return 0;
  if (IS("environment")) {
    clearenv();
    setenv("TMPDIR", "/nowhere", 1);
    setenv("PYTHONHOME", "/nowhere", 1);
  }
  if (IS("fsize")) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  if (IS("nofile")) {
    struct rlimit none = {3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  if (IS("memory")) {
    struct rlimit none = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
  }
  if (IS("timer")) {
    struct itimerval soon = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    usleep(10000);
  }
  /* what stays */
  if (IS("child")) stay(false);
  if (IS("children"))
    for (i = 0; i < 10; i++) stay(false);
  if (IS("daemon")) stay(true);
  if (IS("daemonandcrash")) {
    stay(true);
    stay(false);
    abort();
  }
  if (IS("threads"))
    for (i = 0; i < 5; i++) thread(idle);
  if (IS("files")) in_folder();
  if (IS("temporary")) in_temporary();
  /* what it answers */
  if (IS("nan") && unit) unit->x = NAN;
  if (IS("inf") && unit) unit->x = INFINITY;
  if (IS("status42")) return 42;
  if (IS("status-1")) return -1;
  if (IS("statusmin")) return INT_MIN;
  if (IS("pending")) return 5;
  if (IS("fatal")) return 4;
  if (IS("error")) return 3;
  if (IS("discard")) return 2;
  return 0;
}

__attribute__((constructor)) static void loaded(void) {
  look_up();
  act("load", NULL);
}

static Unit* made(void* logger, void* environment) {
  Unit* unit = calloc(1, sizeof *unit);
  if (!unit) return NULL;
  unit->x = 1;
  unit->logger = logger;
  unit->environment = environment;
  if (!longest && (longest = malloc((8 << 20) + 1))) memset(longest, 'm', 8 << 20), longest[8 << 20] = '\0';
  if (act("instantiate", unit) != 0) return NULL;
  return unit;
}

static void freed(Unit* unit) {
  if (IS("late") && unit) say(unit, 1, "a message after the end");
  act("free", unit);
  free(unit);
}

static bool due(const Unit* unit) { return unit->t >= 0.5 - 1e-9; }

static int got(Unit* unit, const unsigned* refs, size_t n, double* to) {
  size_t i;
  int status = due(unit) ? act("get", unit) : 0;
  for (i = 0; i < n; i++) to[i] = refs[i] == 1 ? unit->u : refs[i] == 2 ? unit->x : unit->t;
  return status;
}

static int taken(Unit* unit, const unsigned* refs, size_t n, const double* from) {
  size_t i;
  int status = due(unit) ? act("set", unit) : 0;
  for (i = 0; i < n; i++)
    if (refs[i] == 1) unit->u = from[i];
  return status;
}

static int texts(Unit* unit, size_t n, const char** to) {
  size_t i;
  act("text", unit);
  for (i = 0; i < n; i++) {
    const bool now = due(unit);
    to[i] = now && IS("textnull") ? NULL : now && IS("textbytes") ? "\xff\xfe\xc3(" : "all is well";
    if (now && IS("textwild")) to[i] = (const char*)8;
    if (now && IS("textlong")) to[i] = longest;
  }
  return 0;
}

static int stepped(Unit* unit, double t, double h) {
  int status;
  if (setjmp(past) == 0 && t < 0.3) jumpable = true; /* what it jumps to later has returned by then */
  unit->t = t;
  status = due(unit) ? act("step", unit) : 0;
  unit->x += h * (unit->u - unit->x / 3);
  unit->t = t + h;
  return status;
}

static int saved(Unit* unit, void** state) {
  int status = act("save", unit);
  if (IS("nostate")) return 0;
  if (!*state) *state = malloc(sizeof *unit);
  if (!*state) return 3;
  memcpy(*state, unit, sizeof *unit);
  return status;
}

static int restored(Unit* unit, void* state) {
  int status = act("restore", unit);
  if (state) memcpy(unit, state, sizeof *unit);
  return status;
}

static int dropped(Unit* unit, void** state) {
  act("drop", unit);
  free(*state);
  if (IS("freetwice")) free(*state);
  *state = NULL;
  return 0;
}

static int measured(size_t* size) {
  *size = IS("hugestate") ? (size_t)1 << 60 : IS("bigstate") ? (size_t)4 << 20 : sizeof(Unit);
  return 0;
}

static int packed(void* state, char* to, size_t size) {
  if (IS("hugestate") || !state) return 0;
  if (IS("bigstate")) memset(to, 7, size);
  memcpy(to, state, sizeof(Unit));
  return 0;
}

static int unpacked(const char* from, void** state) {
  if (!*state) *state = malloc(sizeof(Unit));
  memcpy(*state, from, sizeof(Unit));
  return 0;
}

/* ------------------------------------------------------------------------------------------ as FMI wants it */
#if FMI == 3

EXPORT const char* fmi3GetVersion(void) { return "3.0"; }
EXPORT void* fmi3InstantiateCoSimulation(const char* name, const char* token, const char* resources, bool visible, bool log,
                                         bool event_mode, bool early, const unsigned* required, size_t n, void* environment,
                                         void* logger, void* intermediate) {
  (void)name, (void)token, (void)resources, (void)visible, (void)log, (void)event_mode, (void)early, (void)required, (void)n,
      (void)intermediate;
  return made(logger, environment);
}
EXPORT int fmi3EnterInitializationMode(Unit* unit, bool tolerant, double tolerance, double start, bool stops, double stop) {
  (void)tolerant, (void)tolerance, (void)start, (void)stops, (void)stop;
  return act("enter", unit);
}
EXPORT int fmi3ExitInitializationMode(Unit* unit) { return act("exit", unit); }
EXPORT int fmi3Terminate(Unit* unit) { return act("terminate", unit); }
EXPORT void fmi3FreeInstance(Unit* unit) { freed(unit); }
EXPORT int fmi3GetFloat64(Unit* unit, const unsigned* refs, size_t n, double* to, size_t cells) {
  (void)cells;
  return got(unit, refs, n, to);
}
EXPORT int fmi3SetFloat64(Unit* unit, const unsigned* refs, size_t n, const double* from, size_t cells) {
  (void)cells;
  return taken(unit, refs, n, from);
}
EXPORT int fmi3GetString(Unit* unit, const unsigned* refs, size_t n, const char** to, size_t cells) {
  (void)refs, (void)cells;
  return texts(unit, n, to);
}
EXPORT int fmi3DoStep(Unit* unit, double t, double h, bool final, bool* event, bool* terminate, bool* early, double* last) {
  int status = stepped(unit, t, h);
  (void)final;
  *event = *terminate = *early = false;
  *last = t + h;
  if (due(unit) && strcmp(where, "answer") == 0) {
    if (IS("lastnan")) *last = NAN;
    if (IS("lastback")) *last = -1, *early = true;
    if (IS("lastfar")) *last = 1e300;
  }
  return status;
}
EXPORT int fmi3GetFMUState(Unit* unit, void** state) { return saved(unit, state); }
EXPORT int fmi3SetFMUState(Unit* unit, void* state) { return restored(unit, state); }
EXPORT int fmi3FreeFMUState(Unit* unit, void** state) { return dropped(unit, state); }
EXPORT int fmi3SerializedFMUStateSize(Unit* unit, void* state, size_t* size) {
  (void)unit, (void)state;
  return measured(size);
}
EXPORT int fmi3SerializeFMUState(Unit* unit, void* state, char* to, size_t size) {
  (void)unit;
  return packed(state, to, size);
}
EXPORT int fmi3DeserializeFMUState(Unit* unit, const char* from, size_t size, void** state) {
  (void)unit, (void)size;
  return unpacked(from, state);
}

#else

EXPORT const char* fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char* fmi2GetVersion(void) { return "2.0"; }
EXPORT void* fmi2Instantiate(const char* name, int type, const char* guid, const char* resources, const Callbacks2* given,
                             int visible, int log) {
  (void)name, (void)type, (void)guid, (void)resources, (void)visible, (void)log;
  return made((void*)given->logger, given->environment);
}
EXPORT int fmi2SetupExperiment(Unit* unit, int tolerant, double tolerance, double start, int stops, double stop) {
  (void)tolerant, (void)tolerance, (void)start, (void)stops, (void)stop;
  return act("setup", unit);
}
EXPORT int fmi2EnterInitializationMode(Unit* unit) { return act("enter", unit); }
EXPORT int fmi2ExitInitializationMode(Unit* unit) { return act("exit", unit); }
EXPORT int fmi2Terminate(Unit* unit) { return act("terminate", unit); }
EXPORT void fmi2FreeInstance(Unit* unit) { freed(unit); }
EXPORT int fmi2GetReal(Unit* unit, const unsigned* refs, size_t n, double* to) { return got(unit, refs, n, to); }
EXPORT int fmi2SetReal(Unit* unit, const unsigned* refs, size_t n, const double* from) { return taken(unit, refs, n, from); }
EXPORT int fmi2GetString(Unit* unit, const unsigned* refs, size_t n, const char** to) {
  (void)refs;
  return texts(unit, n, to);
}
EXPORT int fmi2DoStep(Unit* unit, double t, double h, int final) {
  int status = stepped(unit, t, h);
  (void)final;
  if (due(unit) && strcmp(where, "answer") == 0) return 2; /* discarded, and then: */
  return status;
}
EXPORT int fmi2GetRealStatus(Unit* unit, int kind, double* to) {
  (void)kind;
  *to = IS("lastnan") ? NAN : IS("lastback") ? -1 : IS("lastfar") ? 1e300 : unit->t;
  return 0;
}
EXPORT int fmi2GetBooleanStatus(Unit* unit, int kind, int* to) {
  (void)unit, (void)kind;
  *to = 0;
  return 0;
}
EXPORT int fmi2GetFMUstate(Unit* unit, void** state) { return saved(unit, state); }
EXPORT int fmi2SetFMUstate(Unit* unit, void* state) { return restored(unit, state); }
EXPORT int fmi2FreeFMUstate(Unit* unit, void** state) { return dropped(unit, state); }
EXPORT int fmi2SerializedFMUstateSize(Unit* unit, void* state, size_t* size) {
  (void)unit, (void)state;
  return measured(size);
}
EXPORT int fmi2SerializeFMUstate(Unit* unit, void* state, char* to, size_t size) {
  (void)unit;
  return packed(state, to, size);
}
EXPORT int fmi2DeSerializeFMUstate(Unit* unit, const char* from, size_t size, void** state) {
  (void)unit, (void)size;
  return unpacked(from, state);
}

#endif
