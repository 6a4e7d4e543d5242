"""One loader finds shipped data, files and inline mappings, and stays calm on bad files."""

import time

import pytest

import joulesim as js
from joulesim import catalogue
from joulesim.errors import InputError, NotFoundError

PROFILE = "title: x\nvendor: NVIDIA\nmemory_kind: HBM3\nmemory_bandwidth: 1 TB/s\nsources: {memory_bandwidth: {kind: datasheet, ref: x}}\n"


def write(tmp_path, text, name="mine.yaml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_data_lie_beside_the_package():
    root = catalogue.data_root()
    assert all((root / part).is_dir() for part in ("hardware", "scenarios", "validation"))


@pytest.mark.parametrize("kind", ["hardware", "scenario", "model", "format", "runtime"])
def test_every_shipped_name_is_found(kind):
    for name in catalogue.names(kind):
        assert catalogue.locate(kind, name).stem == name


@pytest.mark.parametrize("name", catalogue.names("format"))
def test_every_format_loads_and_has_its_aliases(name):
    spec = js.load_format(name)
    assert spec.name == name
    for alias in (*spec.aliases, name.upper()):
        assert js.load_format(alias).name == name


@pytest.mark.parametrize("name", catalogue.names("runtime"))
def test_every_runtime_loads_and_has_sources(name):
    spec = js.load_runtime(name)
    for part in ("memory", "overheads"):
        given = catalogue.read_yaml(catalogue.folder("runtime") / f"{name}.yaml").get(part, {})
        for field, value in given.items():
            if isinstance(value, str) and any(c.isdigit() for c in value):
                assert spec.source(f"{part}.{field}"), f"{name}: {part}.{field}"


@pytest.mark.parametrize("name", catalogue.names("model"))
def test_every_model_loads_and_names_its_source(name):
    spec = js.load_model(name)
    assert spec.name == name and spec.parameters > 0 and spec.source


BROKEN = [
    ("", "expected a mapping of fields, got None"),
    ("- a\n- b\n", "expected a mapping of fields, got ['a', 'b']"),
    ("just text\n", "expected a mapping of fields, got 'just text'"),
    ("a: [1\n", "not YAML"),
    ("a: 1\na: 2\n", "line 1: the key 'a' stands twice; remove one of them"),
    ("memory_bandwidth: 1 TB/s\ncompute_rate:\n  fp16: 1 TFLOP/s\n  fp16: 2 TFLOP/s\n", "line 3: the key 'fp16' stands twice"),
    ("\tx: 1\n", "not YAML"),
    (b"\xff\xfe\x00x", "not YAML"),
    (b"a: \x00\n", "not YAML"),
    ("a: !!python/object/apply:os.system ['true']\n", "not YAML"),
    ("a: &x [*x]\n", "not YAML (found unconstructable recursive node)"),
    ("? [1, 2]\n: 3\n", "not YAML"),
    ("? {a: 1}\n: 3\n", "not YAML"),
    ("5: 3\n", "5: no such field"),
    ("null: 3\n", "None: no such field"),
    ("<<: {memory_bandwith: 1}\n", "Did you mean memory_bandwidth?"),
    ("--- {a: 1}\n--- {b: 1}\n", "not YAML"),
    ("a: " + "[" * 5000 + "]" * 5000 + "\n", "mine.yaml"),
    ("memory_bandwidth: 2026-01-01\n", "expected byte/second, got datetime.date"),
]


@pytest.mark.parametrize("text, message", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_one_line(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match="mine.yaml") as caught:
        js.load_hardware(path)
    assert message in str(caught.value)
    assert all("\n" not in str(fault) for fault in caught.value.faults)


def test_aliases_that_multiply_stay_bounded(tmp_path):
    """Ten levels of ten references name 10^10 things; nothing may walk through them."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    path = write(tmp_path, "\n".join(lines) + "\n" + "memory_bandwidth: *a9\n")
    started = time.process_time()
    with pytest.raises(InputError, match="expected at most 1000000 entries, got more by aliases of aliases") as caught:
        js.load_hardware(path)
    assert time.process_time() - started < 2
    assert all(len(str(fault)) < 500 for fault in caught.value.faults)


def test_a_huge_file_is_not_read(tmp_path):
    path = write(tmp_path, b"a: 1\n" * 1_000_000)
    with pytest.raises(InputError, match="expected a file of at most 4194304 bytes, got 5000000"):
        js.load_hardware(path)


def test_a_folder_in_place_of_a_file(tmp_path):
    (tmp_path / "x.yaml").mkdir()
    with pytest.raises(NotFoundError, match="expected a hardware file, found none"):
        js.load_hardware(tmp_path / "x.yaml")


def test_a_profile_file_by_path_takes_its_name_from_the_file(tmp_path):
    assert js.load_hardware(write(tmp_path, PROFILE)).name == "mine"


def test_a_profile_file_may_start_from_a_shipped_or_neighbouring_one(tmp_path):
    write(tmp_path, "base: h100-sxm\npower_limit: 500 W\n", "one.yaml")
    two = write(tmp_path, "base: ./one.yaml\nmemory_bandwidth: 1 TB/s\n", "two.yaml")
    found, shipped = js.load_hardware(two), js.load_hardware("h100-sxm")
    assert (found.name, found.power_limit, found.memory_bandwidth) == ("two", 500.0, 1e12)
    assert found.compute_rate == shipped.compute_rate


def test_a_profile_that_starts_from_itself_is_refused(tmp_path):
    path = write(tmp_path, "base: ./mine.yaml\n")
    with pytest.raises(InputError, match="mine.yaml: base: .*itself"):
        js.load_hardware(path)


def test_profiles_that_start_from_each_other_are_refused(tmp_path):
    write(tmp_path, "base: ./b.yaml\n", "a.yaml")
    path = write(tmp_path, "base: ./a.yaml\n", "b.yaml")
    with pytest.raises(InputError, match="base: .*itself"):
        js.load_hardware(path)


@pytest.mark.parametrize("base", [5, [], "zzz"])
def test_a_base_that_is_nothing(base):
    with pytest.raises(InputError, match="hardware"):
        js.load_hardware({"base": base})


@pytest.mark.parametrize("data, message", [
    ({"config": 5}, "model: config: expected a mapping, got 5"),
    ({}, "model: config: expected a value, got nothing; add it"),
    ({"confg": {}}, "Did you mean config?"),
    ({"config": {}, "sources": {"config": {"kind": "x"}}}, "sources.config.kind: expected 'datasheet'"),
    ({"config": {}, "sources": 5}, "sources"),
])
def test_a_model_mapping_that_is_wrong(data, message):
    with pytest.raises(InputError, match=".") as caught:
        js.load_model(data)
    assert message in str(caught.value)


@pytest.mark.parametrize("load, name, message", [
    (js.load_hardware, "h100sxm", "hardware 'h100sxm': no such hardware. Did you mean h100-sxm?"),
    (js.load_runtime, "vlllm", "runtime 'vlllm': no such runtime. Did you mean vllm?"),
    (js.load_format, "nvfp", "format 'nvfp': no such format. Did you mean nvfp4?"),
    (js.load_model, "qwen3-8", "model 'qwen3-8': no such model. Did you mean qwen3-8b?"),
    (js.load_model, "no/config.json", "no/config.json: expected a model file, found none"),
    (js.load_hardware, "", "hardware ''"),
    (js.load_hardware, "\0", "hardware"),
])
def test_a_misspelt_name_is_asked_back(load, name, message):
    with pytest.raises(NotFoundError, match=".") as caught:
        load(name)
    assert message in str(caught.value)


def test_formats_are_a_mapping_of_what_ships():
    assert len(catalogue.FORMATS) == len(catalogue.names("format"))
    assert catalogue.FORMATS["q4_0"].bytes_per_weight == 18 / 32
    with pytest.raises(KeyError, match="zzz"):
        catalogue.FORMATS["zzz"]


@pytest.mark.parametrize(("said", "message"), [
    ("same_die_as: H100-SMX", "expected a shipped device, got 'H100-SMX'.*h100-sxm"),
    ("same_die_as: b200-sxm\nfamily: hopper", "expected a device of family hopper, got b200-sxm of blackwell"),
    ("same_die_as: h100-sxm\nprocess_node: TSMC 2N", "expected a device of process_node TSMC 2N, got h100-sxm of TSMC 4N"),
    ("same_die_as: h100-sxm\nkind: cpu", "expected a device of kind cpu, got h100-sxm of gpu"),
    ("same_die_as: h20", "expected a device with a limit and a matrix rate of its own, got h20"),
    ("same_die_as: m5-max\nkind: soc", "expected a device with a limit and a matrix rate of its own, got m5-max"),
])
def test_a_die_that_says_nothing_of_a_profile_is_refused(tmp_path, said, message):
    with pytest.raises(InputError, match=f"hardware 'mine': same_die_as: {message}"):
        js.load_hardware(write(tmp_path, PROFILE + said + "\n"))


def test_a_profile_without_a_sister_says_nothing_of_one(tmp_path):
    assert js.load_hardware(write(tmp_path, PROFILE + "same_die_as: null\n")).same_die_as is None
    assert js.load_hardware({"base": "h20", "same_die_as": None}).same_die_as is None
