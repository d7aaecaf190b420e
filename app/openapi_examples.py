"""Examples in /openapi.json: requests that the service answers as they stand.

Ids of recommendations, offerings and AWS's own things are made up: real ones take their place.
"""

from collections.abc import Mapping
from typing import Any

Example = Mapping[str, Any]
_OWN_ID = "Put the id of an answer of POST /recommend into recommendation_id."
_RECOMMENDATION_ID = "0123456789abcdef01234567"


def _example(summary: str, value: Mapping[str, Any], description: str = "") -> Example:
    """An example object of OpenAPI."""
    return {"summary": summary, **({"description": description} if description else {})} | {
        "value": value
    }


RECOMMEND: Mapping[str, Example] = {
    "budget": _example(
        "As many tokens as a budget buys",
        {"model": {"name": "llama-3.1-8b"}, "budget_usd": 20_000},
    ),
    "tokens": _example(
        "A number of tokens, as fast as 16 instances can",
        {
            "model": {"name": "Qwen/Qwen3-14B"},
            "num_tokens": 300_000_000_000,
            "objective": "fastest",
            "max_instances": 16,
        },
    ),
    "finetune": _example(
        "A model of a given size, fine-tuned within a day",
        {"model": {"size_b": 64}, "training": "finetune", "deadline_hours": 24},
    ),
    "config": _example(
        "A config.json, with settings that are fixed and a rate of one's own",
        {
            "model": {
                "config": {
                    "model_type": "llama",
                    "hidden_size": 2048,
                    "intermediate_size": 8192,
                    "num_hidden_layers": 16,
                    "num_attention_heads": 32,
                    "num_key_value_heads": 8,
                    "head_dim": 64,
                    "vocab_size": 128_256,
                    "max_position_embeddings": 131_072,
                    "tie_word_embeddings": True,
                }
            },
            "num_tokens": 2_000_000_000,
            "instances": ["p5.48xlarge", "p5en.48xlarge"],
            "pricing": {"usd_per_instance_hour": 30},
            "precision": "bf16",
            "activation_checkpointing": "selective",
        },
    ),
}
RESULTS: Mapping[str, Example] = {
    "run": _example(
        "One measured run",
        {
            "uploaded_by": "Ada",
            "rows": [
                {
                    "id": "ada-llama-8b-p5-1",
                    "source_url": "https://example.org/runs/1",
                    "commit_or_date": "2026-11-30",
                    "framework": "fsdp2",
                    "gpu": "H100-80GB-SXM",
                    "gpus_total": 8,
                    "nodes": 1,
                    "model_name": "llama-3.1-8b",
                    "seq_len": 8192,
                    "micro_batch_per_gpu": 1,
                    "grad_accum": 1,
                    "compute_dtype": "bf16",
                    "activation_checkpointing": "full",
                    "sharding": "full",
                    "compile": True,
                    "tokens_per_s_per_gpu": 7000,
                    "peak_mem_gib": 40,
                    "peak_mem_kind": "reserved",
                }
            ],
        },
        "Later answers are calibrated on it: put measurements of your own in its place.",
    ),
}
SWEEP: Mapping[str, Example] = {
    "default": _example(
        "The usual grid on one p6-b200.48xlarge", {"model": {"name": "llama-3.1-8b"}}
    ),
    "grid": _example(
        "Three micro batches without and with full checkpointing on two instances",
        {
            "model": {"name": "llama-3.1-8b"},
            "instance_type": "p5.48xlarge",
            "num_instances": 2,
            "seq_len": 4096,
            "micro_batches": [1, 2, 4],
            "activation_checkpointing": ["none", "full"],
            "settings": {"precision": "fp8"},
        },
    ),
}
COMPARE: Mapping[str, Example] = {
    "measured": _example(
        "A cluster whose speed is measured",
        {
            "model": {"name": "llama-3.1-8b"},
            "num_tokens": 15_000_000_000,
            "current": {
                "instance_type": "p4d.24xlarge",
                "num_instances": 4,
                "micro_batch": 1,
                "activation_checkpointing": "full",
                "measured_tokens_per_s": 45_000,
            },
        },
    ),
}
JOBS: Mapping[str, Example] = {
    "local": _example(
        "A probe of the best plan on the machine of the service",
        {"recommendation_id": _RECOMMENDATION_ID, "kind": "probe"},
        _OWN_ID,
    ),
    "sagemaker": _example(
        "The whole run on SageMaker, in a training plan",
        {
            "recommendation_id": _RECOMMENDATION_ID,
            "backend": "sagemaker",
            "training_plan_arn": (
                "arn:aws:sagemaker:us-west-2:123456789012:training-plan/my-training-plan"
            ),
            "role_arn": "arn:aws:iam::123456789012:role/my-training-role",
            "output_s3_uri": "s3://my-bucket/output",
            "checkpoint_s3_uri": "s3://my-bucket/checkpoints",
            "data": "s3://my-bucket/tokens",
            "max_runtime_hours": 12,
            "tags": {"team": "language"},
            "idempotency_key": "run-1",
        },
        f"{_OWN_ID} Role, addresses and reservation are your account's.",
    ),
}
PLAN_SEARCH: Mapping[str, Example] = {
    "default": _example(
        "For the best plan, as soon as there is room",
        {"recommendation_id": _RECOMMENDATION_ID, "region": "us-west-2"},
        _OWN_ID,
    ),
    "days": _example(
        "Two days, within the next two weeks",
        {
            "recommendation_id": _RECOMMENDATION_ID,
            "candidate": 0,
            "region": "us-west-2",
            "max_wait_hours": 336,
            "duration_hours": 48,
        },
        _OWN_ID,
    ),
}
PLAN_ORDER: Mapping[str, Example] = {
    "offering": _example(
        "An offering at the price that was shown",
        {
            "offering_id": "tpo-0123456789abcdef",
            "recommendation_id": _RECOMMENDATION_ID,
            "region": "us-west-2",
            "price_usd": "4744.32",
        },
        "It spends money. Put the id, the region and the price of an offering from "
        "POST /plans/search in their places.",
    ),
}
# By method and path: the examples of a body.
BODIES: Mapping[tuple[str, str], Mapping[str, Example]] = {
    ("POST", "/recommend"): RECOMMEND,
    ("POST", "/results"): RESULTS,
    ("POST", "/sweep"): SWEEP,
    ("POST", "/compare"): COMPARE,
    ("POST", "/jobs"): JOBS,
    ("POST", "/jobs/preview"): JOBS,
    ("POST", "/plans/search"): PLAN_SEARCH,
    ("POST", "/plans"): PLAN_ORDER,
}
# By method and path: an example of each part of the query.
QUERIES: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("GET", "/results"): {
        "gpu": "H100",
        "framework": "fsdp2",
        "model": "llama",
        "precision": "bf16",
        "source": "titan",
        "has_memory": "true",
        "scope": "in",
        "limit": 10,
        "offset": 0,
    },
    ("GET", "/accuracy"): {
        "gpu": "H100-80GB",
        "precision": "bf16",
        "stack": "torchtitan",
        "source": "bw-titan",
    },
    ("GET", "/jobs"): {"status": "running", "limit": 20, "offset": 0},
    ("GET", "/plans"): {"region": "us-west-2"},
}
