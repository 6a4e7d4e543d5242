"""Every shipped hardware profile: readable, sourced, dense, and honest about what is not known."""

import csv
from pathlib import Path

import pytest

from joulesim import catalogue, units
from joulesim.errors import InputError
from joulesim.specs.base import Spec, read_spec
from joulesim.specs.hardware import HardwareSpec

NAMES = catalogue.names("hardware")
FOLDER = catalogue.folder("hardware")
FACTS = Path(__file__).parents[3] / "shared" / "facts" / "hardware.csv"

MEMORY_KINDS = {"HBM", "HBM2", "HBM2e", "HBM3", "HBM3e", "GDDR5X", "GDDR6", "GDDR6X", "GDDR7", "LPDDR4X", "LPDDR5",
                "LPDDR5X", "DDR4", "DDR5", "SRAM"}
NEEDED = ["memory_capacity", "memory_bandwidth", "measured_memory_bandwidth", "compute_rate.fp16",
          "power_limit", "idle_power.empty", "idle_power.resident", "system.host_power",
          "system.psu_efficiency"]

PROFILES = {name: catalogue.load_hardware(name) for name in NAMES}
every = pytest.mark.parametrize("name", NAMES)


def raw(name):
    return catalogue.read_yaml(FOLDER / f"{name}.yaml")


def value_at(spec, field):
    for part in field.split("."):
        spec = spec[part] if isinstance(spec, dict) else getattr(spec, part)
    return spec


def numbers(spec, prefix=""):
    """Dotted names of the numbers that a profile states, in the specs inside it too."""
    for field in spec.model_fields_set - {"sources", "unknown"}:
        value, name = getattr(spec, field), f"{prefix}{field}"
        for key, part in value.items() if isinstance(value, dict) else [("", value)]:
            inner = f"{name}.{key}" if key else name
            if isinstance(part, Spec):
                yield from numbers(part, f"{inner}.")
            elif isinstance(part, (int, float, tuple)):
                yield inner


def test_enough_devices_of_every_kind():
    assert len(NAMES) >= 40
    assert {profile.kind for profile in PROFILES.values()} == {"gpu", "soc", "cpu", "accelerator"}
    assert {"NVIDIA", "AMD", "Apple", "Intel", "Google"} <= {profile.vendor for profile in PROFILES.values()}


@pytest.mark.parametrize("name", ["m5-pro", "rtx-5070-ti-laptop", "h100-sxm", "b200-sxm", "cpu-2core-server"])
def test_names_that_scenarios_and_claims_use(name):
    assert name in NAMES


@every
def test_name_is_the_file_name(name):
    assert raw(name)["name"] == name == name.lower()


@every
def test_says_what_it_is(name):
    profile = PROFILES[name]
    assert profile.title and profile.vendor and profile.family
    assert not profile.memory_kind or profile.memory_kind in MEMORY_KINDS


@every
def test_a_die_is_that_of_a_device_of_its_own(name):
    profile = PROFILES[name]
    if profile.same_die_as:
        other = PROFILES[profile.same_die_as]
        assert (other.family, other.process_node, other.same_die_as) == (profile.family, profile.process_node, None)


def test_memory_kind_is_unstated_only_where_nobody_knows():
    assert [name for name in NAMES if not PROFILES[name].memory_kind] == ["cpu-2core-server"]


@every
def test_every_number_has_a_source(name):
    profile = PROFILES[name]
    unsourced = [field for field in numbers(profile) if profile.source(field) is None]
    assert unsourced == []


@every
def test_every_source_is_of_a_stated_field_and_says_something(name):
    profile = PROFILES[name]
    stated = set(numbers(profile))
    for field, source in profile.sources.items():
        assert any(number == field or number.startswith(f"{field}.") for number in stated), field
        assert source.ref or source.note, field
        if source.kind in ("datasheet", "paper", "measured"):
            assert source.ref, field
        if source.kind in ("derived", "assumed"):
            assert source.note, field


@every
def test_every_needed_number_is_given_or_its_absence_explained(name):
    profile = PROFILES[name]
    for field in NEEDED:
        if value_at(profile, field) is None:
            assert len(profile.unknown.get(field, "")) > 5, field
    for mode, setting in profile.power_modes.items():
        if setting.power_limit is None:
            assert f"power_modes.{mode}.power_limit" in profile.unknown


