// See shared_page.hpp. On Linux a side sleeps on the word itself (futex); elsewhere it looks again and again.
#include "shared_page.hpp"

#include <sys/mman.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#else
#include <algorithm>
#endif

namespace upbeat {

std::shared_ptr<SharedPage> mapped(int file, std::uint64_t size) {
  if (size <= sizeof(SharedPage)) return nullptr;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<SharedPage*>(memory), [size](SharedPage* page) { munmap(page, size); }};
}

#if defined(__linux__)

unsigned usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return std::thread::hardware_concurrency();
  return static_cast<unsigned>(CPU_COUNT(&cores));
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<std::time_t>(limit.count() / 1'000'000'000);
  time.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

#else

unsigned usable_cores() { return std::thread::hardware_concurrency(); }

void sleep_on(std::atomic<std::uint32_t>&, std::uint32_t, std::chrono::nanoseconds limit) {
  std::this_thread::sleep_for(std::min(limit, std::chrono::nanoseconds(100'000)));
}

void wake(std::atomic<std::uint32_t>&) {}

#endif

}  // namespace upbeat
