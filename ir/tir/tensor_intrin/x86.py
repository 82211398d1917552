"""Dot products of bytes on x86: sixteen lanes of four products each (VNNI's ``vpdpbusd``, or what AVX-512 has in its place)."""

from .dot_product_common import register_dot_product

VNNI_DOT_16x4_INTRIN = register_dot_product("dot_16x4_vnni", 16, "uint8", "int8")
AVX512_DOT_16x4_INTRIN = register_dot_product("dot_16x4_avx512", 16, "uint8", "int8")