@every
def test_no_file_has_a_bare_number(name):
    data = raw(name)
    for field in ("memory_capacity", "memory_bandwidth", "power_limit", "boost_clock", "link_bandwidth"):
        assert data.get(field) is None or isinstance(data[field], str), field
    assert all(isinstance(rate, str) for rate in data.get("compute_rate", {}).values())


@every
def test_units_survive_the_round_trip(name):
    data, profile = raw(name), PROFILES[name]
    quantities = {"memory_capacity": "byte", "memory_bandwidth": "byte/second", "power_limit": "watt",
                  "cache_capacity": "byte", "boost_clock": "hertz", "link_bandwidth": "byte/second"}
    for field, unit in quantities.items():
        if data.get(field) is not None:
            value = getattr(profile, field)
            assert value == units.parse(data[field], unit)
            assert units.parse(units.show(value, unit, digits=12), unit) == pytest.approx(value, rel=1e-11)


@every
def test_nothing_measured_exceeds_what_physics_allows(name):
    profile = PROFILES[name]
    if profile.memory_bandwidth and profile.measured_memory_bandwidth:
        assert 0.5 < profile.measured_memory_bandwidth / profile.memory_bandwidth < 1
    peak, measured = profile.compute_rate.fp16, profile.measured_compute_rate.fp16
    if peak and measured:
        # Rated boost is what the maker promises; real clocks are up to 16 % above it on GeForce.
        assert 0.3 < measured / peak < 1.17
    if profile.power_limit and profile.idle_power.empty:
        assert profile.idle_power.empty < 0.25 * profile.power_limit
    if profile.idle_power.empty and profile.idle_power.resident:
        assert profile.idle_power.empty <= profile.idle_power.resident
    if profile.power_limit_range:
        low, high = profile.power_limit_range
        assert low < high and low <= profile.power_limit <= high


# Dense peaks. A sparse figure (twice the dense one) copied by mistake breaks one of these ratios.

BLACKWELL_ULTRA = {"b300-sxm", "gb300"}             # int8 cut to a few per cent, fp4 1.5 times Blackwell's
NO_FASTER_FP8 = {"gaudi-3", "tpu-v6e"}              # fp8 runs at the rate of bf16
GEFORCE = {name for name in NAMES if name.startswith("rtx-")} - {"rtx-pro-6000-blackwell", "rtx-5000-ada", "rtx-4000-ada"}
AMD_RDNA = {"rx-7900-xtx", "ryzen-ai-max-395"}      # int8 runs at the rate of fp16


@every
def test_fp8_is_twice_fp16(name):
    rate = PROFILES[name].compute_rate
    if rate.fp8 and rate.fp16:
        assert rate.fp8 / rate.fp16 == pytest.approx(1 if name in NO_FASTER_FP8 else 2, rel=0.015)


@every
def test_int8_follows_fp16(name):
    rate = PROFILES[name].compute_rate
    if rate.int8 and rate.fp16 and name not in BLACKWELL_ULTRA:
        # GeForce halves fp16 with fp32 accumulation, not int8.
        expected = 4 if name in GEFORCE | {"groq-lpu-v1"} else 1 if name in AMD_RDNA else 2
        assert rate.int8 / rate.fp16 == pytest.approx(expected, rel=0.015)


@every
def test_fp4_follows_fp8(name):
    rate = PROFILES[name].compute_rate
    if rate.fp4 and rate.fp8:
        # fp8 with fp32 accumulation is halved on GeForce and GB10, fp4 is not.
        expected = 3 if name in BLACKWELL_ULTRA else 4 if name in GEFORCE | {"dgx-spark"} else 2
        assert rate.fp4 / rate.fp8 == pytest.approx(expected, rel=0.015)


