// What sm_90 does beside its threads, as device functions: barriers that count bytes, copies by the engine for tensors, and what stands
// around products of warp groups. Generated kernels call these names; emulation/warp_groups.h defines the same ones for the CPU, where
// __CUDA_ARCH__ is not defined and this file is empty.
//
// ptx_init_barrier_thread_count(barrier, count), ptx_arrive_barrier(barrier), ptx_arrive_barrier_expect_tx(barrier, bytes),
// ptx_wait_barrier(barrier, parity): mbarrier.init, .arrive, .arrive.expect_tx and .try_wait.parity in a loop, of a barrier in shared memory.
// ptx_fence_proxy_async(): what this thread wrote to shared memory is there for copies and products that are begun later.
//
// ptx_cp_async_bulk(shared, global, bytes, barrier): begins to copy so many bytes; addresses and bytes are multiples of 16.
// ptx_cp_async_bulk_tensor_{1,2,3,4,5}d(shared, map, barrier, coordinates from the innermost dimension to the outermost one).
//
// ptx_wgmma_descriptor(operand, leading, stride, swizzle): the descriptor of an operand in shared memory; distances and the swizzle's width
// in bytes. The bits of the swizzle keep it from being zero: NVRTC 12.9 ends its process at a descriptor that is the constant zero.
// ptx_wgmma_fence(), ptx_wgmma_commit_group(), ptx_wgmma_wait_group<n>(): wgmma.fence, .commit_group, .wait_group.
#pragma once

#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned ptx_shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
__device__ __forceinline__ void ptx_init_barrier_thread_count(void* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(ptx_shared_address(barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void ptx_arrive_barrier(void* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(ptx_shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void ptx_arrive_barrier_expect_tx(void* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               : : "r"(ptx_shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void ptx_wait_barrier(void* barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done) : "r"(ptx_shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);
}
__device__ __forceinline__ void ptx_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

__device__ __forceinline__ void ptx_cp_async_bulk(void* shared, const void* global, unsigned bytes, void* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               : : "r"(ptx_shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(ptx_shared_address(barrier))
               : "memory");
}
__device__ __forceinline__ void ptx_cp_async_bulk_tensor_1d(void* shared, const void* map, void* barrier, int x) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
               : : "r"(ptx_shared_address(shared)), "l"(map), "r"(ptx_shared_address(barrier)), "r"(x) : "memory");
}
__device__ __forceinline__ void ptx_cp_async_bulk_tensor_2d(void* shared, const void* map, void* barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               : : "r"(ptx_shared_address(shared)), "l"(map), "r"(ptx_shared_address(barrier)), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void ptx_cp_async_bulk_tensor_3d(void* shared, const void* map, void* barrier, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
               : : "r"(ptx_shared_address(shared)), "l"(map), "r"(ptx_shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory");
}
__device__ __forceinline__ void ptx_cp_async_bulk_tensor_4d(void* shared, const void* map, void* barrier, int x, int y, int z, int v) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
               : : "r"(ptx_shared_address(shared)), "l"(map), "r"(ptx_shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(v)
               : "memory");
}
__device__ __forceinline__ void ptx_cp_async_bulk_tensor_5d(void* shared, const void* map, void* barrier, int x, int y, int z, int v, int w) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
               : : "r"(ptx_shared_address(shared)), "l"(map), "r"(ptx_shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(v), "r"(w)
               : "memory");
}

__device__ __forceinline__ unsigned long long ptx_wgmma_descriptor(const void* operand, unsigned leading, unsigned stride, unsigned swizzle) {
  const unsigned long long layout = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return (unsigned long long)((ptx_shared_address(operand) & 0x3FFFF) >> 4) | (unsigned long long)(leading >> 4 & 0x3FFF) << 16 |
         (unsigned long long)(stride >> 4 & 0x3FFF) << 32 | layout << 62;
}
__device__ __forceinline__ void ptx_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
__device__ __forceinline__ void ptx_wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int groups>
__device__ __forceinline__ void ptx_wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(groups) : "memory");
}

#endif
#endif
