"""Threads, tensor cores, asynchronous copies and textures of GPUs.

Lowering for a CPU refuses them: a schedule that makes such calls is for a GPU.
"""

from __future__ import annotations

from typing import Any

from ..expr import Call
from ..operators import const, convert
from .declaration import CallEffectKind, call, intrinsic, primitive, second


def _given(*arguments: Any) -> list[Any]:
    """The optional arguments that are there."""
    return [item for item in arguments if item is not None]


# ---- threads -----------------------------------------------------------------------------------------------------


@intrinsic(
    arity=(1, 3),
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    lowering={"llvm": lambda node: const(0), "cuda": primitive},  # on a CPU one thread runs all of it
)
def tvm_storage_sync(scope: str, *details: Any) -> Call:
    """Wait until all threads that share a storage scope have come here."""
    return call("tvm_storage_sync", scope, *details)


@intrinsic(arity=(1, None), result="handle", effect=CallEffectKind.UPDATE_STATE)
def tvm_thread_allreduce(*freduce_args: Any) -> Call:
    """Reduce values over the threads of a block: ``(size, values..., condition, results..., thread variables...)``."""
    return call("tvm_thread_allreduce", *[convert(item) for item in freduce_args])


@intrinsic(
    arity=1,
    result="bool",
    meaning=lambda x: x,
    elementwise=True,
    lowering={"default": lambda node: node.args[0]},
)
def tvm_thread_invariant(cond: Any) -> Call:
    """Mark a condition as the same for all threads of a block."""
    return call("tvm_thread_invariant", cond)


@intrinsic(arity=5, result=second, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any, warp_size: Any) -> Call:
    """The value that another thread of the warp has."""
    return call("tvm_warp_shuffle", mask, value, warp_id, width, warp_size)