@pytest.mark.parametrize(("name", "dense_fp16", "sparse_fp16"), [
    ("h100-sxm", 989.4, 1979), ("h200-sxm", 989.4, 1979), ("h100-pcie", 756.5, 1513),
    ("h100-nvl", 835.5, 1671),
    ("b200-sxm", 2250, 4500), ("gb200", 2500, 5000), ("a100-sxm-80gb", 312, 624), ("l4", 121, 242),
    ("l40s", 362, 733), ("rtx-4090", 165.2, 330.3), ("rtx-5090", 209.5, 419), ("mi300x", 1307.4, 2614.9),
])
def test_fp16_is_the_dense_peak_with_fp32_accumulation(name, dense_fp16, sparse_fp16):
    rate = PROFILES[name].compute_rate.fp16
    assert rate == pytest.approx(dense_fp16 * 1e12, rel=0.002)
    assert rate < 0.6 * sparse_fp16 * 1e12


@pytest.mark.parametrize(("name", "ai_tops"), [
    ("rtx-5060-ti-16gb", 759), ("rtx-5070-ti", 1406), ("rtx-5070-ti-laptop", 992), ("rtx-5090", 3352),
])
def test_ai_tops_are_sparse_fp4(name, ai_tops):
    rate = PROFILES[name].compute_rate
    assert rate.fp4 == pytest.approx(ai_tops / 2 * 1e12, rel=0.002)
    assert rate.fp16 == pytest.approx(ai_tops / 16 * 1e12, rel=0.002)


# Variants

@pytest.mark.parametrize(("one", "other", "field"), [
    ("h100-sxm", "h100-pcie", "memory_bandwidth"),
    ("h100-sxm", "h100-nvl", "memory_capacity"),
    ("h200-sxm", "h200-nvl", "power_limit"),
    ("a100-sxm-40gb", "a100-sxm-80gb", "memory_capacity"),
    ("a100-sxm-80gb", "a100-pcie-80gb", "power_limit"),
    ("a100-pcie-40gb", "a100-pcie-80gb", "memory_bandwidth"),
    ("v100-sxm2-32gb", "v100-pcie-16gb", "power_limit"),
    ("rtx-5070-ti", "rtx-5070-ti-laptop", "memory_bandwidth"),
    ("jetson-orin-nano-8gb", "jetson-orin-nano-super", "memory_bandwidth"),
    ("b200-sxm", "gb200", "power_limit"),
    ("mi300x", "mi325x", "memory_capacity"),
    ("m5-pro", "m5-max", "memory_bandwidth"),
])
def test_variants_are_apart(one, other, field):
    assert value_at(PROFILES[one], field) != value_at(PROFILES[other], field)


def test_no_two_profiles_have_the_same_numbers():
    fields = ("memory_capacity", "memory_bandwidth", "power_limit", "compute_rate")
    numbers_of = [tuple(getattr(profile, field) for field in fields) for profile in PROFILES.values()]
    assert all(numbers_of.count(one) == 1 for one in numbers_of)


# Boundaries and power modes

def test_discrete_cards_are_stated_at_the_board_and_packages_at_the_chip():
    for name, profile in PROFILES.items():
        if profile.kind == "gpu":
            assert profile.boundary == "board", name
        if profile.vendor == "Apple" or name.startswith(("epyc", "xeon", "ryzen", "core")):
            assert profile.boundary == "chip", name


def test_wall_power_is_no_idle_power_of_a_chip():
    for name, profile in PROFILES.items():
        if profile.vendor == "Apple":
            assert profile.idle_power.empty is None and profile.power_limit is None, name
    assert "wall" in PROFILES["m4"].unknown["idle_power.empty"]


@pytest.mark.parametrize("name", ["rtx-5070-ti-laptop", "rtx-4070-laptop"])
def test_a_laptop_has_a_mode_for_mains_and_one_for_battery(name):
    profile = PROFILES[name]
    assert profile.power_modes["ac"].power_limit == profile.power_limit
    battery = profile.power_modes["battery"].power_limit
    assert battery < profile.power_limit if battery else "battery" in profile.why_unknown("power_modes.battery.power_limit")


@pytest.mark.parametrize(("name", "mode", "power"), [
    ("h100-sxm", "maxq-450w", 450), ("h200-sxm", "maxq-500w", 500), ("h100-pcie", "maxq-200w", 200),
    ("b200-sxm", "dgx-700w", 700), ("rtx-pro-6000-blackwell", "max-q", 300),
    ("ryzen-ai-max-395", "120w", 120),
    ("jetson-agx-orin-64gb", "15w", 15), ("jetson-thor-t5000", "40w", 40),
])
def test_power_modes(name, mode, power):
    assert PROFILES[name].power_modes[mode].power_limit == power


