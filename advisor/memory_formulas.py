"""The terms of a plan's peak memory as formulas: the laws of memory.py for programs on FSDP2."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.activations import FP32
from advisor.block_parts import (
    Part,
    described_widths,
    input_parts,
    kept_parts,
    per_operation_parts,
    transient_parts,
    written,
)
from advisor.explanation import Explanation, Symbol, explained, symbols_of, table_of
from advisor.memory import WHOLE_LOGIT_BYTES, Units, units_of
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.settings import STATE_BYTES, settings_of
from advisor.stack import Stack

ZERO = "Rajbhandari et al. 2020 (arXiv:1910.02054), section 3; docs/model.md"
OPTIMIZER = "AdamW; for 8-bit states Dettmers et al. 2022 (arXiv:2110.02861); docs/model.md"
DEFERRED = "PyTorch's set_requires_gradient_sync; pytorch#160320; docs/model.md"
FSDP = "Zhao et al. 2023, PyTorch FSDP (arXiv:2304.11277); docs/model.md"
SAVED_TENSORS = "Korthikanti et al. 2022 (arXiv:2205.05198), section 4; docs/model.md"
LOSS = "tensors of the cross-entropy and of its gradient; docs/model.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFormulas:
    """The formulas of one plan's memory terms, in bytes, before the fitted factor.

    known: the symbols that most of them share.
    """

    shape: ModelShape
    plan: Plan
    stack: Stack
    units: Units
    known: Mapping[str, Symbol]

    @classmethod
    def of(cls, shape: ModelShape, plan: Plan, stack: Stack) -> "MemoryFormulas":
        """The formulas of a plan. Raises ValueError for a program that does not run on FSDP2."""
        if stack.engine != "fsdp2":
            raise ValueError(f"{stack.name} runs on {stack.engine}; only fsdp2 is explained")
        units = units_of(shape, stack)
        known = _shared_symbols(shape, plan, stack, units)
        return cls(shape=shape, plan=plan, stack=stack, units=units, known=known)

    def term(self, name: str, instant: str) -> Explanation:
        """A term at an instant, by its name in advisor.memory. Raises KeyError for another."""
        makers: dict[str, Callable[[str], Explanation]] = {
            "parameters": self._parameters,
            "optimizer": self._optimizer,
            "gradients": self._gradients,
            "gather buffer": self._gather_buffer,
            "activations": self._activations,
            "last hidden states": self._last_hidden_states,
            "gathered parameters": self._gathered,
            "logits": self._logits,
            "loss slices": self._loss_slices,
            "recomputed block": self._recomputed,
            "block temporaries": self._temporaries,
            "gradient reduction": self._reduction,
            "optimizer temporaries": self._optimizer_temporaries,
        }
        return makers[name](instant)

    def flat_buffer(self, instant: str) -> Explanation:
        """What FSDP2 copied the last gathered unit out of, alive beside the copy."""
        if instant == "loss" and self.sliced_with_head:
            head = Symbol(name="H", value=self.units.head, meaning="elements of the head's unit")
            return self._bytes("c * max(U, H)", FSDP, head)
        near_a_block = instant in ("loss", "first block backward", "last block backward")
        return self._bytes(f"{self._per_block} * U" if near_a_block else "0", FSDP)

    @property
    def slices(self) -> float:
        """Slices that the loss is taken in."""
        return max(float(self.plan.loss_chunks), self.stack.built_in_loss_chunks, 1.0)

    @property
    def sliced_with_head(self) -> bool:
        """Whether head and loss run slice by slice."""
        return self.stack.chunks_cover_head and self.slices > 1

    @property
    def _per_block(self) -> str:
        """The letter of a block's bytes per gathered parameter."""
        return "b" if _gathers_in_fp8(self.plan, self.stack) else "c"

    def _bytes(
        self,
        formula: str,
        source: str,
        *symbols: Symbol,
        widths: Mapping[str, Symbol] | None = None,
    ) -> Explanation:
        known = {**self.known, **(widths or {}), **table_of(*symbols)}
        return explained(formula, known, unit="bytes", source=source)

    def _parameters(self, _: str) -> Explanation:
        masters = " + m * P / N" if self.stack.master_bytes else ""
        return self._bytes(f"w * P / F{masters}", ZERO)

    def _optimizer(self, _: str) -> Explanation:
        shards = "N" if self.stack.master_bytes else "F"
        return self._bytes(f"s * P / {shards}", OPTIMIZER)

    def _gradients(self, _: str) -> Explanation:
        if settings_of(self.plan).defer_sync:
            whole = Symbol(
                name="g",
                value=int(FP32),
                meaning="bytes per gradient: fp32, whole on each GPU until the last micro step",
            )
            return self._bytes("g * P", DEFERRED, whole)
        return self._bytes("g * P / F", ZERO)

    def _gather_buffer(self, _: str) -> Explanation:
        largest = Symbol(
            name="E",
            value=self.units.largest,
            meaning="elements of the largest unit that is gathered together",
        )
        return self._bytes(f"{self._per_block} * max(2 * U, E)", FSDP, largest)

    def _saved(self) -> tuple[str, tuple[Part, ...]]:
        """Bytes per token that one block keeps on average, as a formula, and their parts."""
        kept = kept_parts(self.shape, self.plan, self.stack)
        mode, every = self.plan.activation_checkpointing, self.plan.checkpoint_every
        if mode == "none":
            return written(kept), kept
        if mode == "full":
            return written(input_parts()), input_parts()
        if every > 0:
            mixed = f"(1 - 1 / e) * ({written(kept)}) + 1 / e * {written(input_parts())}"
            return mixed, (*kept, *input_parts())
        per_operation = per_operation_parts(self.shape, self.plan, self.stack)
        return written(per_operation), per_operation

    def _activations(self, _: str) -> Explanation:
        per_token, parts = self._saved()
        widths = described_widths(self.shape, parts)
        return self._bytes(f"L * t * ({per_token})", SAVED_TENSORS, widths=widths)

    def _recomputed(self, instant: str) -> Explanation:
        """What one block needs in its backward beyond what it has kept."""
        kept = kept_parts(self.shape, self.plan, self.stack)
        if instant == "last block backward":
            parts = (*kept, *transient_parts(self.shape, self.stack))
            widths = described_widths(self.shape, parts)
            return self._bytes(f"t * ({written(parts)})", SAVED_TENSORS, widths=widths)
        left = (
            per_operation_parts(self.shape, self.plan, self.stack)
            if settings_of(self.plan).op_fraction
            else input_parts()
        )
        widths = described_widths(self.shape, kept)
        formula = f"t * ({written(kept)} - ({written(left)}))"
        return self._bytes(formula, SAVED_TENSORS, widths=widths)

    def _temporaries(self, _: str) -> Explanation:
        parts = transient_parts(self.shape, self.stack)
        widths = described_widths(self.shape, parts)
        return self._bytes(f"t * ({written(parts)})", SAVED_TENSORS, widths=widths)

    def _last_hidden_states(self, _: str) -> Explanation:
        meaning = "hidden size: the last hidden states, their norm and their gradient in bf16"
        hidden = Symbol(name="h", value=self.shape.hidden_size, meaning=meaning)
        return self._bytes("6 * h * t", SAVED_TENSORS, hidden)

    def _gathered(self, instant: str) -> Explanation:
        """Unsharded parameters: the head or the root unit, and some blocks."""
        at_loss = instant == "loss"
        edge = self.units.at_loss if at_loss else self.units.root
        after_forward = instant in ("loss", "first block backward")
        gathered = f"{self._per_block} * U"
        blocks = {"first block backward": f"2 * {gathered}", "last block backward": gathered}
        if after_forward and not self.plan.reshard_after_forward:
            blocks[instant] = f"L * {gathered}"
        parts = ["c * E" if edge else "", blocks.get(instant, "")]
        meaning = (
            "elements of embedding and head, which stay gathered from the loss to the end"
            if self.units.root
            else "elements of the head, gathered for its product"
        )
        formula = " + ".join(part for part in parts if part) or "0"
        return self._bytes(formula, FSDP, Symbol(name="E", value=edge, meaning=meaning))

    def _logits(self, _: str) -> Explanation:
        whole = self.stack.compiled_logit_bytes if self.plan.compile else self.stack.logit_bytes
        sliced = self.stack.sliced_logit_bytes if self.sliced_with_head else whole
        per_logit = Symbol(
            name="b",
            value=sliced,
            meaning="bytes per logit: its copies, their softmax and its gradient",
        )
        if self.slices == 1:
            return self._bytes("b * t * V", LOSS, per_logit)
        if self.sliced_with_head:
            return self._bytes("b * t * V / n", LOSS, per_logit)
        stays = Symbol(
            name="d",
            value=min(WHOLE_LOGIT_BYTES, whole),
            meaning="bytes per logit that stay whole: bf16, and its gradient",
        )
        return self._bytes("(d + (b - d) / n) * t * V", LOSS, per_logit, stays)

    def _loss_slices(self, _: str) -> Explanation:
        gradient = Symbol(
            name="z",
            value=self.stack.slice_gradient_bytes,
            meaning="bytes per element of the hidden states' gradient that the slices fill",
        )
        return self._bytes("z * h * t + 2 * H", LOSS, gradient)

    def _reduction(self, instant: str) -> Explanation:
        """Inputs of a reduce-scatter under way, and unsharded gradients in the compute's type."""
        units = self.units
        if instant == "last block backward":
            return self._edge_reduction("r * U + 2 * (U + E)" if units.root else "(r + 2) * U")
        if instant == "embedding backward":
            return self._edge_reduction("(r + 2) * E", units.root or units.embedding)
        parts = []
        if units.head and not (self.stack.head_reduced_first and self.sliced_with_head):
            parts.append("r * E")
        if units.root:
            parts.append("2 * H")
        return self._edge_reduction(" + ".join(parts) or "0", units.head)

    def _edge_reduction(self, formula: str, elements: int | None = None) -> Explanation:
        value = self.units.root if elements is None else elements
        meaning = "elements of the unit at the model's edge: embedding, head or both"
        return self._bytes(formula, FSDP, Symbol(name="E", value=value, meaning=meaning))

    def _optimizer_temporaries(self, _: str) -> Explanation:
        temporary = Symbol(
            name="x",
            value=self.stack.optimizer_temporaries,
            meaning="bytes per parameter that a step of an optimizer that is not fused takes",
        )
        return self._bytes("x * P / F", OPTIMIZER, temporary)


