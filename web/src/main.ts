/** Where it starts: on a page that carries a scene, on a live page that asks for one, in a notebook's cell. */

import "./style.css";
import { parseScene } from "./scene";
import { Live, Static } from "./source";
import { fromHash, toHash } from "./state";
import { Viewer } from "./viewer";

function begin(root: HTMLElement, text: string, base: string | null): Viewer {
  const scene = parseScene(text);
  const source = base === null ? new Static(scene) : new Live(scene, base);
  return new Viewer(root, scene, source, fromHash(location.hash));
}

async function page(root: HTMLElement): Promise<void> {
  const carried = document.getElementById("scene");
  const base = root.dataset.live ?? null;
  try {
    const text = carried?.textContent ?? (await (await fetch(`${base}scene`)).text());
    const viewer = begin(root, text, base);
    viewer.state.onChange((now) => history.replaceState(null, "", toHash(now)));
  } catch (error) {
    root.textContent = error instanceof Error ? error.message : String(error);
  }
}

const root = document.getElementById("clearhead");
if (root) void page(root);

/** A notebook's widget (anywidget). */
export default {
  render({ model, el }: { model: { get(name: string): string }; el: HTMLElement }): void {
    const inner = document.createElement("div");
    el.append(inner);
    inner.classList.add("cell");
    begin(inner, model.get("scene"), null);
  },
};