def test_host_power_of_an_h100_node_is_its_cpus_and_memory_over_eight():
    assert PROFILES["h100-sxm"].system.host_power == pytest.approx((536 + 10) / 8, abs=0.5)


# What a writer of a profile gets wrong

def test_a_bare_number_is_refused():
    with pytest.raises(InputError, match=r"memory_bandwidth: expected byte/second, got the bare number"):
        read_spec(HardwareSpec, raw("h100-sxm") | {"memory_bandwidth": 3.35e12}, "new.yaml")


def test_bits_are_asked_back():
    with pytest.raises(InputError, match=r"did you mean '3.35 TB/s'"):
        read_spec(HardwareSpec, raw("h100-sxm") | {"memory_bandwidth": "3.35 Tb/s"}, "new.yaml")


def test_a_reason_beside_a_value_is_refused():
    with pytest.raises(InputError, match=r"unknown.power_limit: expected no reason, the field has a value"):
        read_spec(HardwareSpec, raw("h100-sxm") | {"unknown": {"power_limit": "not found"}}, "new.yaml")


def test_a_misspelt_field_gets_its_name():
    with pytest.raises(InputError, match=r"Did you mean memory_bandwidth"):
        read_spec(HardwareSpec, raw("h100-sxm") | {"memory_bandwith": "3.35 TB/s"}, "new.yaml")


# The table of facts that the profiles were made from, where it is at hand

