// Instructions of PTX that CUDA C++ has no names for, as device functions: matrix products of a warp, loads and stores of their
// operands, and asynchronous copies to shared memory. Generated kernels call these names; emulation/tensor_cores.h defines the same
// ones for the CPU, where __CUDA_ARCH__ is not defined and this file is empty.
//
// A lane holds fragments as the PTX ISA lays them out ("Warp Level Matrix Instructions"); below g is lane / 4 and t is lane % 4, and a
// register holds p = 32 / bits elements of A or B:
//   A: element e of register r is at row g + 8 (r % 2), column p t + e + 4 p (r / 2)
//   B: element e of register r is at row p t + e + 4 p r, column g
//   C, D: element i is at row g + 8 (i / 2), column 2 t + i % 2; those of f16 are packed by twos
//
// ptx_mma_<shape>_<type of A>_<type of B>_<type of C and D>(d, a, b, c): d = a * b + c, where A is stored by rows and B by columns.
// Registers of A and B:            A B   C and D        from
//   m16n8k8   f16 f16 f32          2 1   float[4]       sm_75
//   m16n8k8   f16 f16 f16          2 1   f16[4]         sm_75
//   m16n8k8   bf16 bf16 f32        2 1   float[4]       sm_80
//   m16n8k16  f16 f16 f32          4 2   float[4]       sm_80
//   m16n8k16  f16 f16 f16          4 2   f16[4]         sm_80
//   m16n8k16  bf16 bf16 f32        4 2   float[4]       sm_80
//   m16n8k4   tf32 tf32 f32        2 1   float[4]       sm_80
//   m16n8k8   tf32 tf32 f32        4 2   float[4]       sm_80
//   m8n8k4    f64 f64 f64          1 1   double[2]      sm_80 (registers of 64 bits)
//   m8n8k16   {s8,u8} {s8,u8} s32  1 1   int[2]         sm_75
//   m16n8k16  {s8,u8} {s8,u8} s32  2 1   int[4]         sm_80
//   m16n8k32  {s8,u8} {s8,u8} s32  4 2   int[4]         sm_80
//   m16n8k32  {e4m3,e5m2} {e4m3,e5m2} f32  4 2  float[4]  sm_89
//   m16n8k32  {e4m3,e5m2} {e4m3,e5m2} f16  4 2  f16[4]    sm_89
// Sums of s32 wrap. d and c may be the same array; the arrays are aligned to registers.
//
// float ptx_cvt_rna_tf32(float x): to nearest tf32, ties away from zero; the low 13 bits of operands of type tf32 are ignored.
//
// ptx_ldmatrix_x{1,2,4}[_trans](registers, row): matrices of 8 by 8 elements of 16 bits from shared memory. Lane 8 m + i gives the address
// of row i (16 bytes, aligned) of matrix m; lane 4 i + j gets elements 2 j and 2 j + 1 of row i, transposed of column i, in register m.
// ptx_stmatrix_x{1,2,4}[_trans](row, registers): the way back (sm_90).
//
// ptx_cp_async_{4,8,16}(shared, global): starts a copy of so many bytes, both addresses aligned to them; that of 16 bytes passes by the L1 cache.
// ptx_cp_async_{4,8,16}_zfill(shared, global, valid): zeros instead where valid is false; global is not read then.
// ptx_cp_async_commit_group(): what this thread started since the last one is a group.
// ptx_cp_async_wait_group<n>(): all groups of this thread but the n latest are complete. ptx_cp_async_wait_all(): all copies are.
// Other threads see the copies behind a barrier that follows.
#pragma once

#if defined(__CUDA_ARCH__)

#define PTX_REGISTERS(pointer) static_cast<const unsigned*>(pointer)

#define PTX_MMA_A2_B1_F32(name, instruction)                                                           \
  __device__ __forceinline__ void name(float* d, const void* a, const void* b, const float* c) {       \
    asm volatile("mma.sync.aligned." instruction " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                      \
                 : "r"(PTX_REGISTERS(a)[0]), "r"(PTX_REGISTERS(a)[1]), "r"(PTX_REGISTERS(b)[0]),       \
                   "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));                                        \
  }
