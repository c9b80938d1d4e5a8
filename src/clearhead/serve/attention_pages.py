"""Attention of a request: exact weights as JSON, and an interactive page that is kept for a while."""

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from starlette.requests import Request

from clearhead.serve import schemas
from clearhead.serve.dispatcher import Dispatcher
from clearhead.serve.errors import ApiError, bad_request
from clearhead.serve.middleware import respond
from clearhead.serve.model_registry import ServedModel
from clearhead.viz.live_server import application
from clearhead.viz.record_scene import record_scene
from clearhead.viz.scene import Scene, SceneAnswer

MAX_PAGES = 32  # the least recently used page is dropped
MAX_WEIGHTS = 2**21  # in one response


class AttentionPages:
    """Attention pages, each at an address that cannot be guessed."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, Any] = OrderedDict()

    async def create(
        self, request: Request, dispatcher: Dispatcher, model: ServedModel, body: schemas.AttentionRequest
    ) -> dict[str, Any]:
        """Runs the model with its attention captured; returns the response body with the page's address."""

        def run() -> tuple[Scene, list[Any] | None]:
            second = None if body.second is None else [body.second]
            scene = record_scene(model.pipeline.loaded, [body.text], second, title=body.text[:80])
            return scene, None if body.layer is None else _weights(scene, body.layer, body.head)

        (result,) = await dispatcher.answers(request, model, "call", [run], (object(),))
        scene, weights = result
        ablate = scene.ablated

        def ablate_in_engine(number: int, heads: Mapping[str, Sequence[int]]) -> SceneAnswer:
            """Runs the model again without some heads, in the engine's thread."""
            assert ablate is not None
            return dispatcher.engine.call(model, lambda: ablate(number, heads)).result()

        name = secrets.token_urlsafe(12)
        page_scene = replace(scene, ablated=None if ablate is None else ablate_in_engine)
        self._pages[name] = application(page_scene, hosts=["*"])
        while len(self._pages) > MAX_PAGES:
            self._pages.popitem(last=False)
        sequence = scene.inputs[0]
        layers = [
            {
                "name": layer.name,
                "kind": layer.kind,
                "heads": layer.attention.num_heads,
                "queries": list(sequence.axes[layer.queries].names.words),
                "keys": list(sequence.axes[layer.keys].names.words),
            }
            for layer in sequence.layers
        ]
        answer = None if sequence.answer is None else sequence.answer.text
        return {"model": model.name, "answer": answer, "page": f"/see/{name}/", "layers": layers, "weights": weights}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        root = scope.get("root_path", "")
        name, slash, rest = scope["path"].removeprefix(root).lstrip("/").partition("/")
        page = self._pages.get(name)
        if page is None or not slash:
            message = "this attention page has expired: request the attention again"
            await respond(send, ApiError(404, "page_expired", message))
            return
        self._pages.move_to_end(name)
        await page({**scope, "root_path": f"{root}/{name}", "path": f"{root}/{name}/{rest}"}, receive, send)


@torch.inference_mode()
def _weights(scene: Scene, layer_name: str, head: int | None) -> list[Any]:
    """Returns the weights of one head or of all, (heads, T, S)."""
    layers = scene.inputs[0].layers
    layer = next((each for each in layers if each.name == layer_name), None)
    if layer is None:
        names = ", ".join(each.name for each in layers)
        raise bad_request(f"no layer is named {layer_name!r}; layers: {names}", "layer")
    record = layer.attention
    if head is not None and head >= record.num_heads:
        raise bad_request(f"head {head} does not exist: give 0 to {record.num_heads - 1}", "head")
    heads = range(record.num_heads) if head is None else [head]
    if len(heads) * record.shape[0] * record.shape[1] > MAX_WEIGHTS:
        size = f"{len(heads)} x {record.shape[0]} x {record.shape[1]}"
        raise bad_request(
            f"{size} weights exceed the limit of {MAX_WEIGHTS:,}: ask for one head, or open the page", "head"
        )
    return [record.head(h).float().tolist() for h in heads]
