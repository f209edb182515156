// Bytes in and out: little-endian whatever the processor, and never beyond the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace upbeat {

using Bytes = std::vector<unsigned char>;

inline std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double double_of(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline void write_word(unsigned char* to, std::uint64_t word) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<unsigned char>(word >> (8 * i));
}

inline std::uint64_t read_word(const unsigned char* from) {
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return word;
}

inline void append_word(Bytes& to, std::uint64_t word) {
  to.resize(to.size() + 8);
  write_word(to.data() + to.size() - 8, word);
}

// Doubles as a unit's `pack` hands them out.
inline int pack_doubles(const std::vector<double>& state, void* to, std::uint64_t* size) {
  const std::uint64_t room = *size;
  *size = 8 * state.size();
  if (room < *size) return 0;
  auto* next = static_cast<unsigned char*>(to);
  for (const double value : state) {
    write_word(next, bits_of(value));
    next += 8;
  }
  return 0;
}

// Walks over bytes that may be anything: what is not there reads as 0, and `sound` says so.
class Reader {
 public:
  Reader(const void* from, std::uint64_t size) : at_(static_cast<const unsigned char*>(from)), left_(size) {}

  bool sound() const { return sound_; }
  bool finished() const { return sound_ && left_ == 0; }
  std::uint64_t left() const { return left_; }

  std::uint64_t word() {
    const unsigned char* const from = bytes(8);
    return from ? read_word(from) : 0;
  }

  // The next `count` bytes, or null.
  const unsigned char* bytes(std::uint64_t count) {
    if (!sound_ || count > left_) {
      sound_ = false;
      return nullptr;
    }
    const unsigned char* const from = at_;
    at_ += count;
    left_ -= count;
    return from;
  }

 private:
  const unsigned char* at_;
  std::uint64_t left_;
  bool sound_ = true;
};

}  // namespace upbeat
