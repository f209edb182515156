/* Every type goes through: each output is its input. The first half of the references are the inputs. */
#include <string.h>

#include "model.h"

#ifdef FMI2
#define TYPES "dibsl"
#else
#define TYPES "dfaAhHiIlLbsxl"
#endif

enum { HALF = sizeof TYPES - 1, COUNT = 1 + 2 * HALF };

static void start(Now* now) {
  now->n[HALF] = 3; /* the enumeration has no 0 */
  now->n[2 * HALF] = 3;
}

static void update(Now* now) {
  int i, texts = 0, t;
  for (i = 1; i <= HALF; i++) {
    now->v[HALF + i] = now->v[i];
    now->n[HALF + i] = now->n[i];
    texts += TYPES[i - 1] == 's' || TYPES[i - 1] == 'x';
  }
  for (t = 0; t < texts; t++) now->text[texts + t] = now->text[t];
}

const Model model = {
    .token = "{types}",
    .count = COUNT,
    .settable = ((uint64_t)1 << (HALF + 1)) - 2,
    .types = "d" TYPES TYPES,
    .start = start,
    .update = update,
};
