/* How an external function of loopsmith is called, and the macro that exports a typed C++ function that way. */
#ifndef LOOPSMITH_EXTERNAL_H_
#define LOOPSMITH_EXTERNAL_H_

#include <dlpack/dlpack.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

/* One argument: a tensor, an integer, a floating point number, or a NUL-terminated string. */
union LoopsmithValue {
  DLTensor* tensor;
  int64_t integer;
  double number;
  const char* text;
};

namespace loopsmith {

template <typename T>
T value_as(const LoopsmithValue& value) {
  using Plain = std::remove_cv_t<std::remove_reference_t<T>>;
  if constexpr (std::is_same_v<Plain, DLTensor*>) return value.tensor;
  else if constexpr (std::is_same_v<Plain, const char*>) return value.text;
  else if constexpr (std::is_integral_v<Plain>) return static_cast<Plain>(value.integer);
  else if constexpr (std::is_floating_point_v<Plain>) return static_cast<Plain>(value.number);
  else {
    static_assert(std::is_same_v<Plain, DLTensor*>, "arguments are DLTensor*, integers, floats or const char*");
  }
}

template <typename Result, typename... Args, std::size_t... Index>
int apply(Result (*function)(Args...), const LoopsmithValue* values, std::index_sequence<Index...>) {
  if constexpr (std::is_void_v<Result>) {
    function(value_as<Args>(values[Index])...);
    return 0;
  } else {
    return static_cast<int>(function(value_as<Args>(values[Index])...));
  }
}

/* Returns what the function returns (0 for void), or -1 when it takes another number of arguments. */
template <typename Result, typename... Args>
int call(Result (*function)(Args...), const LoopsmithValue* values, int count) {
  if (count != static_cast<int>(sizeof...(Args))) return -1;
  return apply(function, values, std::index_sequence_for<Args...>{});
}

}  // namespace loopsmith

#define TVM_DLL_EXPORT_TYPED_FUNC(symbol, function)                                \
  extern "C" __attribute__((visibility("default"))) int symbol(                    \
      const LoopsmithValue* values, int count) {                                   \
    return loopsmith::call(function, values, count);                               \
  }

#endif
