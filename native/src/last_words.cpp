#include "last_words.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#ifndef _WIN32
#include <unistd.h>
#endif

namespace upbeat {
#ifdef _WIN32

void announce_faults(const std::string&, const std::string&) {}
void leave_faults_alone() {}
void forbid_exit(const std::string&, int) {}

#else
namespace {

constexpr std::array<int, 4> faults{SIGSEGV, SIGBUS, SIGFPE, SIGABRT};

// A handler may touch nothing that allocates or locks: its words lie ready.
std::array<char, 512> first_words{}, last_words{}, exit_words{};
std::array<struct sigaction, faults.size()> previous{};
std::array<bool, faults.size()> ours{};
// A handler that runs on the stack that has just overflowed says nothing.
std::array<char, 65536> second_stack{};
int exit_code = 0;
bool registered = false;

void keep(std::array<char, 512>& place, const std::string& text) {
  place.fill('\0');
  text.copy(place.data(), place.size() - 1);
}

void say(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) return;
}

void announce(int number) {
  const char digits[3] = {static_cast<char>('0' + number / 10), static_cast<char>('0' + number % 10), '\0'};
  say(first_words.data());
  say(number < 10 ? digits + 1 : digits);
  say(last_words.data());
  // SA_RESETHAND has put the default back: the fault happens again, or the signal that was sent is sent again.
  raise(number);
}

void at_exit() {
  if (exit_code == 0) return;
  say(exit_words.data());
  _exit(exit_code);
}

}  // namespace

void announce_faults(const std::string& before, const std::string& after) {
  keep(first_words, before);
  keep(last_words, after);
  stack_t stack{};
  stack.ss_sp = second_stack.data();
  stack.ss_size = second_stack.size();
  stack_t had{};
  if (sigaltstack(nullptr, &had) == 0 && (had.ss_flags & SS_DISABLE)) sigaltstack(&stack, nullptr);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (ours[i] || sigaction(faults[i], nullptr, &previous[i]) != 0 || previous[i].sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = announce;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_ONSTACK);
    sigemptyset(&action.sa_mask);
    ours[i] = sigaction(faults[i], &action, nullptr) == 0;
  }
}

void leave_faults_alone() {
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (ours[i]) sigaction(faults[i], &previous[i], nullptr);
    ours[i] = false;
  }
}

void forbid_exit(const std::string& words, int code) {
  keep(exit_words, words);
  exit_code = code;
  if (!registered) registered = std::atexit(at_exit) == 0;
}

#endif
}  // namespace upbeat