def _shared_symbols(
    shape: ModelShape, plan: Plan, stack: Stack, units: Units
) -> Mapping[str, Symbol]:
    """The letters of docs/model.md with a plan's values."""
    counted = {
        "P": (units.total, "parameters of the model"),
        "F": (plan.shard_degree, "GPUs that share one copy of the weights"),
        "N": (plan.num_gpus, "GPUs of the run"),
        "t": (
            plan.tokens_per_micro_step,
            f"tokens of one forward on one GPU: {plan.micro_batch} times {plan.seq_len:,}",
        ),
        "L": (shape.num_layers, "blocks of the model"),
        "V": (shape.vocab_size, "entries of the vocabulary"),
        "U": (units.block, "parameters of one block, which is gathered as a unit"),
        "H": (shape.head_matmul_parameters, "weights of the product with the vocabulary"),
        "e": (plan.checkpoint_every, "one block in so many keeps nothing but its input"),
        "n": (
            int(max(plan.loss_chunks, stack.built_in_loss_chunks, 1)),
            "slices of the tokens that the loss is taken in",
        ),
        **_bytes_per_element(plan, stack),
    }
    return {**described_widths(shape, ()), **symbols_of(counted)}


def _bytes_per_element(plan: Plan, stack: Stack) -> dict[str, tuple[float, str]]:
    return {
        "w": (stack.weight_bytes, "bytes per weight as it is kept between steps"),
        "m": (stack.master_bytes, "bytes per weight of a further copy in fp32"),
        "s": (
            STATE_BYTES[plan.optimizer],
            f"bytes of optimizer state per parameter: m and v of {plan.optimizer}",
        ),
        "g": (stack.grad_bytes, "bytes per gradient as each GPU keeps its shard"),
        "r": (stack.reduce_bytes, "bytes per element in the type of the reduction"),
        "c": (stack.gather_bytes, "bytes per parameter as it is gathered for the compute"),
        "b": (1, "bytes per parameter of a block, which is gathered in fp8"),
    }


def _gathers_in_fp8(plan: Plan, stack: Stack) -> bool:
    return stack.fp8_gather and plan.precision == "fp8"
