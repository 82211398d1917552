// What compile.py calls: a launcher per kernel, and the kernel's parameter types as text.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "fp8.h"
#include "threads.h"

namespace emulation {

// The name of a type as numpy and ml_dtypes write it; "bytes16" for what they have no name for.
template <class T>
std::string type_name() {
  if (std::is_same_v<T, bool>) return "bool";
  if (std::is_integral_v<T>) return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T));
  if (std::is_floating_point_v<T>) return "float" + std::to_string(8 * sizeof(T));
  if (std::is_same_v<T, __half>) return "float16";
  if (std::is_same_v<T, __nv_bfloat16>) return "bfloat16";
  if (std::is_same_v<T, __nv_fp8_e4m3>) return "float8_e4m3fn";
  if (std::is_same_v<T, __nv_fp8_e5m2>) return "float8_e5m2";
  if constexpr (std::is_void_v<T>)
    return "void";
  else
    return "bytes" + std::to_string(sizeof(T));
}

template <class T>
std::string parameter_name() {
  if constexpr (std::is_pointer_v<T>) {
    using Element = std::remove_pointer_t<T>;
    return std::string(std::is_const_v<Element> ? "const*" : "*") + type_name<std::remove_cv_t<Element>>();
  } else {
    return type_name<std::remove_cv_t<T>>();
  }
}

template <class... Parameters>
std::string parameter_names(void (*)(Parameters...)) {
  std::string names;
  ((names += (names.empty() ? "" : " ") + parameter_name<Parameters>()), ...);
  return names;
}

template <auto kernel, class... Parameters, size_t... I>
void call(void (*)(Parameters...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<Parameters>*>(arguments[I])...);
}

template <auto kernel, class... Parameters>
void call_with(void (*)(Parameters...), void** arguments) {
  call<kernel>(kernel, arguments, std::index_sequence_for<Parameters...>());
}

template <auto kernel>
void body(void** arguments) {
  call_with<kernel>(kernel, arguments);
}

}  // namespace emulation

#define EMULATION_EXPORT extern "C" __attribute__((visibility("default")))

#define EMULATION_LAUNCHER(kernel)                                                                     \
  EMULATION_EXPORT long long launch_##kernel(const unsigned* grid, const unsigned* block,              \
                                             unsigned shared_bytes, void** arguments, long long first, \
                                             unsigned long long seed) {                                \
    return emulation::run(emulation::body<&kernel>, grid, block, shared_bytes, arguments, first, seed); \
  }                                                                                                    \
  EMULATION_EXPORT const char* parameters_##kernel() {                                                 \
    static const std::string names = emulation::parameter_names(&kernel);                              \
    return names.c_str();                                                                              \
  }

EMULATION_EXPORT int emulation_fault() { return int(emulation::launch.fault); }
EMULATION_EXPORT const char* emulation_message() { return emulation::launch.message.c_str(); }
