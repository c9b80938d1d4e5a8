/** Entry points: a page with an embedded scene, a live page that fetches its scene, and a notebook widget. */

import "./style.css";
import { parseScene } from "./scene";
import { LiveSource, EmbeddedSource } from "./source";
import { fromHash, toHash } from "./state";
import { Viewer } from "./viewer";

function createViewer(root: HTMLElement, text: string, base: string | null): Viewer {
  const scene = parseScene(text);
  const source = base === null ? new EmbeddedSource(scene) : new LiveSource(scene, base);
  return new Viewer(root, scene, source, fromHash(location.hash || (root.dataset.start ?? "")));
}

async function startPage(root: HTMLElement): Promise<void> {
  const embedded = document.getElementById("scene");
  const base = root.dataset.live ?? null;
  try {
    const text = embedded?.textContent ?? (await (await fetch(`${base}scene`)).text());
    const viewer = createViewer(root, text, base);
    viewer.state.onChange((now) => history.replaceState(null, "", toHash(now)));
    const follow = () => {
      const selection = fromHash(location.hash);
      if (!selection.view) return;
      viewer.state.set(selection);
      root.scrollIntoView();
    };
    window.addEventListener("hashchange", follow); // a link of the text before the viewer
    if (root.previousElementSibling?.classList.contains("preface")) follow();
  } catch (error) {
    root.textContent = error instanceof Error ? error.message : String(error);
  }
}

const root = document.getElementById("clearhead");
if (root) void startPage(root);

/** Notebook widget (anywidget). */
export default {
  render({ model, el }: { model: { get(name: string): string }; el: HTMLElement }): void {
    const inner = document.createElement("div");
    el.append(inner);
    inner.classList.add("cell");
    createViewer(inner, model.get("scene"), null);
  },
};
