"""The terms of a step as formulas: the laws of throughput.py for programs on FSDP2."""

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.explanation import (
    Explanation,
    Symbol,
    cited,
    explained,
    larger_of,
    symbols_of,
    table_of,
    value_in_words,
    with_values,
)
from advisor.hardware import Instance
from advisor.kernels import attention_rate, hbm_rate, matmul_rate, peak_of, rates_of
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.settings import STATE_BYTES, settings_of
from advisor.stack import Stack
from advisor.throughput import COMPILED_KERNELS, EAGER_KERNELS
from advisor.throughput_factors import ThroughputFactors
from advisor.traffic import CAST_WORK, TORCHAO_CAST_WORK

FITTED = "factors fitted on stored results: docs/throughput.md"
ROOFLINE = "Williams, Waterman and Patterson 2009"
FLASH = "Dao 2023 (arXiv:2307.08691)"
RECOMPUTATION = "Korthikanti et al. 2022 (arXiv:2205.05198)"
ADAMW = "bytes that AdamW reads and writes: advisor/traffic.py"
OPERATIONS = "bytes counted by operation: advisor/traffic.py"
# Generations whose rates data/kernels.csv has rows for; the others are estimates.
_MEASURED = ("ampere", "hopper", "blackwell")


def rates_source(instance: Instance) -> str:
    """Where the rates of an instance's kernels are from."""
    if instance.gpu.architecture.lower() in _MEASURED:
        return "rates of kernels: advisor/data/kernels.csv"
    return "rates of kernels, an estimate: advisor/kernels.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFormulas:
    """The formulas of one plan's step terms on the GPUs, in seconds of one micro step.

    known: the symbols that they share. The speed factor of stored results is not in them.
    """

    shape: ModelShape
    plan: Plan
    stack: Stack
    instance: Instance
    known: Mapping[str, Symbol]

    @classmethod
    def of(
        cls,
        shape: ModelShape,
        plan: Plan,
        stack: Stack,
        instance: Instance,
        factors: ThroughputFactors,
    ) -> "StepFormulas":
        """The formulas of a plan. Raises ValueError for another engine or a format it lacks."""
        if stack.engine != "fsdp2":
            raise ValueError(f"{stack.name} runs on {stack.engine}; only fsdp2 is explained")
        if matmul_rate(instance.gpu, plan.precision) == 0.0:
            raise ValueError(f"{instance.gpu.name} has no {plan.precision}")
        known = {
            **_counts(shape, plan),
            **_rates(shape, plan, stack, instance),
            **_fitted(factors),
        }
        return cls(shape=shape, plan=plan, stack=stack, instance=instance, known=known)

    def seconds(self, formula: str, source: str, *symbols: Symbol) -> Explanation:
        """A number of seconds by a formula over the shared symbols and some of its own."""
        return explained(formula, {**self.known, **table_of(*symbols)}, unit="s", source=source)

    def micro_terms(self) -> dict[str, Explanation]:
        """The GPU's terms of one micro step by their names in advisor.throughput."""
        return {
            "memory-bound work": self.seconds(
                f"3 * {self._moved_forward}", cited(OPERATIONS, self._rates_source, FITTED)
            ),
            "loss": self._loss(),
            "attention": self.seconds(
                f"{self._attention_forward} * (1 + 2.5 * backward)",
                cited(FLASH, self._rates_source, FITTED),
            ),
            "precision casts": self._casts(),
            "matrix products": self.seconds(
                f"(3 * ({self._products_work}) + 6 * T * H / {self._head_rate} + 3 * e) / matmul",
                cited(ROOFLINE, self._rates_source, FITTED),
            ),
            "recomputation": self._recomputation(),
        }

    def launches(self) -> Explanation:
        """Host seconds that launching one micro step's kernels takes."""
        settings = settings_of(self.plan)
        kernels = Symbol(
            name="K",
            value=int(COMPILED_KERNELS if self._is_fused else EAGER_KERNELS),
            meaning="kernels of one block and forward",
        )
        passes = Symbol(
            name="p",
            value=3.0 + float(settings.full_fraction) + float(settings.op_fraction),
            meaning="forwards of launches: a backward has two, recomputation its share of one",
        )
        return self.seconds("L * K * p * launch", FITTED, kernels, passes)

    def optimizer(self) -> Explanation:
        """Seconds of one optimizer step."""
        shards = "N" if self.stack.master_bytes else "F"
        return self.seconds(
            f"(16 + 2 * s) * P / {shards} / B + y",
            cited(ADAMW, self._rates_source, FITTED),
        )

    @property
    def _rates_source(self) -> str:
        return rates_source(self.instance)

    @property
    def _is_fused(self) -> bool:
        return self.plan.compile or self.stack.optimized

    @property
    def _head_rate(self) -> str:
        """The letter of the head's rate, which is bf16's."""
        return "R" if self.plan.precision == "bf16" else "Rb"

    @property
    def _kept_in_bf16(self) -> bool:
        """Whether an nvfp4 run of this program keeps some blocks in bf16."""
        return self.plan.precision == "nvfp4" and self.stack.nvfp4_bf16_fraction > 0.0

    @property
    def _products_work(self) -> str:
        """Seconds of the forward's products of all blocks, as their kernels alone take them."""
        per_flop = " * ((1 - z) / R + z / Rb)" if self._kept_in_bf16 else " / R"
        return f"2 * T * L * W{per_flop} + 7 * L * e"

    @property
    def _attention_forward(self) -> str:
        return "4 * T * L * q * a / (Ra * attention)"

    @property
    def _moved_forward(self) -> str:
        """Norms, residuals, rotation and activation of all blocks: bytes over bandwidth."""
        rotated = self.shape.positions == "rope"
        gated = self.shape.gated_mlp
        turned = " + 2 * (q + k)" if rotated else ""
        fused = f"2 * (8 * h{turned} + {3 if gated else 2} * i)"
        if self._is_fused:
            return f"T * L * {fused} / B"
        norm = 36 if self.shape.norm == "rmsnorm" else 4
        turned = " + 20 * (q + k)" if rotated else ""
        eager = f"{2 * (norm + 6)} * h{turned} + {10 if gated else 4} * i"
        return f"T * L * {larger_of(f'eager * ({eager})', fused)} / B"

    def _loss(self) -> Explanation:
        fused = self._is_fused or self.stack.built_in_loss_chunks > 0
        passes = Symbol(
            name="b",
            value=14 if fused else 36,
            meaning="bytes moved per logit, forward and backward: fused kernels"
            if fused
            else "bytes moved per logit, forward and backward: an operation at a time",
        )
        return self.seconds("T * V * b / B", cited(OPERATIONS, self._rates_source), passes)

    def _casts(self) -> Explanation:
        products = 3 if self.shape.gated_mlp else 2
        elements = f"T * (4 * h + 2 * q + 2 * k + {products} * i) + 2 * W"
        parts = [f"L * ({elements}) * casts * w / B"]
        if not (self.stack.fused_casts or self.plan.compile):
            parts.append("3")
        if self._kept_in_bf16:
            parts.append("(1 - z)")
        work = CAST_WORK if self.stack.fused_casts else TORCHAO_CAST_WORK
        over_fp8 = Symbol(
            name="w",
            value=work[self.plan.precision],
            meaning=f"work of a cast to {self.plan.precision} over that of one to fp8",
        )
        source = cited(OPERATIONS, self._rates_source, FITTED)
        return self.seconds(" * ".join(parts), source, over_fp8)

    def _recomputation(self) -> Explanation:
        """The forward again of what is checkpointed, from the seconds of the forward's parts."""
        settings = settings_of(self.plan)
        products = self._forward_symbol(
            "products", f"({self._products_work}) / matmul", "matrix products"
        )
        attention = self._forward_symbol("scores", self._attention_forward, "attention")
        moved = self._forward_symbol("moved", self._moved_forward, "memory-bound work")
        source = cited(RECOMPUTATION, FITTED)
        if settings.op_fraction:
            formula = "(h * k + q * h + h * i) / W * products + moved"
            return self.seconds(formula, source, products, moved)
        share = Symbol(
            name="c",
            value=float(settings.full_fraction),
            meaning="share of the blocks that keep nothing but their input",
        )
        formula = "c * (products + scores + moved)"
        return self.seconds(formula, source, share, products, attention, moved)

    def _forward_symbol(self, name: str, formula: str, what: str) -> Symbol:
        part = self.seconds(formula, "")
        meaning = f"seconds of the forward's {what} in one micro step: {with_values(part)}"
        return Symbol(name=name, value=part.value, meaning=meaning)


