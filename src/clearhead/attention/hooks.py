"""Hooks: whether user code or a capture listens to a module, so that fast paths must not skip it."""

from torch import nn


def is_observed(module: nn.Module, *, recursive: bool = False) -> bool:
    """True if forward hooks or forward pre-hooks are registered on the module, or, recursively, on any submodule.

    Fused paths ask this before they bypass a module's `forward`.
    """
    modules = module.modules() if recursive else (module,)
    return any(m._forward_hooks or m._forward_pre_hooks for m in modules)


def may_replace_output(module: nn.Module) -> bool:
    """True if forward hooks, which can return another output, are registered on the module."""
    return bool(module._forward_hooks)