IN_FACTS = {
    "a100-pcie-40gb": "A100 PCIe 40GB", "a100-pcie-80gb": "A100 PCIe 80GB",
    "a100-sxm-40gb": "A100 SXM4 40GB", "a100-sxm-80gb": "A100 SXM4 80GB", "arc-b580": "Arc B580",
    "b200-sxm": "B200 SXM 180GB (HGX)", "b300-sxm": "B300 SXM 288GB (HGX)",
    "core-i7-12700h": "Core i7-12700H", "dgx-spark": "DGX Spark (GB10)", "epyc-9654": "EPYC 9654 (1 socket)",
    "epyc-9754": "EPYC 9754 (1 socket)", "gaudi-3": "Gaudi 3 (OAM HL-325L)",
    "gb200": "GB200 (per GPU, NVL72)", "gb300": "GB300 (per GPU, NVL72)", "graviton4": "AWS Graviton4",
    "groq-lpu-v1": "Groq LPU v1 (GroqCard)", "h100-nvl": "H100 NVL 94GB", "h100-pcie": "H100 PCIe 80GB",
    "h100-sxm": "H100 SXM5 80GB", "h200-nvl": "H200 NVL 141GB", "h200-sxm": "H200 SXM 141GB",
    "jetson-agx-orin-64gb": "Jetson AGX Orin 64GB",
    "jetson-orin-nano-8gb": "Jetson Orin Nano 8GB (original)",
    "jetson-orin-nano-super": "Jetson Orin Nano Super 8GB", "jetson-thor-t5000": "Jetson Thor T5000",
    "l4": "L4", "l40s": "L40S", "m1": "M1 (8-core GPU)", "m1-max": "M1 Max (32-core GPU)",
    "m2-ultra": "M2 Ultra (76-core GPU)", "m3-max": "M3 Max (40-core GPU)",
    "m3-ultra": "M3 Ultra (80-core GPU)", "m4": "M4 (10-core GPU)", "m4-max": "M4 Max (40-core GPU)",
    "m4-pro": "M4 Pro (20-core GPU)", "m5": "M5 (10-core GPU)", "m5-max": "M5 Max (40-core GPU)",
    "m5-pro": "M5 Pro (20-core GPU)", "mi300x": "Instinct MI300X", "mi325x": "Instinct MI325X",
    "mi355x": "Instinct MI355X", "raspberry-pi-5": "Raspberry Pi 5 (BCM2712)",
    "rtx-3060-12gb": "GeForce RTX 3060 12GB", "rtx-3090": "GeForce RTX 3090",
    "rtx-4060-ti-16gb": "GeForce RTX 4060 Ti 16GB", "rtx-4070-laptop": "GeForce RTX 4070 Laptop 8GB",
    "rtx-4090": "GeForce RTX 4090", "rtx-5060-ti-16gb": "GeForce RTX 5060 Ti 16GB",
    "rtx-5070-ti": "GeForce RTX 5070 Ti (desktop)", "rtx-5070-ti-laptop": "GeForce RTX 5070 Ti Laptop 12GB",
    "rtx-5090": "GeForce RTX 5090", "rtx-pro-6000-blackwell": "RTX PRO 6000 Blackwell 96GB",
    "rx-7900-xtx": "Radeon RX 7900 XTX", "ryzen-9-7950x": "Ryzen 9 7950X",
    "ryzen-ai-max-395": "Ryzen AI Max+ 395 (Strix Halo, Radeon 8060S)", "t4": "T4", "tpu-v5e": "TPU v5e",
    "tpu-v5p": "TPU v5p", "tpu-v6e": "TPU v6e (Trillium)", "tpu-v7": "TPU v7 (Ironwood)",
    "v100-pcie-16gb": "V100 PCIe 16GB", "v100-sxm2-32gb": "V100 SXM2 32GB", "wse-3": "Cerebras WSE-3 (CS-3)",
    "xeon-8480-plus": "Xeon Platinum 8480+ (1 socket)",
}
COLUMNS = {
    "memory_capacity": "memory_bytes", "memory_bandwidth": "memory_bandwidth_bytes_s",
    "measured_memory_bandwidth": "measured_bandwidth_bytes_s", "cache_capacity": "llc_bytes",
    "compute_rate.fp32": "flops_fp32", "compute_rate.tf32": "flops_tf32",
    "compute_rate.fp16": "flops_fp16_bf16", "compute_rate.int8": "ops_int8", "compute_rate.fp8": "flops_fp8",
    "compute_rate.fp4": "flops_fp4", "measured_compute_rate.fp16": "measured_matmul_bf16_flops",
    "measured_compute_rate.fp8": "measured_matmul_fp8_flops", "power_limit": "tdp_w",
    "idle_power.empty": "idle_w", "idle_power.resident": "idle_resident_w", "base_clock": "base_clock_hz",
    "boost_clock": "boost_clock_hz", "link_bandwidth": "nvlink_or_fabric_bytes_s_per_direction",
    "launch_year": "launch_year",
}
DIFFERENT_ON_PURPOSE = {
    ("dgx-spark", "link_bandwidth"),            # the table has the link between its own CPU and GPU
    ("dgx-spark", "idle_power.empty"),          # of the GPU rail, not of the package
    ("ryzen-ai-max-395", "base_clock"),         # of the CPU, beside a boost clock of the GPU
    ("jetson-orin-nano-super", "idle_power.empty"),  # of a board trimmed for low power
    ("arc-b580", "idle_power.empty"),           # of another card
    ("m4", "idle_power.empty"), ("m4-max", "idle_power.empty"),  # at the wall
}


@pytest.mark.skipif(not FACTS.exists(), reason="the table of facts is not part of the repository")
@pytest.mark.parametrize("name", sorted(IN_FACTS))
def test_agrees_with_the_table_of_facts(name):
    with FACTS.open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["name"] == IN_FACTS[name])
    for field, column in COLUMNS.items():
        value = value_at(PROFILES[name], field)
        if (name, field) in DIFFERENT_ON_PURPOSE:
            assert value is None or value != float(row[column])
        elif row[column]:
            assert value == pytest.approx(float(row[column]), rel=1e-3), field


@pytest.mark.skipif(not FACTS.exists(), reason="the table of facts is not part of the repository")
def test_no_device_of_the_table_of_facts_is_missing():
    with FACTS.open(encoding="utf-8", newline="") as file:
        assert {row["name"] for row in csv.DictReader(file)} == set(IN_FACTS.values())
    assert set(NAMES) - set(IN_FACTS) == {  # of published tables, and this machine
        "cpu-2core-server", "gh200", "gtx-1080", "gtx-1080-ti", "h20", "m1-pro", "rtx-4000-ada", "rtx-4090-laptop",
        "rtx-4090d", "rtx-5000-ada", "rtx-5060-laptop"}
