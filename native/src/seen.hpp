// A number that one thread writes, and that others may look at meanwhile.
#pragma once

#include <atomic>

namespace upbeat {

template <class T>
class Seen {
 public:
  explicit Seen(T value) : value_(value) {}
  Seen(const Seen& other) : value_(other.get()) {}
  Seen& operator=(const Seen& other) {
    set(other.get());
    return *this;
  }

  T get() const { return value_.load(std::memory_order_acquire); }
  void set(T value) { value_.store(value, std::memory_order_release); }

 private:
  std::atomic<T> value_;
};

}  // namespace upbeat
