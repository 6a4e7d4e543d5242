"""Small configs and the shipped formats, for the tests of reading models."""

from pathlib import Path

import pytest
import yaml

from joulesim.specs.base import read_spec
from joulesim.specs.format import FormatSpec

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def formats():
    """Shipped formats by name."""
    paths = sorted((ROOT / "scenarios" / "formats").glob("*.yaml"))
    specs = [read_spec(FormatSpec, yaml.safe_load(path.read_text("utf-8")), path.name) for path in paths]
    return {spec.name: spec for spec in specs}


@pytest.fixture
def llama():
    """A small Llama."""
    return {
        "model_type": "llama",
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "intermediate_size": 512,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


@pytest.fixture
def moe(llama):
    """A small Qwen3 with experts."""
    return llama | {
        "model_type": "qwen3_moe",
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "mlp_only_layers": [0],
        "decoder_sparse_step": 1,
    }
