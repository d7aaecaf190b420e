"""What hardware, torch's build or the packages cannot do is named before anything starts."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trainer.__main__ import main
from trainer.errors import FileError, Unsupported
from trainer.machine import Machine, check_build, check_machine, own_device, this_machine
from trainer.settings import PlanSettings

CPU = torch.device("cpu")
PACKAGES = {"torchao": "0.18.0", "transformer-engine": "2.9.0"}
H100 = Machine(
    gpu="NVIDIA H100 80GB HBM3",
    capability=(9, 0),
    built_for=("sm_80", "sm_90", "sm_100"),
    packages=PACKAGES,
    torch_version="2.13.0+cu130",
)
B200 = replace(H100, gpu="NVIDIA B200", capability=(10, 0))
A100 = replace(H100, gpu="NVIDIA A100-SXM4-80GB", capability=(8, 0))
V100 = replace(H100, gpu="Tesla V100-SXM2-16GB", capability=(7, 0), built_for=("sm_70",))
NO_GPU = replace(H100, gpu=None, capability=None, built_for=())
BARE = {"torchao": None, "transformer-engine": None}


@pytest.mark.parametrize(
    ("machine", "precisions"),
    [
        (B200, ("fp32", "bf16", "fp8", "mxfp8", "nvfp4")),
        (H100, ("fp32", "bf16", "fp8")),
        (A100, ("fp32", "bf16")),
        (V100, ("fp32",)),
        (NO_GPU, ("fp32", "bf16")),
    ],
    ids=lambda value: getattr(value, "gpu", None) or "",
)
def test_each_machine_takes_what_it_can_and_names_the_rest(
    machine: Machine, precisions: tuple[str, ...]
) -> None:
    for precision in ("fp32", "bf16", "fp8", "mxfp8", "nvfp4"):
        plan = PlanSettings(precision=precision)
        if precision in precisions:
            check_machine(plan, machine)
            continue
        with pytest.raises(Unsupported, match=f"precision {precision} needs"):
            check_machine(plan, machine)


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (PlanSettings(precision="fp8"), "precision fp8 needs torchao, which is not installed"),
        (PlanSettings(precision="mxfp8"), "precision mxfp8 needs torchao"),
        (PlanSettings(precision="nvfp4"), "precision nvfp4 needs transformer-engine"),
        (PlanSettings(optimizer="adamw_8bit"), "optimizer adamw_8bit needs torchao"),
    ],
    ids=["fp8", "mxfp8", "nvfp4", "8-bit states"],
)
def test_a_missing_package_is_named(plan: PlanSettings, word: str) -> None:
    with pytest.raises(Unsupported, match=word):
        check_machine(plan, replace(B200, packages=BARE))
    check_machine(plan, B200)


def test_an_old_package_is_named_with_both_versions() -> None:
    old = replace(H100, packages={**PACKAGES, "torchao": "0.9.1+cu126"})
    with pytest.raises(Unsupported, match=r"torchao 0\.13 or newer; 0\.9\.1\+cu126 is installed"):
        check_machine(PlanSettings(precision="fp8"), old)
    check_machine(PlanSettings(precision="fp8"), replace(H100, packages={"torchao": "0.13.0rc1"}))


def test_a_build_without_code_for_the_gpu_is_refused_whatever_the_plan() -> None:
    old = replace(B200, built_for=("sm_80", "sm_90"))
    with pytest.raises(Unsupported, match=r"no code for NVIDIA B200 .sm_100.; it has sm_80, sm_90"):
        check_machine(PlanSettings(), old)


def test_gpus_that_torch_cannot_use_are_no_cpu() -> None:
    hidden = replace(NO_GPU, has_hidden_gpus=True, torch_version="2.13.0+cpu")
    with pytest.raises(Unsupported, match=r"NVIDIA GPUs that torch 2\.13\.0\+cpu cannot use"):
        check_machine(PlanSettings(), hidden)


def test_emulation_needs_no_gpu_but_its_package() -> None:
    plan = PlanSettings(precision="fp8", low_precision_emulation=True)
    check_machine(plan, NO_GPU)
    with pytest.raises(Unsupported, match="torchao"):
        check_machine(plan, replace(NO_GPU, packages=BARE))
    with pytest.raises(Unsupported, match="nvfp4 needs a CUDA GPU"):
        check_machine(replace(plan, precision="nvfp4"), NO_GPU)


def test_this_machine_is_described() -> None:
    found = this_machine(CPU)
    assert (found.gpu, found.capability) == (None, None)
    assert found.packages["torchao"] is not None
    assert found.torch_version == torch.__version__
    assert own_device({"LOCAL_RANK": "0"}).type in ("cpu", "cuda")


def test_the_program_ends_before_it_does_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, which may do what is asked here")
    plan = {
        "precision": "mxfp8",
        "activation_checkpointing": "none",
        "checkpoint_every": "0",
        "micro_batch": "1",
        "seq_len": "16",
        "accumulation_steps": "1",
        "compile": "false",
        "gradient_sync": "each",
        "shard_degree": "1",
        "replica_degree": "1",
        "reshard_after_forward": "true",
        "loss_chunks": "1",
        "optimizer": "adamw",
    }
    words = [word for key, value in plan.items() for word in (f"--{key}", value)]
    out = tmp_path / "out"
    assert main([*words, "--probe", "1", "--output_dir", str(out)]) == Unsupported.exit_status
    assert "Unsupported: precision mxfp8 needs a CUDA GPU" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("capability", "built_for", "runs"),
    [
        ((9, 0), ["sm_80", "sm_90"], True),
        ((8, 9), ["sm_80"], True),
        ((10, 0), ["sm_80", "sm_90"], False),
        ((10, 0), ["sm_90", "compute_90"], True),
        ((10, 3), ["sm_100"], True),
        ((10, 3), ["sm_100a"], False),
        ((10, 0), ["sm_100a"], True),
        ((12, 0), ["sm_100", "sm_103a"], False),
    ],
)
def test_code_for_one_architecture_runs_on_some_others(
    capability: tuple[int, int], built_for: list[str], runs: bool
) -> None:
    if runs:
        check_build(capability, built_for, "a GPU")
        return
    with pytest.raises(Unsupported, match=f"no code for a GPU .sm_{capability[0]}{capability[1]}"):
        check_build(capability, built_for, "a GPU")


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "out").write_text("a file, where a folder should be", encoding="utf-8")
    assert main(["--probe", "1", "--output_dir", str(tmp_path / "out")]) == FileError.exit_status
    assert f"FileError: {tmp_path}/out: File exists" in capsys.readouterr().err