def _counts(shape: ModelShape, plan: Plan) -> dict[str, Symbol]:
    """The letters of docs/throughput.md that count something."""
    table: dict[str, tuple[float, str]] = {
        "T": (
            plan.tokens_per_micro_step,
            f"tokens of one forward on one GPU: {plan.micro_batch} times {plan.seq_len:,}",
        ),
        "L": (shape.num_layers, "blocks of the model"),
        "h": (shape.hidden_size, "hidden size"),
        "q": (shape.q_size, "width of the queries (heads times head size)"),
        "k": (shape.kv_size, "width of the keys, and of the values"),
        "i": (shape.ffn_size, "width of one up projection of the MLP"),
        "V": (shape.vocab_size, "entries of the vocabulary"),
        "W": (shape.block_matmul_parameters, "weights of the matrix products of one block"),
        "H": (shape.head_matmul_parameters, "weights of the product with the vocabulary"),
        "P": (shape.num_parameters, "parameters of the model"),
        "A": (plan.accumulation_steps, "micro steps of one optimizer step"),
        "F": (plan.shard_degree, "GPUs that share one copy of the weights"),
        "N": (plan.num_gpus, "GPUs of the run"),
        "n": (plan.loss_chunks, "slices of the tokens that the loss is taken in"),
        "a": (
            shape.attended_tokens(plan.seq_len),
            f"tokens that a token looks back on, the average over {plan.seq_len:,} and all blocks",
        ),
        "s": (
            STATE_BYTES[plan.optimizer],
            f"bytes of optimizer state per parameter: m and v of {plan.optimizer}",
        ),
    }
    return symbols_of(table)


