"""Device and precision."""

import pytest
import torch

from bertlite.errors import InputError
from bertlite.training.hardware import HardwareSettings, choose_device, has_fast_bf16, start


def test_one_process_may_start_twice_with_another_precision():
    for precision in ("bf16", "fp32", "bf16"):
        accelerator, hardware = start(HardwareSettings(device="cpu", precision=precision))
        assert hardware.precision == precision and hardware.peak_flops > 0
        assert accelerator.mixed_precision == ("bf16" if precision == "bf16" else "no")


def test_auto_is_decided_by_what_the_device_has():
    _, hardware = start(HardwareSettings(device="cpu"))
    assert (hardware.precision == "bf16") == has_fast_bf16(torch.device("cpu"))


@pytest.mark.parametrize("settings", [{"device": "gpu"}, {"device": "cuda:9"}, {"threads": 0}])
def test_a_device_that_is_not_there_is_refused(settings):
    with pytest.raises(InputError):
        choose_device(HardwareSettings(**settings))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_gpu_is_found():
    accelerator, hardware = start(HardwareSettings())
    assert accelerator.device.type == "cuda" and hardware.precision == "bf16"