#define PTX_MMA_A4_B2_F32(name, instruction)                                                           \
  __device__ __forceinline__ void name(float* d, const void* a, const void* b, const float* c) {       \
    asm volatile("mma.sync.aligned." instruction                                                       \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                      \
                 : "r"(PTX_REGISTERS(a)[0]), "r"(PTX_REGISTERS(a)[1]), "r"(PTX_REGISTERS(a)[2]),       \
                   "r"(PTX_REGISTERS(a)[3]), "r"(PTX_REGISTERS(b)[0]), "r"(PTX_REGISTERS(b)[1]),       \
                   "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));                                        \
  }
#define PTX_MMA_A2_B1_F16(name, instruction)                                                           \
  __device__ __forceinline__ void name(void* d, const void* a, const void* b, const void* c) {         \
    unsigned* out = static_cast<unsigned*>(d);                                                         \
    asm volatile("mma.sync.aligned." instruction " {%0, %1}, {%2, %3}, {%4}, {%5, %6};"                \
                 : "=r"(out[0]), "=r"(out[1])                                                          \
                 : "r"(PTX_REGISTERS(a)[0]), "r"(PTX_REGISTERS(a)[1]), "r"(PTX_REGISTERS(b)[0]),       \
                   "r"(PTX_REGISTERS(c)[0]), "r"(PTX_REGISTERS(c)[1]));                                \
  }
#define PTX_MMA_A4_B2_F16(name, instruction)                                                           \
  __device__ __forceinline__ void name(void* d, const void* a, const void* b, const void* c) {         \
    unsigned* out = static_cast<unsigned*>(d);                                                         \
    asm volatile("mma.sync.aligned." instruction " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"    \
                 : "=r"(out[0]), "=r"(out[1])                                                          \
                 : "r"(PTX_REGISTERS(a)[0]), "r"(PTX_REGISTERS(a)[1]), "r"(PTX_REGISTERS(a)[2]),       \
                   "r"(PTX_REGISTERS(a)[3]), "r"(PTX_REGISTERS(b)[0]), "r"(PTX_REGISTERS(b)[1]),       \
                   "r"(PTX_REGISTERS(c)[0]), "r"(PTX_REGISTERS(c)[1]));                                \
  }
#define PTX_MMA_A1_B1_S32(name, instruction)                                                           \
  __device__ __forceinline__ void name(int* d, const void* a, const void* b, const int* c) {           \
    asm volatile("mma.sync.aligned." instruction " {%0, %1}, {%2}, {%3}, {%4, %5};"                    \
                 : "=r"(d[0]), "=r"(d[1])                                                              \
                 : "r"(PTX_REGISTERS(a)[0]), "r"(PTX_REGISTERS(b)[0]), "r"(c[0]), "r"(c[1]));          \
  }
#define PTX_MMA_A2_B1_S32(name, instruction)                                                           \
  __device__ __forceinline__ void name(int* d, const void* a, const void* b, const int* c) {           \
    asm volatile("mma.sync.aligned." instruction " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                      \
                 : "r"(PTX_REGISTERS(a)[0]), "r"(PTX_REGISTERS(a)[1]), "r"(PTX_REGISTERS(b)[0]),       \
                   "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));                                        \
  }
#define PTX_MMA_A4_B2_S32(name, instruction)                                                           \
  __device__ __forceinline__ void name(int* d, const void* a, const void* b, const int* c) {           \
    asm volatile("mma.sync.aligned." instruction                                                       \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                      \
                 : "r"(PTX_REGISTERS(a)[0]), "r"(PTX_REGISTERS(a)[1]), "r"(PTX_REGISTERS(a)[2]),       \
                   "r"(PTX_REGISTERS(a)[3]), "r"(PTX_REGISTERS(b)[0]), "r"(PTX_REGISTERS(b)[1]),       \
                   "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));                                        \
  }

#define PTX_LDMATRIX(name, modifiers, places, ...)                                                     \
  __device__ __forceinline__ void name(void* registers, const void* row) {                             \
    unsigned* r = static_cast<unsigned*>(registers);                                                   \
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));                           \
    asm volatile("ldmatrix.sync.aligned.m8n8." modifiers ".shared.b16 " places ";" : __VA_ARGS__ : "r"(address) : "memory"); \
  }
#define PTX_STMATRIX(name, modifiers, places, ...)                                                     \
  __device__ __forceinline__ void name(void* row, const void* registers) {                             \
    const unsigned* r = PTX_REGISTERS(registers);                                                      \
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));                           \
    asm volatile("stmatrix.sync.aligned.m8n8." modifiers ".shared.b16 " places ";" : : "r"(address), __VA_ARGS__ : "memory"); \
  }
