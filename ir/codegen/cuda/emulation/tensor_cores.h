// The functions of prelude/tensor_cores.cuh for the CPU; that file says what each of them does, and this one has the same list.
#pragma once

#include "matrices.h"

namespace emulation {

// ------------------------------------------------------------------------------------------------- matrix products

struct Product {
  const void *a, *b, *c;
  void* d;
};

template <class Element>
Element element(const void* registers, int i) {
  Element value;
  memcpy(&value, static_cast<const unsigned char*>(registers) + i * sizeof(Element), sizeof(Element));
  return value;
}

struct Place {
  int row, column;
};

template <class Element>
constexpr int per_register = sizeof(Element) < 4 ? 4 / sizeof(Element) : 1;

// Where element i of a lane is in the matrix.
template <class Element>
Place place_in_a(int lane, int i) {
  constexpr int p = per_register<Element>;
  int in_register = i / p;
  return {lane / 4 + 8 * (in_register % 2), p * (lane % 4) + i % p + 4 * p * (in_register / 2)};
}
template <class Element>
Place place_in_b(int lane, int i) {
  constexpr int p = per_register<Element>;
  return {p * (lane % 4) + i % p + 4 * p * (i / p), lane / 4};
}
inline Place place_in_c(int lane, int i) { return {lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2}; }

template <int M, int N, int K, class A, class B, class C>
void multiply_fragments(Product** lanes, unsigned) {
  double a[M * K], b[K * N], c[M * N];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < M * K / 32; ++i) {
      Place at = place_in_a<A>(lane, i);
      a[at.row * K + at.column] = to_double(element<A>(lanes[lane]->a, i));
    }
    for (int i = 0; i < K * N / 32; ++i) {
      Place at = place_in_b<B>(lane, i);
      b[at.row * N + at.column] = to_double(element<B>(lanes[lane]->b, i));
    }
    for (int i = 0; i < M * N / 32; ++i) {
      Place at = place_in_c(lane, i);
      c[at.row * N + at.column] = to_double(element<C>(lanes[lane]->c, i));
    }
  }
  multiply_accumulate<M, N, K>(a, b, c);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < M * N / 32; ++i) {
      Place at = place_in_c(lane, i);
      C value = from_double<C>(c[at.row * N + at.column]);
      memcpy(static_cast<unsigned char*>(lanes[lane]->d) + i * sizeof(C), &value, sizeof(C));
    }
  }
}

template <int M, int N, int K, class A, class B, class C>
void mma(const char* name, void* d, const void* a, const void* b, const void* c, int line) {
  require_whole_warp(name, line);
  Product own{a, b, c, d};
  meet<Product>(whole_warp, name, line, own, multiply_fragments<M, N, K, A, B, C>);
}

// ------------------------------------------------------------------------------------- loads and stores of matrices

struct MatrixRows {
  unsigned char* row;
  unsigned char* registers;
};

// For every element of 16 bits of the matrices: its place in the rows, and its place in the registers.
template <int matrices, bool transposed, bool loading>
void move_matrices(MatrixRows** lanes, unsigned) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < matrices; ++matrix) {
      for (int e = 0; e < 2; ++e) {
        int i = lane / 4, j = 2 * (lane % 4) + e;
        if (transposed) std::swap(i, j);
        unsigned char* in_memory = lanes[8 * matrix + i]->row + 2 * j;
        unsigned char* in_register = lanes[lane]->registers + 4 * matrix + 2 * e;
        memcpy(loading ? in_register : in_memory, loading ? in_memory : in_register, 2);
      }
    }
  }
}

template <int matrices, bool transposed, bool loading>
void move_rows(const char* name, const void* row, const void* registers, int line) {
  require_whole_warp(name, line);
  if (lane() < 8 * matrices) {
    require_shared(name, row, 16, line);
    require_aligned(name, "row's", row, 16, line);
  }
  MatrixRows own{(unsigned char*)row, (unsigned char*)registers};
  meet<MatrixRows>(whole_warp, name, line, own, move_matrices<matrices, transposed, loading>);
}

