/** The page of an image: where a patch looks, the maps of all heads, and how far each head looks. */

import { interpolateInferno } from "d3-scale-chromatic";
import { make } from "../dom";
import { Attention, brightest, cellAt, type Head, type ImageData } from "./data";

const LARGEST = 520; // pixels of the image's longer side on the page

export function drawImage(root: HTMLElement, data: ImageData): void {
  const attention = new Attention(data);
  const [rows, columns] = data.grid;
  const state = {
    layer: data.layers.length - 1,
    head: "mean" as Head,
    rollout: false,
    token: 0,
    pinned: false,
    word: data.words.length ? 0 : null as number | null, // the word that looks, in place of the token
    wordLayer: "all" as number | "all",
  };
  const start = data.learned.length ? 0 : Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  state.token = start;

  const picture = new Image();
  const canvas = make("canvas", { class: "picture" });
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  const note = make("p", { class: "note" });
  note.setAttribute("aria-live", "polite");

  const layers = chooser("layer", data.layers.map(({ name }) => name), (i) => select({ layer: i, rollout: false, word: null }));
  const heads = make("div", { class: "choices" });
  const rollout = button("rollout of all layers", () => select({ rollout: !state.rollout, word: null }));
  const learned = data.learned.map((name, i) => button(name, () => select({ token: i, pinned: false, word: null })));
  const wordLayers = chooser("words in", ["all layers", ...data.wordLayers.map(({ name }) => name)], (i) => {
    select({ wordLayer: i ? i - 1 : "all" });
    drawWords();
  });
  const words = data.words.map((word, i) => {
    const map = make("canvas", { class: "map" });
    const one = make("button", { class: "word" }, map, make("span", { text: word }));
    one.type = "button";
    for (const event of ["pointerenter", "focus", "click"]) one.addEventListener(event, () => select({ word: i }));
    return { one, map };
  });

  const thumbnails = data.layers.map(({ heads: count }, layer) =>
    [...Array(count).keys()].map((head) => {
      const map = make("canvas", { class: "map" });
      [map.width, map.height] = [columns, rows];
      map.style.setProperty("--ratio", `${columns} / ${rows}`);
      map.tabIndex = 0;
      map.title = `${data.layers[layer].name}, head ${head}`;
      map.addEventListener("click", () => select({ layer, head, rollout: false, word: null }));
      map.addEventListener("keydown", (event) => event.key === "Enter" && select({ layer, head, rollout: false, word: null }));
      return map;
    }),
  );

  const name = (token: number): string => {
    if (token < data.learned.length) return data.learned[token];
    const cell = token - data.learned.length;
    return `row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
  };

  function select(change: Partial<typeof state>): void {
    if (change.layer !== undefined && change.layer !== state.layer && change.head === undefined) {
      if (state.head !== "mean" && state.head >= data.layers[change.layer].heads) state.head = "mean";
    }
    const token = state.token;
    Object.assign(state, change);
    draw();
    if (state.token !== token) drawMaps();
  }

  function draw(): void {
    const weights =
      state.word !== null
        ? attention.word(state.wordLayer, state.word)
        : state.rollout
          ? attention.rollout(state.token)
          : attention.row(state.layer, state.head, state.token);
    paint(canvas, picture, data.grid, weights, state.word !== null ? -1 : state.token - data.learned.length);
    wordLayers.mark(state.wordLayer === "all" ? 0 : state.wordLayer + 1);
    words.forEach(({ one }, i) => one.setAttribute("aria-pressed", String(state.word === i)));
    layers.mark(state.rollout || state.word !== null ? -1 : state.layer);
    const count = data.layers[state.layer]?.heads ?? 0;
    const labels = ["mean", ...[...Array(count).keys()].map(String)];
    heads.replaceChildren(
      make("span", { class: "faint", text: "head" }),
      ...labels.map((label, i) => {
        const head: Head = i ? i - 1 : "mean";
        const one = button(label, () => select({ head, rollout: false, word: null }));
        one.setAttribute("aria-pressed", String(!state.rollout && state.word === null && state.head === head));
        return one;
      }),
    );
    rollout.setAttribute("aria-pressed", String(state.rollout));
    learned.forEach((one, i) => one.setAttribute("aria-pressed", String(state.word === null && state.token === i)));
    thumbnails.forEach((maps, layer) =>
      maps.forEach((map, head) => map.classList.toggle("chosen", !state.rollout && state.word === null && layer === state.layer && head === state.head)),
    );
    const best = weights.indexOf(Math.max(...weights));
    const total = weights.reduce((a, b) => a + b, 0);
    const chosen = state.wordLayer === "all" ? "all layers" : data.wordLayers[state.wordLayer].name;
    const where =
      state.word !== null
        ? `${chosen}, mean of all heads`
        : state.rollout
          ? "all layers"
          : `${data.layers[state.layer].name}, ${state.head === "mean" ? "mean of all heads" : `head ${state.head}`}`;
    note.textContent =
      `${state.word !== null ? `“${data.words[state.word]}”` : name(state.token)} in ${where}: ${(100 * total).toFixed(0)} % on the patches, ` +
      `most on ${name(best + data.learned.length)} (${(100 * weights[best]).toFixed(1)} %)`;
    canvas.setAttribute("aria-label", note.textContent);
  }

  function drawWords(): void {
    words.forEach(({ map }, i) => {
      paint(map, picture, data.grid, attention.word(state.wordLayer, i), -1);
    });
  }

  function drawMaps(): void {
    thumbnails.forEach((maps, layer) => maps.forEach((map, head) => heat(map, attention.row(layer, head, state.token), data.grid)));
  }

  const cell = (event: PointerEvent): number | null => {
    const box = canvas.getBoundingClientRect();
    return cellAt(data.grid, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  };
  canvas.addEventListener("pointermove", (event) => {
    const at = cell(event);
    if (at !== null && !state.pinned && data.layers.length) select({ token: at + data.learned.length, word: null });
  });
  canvas.addEventListener("click", (event) => {
    const at = cell(event as PointerEvent);
    if (at !== null && data.layers.length) select({ token: at + data.learned.length, pinned: !state.pinned, word: null });
  });
  canvas.addEventListener("pointerleave", () => state.pinned || state.word !== null || select({ token: start }));
  canvas.addEventListener("keydown", (event) => {
    const moves: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    if (!(event.key in moves) || !data.layers.length) return;
    event.preventDefault();
    const next = Math.max(data.learned.length, state.token) + moves[event.key];
    if (next >= data.learned.length && next < attention.tokens) select({ token: next, pinned: true, word: null });
  });

  const caption = data.words.length
    ? [make("h2", { text: "Where each word looks" }), ...(data.wordLayers.length > 1 ? [wordLayers.element] : []), make("div", { class: "words" }, ...words.map(({ one }) => one))]
    : [];
  const patches = data.layers.length
    ? [
        ...(caption.length ? [make("h2", { text: "Where each patch looks" })] : []),
        layers.element,
        heads,
        make("h2", { text: "All heads" }),
        make("div", { class: "maps" }, ...thumbnails.map((maps, i) => make("div", { class: "line" }, make("span", { class: "faint", text: data.layers[i].name }), ...maps))),
        make("h2", { text: "How far each head looks" }),
        distances(attention),
      ]
    : [];
  const from = data.layers.length ? [make("div", { class: "choices" }, make("span", { class: "faint", text: "from" }), ...learned, rollout)] : [];
  const atImage = "Point at the image: the color shows where that patch looks. A click holds it.";
  const atWord = "Point at a word: the color shows where the model looked when it wrote it. ";
  const point = (data.words.length ? atWord : "") + (data.layers.length ? atImage : "");
  const size = data.patches > 1 ? `Each cell is ${data.patches} × ${data.patches} patches. ` : "";
  root.append(
    make("h1", { text: data.title }),
    make("p", { class: "faint", text: `${data.model}: ${rows} × ${columns} cells. ${size}${point}` }),
    make(
      "div",
      { class: "columns" },
      make("div", { class: "left" }, canvas, note, ...from),
      make("div", { class: "right" }, ...caption, ...patches),
    ),
  );
  picture.addEventListener("load", () => {
    const scale = LARGEST / Math.max(picture.width, picture.height);
    [canvas.width, canvas.height] = [Math.round(picture.width * scale), Math.round(picture.height * scale)];
    for (const { map } of words) [map.width, map.height] = [Math.round(canvas.width / 4), Math.round(canvas.height / 4)];
    draw();
    drawMaps();
    drawWords();
  });
  picture.src = data.image;
}

function button(text: string, onClick: () => void): HTMLButtonElement {
  const element = make("button", { text });
  element.type = "button";
  element.addEventListener("click", onClick);
  return element;
}

interface Chooser {
  element: HTMLElement;
  mark(index: number): void;
}

function chooser(label: string, names: string[], choose: (index: number) => void): Chooser {
  const buttons = names.map((name, i) => button(name.replace(/^encoder\./, ""), () => choose(i)));
  const element = make("div", { class: "choices" }, make("span", { class: "faint", text: label }), ...buttons);
  return { element, mark: (index) => buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(i === index))) };
}

/** Draws the image with the weights of its cells on it, and a frame around the cell that looks. */
function paint(canvas: HTMLCanvasElement, picture: HTMLImageElement, [rows, columns]: [number, number], weights: Float64Array, from: number): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const { width, height } = canvas;
  context.imageSmoothingEnabled = picture.width > 64;
  context.filter = "grayscale(0.7)";
  context.drawImage(picture, 0, 0, width, height);
  context.filter = "none";
  const largest = brightest(weights);
  const [w, h] = [width / columns, height / rows];
  weights.forEach((weight, i) => {
    const strength = weight / largest;
    context.globalAlpha = 0.3 + 0.35 * strength;
    context.fillStyle = interpolateInferno(strength);
    const [column, row] = [i % columns, Math.floor(i / columns)];
    const [left, top] = [Math.round(column * w), Math.round(row * h)];
    context.fillRect(left, top, Math.round((column + 1) * w) - left, Math.round((row + 1) * h) - top);
  });
  context.globalAlpha = 1;
  if (from < 0) return;
  context.lineWidth = 2.5;
  context.strokeStyle = "#00e5ff";
  context.strokeRect((from % columns) * w + 1, Math.floor(from / columns) * h + 1, w - 2, h - 2);
}

function heat(canvas: HTMLCanvasElement, weights: Float64Array, [, columns]: [number, number]): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const largest = brightest(weights);
  weights.forEach((weight, i) => {
    context.fillStyle = interpolateInferno(weight / largest);
    context.fillRect(i % columns, Math.floor(i / columns), 1, 1);
  });
}

/** A dot for each head: its layer, and the mean distance of what it attends to. */
function distances(attention: Attention): HTMLElement {
  const { layers } = attention.data;
  const values = layers.map(({ heads }, layer) => [...Array(heads).keys()].map((head) => attention.distance(layer, head)));
  const largest = Math.max(...values.flat(), 1e-9);
  return make(
    "div",
    { class: "distances" },
    ...values.map((row, layer) =>
      make(
        "div",
        { class: "line" },
        make("span", { class: "faint", text: layers[layer].name }),
        make(
          "div",
          { class: "track" },
          ...row.map((value, head) => {
            const dot = make("span", { class: "dot" });
            dot.style.setProperty("--at", String(value / largest));
            dot.title = `head ${head}: ${value.toFixed(1)} cells`;
            return dot;
          }),
        ),
        make("span", { class: "faint", text: `${(row.reduce((a, b) => a + b, 0) / row.length).toFixed(1)} cells` }),
      ),
    ),
  );
}