#define PTX_CP_ASYNC(bytes, cache)                                                                     \
  __device__ __forceinline__ void ptx_cp_async_##bytes(void* shared, const void* global) {             \
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));                        \
    asm volatile("cp.async." cache ".shared.global [%0], [%1], %2;"                                    \
                 : : "r"(address), "l"(__cvta_generic_to_global(global)), "n"(bytes) : "memory");      \
  }                                                                                                    \
  __device__ __forceinline__ void ptx_cp_async_##bytes##_zfill(void* shared, const void* global, bool valid) { \
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));                        \
    asm volatile("cp.async." cache ".shared.global [%0], [%1], %2, %3;"                                \
                 : : "r"(address), "l"(__cvta_generic_to_global(global)), "n"(bytes), "r"(valid ? bytes : 0) : "memory"); \
  }

#if __CUDA_ARCH__ >= 750
PTX_MMA_A2_B1_F32(ptx_mma_m16n8k8_f16_f16_f32, "m16n8k8.row.col.f32.f16.f16.f32")
PTX_MMA_A2_B1_F16(ptx_mma_m16n8k8_f16_f16_f16, "m16n8k8.row.col.f16.f16.f16.f16")
PTX_MMA_A1_B1_S32(ptx_mma_m8n8k16_s8_s8_s32, "m8n8k16.row.col.s32.s8.s8.s32")
PTX_MMA_A1_B1_S32(ptx_mma_m8n8k16_s8_u8_s32, "m8n8k16.row.col.s32.s8.u8.s32")
PTX_MMA_A1_B1_S32(ptx_mma_m8n8k16_u8_s8_s32, "m8n8k16.row.col.s32.u8.s8.s32")
PTX_MMA_A1_B1_S32(ptx_mma_m8n8k16_u8_u8_s32, "m8n8k16.row.col.s32.u8.u8.s32")
PTX_LDMATRIX(ptx_ldmatrix_x1, "x1", "{%0}, [%1]", "=r"(r[0]))
PTX_LDMATRIX(ptx_ldmatrix_x2, "x2", "{%0, %1}, [%2]", "=r"(r[0]), "=r"(r[1]))
PTX_LDMATRIX(ptx_ldmatrix_x4, "x4", "{%0, %1, %2, %3}, [%4]", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]))
PTX_LDMATRIX(ptx_ldmatrix_x1_trans, "x1.trans", "{%0}, [%1]", "=r"(r[0]))
PTX_LDMATRIX(ptx_ldmatrix_x2_trans, "x2.trans", "{%0, %1}, [%2]", "=r"(r[0]), "=r"(r[1]))
PTX_LDMATRIX(ptx_ldmatrix_x4_trans, "x4.trans", "{%0, %1, %2, %3}, [%4]", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]))
#endif

#if __CUDA_ARCH__ >= 800
PTX_MMA_A2_B1_F32(ptx_mma_m16n8k8_bf16_bf16_f32, "m16n8k8.row.col.f32.bf16.bf16.f32")
PTX_MMA_A4_B2_F32(ptx_mma_m16n8k16_f16_f16_f32, "m16n8k16.row.col.f32.f16.f16.f32")
PTX_MMA_A4_B2_F16(ptx_mma_m16n8k16_f16_f16_f16, "m16n8k16.row.col.f16.f16.f16.f16")
PTX_MMA_A4_B2_F32(ptx_mma_m16n8k16_bf16_bf16_f32, "m16n8k16.row.col.f32.bf16.bf16.f32")
PTX_MMA_A2_B1_F32(ptx_mma_m16n8k4_tf32_tf32_f32, "m16n8k4.row.col.f32.tf32.tf32.f32")
PTX_MMA_A4_B2_F32(ptx_mma_m16n8k8_tf32_tf32_f32, "m16n8k8.row.col.f32.tf32.tf32.f32")
PTX_MMA_A2_B1_S32(ptx_mma_m16n8k16_s8_s8_s32, "m16n8k16.row.col.s32.s8.s8.s32")
PTX_MMA_A2_B1_S32(ptx_mma_m16n8k16_s8_u8_s32, "m16n8k16.row.col.s32.s8.u8.s32")
PTX_MMA_A2_B1_S32(ptx_mma_m16n8k16_u8_s8_s32, "m16n8k16.row.col.s32.u8.s8.s32")
PTX_MMA_A2_B1_S32(ptx_mma_m16n8k16_u8_u8_s32, "m16n8k16.row.col.s32.u8.u8.s32")
PTX_MMA_A4_B2_S32(ptx_mma_m16n8k32_s8_s8_s32, "m16n8k32.row.col.s32.s8.s8.s32")
PTX_MMA_A4_B2_S32(ptx_mma_m16n8k32_s8_u8_s32, "m16n8k32.row.col.s32.s8.u8.s32")
PTX_MMA_A4_B2_S32(ptx_mma_m16n8k32_u8_s8_s32, "m16n8k32.row.col.s32.u8.s8.s32")
PTX_MMA_A4_B2_S32(ptx_mma_m16n8k32_u8_u8_s32, "m16n8k32.row.col.s32.u8.u8.s32")

