"""Fields of a config that nobody read: refused when their name says that they shape a model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from joulesim.models.fields import Fields, short

_SHAPES_A_MODEL = re.compile(
    r"^(?!.*_multipliers?$).*("
    r"mamba|ssm|rwkv|hyena|retention|recurren|mixer|linear_(attn|num|key|value|conv)|lightning|kda|latent|lora|"
    r"compress|sparse|index_|indexer|window|chunk|cross_attention|block_(config|type|pattern)|hybrid|layers_type|"
    r"layer_(type|pattern)|kv_|_kv|key_value|head_dim|num_.*heads|expert|moe|altup|laurel|per_layer|"
    r"embedding_(size|dim)|state_size|loop)"
)
"""Names of fields that usually change shapes or caches; factors (``…_multiplier``) never do."""
HARMLESS = frozenset(
    """
    compression_config add_cross_attention attention_chunk_size attention_head_dim attention_types attn_layer_offset
    block_auto_adjust_ff_dim block_ff_dim chunk_size chunk_size_feed_forward compress_rates conv_use_xavier_init
    cross_attention_hidden_size expert_capacity expert_dtype expert_layer_offset experts_per_token
    full_attn_alpha_factor head_dim hybrid_override_pattern index_share_for_mtp_iteration
    indexer_rope_interleave kv_cache_dtype kv_channels layer_group_size layer_types linear_attn_alpha_factor
    linear_attn_beta_factor mamba_chunk_size mamba_d_ssm mamba_expand mamba_hidden_act mamba_intermediate_size
    mamba_norm_before_gate mamba_rms_norm mamba_ssm_cache_dtype mamba_ssm_dtype max_window_layers mixer_rms_eps
    moe_aux_loss_coeff moe_capacity moe_dropout moe_gate moe_group moe_intermediate_size moe_layer_end_index
    moe_layer_start_index moe_multimodal_dispatch_use_allgather moe_norm_min moe_renormalize
    moe_router_activation_func moe_router_dtype moe_router_enable_expert_bias moe_router_topk_scaling_factor
    moe_shared_expert_overlap moe_use_aux_free moe_use_hard_gate mtp_hybrid_override_pattern
    mtp_layers_block_type norm_topk_prob num_expert_group num_experts num_experts_per_tok num_key_value_heads
    num_local_experts qk_head_dim rope_local_base_freq shared_expert_intermediate_size sliding_window
    sliding_window_size swa_rope_theta time_step_rank top_k_experts use_bidirectional_attention
    use_cross_attention use_expert_bias use_mamba_kernels use_sliding_window vocab_size_per_layer_input
    """.split()  # noqa: SIM905
)
"""Fields that match but change neither shapes nor caches, or matter only beside another field that is read."""


def refuse_unread(fields: Fields, known: bool) -> None:
    """
    Record a fault for every unread field that looks like a shape: what it says would be missing.

    Parameters
    ----------
    fields : Fields
        The config, everything else read.
    known : bool
        Whether its family is known.
    """
    remedy = "what it changes is not modelled" if known else "its model_type is not known either"
    for name, value in fields.data.items():
        unread = isinstance(name, str) and name not in fields.used and name not in HARMLESS
        if unread and value and isinstance(value, (int, float, str, list, Mapping)) and _SHAPES_A_MODEL.search(name):
            fields.fault(name, f"expected a field that joulesim knows, got {short(value)}", remedy)
