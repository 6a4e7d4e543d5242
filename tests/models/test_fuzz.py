"""Whatever a file holds, reading it ends in a model or in faults, soon."""

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joulesim.errors import InputError
from joulesim.models import from_config, read_model
from joulesim.specs.model import ModelSpec

from .test_gguf import LLAMA, TENSORS, layers, write  # noqa: F401  (a fixture)
from .test_reference import rows

CONFIGS = [json.loads(row["config"]) for row in rows("model_families.csv")]
NAMES = sorted({name for config in CONFIGS for name in config} | {"quantization_config", "text_config", "dtype"})
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["full_attention", "fp8", "modelopt", "bfloat16", "MEM*", "NVFP4"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=10),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), inner, max_size=5),
    ),
    max_leaves=12,
)


def ends_well(read):
    started = time.monotonic()
    try:
        assert isinstance(read(), ModelSpec)
    except InputError as error:
        assert error.faults
        assert all("\n" not in str(fault) for fault in error.faults)
    assert time.monotonic() - started < 5


@QUICK
@given(
    st.sampled_from(CONFIGS),
    st.dictionaries(st.sampled_from(NAMES), values, max_size=4),
    st.sets(st.sampled_from(NAMES), max_size=2),
)
def test_changed_config(config, changes, gone):
    changed = {name: value for name, value in (config | changes).items() if name not in gone}
    ends_well(lambda: from_config(changed, "here"))


@QUICK
@given(st.sampled_from(CONFIGS), values, st.dictionaries(st.text(max_size=12), values, max_size=3))
def test_changed_quantisation(config, block, quant):
    keys = (
        "quant_method",
        "quant_algo",
        "config_groups",
        "ignore",
        "weight_block_size",
        "kv_cache_scheme",
        "quantized_layers",
    )
    if isinstance(block, dict):
        block = dict(zip(keys, block.values(), strict=False)) | block
    ends_well(lambda: from_config(config | {"quantization_config": block}, "here", {"quantization": quant}))


@QUICK
@given(values)
def test_anything_as_config(config):
    ends_well(lambda: from_config(config, "here"))


@QUICK
@given(
    data=st.one_of(
        st.binary(max_size=200), st.text(max_size=200).map(str.encode), values.map(lambda v: json.dumps(v).encode())
    )
)
def test_any_bytes_as_file(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "config.json"
    path.write_bytes(data)
    ends_well(lambda: read_model(path))


@QUICK
@given(data=st.data())
def test_changed_gguf(write, data):  # noqa: F811
    path = write(keys=LLAMA | {"attention.head_count_kv": [2, 2, 1, 1]}, tensors=layers(attn_q=((256, 256), "Q4_K")))
    content = bytearray(path.read_bytes())
    head = min(len(content), 1200)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(4, head - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(head, len(content)))])
    ends_well(lambda: read_model(path))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config["model_type"])
def test_every_field_null_or_gone(config):
    for name in config:
        for changed in (config | {name: None}, {k: v for k, v in config.items() if k != name}, config | {name: [name]}):
            ends_well(lambda changed=changed: from_config(changed, "here"))
