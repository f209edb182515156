/* Messages that test an importer's logger: a very long one, and a buffer that is too small for its own. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <stdlib.h>
#include <string.h>

#define LONG_TEXT 100000

static char* long_text(void) {
  char* text = (char*)malloc(LONG_TEXT + 1);
  int i;
  for (i = 0; i < LONG_TEXT; i++) text[i] = (char)('a' + i % 26);
  text[LONG_TEXT] = 0;
  return text;
}

/* Writes past its log buffer: the stack protector, if nothing else, ends the process. */
static void overflow(const char* message) {
  char buffer[16];
  volatile char* to = buffer;
  size_t i, n = strlen(message);
  for (i = 0; i <= n; i++) to[i] = message[i];
}

#endif