@intrinsic(arity=5, result=second, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Call:
    """The value of the thread ``offset`` before this one."""
    return call("tvm_warp_shuffle_up", mask, value, offset, width, warp_size)


@intrinsic(arity=5, result=second, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_warp_shuffle_down(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Call:
    """The value of the thread ``offset`` behind this one."""
    return call("tvm_warp_shuffle_down", mask, value, offset, width, warp_size)


@intrinsic(arity=5, result=second, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_warp_shuffle_xor(mask: Any, value: Any, lane_mask: Any, width: Any, warp_size: Any) -> Call:
    """The value of the thread whose lane differs from this one's in the bits of ``lane_mask``."""
    return call("tvm_warp_shuffle_xor", mask, value, lane_mask, width, warp_size)


@intrinsic(arity=0, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_warp_activemask() -> Call:
    """The mask of the threads of the warp that run."""
    return call("tvm_warp_activemask")


@intrinsic(arity=2, result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def atomic_add(dtype: str, address: Any, value: Any) -> Call:
    """Add to the number at an address in one step; the number before."""
    return call("atomic_add", address, value, dtype=dtype)


# ---- tensor cores ------------------------------------------------------------------------------------------------


@intrinsic(arity=8, result="handle", effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_load_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: str
) -> Call:
    """Load a fragment of a matrix into registers of tensor cores."""
    return call("tvm_load_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


@intrinsic(arity=8, result="handle", effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_store_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: str
) -> Call:
    """Store a fragment of a matrix from registers of tensor cores."""
    return call("tvm_store_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


@intrinsic(arity=8, result="handle", effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_mma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """``d = a @ b + c`` on fragments."""
    return call(
        "tvm_mma_sync", fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c
    )


@intrinsic(arity=8, result="handle", effect=CallEffectKind.UPDATE_STATE)
def tvm_bmma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """``d = a @ b + c`` on fragments of bits."""
    return call(
        "tvm_bmma_sync", fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c
    )


@intrinsic(arity=6, result="handle", effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def tvm_fill_fragment(fragment: Any, m: Any, n: Any, k: Any, index: Any, value: Any) -> Call:
    """Fill a fragment with a value."""
    return call("tvm_fill_fragment", fragment, m, n, k, index, value)


@intrinsic(arity=(13, 14), result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def ptx_mma(
    dtype: str,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: str,
    B_dtype: str,
    C_dtype: str,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    saturate: Any,
    operator: Any = None,
) -> Call:
    """The PTX instruction ``mma``: a product of matrices that a warp's registers hold."""
    return call(
        "ptx_mma",
        shape,
        A_layout,
        B_layout,
        A_dtype,
        B_dtype,
        C_dtype,
        multiplicand_a,
        a_index,
        multiplicand_b,
        b_index,
        accumulator,
        c_index,
        saturate,
        *_given(operator),
        dtype=dtype,
    )


@intrinsic(arity=16, result=None, effect=CallEffectKind.UPDATE_STATE)
def ptx_mma_sp(
    dtype: str,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: str,
    B_dtype: str,
    C_dtype: str,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    metadata: Any,
    meta_index: Any,
    sparse_selector: Any,
    saturate: Any,
) -> Call:
    """The PTX instruction ``mma.sp``: the first matrix is sparse."""
    return call(
        "ptx_mma_sp",
        shape,
        A_layout,
        B_layout,
        A_dtype,
        B_dtype,
        C_dtype,
        multiplicand_a,
        a_index,
        multiplicand_b,
        b_index,
        accumulator,
        c_index,
        metadata,
        meta_index,
        sparse_selector,
        saturate,
        dtype=dtype,
    )


@intrinsic(arity=7, result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def ptx_ldmatrix(
    dtype: str,
    trans: Any,
    num: Any,
    type: Any,
    local_ptr: Any,
    local_offset: Any,
    smem_ptr: Any,
    smem_offset: Any,
) -> Call:
    """The PTX instruction ``ldmatrix``: matrices from shared memory to registers."""
    return call("ptx_ldmatrix", trans, num, type, local_ptr, local_offset, smem_ptr, smem_offset, dtype=dtype)


@intrinsic(arity=7, result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def ptx_stmatrix(
    dtype: str,
    trans: Any,
    num: Any,
    type: Any,
    smem_ptr: Any,
    smem_offset: Any,
    local_ptr: Any,
    local_offset: Any,
) -> Call:
    """The PTX instruction ``stmatrix``: matrices from registers to shared memory."""
    return call("ptx_stmatrix", trans, num, type, smem_ptr, smem_offset, local_ptr, local_offset, dtype=dtype)


@intrinsic(arity=6, result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def mma_store(
    dtype: str, m: Any, n: Any, dst_ptr: Any, src_ptr: Any, src_offset: Any, dst_stride: Any
) -> Call:
    """Store the result of :func:`ptx_mma` from a warp's registers."""
    return call("mma_store", m, n, dst_ptr, src_ptr, src_offset, dst_stride, dtype=dtype)


@intrinsic(arity=3, result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def mma_fill(dtype: str, local_size: Any, local_ptr: Any, offset: Any) -> Call:
    """Set the registers of an accumulator of :func:`ptx_mma` to zero."""
    return call("mma_fill", local_size, local_ptr, offset, dtype=dtype)


# ---- asynchronous copies, textures -------------------------------------------------------------------------------


@intrinsic(arity=(5, 6), result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def ptx_cp_async(
    dtype: str,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: Any,
    predicate: Any = None,
) -> Call:
    """Begin to copy bytes from global to shared memory."""
    return call(
        "ptx_cp_async",
        shared_ptr,
        shared_offset,
        global_ptr,
        global_offset,
        bytes,
        *_given(predicate),
        dtype=dtype,
    )


@intrinsic(arity=0, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def ptx_commit_group() -> Call:
    """Make a group of the copies that were begun."""
    return call("ptx_commit_group")


@intrinsic(arity=1, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def ptx_wait_group(num: Any) -> Call:
    """Wait until at most ``num`` groups of copies are under way."""
    return call("ptx_wait_group", num)


@intrinsic(arity=4, result="handle", effect=CallEffectKind.UPDATE_STATE)
def ptx_ldg32(register: Any, guard: Any, value: Any, index: Any) -> Call:
    """Load a float32 where a condition holds, else zero, in one instruction, to element ``index`` at the address ``register``.

    Args:
        register: the address that is written.
        guard: the condition; where it does not hold, nothing is read.
        value: the element of global memory to load, which nobody writes while the kernel runs.
        index: of the element that is written.
    """
    return call("ptx_ldg32", register, guard, value, index)


@intrinsic(arity=(1, None), result=None, effect=CallEffectKind.UPDATE_STATE)
def texture2d_load(dtype: str, *args: Any) -> Call:
    """Load a texel: the texture and its coordinates."""
    return call("texture2d_load", *args, dtype=dtype)


@intrinsic(arity=(1, None), result="handle", effect=CallEffectKind.UPDATE_STATE)
def texture2d_store(*args: Any) -> Call:
    """Store a texel: the texture, its coordinates, the value."""
    return call("texture2d_store", *args)


# ---- launches ----------------------------------------------------------------------------------------------------


@intrinsic(
    arity=(9, None),
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    foreign=True,
    lowering={"llvm": primitive},
)
def launch_kernel(
    queue: Any,
    kernel: Any,
    grid_x: Any,
    grid_y: Any,
    grid_z: Any,
    block_x: Any,
    block_y: Any,
    block_z: Any,
    shared_bytes: Any,
    *args: Any,
) -> Call:
    """Start a kernel on the device that a host function was given a queue of, behind what the queue was given before.

    Args:
        queue: the address of a queue, see :mod:`ir.codegen.llvm.launch`.
        kernel: its number among the kernels of the queue.
        grid_x, grid_y, grid_z: how many blocks of threads.
        block_x, block_y, block_z: how many threads each of them has.
        shared_bytes: dynamic shared memory of a block.
        args: what the kernel is given, in the dtypes of its parameters.
    """
    given = (queue, kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, *args)
    return call("launch_kernel", *[convert(item) for item in given])


@intrinsic(
    arity=(9, 21),
    result="handle",
    effect=CallEffectKind.UPDATE_STATE,
    foreign=True,
    lowering={"llvm": primitive},
)
def encode_tensor_map(
    queue: Any,
    kind: Any,
    address: Any,
    interleave: Any,
    swizzle: Any,
    promotion: Any,
    fill: Any,
    *layout: Any,
) -> Call:
    """The address of a tensor map that the driver of a queue's device makes, which lasts as long as the function runs.

    Args:
        queue: the address of a queue, see :mod:`ir.codegen.llvm.launch`.
        kind, interleave, swizzle, promotion, fill: of the map, as CUDA's driver counts them.
        address: of the tensor's first element.
        layout: the shape, the strides in bytes of all but the innermost dimension, and the box, each from the innermost dimension to the
            outermost one.
    """
    given = (queue, kind, address, interleave, swizzle, promotion, fill, *layout)
    return call("encode_tensor_map", *[convert(item) for item in given])
