"""Intrinsics of TIR: one record each (:mod:`.declaration`), in one file per family; :mod:`ir.tir.op` gathers their builders."""
