"""Which tensors an executor reduces, and how messages of unlike ones are told apart."""

from __future__ import annotations

from typing import Any

from netprobe.core.errors import InputError

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8")
"""torch adds others (float8, uint16, quantized numbers) not at all."""
_SIZES_TOLD_APART = 113


def check_tensor(tensor: Any, op: str, *, on_gpus: bool) -> None:
    """Raises InputError for what cannot be reduced in place, before anything is sent."""
    import torch

    if op not in ("sum", "mean"):
        raise InputError(f"op {str(op)[:60]!r}: give 'sum' or 'mean', in quotes")
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"a {type(tensor).__name__}: a torch tensor is needed")
    if tensor.device.type != "cpu" and (tensor.device.type != "cuda" or not on_gpus):
        raise InputError(
            f"a tensor on {tensor.device}: a tensor in the CPU's memory is needed, or a process group over NCCL "
            "and a plan that is safe under issue order"
        )
    if tensor.layout != torch.strided or tensor.is_nested or _name(tensor) not in DTYPES:
        raise InputError(
            f"a tensor of {tensor.dtype}, {tensor.layout}: a dense one of {', '.join(DTYPES)} is needed"
        )
    if any(size > 1 and not stride for size, stride in zip(tensor.shape, tensor.stride())):
        raise InputError("an expanded tensor, whose elements share memory: give tensor.contiguous()")
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    if tensor.numel() > max(span, 0):
        raise InputError("a tensor whose elements share memory: give tensor.contiguous()")
    offset = tensor.storage_offset()
    if tensor.numel() and tensor.untyped_storage().nbytes() < (offset + span) * tensor.element_size():
        raise InputError("a tensor whose memory was given back: it holds no numbers")
    if tensor.is_neg():
        # Its memory holds the numbers with the other sign, and memory is what is sent.
        raise InputError("a tensor that torch negates when it is read: give tensor.resolve_neg()")
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise InputError(
            "a tensor made in inference mode cannot be changed outside of it: give tensor.clone()"
        )
    if op == "mean" and not tensor.dtype.is_floating_point:
        raise InputError(f"the mean of {tensor.dtype} need not be a whole number: reduce by sum")


def kind_of(flat: Any) -> int:
    """The number of a tensor's dtype in `DTYPES`."""
    return DTYPES.index(_name(flat))


def mark_of(flat: Any) -> int:
    """Of a tensor's dtype and, modulo a prime, its elements: below 2 ** 10. Unlike tensors nearly always differ."""
    return DTYPES.index(_name(flat)) * _SIZES_TOLD_APART + int(flat.numel()) % _SIZES_TOLD_APART


def _name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
