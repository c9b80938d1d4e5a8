"""MiniLM behind LitServe with batching, as in its documentation: python litserve_side.py FOLDER PORT DTYPE."""

from __future__ import annotations

import sys

import litserve
import torch
from transformers import AutoModel, AutoTokenizer


class Embed(litserve.LitAPI):
    def setup(self, device: str) -> None:
        torch.set_num_threads(2)
        self.words = AutoTokenizer.from_pretrained(sys.argv[1])
        self.net = AutoModel.from_pretrained(sys.argv[1], dtype=getattr(torch, sys.argv[3])).eval()

    def decode_request(self, request: dict, **kwargs: object) -> str:
        return request["input"]

    def predict(self, x: list[str], **kwargs: object) -> torch.Tensor:
        with torch.inference_mode():
            read = self.words(x, padding=True, truncation=True, max_length=256, return_tensors="pt")
            states = self.net(**read).last_hidden_state
            mask = read["attention_mask"].unsqueeze(-1)
            mean = (states * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(mean, dim=1).float()

    def encode_response(self, output: torch.Tensor, **kwargs: object) -> dict:
        return {"embedding": output.tolist()}


if __name__ == "__main__":
    api = Embed(max_batch_size=64, batch_timeout=0.005)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=120)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, num_api_servers=1)