// --------------------------------------------------------------------------------------------- asynchronous copies

inline void copy_async(const char* name, void* shared, const void* global, size_t bytes, bool valid, int line) {
  require_shared(name, shared, bytes, line);
  require_aligned(name, "shared", shared, bytes, line);
  if (valid) require_aligned(name, "global", global, bytes, line);
  launch.current->copies.issue(shared, valid ? global : nullptr, bytes);
}

}  // namespace emulation

#define EMULATION_MMA(name, M, N, K, A, B, C, Pointer)                                                 \
  inline void name(Pointer* d, const void* a, const void* b, const Pointer* c, int line = __builtin_LINE()) { \
    emulation::mma<M, N, K, A, B, C>(#name "()", d, a, b, c, line);                                    \
  }
EMULATION_MMA(ptx_mma_m16n8k8_f16_f16_f32, 16, 8, 8, __half, __half, float, float)
EMULATION_MMA(ptx_mma_m16n8k8_f16_f16_f16, 16, 8, 8, __half, __half, __half, void)
EMULATION_MMA(ptx_mma_m16n8k8_bf16_bf16_f32, 16, 8, 8, __nv_bfloat16, __nv_bfloat16, float, float)
EMULATION_MMA(ptx_mma_m16n8k16_f16_f16_f32, 16, 8, 16, __half, __half, float, float)
EMULATION_MMA(ptx_mma_m16n8k16_f16_f16_f16, 16, 8, 16, __half, __half, __half, void)
EMULATION_MMA(ptx_mma_m16n8k16_bf16_bf16_f32, 16, 8, 16, __nv_bfloat16, __nv_bfloat16, float, float)
EMULATION_MMA(ptx_mma_m16n8k4_tf32_tf32_f32, 16, 8, 4, emulation::Tf32, emulation::Tf32, float, float)
EMULATION_MMA(ptx_mma_m16n8k8_tf32_tf32_f32, 16, 8, 8, emulation::Tf32, emulation::Tf32, float, float)
EMULATION_MMA(ptx_mma_m8n8k4_f64_f64_f64, 8, 8, 4, double, double, double, double)
EMULATION_MMA(ptx_mma_m8n8k16_s8_s8_s32, 8, 8, 16, int8_t, int8_t, int, int)
EMULATION_MMA(ptx_mma_m8n8k16_s8_u8_s32, 8, 8, 16, int8_t, uint8_t, int, int)
EMULATION_MMA(ptx_mma_m8n8k16_u8_s8_s32, 8, 8, 16, uint8_t, int8_t, int, int)
EMULATION_MMA(ptx_mma_m8n8k16_u8_u8_s32, 8, 8, 16, uint8_t, uint8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k16_s8_s8_s32, 16, 8, 16, int8_t, int8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k16_s8_u8_s32, 16, 8, 16, int8_t, uint8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k16_u8_s8_s32, 16, 8, 16, uint8_t, int8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k16_u8_u8_s32, 16, 8, 16, uint8_t, uint8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k32_s8_s8_s32, 16, 8, 32, int8_t, int8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k32_s8_u8_s32, 16, 8, 32, int8_t, uint8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k32_u8_s8_s32, 16, 8, 32, uint8_t, int8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k32_u8_u8_s32, 16, 8, 32, uint8_t, uint8_t, int, int)
EMULATION_MMA(ptx_mma_m16n8k32_e4m3_e4m3_f32, 16, 8, 32, __nv_fp8_e4m3, __nv_fp8_e4m3, float, float)
EMULATION_MMA(ptx_mma_m16n8k32_e4m3_e5m2_f32, 16, 8, 32, __nv_fp8_e4m3, __nv_fp8_e5m2, float, float)
EMULATION_MMA(ptx_mma_m16n8k32_e5m2_e4m3_f32, 16, 8, 32, __nv_fp8_e5m2, __nv_fp8_e4m3, float, float)
EMULATION_MMA(ptx_mma_m16n8k32_e5m2_e5m2_f32, 16, 8, 32, __nv_fp8_e5m2, __nv_fp8_e5m2, float, float)
EMULATION_MMA(ptx_mma_m16n8k32_e4m3_e4m3_f16, 16, 8, 32, __nv_fp8_e4m3, __nv_fp8_e4m3, __half, void)
EMULATION_MMA(ptx_mma_m16n8k32_e4m3_e5m2_f16, 16, 8, 32, __nv_fp8_e4m3, __nv_fp8_e5m2, __half, void)
EMULATION_MMA(ptx_mma_m16n8k32_e5m2_e4m3_f16, 16, 8, 32, __nv_fp8_e5m2, __nv_fp8_e4m3, __half, void)
EMULATION_MMA(ptx_mma_m16n8k32_e5m2_e5m2_f16, 16, 8, 32, __nv_fp8_e5m2, __nv_fp8_e5m2, __half, void)
#undef EMULATION_MMA

inline float ptx_cvt_rna_tf32(float x) { return emulation::to_tf32(x); }

#define EMULATION_LDMATRIX(name, matrices, transposed)                                                 \
  inline void name(void* registers, const void* row, int line = __builtin_LINE()) {                    \
    emulation::move_rows<matrices, transposed, true>(#name "()", row, registers, line);                \
  }
#define EMULATION_STMATRIX(name, matrices, transposed)                                                 \
  inline void name(void* row, const void* registers, int line = __builtin_LINE()) {                    \
    emulation::move_rows<matrices, transposed, false>(#name "()", row, registers, line);               \
  }
EMULATION_LDMATRIX(ptx_ldmatrix_x1, 1, false)
EMULATION_LDMATRIX(ptx_ldmatrix_x2, 2, false)
EMULATION_LDMATRIX(ptx_ldmatrix_x4, 4, false)
EMULATION_LDMATRIX(ptx_ldmatrix_x1_trans, 1, true)
EMULATION_LDMATRIX(ptx_ldmatrix_x2_trans, 2, true)
EMULATION_LDMATRIX(ptx_ldmatrix_x4_trans, 4, true)
EMULATION_STMATRIX(ptx_stmatrix_x1, 1, false)
EMULATION_STMATRIX(ptx_stmatrix_x2, 2, false)
EMULATION_STMATRIX(ptx_stmatrix_x4, 4, false)
EMULATION_STMATRIX(ptx_stmatrix_x1_trans, 1, true)
EMULATION_STMATRIX(ptx_stmatrix_x2_trans, 2, true)
EMULATION_STMATRIX(ptx_stmatrix_x4_trans, 4, true)
#undef EMULATION_LDMATRIX
#undef EMULATION_STMATRIX

#define EMULATION_CP_ASYNC(bytes)                                                                      \
  inline void ptx_cp_async_##bytes(void* shared, const void* global, int line = __builtin_LINE()) {    \
    emulation::copy_async("ptx_cp_async_" #bytes "()", shared, global, bytes, true, line);             \
  }                                                                                                    \
  inline void ptx_cp_async_##bytes##_zfill(void* shared, const void* global, bool valid, int line = __builtin_LINE()) { \
    emulation::copy_async("ptx_cp_async_" #bytes "_zfill()", shared, global, bytes, valid, line);      \
  }
EMULATION_CP_ASYNC(4)
EMULATION_CP_ASYNC(8)
EMULATION_CP_ASYNC(16)
#undef EMULATION_CP_ASYNC
inline void ptx_cp_async_commit_group() { emulation::launch.current->copies.commit(); }
template <int groups>
void ptx_cp_async_wait_group() {
  emulation::launch.current->copies.wait(groups);
}
inline void ptx_cp_async_wait_all() { emulation::launch.current->copies.wait_all(); }
