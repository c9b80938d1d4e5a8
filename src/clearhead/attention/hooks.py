"""Hooks: whether user code or a capture listens to a module, so that fast paths must not skip it."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

Hook = TypeVar("Hook", bound=Callable[..., Any])


def is_observed(module: nn.Module) -> bool:
    """True if forward hooks or forward pre-hooks are registered on the module.

    Fused paths ask this before they bypass a module's `forward`.
    """
    return bool(module._forward_hooks or module._forward_pre_hooks)


def accepts_padding(hook: Hook) -> Hook:
    """Mark a hook that is right for batches with padding sequences at the end, or cuts them off itself."""
    hook.accepts_padding = True  # type: ignore[attr-defined]
    return hook


def may_replace_output(module: nn.Module) -> bool:
    """True if forward hooks, which can return another output, are registered on the module."""
    return bool(module._forward_hooks)