def _rates(shape: ModelShape, plan: Plan, stack: Stack, instance: Instance) -> dict[str, Symbol]:
    gpu = instance.gpu
    own, bf16 = (matmul_rate(gpu, name) for name in (plan.precision, "bf16"))
    attended = attention_rate(gpu, shape.head_dim, stack.attention)
    memory = value_in_words(gpu.hbm_bytes_per_s)
    return symbols_of(
        {
            "R": (own, _rate_meaning(gpu.name, plan.precision, own, peak_of(gpu, plan.precision))),
            "Rb": (bf16, _rate_meaning(gpu.name, "bf16", bf16, peak_of(gpu, "bf16"))),
            "Ra": (
                attended,
                f"FLOP/s of attention's forward on {gpu.name} at head size {shape.head_dim}",
            ),
            "e": (
                rates_of(gpu).matmul_loss_s,
                f"seconds that one product loses to its fill and drain on {gpu.name}",
            ),
            "B": (
                hbm_rate(gpu),
                f"bytes per second that streaming kernels move on {gpu.name}, of {memory} nominal",
            ),
            "z": (stack.nvfp4_bf16_fraction, "share of the blocks that stay in bf16"),
        }
    )


def _rate_meaning(gpu: str, precision: str, rate: float, peak: float) -> str:
    share = value_in_words(round(rate / peak, 4))
    return f"sustained FLOP/s of {precision} products on {gpu}: {share} of its dense peak"


def _fitted(factors: ThroughputFactors) -> dict[str, Symbol]:
    """The fitted factors of the work on one GPU."""
    return symbols_of(
        {
            "matmul": (
                factors.matmul,
                "rate of products in a training step over that of the kernel alone",
            ),
            "attention": (
                factors.attention,
                "rate of attention in a training step over that of the kernel alone",
            ),
            "backward": (
                factors.attention_backward,
                "rate of attention's forward over that of its backward",
            ),
            "eager": (
                factors.eager_traffic,
                "bytes that eager work moves over those counted by operation",
            ),
            "casts": (
                factors.cast_bytes,
                "bytes moved per element quantised to fp8, all passes together",
            ),
            "launch": (factors.launch_s, "seconds of the host to launch one kernel"),
            "y": (factors.step_s, "seconds of a step outside of its kernels"),
        }
    )
