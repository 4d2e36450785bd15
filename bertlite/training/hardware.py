"""What the machine is and can do: device, precision, threads, measured peak of matrix products."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs

from bertlite.errors import InputError

Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    """Where a run runs."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps."""
    precision: Precision = "auto"
    """auto (bf16 where the device has instructions for it), fp32, or bf16; weights stay fp32."""
    threads: int | None = None
    """CPU threads; those the machine has when not given."""


@dataclass(frozen=True)
class Hardware:
    """What was chosen, and the measured peak in operations a second."""

    device: str
    name: str
    precision: str
    threads: int
    processes: int
    peak_flops: float

    def describe(self) -> str:
        """Say it in one line."""
        where = f"{self.device} ({self.name}), {self.threads} threads" if self.device == "cpu" else self.name
        many = f", {self.processes} processes" if self.processes > 1 else ""
        return f"{where}{many}, {self.precision}, measured peak {self.peak_flops / 1e9:,.0f} GFLOP/s"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for run.json."""
        return asdict(self) | {"torch": torch.__version__, "python": platform.python_version()}


def choose_device(settings: HardwareSettings) -> torch.device:
    """Return the device a setting means; raises InputError where it is not there."""
    name = settings.device
    if settings.threads is not None:
        if settings.threads < 1:
            raise InputError(f"--threads must be at least 1; got {settings.threads}")
        torch.set_num_threads(settings.threads)
    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"--device {name!r} is not a device", remedy="cpu, cuda, cuda:1 or mps") from None
    there = {"cpu": True, "cuda": (device.index or 0) < torch.cuda.device_count(), "mps": has_mps}
    if not there.get(device.type, False):
        raise InputError(f"--device {name}: there is none on this machine", remedy="--device auto takes the best there is")
    return device


def start(settings: HardwareSettings) -> tuple[Accelerator, Hardware]:
    """Start Accelerate on the chosen device and measure its peak."""
    device = choose_device(settings)
    os.environ.pop("ACCELERATE_TORCH_DEVICE", None)
    if device.type == "cuda" and device.index is not None:
        os.environ["ACCELERATE_TORCH_DEVICE"] = str(device)
    precision: str = settings.precision
    if precision == "auto":
        precision = "bf16" if has_fast_bf16(device) else "fp32"
    elif precision == "bf16" and device.type == "mps":
        raise InputError("--precision bf16 is not supported on mps", remedy="--precision fp32")
    # Accelerate keeps its state for the whole process; a second run in it may choose another device or precision.
    AcceleratorState._reset_state(True)
    # The first process may read a large corpus while the others wait.
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=12))
    accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision="bf16" if precision == "bf16" else "no",
                              kwargs_handlers=[patience])
    hardware = Hardware(
        device=accelerator.device.type,
        name=torch.cuda.get_device_name(accelerator.device) if device.type == "cuda" else _processor_name(),
        precision=precision,
        threads=torch.get_num_threads(),
        processes=accelerator.num_processes,
        peak_flops=matmul_flops(device, torch.bfloat16 if precision == "bf16" else torch.float32) * accelerator.num_processes,
    )
    return accelerator, hardware


def has_fast_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for bf16 products; without them bf16 is slower than fp32 by far."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu" and hasattr(torch.cpu, "get_capabilities"):
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return False


def matmul_flops(device: torch.device, dtype: torch.dtype, *, seconds: float = 0.2) -> float:
    """Return the fastest rate, in operations a second, at which square matrices are multiplied."""
    size = 4096 if device.type == "cuda" else 1024
    a = torch.randn(size, size, device=device).to(dtype)
    product = a @ a  # the first one warms up
    wait_for(device)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        wait_for(device)
        begin = time.perf_counter()
        product = a @ a
        wait_for(device)
        best = min(best, time.perf_counter() - begin)
    del product
    return 2 * size**3 / best


def wait_for(device: torch.device) -> None:
    """Return when the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
