// nvcuda::wmma. Which elements a lane holds is not documented for a GPU; here they follow each other, by rows of the matrix.
#pragma once

#include <type_traits>

#include "matrices.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

}  // namespace wmma
}  // namespace nvcuda

namespace emulation {

namespace wmma = nvcuda::wmma;

template <class T>
struct StorageOf {
  using type = T;
};
template <>
struct StorageOf<wmma::precision::tf32> {
  using type = float;
};

// The combinations that CUDA documents (C++ Language Extensions, "Element Types and Matrix Sizes").
template <int M, int N, int K, class T>
constexpr bool is_wmma_operand() {
  constexpr bool is_k16 = (M == 16 && N == 16 && K == 16) || (M == 32 && N == 8 && K == 16) || (M == 8 && N == 32 && K == 16);
  if (std::is_same_v<T, wmma::precision::tf32>) return M == 16 && N == 16 && K == 8;
  if (std::is_same_v<T, double>) return M == 8 && N == 8 && K == 4;
  return is_k16 && (std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, signed char> ||
                    std::is_same_v<T, unsigned char>);
}

template <class Use, int M, int N, int K>
constexpr int rows_of = std::is_same_v<Use, wmma::matrix_b> ? K : M;
template <class Use, int M, int N, int K>
constexpr int columns_of = std::is_same_v<Use, wmma::matrix_a> ? K : N;

}  // namespace emulation

namespace nvcuda {
namespace wmma {

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static_assert(std::is_same_v<Use, accumulator> ? std::is_void_v<Layout> : emulation::is_wmma_operand<M, N, K, T>(),
                "wmma has no fragment of this shape, type and layout");
  using storage_element_type = typename emulation::StorageOf<T>::type;
  using element_type = storage_element_type;
  static constexpr int rows = emulation::rows_of<Use, M, N, K>, columns = emulation::columns_of<Use, M, N, K>;
  static constexpr int num_elements = rows * columns / 32, num_storage_elements = num_elements;
  storage_element_type x[num_elements];
};

}  // namespace wmma
}  // namespace nvcuda

namespace emulation {

// Calls ``visit(element, offset in memory)`` for the elements of this lane.
template <class Fragment, class Visit>
void for_each_element(Fragment& fragment, unsigned stride, bool by_rows, Visit visit) {
  for (int i = 0; i < Fragment::num_elements; ++i) {
    int position = int(lane()) * Fragment::num_elements + i;
    size_t row = position / Fragment::columns, column = position % Fragment::columns;
    visit(fragment.x[i], by_rows ? row * stride + column : column * stride + row);
  }
}

template <class Element>
void require_matrix(const char* name, const Element* memory, unsigned stride, int line) {
  require_whole_warp(name, line);
  require_aligned(name, "matrix's", memory, 16, line);
  if (stride * sizeof(Element) % 16)
    fail(Fault::trap, format("%s in line %d: a stride of %u elements is no multiple of 16 bytes", name, line, stride));
}

template <class D, class A, class B, class C>
struct WarpProduct {
  D* d;
  const A* a;
  const B* b;
  const C* c;
};

// What a tensor core reads of an operand's element.
template <class T>
double operand(typename StorageOf<T>::type x) {
  if constexpr (std::is_same_v<T, wmma::precision::tf32>)
    return to_double(Tf32{bit_cast<uint32_t>(x)});
  else
    return to_double(x);
}

template <int M, int N, int K, class T, class D, class A, class B, class C>
void multiply_wmma(WarpProduct<D, A, B, C>** lanes, unsigned) {
  double a[M * K], b[K * N], c[M * N];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < A::num_elements; ++i) a[lane * A::num_elements + i] = operand<T>(lanes[lane]->a->x[i]);
    for (int i = 0; i < B::num_elements; ++i) b[lane * B::num_elements + i] = operand<T>(lanes[lane]->b->x[i]);
    for (int i = 0; i < C::num_elements; ++i) c[lane * C::num_elements + i] = to_double(lanes[lane]->c->x[i]);
  }
  multiply_accumulate<M, N, K>(a, b, c);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < D::num_elements; ++i)
      lanes[lane]->d->x[i] = from_double<typename D::element_type>(c[lane * D::num_elements + i]);
}

inline void meet_in_warp(const char* name, int line) {
  Nothing own;
  meet<Nothing>(whole_warp, name, line, own, [](Nothing**, unsigned) {});
}

}  // namespace emulation

namespace nvcuda {
namespace wmma {

template <class Use, int M, int N, int K, class T, class Layout>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& into, const typename emulation::StorageOf<T>::type* memory,
                      unsigned stride, int line = __builtin_LINE()) {
  static_assert(!std::is_same_v<Use, accumulator>, "an accumulator is loaded with a layout");
  emulation::require_matrix("wmma::load_matrix_sync()", memory, stride, line);
  emulation::meet_in_warp("wmma::load_matrix_sync()", line);
  emulation::for_each_element(into, stride, std::is_same_v<Layout, row_major>, [&](auto& x, size_t at) { x = memory[at]; });
}

template <int M, int N, int K, class T>
void load_matrix_sync(fragment<accumulator, M, N, K, T>& into, const T* memory, unsigned stride, layout_t layout,
                      int line = __builtin_LINE()) {
  emulation::require_matrix("wmma::load_matrix_sync()", memory, stride, line);
  emulation::meet_in_warp("wmma::load_matrix_sync()", line);
  emulation::for_each_element(into, stride, layout == mem_row_major, [&](T& x, size_t at) { x = memory[at]; });
}

template <int M, int N, int K, class T>
void store_matrix_sync(T* memory, const fragment<accumulator, M, N, K, T>& from, unsigned stride, layout_t layout,
                       int line = __builtin_LINE()) {
  emulation::require_matrix("wmma::store_matrix_sync()", memory, stride, line);
  emulation::meet_in_warp("wmma::store_matrix_sync()", line);
  emulation::for_each_element(from, stride, layout == mem_row_major, [&](const T& x, size_t at) { memory[at] = x; });
}

template <class Use, int M, int N, int K, class T, class Layout>
void fill_fragment(fragment<Use, M, N, K, T, Layout>& into,
                   const typename fragment<Use, M, N, K, T, Layout>::storage_element_type& value) {
  for (auto& x : into.x) x = value;
}

template <class TD, class TC, int M, int N, int K, class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
              const fragment<matrix_b, M, N, K, T, LayoutB>& b, const fragment<accumulator, M, N, K, TC>& c,
              int line = __builtin_LINE()) {
  using D = fragment<accumulator, M, N, K, TD>;
  using A = fragment<matrix_a, M, N, K, T, LayoutA>;
  using B = fragment<matrix_b, M, N, K, T, LayoutB>;
  using C = fragment<accumulator, M, N, K, TC>;
  emulation::require_whole_warp("wmma::mma_sync()", line);
  emulation::WarpProduct<D, A, B, C> own{&d, &a, &b, &c};
  emulation::meet<emulation::WarpProduct<D, A, B, C>>(emulation::whole_warp, "wmma::mma_sync()", line, own,
                                                      emulation::multiply_wmma<M, N, K, T, D, A, B, C>);
}

inline float __float_to_tf32(float x) { return emulation::to_tf32(x); }

}  // namespace wmma
}  // namespace nvcuda
