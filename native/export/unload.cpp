// What the C++ library that is linked into FMUs keeps for the day when memory is short (72 kB), given back when a
// host unloads the FMU: without that, every life of an FMU would cost the host so much. Only for a library that is
// linked statically, and so is no other's.
#include <cstddef>

#ifdef __GLIBCXX__
namespace __gnu_cxx {
void __freeres() noexcept;
}

namespace {
__attribute__((destructor)) void unload() { __gnu_cxx::__freeres(); }
}  // namespace
#endif
