"""Seen: the attention behind a request, as exact weights and as a live page that is kept for a while."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from starlette.requests import Request

from clearhead.see.live import application
from clearhead.see.run import scene_of
from clearhead.see.scene import Answer, Scene
from clearhead.serve import asked
from clearhead.serve.desk import Desk
from clearhead.serve.faults import Fault, wrong
from clearhead.serve.guard import respond
from clearhead.serve.shelf import Shelved

KEPT = 32  # pages; the one that was looked at longest ago goes first
NUMBERS = 2**21  # weights in one answer


class Gallery:
    """The pages of what was looked at, each under a name that cannot be guessed."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Any] = OrderedDict()

    async def look(self, request: Request, desk: Desk, model: Shelved, body: asked.Attention) -> dict[str, Any]:
        """Run the model with somebody looking; what is answered, with the address of the page."""

        def run() -> tuple[Scene, list[Any] | None]:
            second = None if body.second is None else [body.second]
            scene = scene_of(model.app.opened, [body.text], second, title=body.text[:80])
            return scene, None if body.layer is None else _weights(scene, body.layer, body.head)

        (found,) = await desk.answers(request, model, "call", [run], (object(),))
        scene, weights = found
        whole = scene.without

        def without(number: int, heads: Mapping[str, Sequence[int]]) -> Answer:
            """The model is the engine's: it is asked again there."""
            assert whole is not None
            return desk.engine.call(model, lambda: whole(number, heads)).result()

        name = secrets.token_urlsafe(12)
        self._held[name] = application(replace(scene, without=None if whole is None else without), hosts=["*"])
        while len(self._held) > KEPT:
            self._held.popitem(last=False)
        one = scene.inputs[0]
        layers = [
            {
                "name": layer.name,
                "kind": layer.kind,
                "heads": layer.record.num_heads,
                "queries": list(one.axes[layer.queries].names.words),
                "keys": list(one.axes[layer.keys].names.words),
            }
            for layer in one.layers
        ]
        answer = None if one.answer is None else one.answer.text
        return {"model": model.name, "answer": answer, "page": f"/see/{name}/", "layers": layers, "weights": weights}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The pages, where this is mounted."""
        root = scope.get("root_path", "")
        name, slash, rest = scope["path"].removeprefix(root).lstrip("/").partition("/")
        inside = self._held.get(name)
        if inside is None or not slash:
            message = "this page is not kept any more: ask for the attention again"
            await respond(send, Fault(404, "not_kept", message))
            return
        self._held.move_to_end(name)
        await inside({**scope, "root_path": f"{root}/{name}", "path": f"{root}/{name}/{rest}"}, receive, send)


@torch.inference_mode()
def _weights(scene: Scene, layer: str, head: int | None) -> list[Any]:
    """The weights of one head or all, (heads, T, S)."""
    one = scene.inputs[0]
    found = next((each for each in one.layers if each.name == layer), None)
    if found is None:
        raise wrong(f"there is no layer {layer!r}: there are {', '.join(each.name for each in one.layers)}", "layer")
    record = found.record
    if head is not None and head >= record.num_heads:
        raise wrong(f"there is no head {head}: there are 0 to {record.num_heads - 1}", "head")
    heads = range(record.num_heads) if head is None else [head]
    if len(heads) * record.shape[0] * record.shape[1] > NUMBERS:
        size = f"{len(heads)} x {record.shape[0]} x {record.shape[1]}"
        raise wrong(f"{size} weights are too many for one answer: ask for one head, or look at the page", "head")
    return [record.head(h).float().tolist() for h in heads]