__device__ __forceinline__ void ptx_mma_m8n8k4_f64_f64_f64(double* d, const void* a, const void* b, const double* c) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
               : "=d"(d[0]), "=d"(d[1])
               : "d"(static_cast<const double*>(a)[0]), "d"(static_cast<const double*>(b)[0]), "d"(c[0]), "d"(c[1]));
}

__device__ __forceinline__ float ptx_cvt_rna_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

PTX_CP_ASYNC(4, "ca")
PTX_CP_ASYNC(8, "ca")
PTX_CP_ASYNC(16, "cg")
__device__ __forceinline__ void ptx_cp_async_commit_group() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int groups>
__device__ __forceinline__ void ptx_cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}
__device__ __forceinline__ void ptx_cp_async_wait_all() { asm volatile("cp.async.wait_all;" : : : "memory"); }
#endif

#if __CUDA_ARCH__ >= 890
PTX_MMA_A4_B2_F32(ptx_mma_m16n8k32_e4m3_e4m3_f32, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
PTX_MMA_A4_B2_F32(ptx_mma_m16n8k32_e4m3_e5m2_f32, "m16n8k32.row.col.f32.e4m3.e5m2.f32")
PTX_MMA_A4_B2_F32(ptx_mma_m16n8k32_e5m2_e4m3_f32, "m16n8k32.row.col.f32.e5m2.e4m3.f32")
PTX_MMA_A4_B2_F32(ptx_mma_m16n8k32_e5m2_e5m2_f32, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
PTX_MMA_A4_B2_F16(ptx_mma_m16n8k32_e4m3_e4m3_f16, "m16n8k32.row.col.f16.e4m3.e4m3.f16")
PTX_MMA_A4_B2_F16(ptx_mma_m16n8k32_e4m3_e5m2_f16, "m16n8k32.row.col.f16.e4m3.e5m2.f16")
PTX_MMA_A4_B2_F16(ptx_mma_m16n8k32_e5m2_e4m3_f16, "m16n8k32.row.col.f16.e5m2.e4m3.f16")
PTX_MMA_A4_B2_F16(ptx_mma_m16n8k32_e5m2_e5m2_f16, "m16n8k32.row.col.f16.e5m2.e5m2.f16")
#endif

#if __CUDA_ARCH__ >= 900
PTX_STMATRIX(ptx_stmatrix_x1, "x1", "[%0], {%1}", "r"(r[0]))
PTX_STMATRIX(ptx_stmatrix_x2, "x2", "[%0], {%1, %2}", "r"(r[0]), "r"(r[1]))
PTX_STMATRIX(ptx_stmatrix_x4, "x4", "[%0], {%1, %2, %3, %4}", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]))
PTX_STMATRIX(ptx_stmatrix_x1_trans, "x1.trans", "[%0], {%1}", "r"(r[0]))
PTX_STMATRIX(ptx_stmatrix_x2_trans, "x2.trans", "[%0], {%1, %2}", "r"(r[0]), "r"(r[1]))
PTX_STMATRIX(ptx_stmatrix_x4_trans, "x4.trans", "[%0], {%1, %2, %3, %4}", "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]))
#endif

#undef PTX_REGISTERS
#undef PTX_MMA_A2_B1_F32
#undef PTX_MMA_A4_B2_F32
#undef PTX_MMA_A2_B1_F16
#undef PTX_MMA_A4_B2_F16
#undef PTX_MMA_A1_B1_S32
#undef PTX_MMA_A2_B1_S32
#undef PTX_MMA_A4_B2_S32
#undef PTX_LDMATRIX
#undef PTX_STMATRIX
#undef PTX_CP_ASYNC

#endif
