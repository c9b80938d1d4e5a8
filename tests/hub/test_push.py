"""Upload to the hub, against a server on this machine that speaks the routes of an upload; and the card of a folder."""

import base64
import hashlib
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from clearhead import load
from tests.files.hostile import valid


@pytest.fixture
def hub(tmp_path):
    """A hub: repositories, regular files inside commits, and large files by git-lfs."""
    state = {"created": [], "files": {}, "blobs": {}, "tokens": set(), "messages": [], "cards": []}

    class Hub(BaseHTTPRequestHandler):
        def reply(self, value: object, status: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def do_GET(self):
            self.body()
            self.reply({"id": "acme/new", "sha": "0" * 40, "siblings": []})

        def do_PUT(self):
            data = self.body()
            state["blobs"][hashlib.sha256(data).hexdigest()] = data
            self.reply({})

        def do_POST(self):
            state["tokens"].add(self.headers.get("Authorization"))
            data, path = self.body(), self.path.partition("?")[0]
            if self.headers.get("Authorization") != "Bearer hf_right":
                self.reply({"error": "Invalid credentials"}, 401)
            elif path == "/api/validate-yaml":
                state["cards"].append(json.loads(data)["content"])
                self.reply({"errors": [], "warnings": []})
            elif path == "/api/repos/create":
                state["created"].append(json.loads(data))
                self.reply({"url": f"{state['address']}/acme/new", "id": "acme/new"})
            elif "/preupload/" in path:
                files = json.loads(data)["files"]
                kinds = [{"path": f["path"], "shouldIgnore": False,
                          "uploadMode": "lfs" if f["path"].endswith(".safetensors") else "regular"} for f in files]  # fmt: skip
                self.reply({"files": kinds})
            elif path.endswith("/info/lfs/objects/batch"):
                host = f"http://{self.headers['Host']}/blob"
                objects = [{"oid": o["oid"], "size": o["size"], "actions": {"upload": {"href": f"{host}/{o['oid']}"}}}
                           for o in json.loads(data)["objects"]]  # fmt: skip
                self.reply({"transfer": "basic", "objects": objects})
            elif "/commit/" in path:
                for line in map(json.loads, data.decode().splitlines()):
                    value = line["value"]
                    if line["key"] == "file":
                        state["files"][value["path"]] = base64.b64decode(value["content"])
                    elif line["key"] == "lfsFile":
                        state["files"][value["path"]] = state["blobs"][value["oid"]]
                    elif line["key"] == "header":
                        state["messages"].append(value["summary"])
                self.reply(
                    {
                        "success": True,
                        "commitOid": "c" * 40,
                        "commitUrl": f"{state['address']}/acme/new/commit/{'c' * 40}",
                    }
                )
            else:
                self.reply({"error": f"no route {path}"}, 404)

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state["address"] = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    server.server_close()


def push(hub, folder, *, name="acme/new", token="hf_right"):
    """In a process of its own: huggingface_hub reads the address of the hub when it is imported."""
    code = (
        f"import clearhead; print(clearhead.load({str(folder)!r}).push_to_hub({name!r}, private=True, message='First'))"
    )
    env = {"HF_ENDPOINT": hub["address"], "HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1", "HOME": str(folder.parent)}
    path = {"PATH": "/usr/bin:/bin"}
    return subprocess.run([sys.executable, "-c", code], env=env | path, capture_output=True, text=True)


def test_what_was_pushed_is_what_is_loaded(hub, tmp_path):
    done = push(hub, valid(tmp_path / "folder"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("/commit/" + "c" * 40)
    assert hub["created"][0]["name"] == "new"
    assert hub["created"][0].get("private") or hub["created"][0].get("visibility") == "private"
    assert hub["messages"] == ["First"]
    assert fields_of(hub["cards"][0])["library_name"] == "clearhead", "the hub checks the card's fields"
    there = tmp_path / "there"
    for name, data in hub["files"].items():
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_bytes(data)
    ours, theirs = load(tmp_path / "folder").model.state_dict(), load(there).model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours)
    assert "library_name" in (there / "README.md").read_text()


def test_a_wrong_token_and_a_wrong_name_say_what_to_do(hub, tmp_path):
    folder = valid(tmp_path / "folder")
    refused = push(hub, folder, token="hf_wrong")
    assert refused.returncode != 0
    assert "hf auth login" in refused.stderr
    assert "hf_wrong" not in refused.stderr
    misnamed = push(hub, folder, name="a/b/c")
    assert misnamed.returncode != 0
    assert "OWNER/NAME" in misnamed.stderr
    assert hub["files"] == {}


def fields_of(card: str) -> dict:
    return yaml.safe_load(card.split("---")[1])


def test_a_folder_is_saved_with_its_card_and_an_edited_card_stays_valid(tmp_path):
    model = load(valid(tmp_path / "folder"))
    model.save(tmp_path / "saved")
    card = tmp_path / "saved" / "README.md"
    assert fields_of(card.read_text())["library_name"] == "clearhead"
    card.write_text("mine")
    assert load(tmp_path / "saved").loaded.architecture == model.loaded.architecture
