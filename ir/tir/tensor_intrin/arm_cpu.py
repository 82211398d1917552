"""Dot products of bytes on ARM: four lanes of four products each (``sdot``, ``udot``, or what NEON has in their place)."""

from .dot_product_common import register_dot_product

ARM_DOT_4x4_i8_NEON_INTRIN = register_dot_product("dot_4x4_i8i8s32_neon", 4, "int8", "int8")
ARM_DOT_4x4_i8_SDOT_INTRIN = register_dot_product("dot_4x4_i8i8s32_sdot", 4, "int8", "int8")
ARM_DOT_4x4_u8_HDOT_INTRIN = register_dot_product("dot_4x4_u8u8i32_hdot", 4, "uint8", "uint8")
