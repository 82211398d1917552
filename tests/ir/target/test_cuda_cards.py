"""Tags of cards: every form of a name, and numbers that a data sheet could have."""

from __future__ import annotations

import pytest

from ir.target import Target, list_tags
from ir.target.gpu_facts import MultiprocessorFacts

CARDS = sorted(name for name in list_tags() if name.startswith("nvidia/"))
# Peak of float32 in 10^12 operations per second, from the data sheets: a check of multiprocessors, lanes and clock together.
TERAFLOPS = {
    "tesla-p4": 5.5, "tesla-p40": 12.0, "tesla-p100": 10.6, "tesla-v100": 15.7, "tesla-t4": 8.1, "nvidia-a10": 31.2, "nvidia-a10g": 35.0,
    "nvidia-a30": 10.3, "nvidia-a40": 37.4, "nvidia-a100": 19.5, "nvidia-l4": 30.3, "nvidia-l40": 90.5, "nvidia-l40s": 91.6,
    "nvidia-h100": 67.0, "nvidia-h100-pcie": 51.0, "nvidia-h100-nvl": 60.0, "nvidia-h200": 67.0, "nvidia-b200": 75.0, "rtx-a4000": 19.2,
    "rtx-a5000": 27.8, "rtx-a6000": 38.7, "geforce-gtx-1080-ti": 11.3, "geforce-rtx-2070": 7.5, "geforce-rtx-2080": 10.1,
    "geforce-rtx-2080-ti": 13.4, "geforce-rtx-3060": 12.7, "geforce-rtx-3070": 20.3, "geforce-rtx-3080": 29.8, "geforce-rtx-3090": 35.6,
    "geforce-rtx-4070-ti": 40.1, "geforce-rtx-4080": 48.7, "geforce-rtx-4090": 82.6, "geforce-rtx-5080": 56.3, "geforce-rtx-5090": 104.8,
    "jetson-nano": 0.236, "jetson-agx-xavier": 1.41, "jetson-agx-orin-64gb": 5.3, "jetson-agx-orin-32gb": 3.3, "jetson-orin-nano": 1.28,
}  # fmt: skip


def test_the_fields_names_and_short_ones_are_there():
    long = (
        "nvidia-h200 nvidia-h100 nvidia-a100 rtx-a6000 geforce-rtx-4090 geforce-rtx-4080 geforce-rtx-4070-ti"
        " geforce-rtx-3090 geforce-rtx-3080 geforce-rtx-3070 geforce-rtx-3060 geforce-rtx-2080"
        " geforce-rtx-2080-ti geforce-rtx-2070 geforce-gtx-1080-ti tesla-t4 nvidia-t4 tesla-v100 nvidia-v100"
        " tesla-k80 jetson-agx-orin-64gb jetson-agx-orin-32gb jetson-orin-nano jetson-agx-xavier jetson-nano"
    )
    short = (
        "h200 h100 a10 a10g a30 a40 a6000 l4 l40 l40s gtx-1080-ti v100 p100 p4 p40 k80 rtx-5090 rtx-5080 b200"
    )
    for name in (f"nvidia/{item}" for item in [*long.split(), *short.split()]):
        assert Target(name).tag == name


@pytest.mark.parametrize("name", TERAFLOPS)
def test_multiprocessors_lanes_and_clock_give_the_data_sheets_peak(name: str):
    target = Target(f"nvidia/{name}")
    peak = 2 * target.multi_processor_count * target.multiprocessor.float32_lanes * target.clock_mhz / 1e6
    assert peak == pytest.approx(TERAFLOPS[name], rel=0.03)


@pytest.mark.parametrize("name", CARDS)
def test_every_card_survives_its_text_and_json(name: str):
    target = Target(name, host="llvm -mcpu=znver3 -mattr=+avx2,-fma")
    assert Target(str(target)) == target and Target(target.export()) == target
    assert Target(target.without_host().export()) == Target(name)


@pytest.mark.parametrize("name", CARDS)
def test_every_card_has_what_its_architecture_has(name: str):
    target = Target(name)
    facts = target.multiprocessor
    assert isinstance(facts, MultiprocessorFacts) and target.compute_capability is not None
    assert target.max_shared_memory_per_block == 49152 <= target.max_shared_memory_per_block_optin
    assert target.max_shared_memory_per_block_optin <= target.shared_memory_per_multiprocessor
    assert target.registers_per_block <= facts.registers and target.max_num_threads <= facts.threads
    assert 20 < target.memory_gb_per_s < 10_000 and 500 < target.clock_mhz < 3000
    assert target.l2_cache_bytes == target.attrs["l2_cache_size_bytes"] >= 256 << 10


def test_what_a_card_has_is_asked_of_the_target():
    h200, t4, nano = Target("nvidia/h200"), Target("nvidia/tesla-t4"), Target("nvidia/jetson-nano")
    assert (h200.compute_capability, t4.compute_capability) == ((9, 0), (7, 5))
    assert (h200.max_shared_memory_per_block_optin, t4.max_shared_memory_per_block_optin) == (
        227 << 10,
        64 << 10,
    )
    assert (h200.shared_memory_per_multiprocessor, h200.multiprocessor.threads) == (228 << 10, 2048)
    assert nano.registers_per_block == 32768
