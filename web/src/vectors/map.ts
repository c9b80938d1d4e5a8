/** A map of vectors: documents and queries as points; the nearest point under the pointer shows its text. */

import { make } from "../dom";

export interface MapData {
  kind: "map";
  title: string;
  documents: string[];
  queries: string[];
  places: string; // base64 of float32 (documents then queries, 2)
  pairs: [number, number][]; // a query and a relevant document
}

export interface Place {
  x: number;
  y: number;
}

/** Reads the coordinates and scales them to the unit square, with the same scale in both directions. */
export function readPlaces(text: string): Place[] {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const numbers = new Float32Array(bytes.buffer);
  const xs = numbers.filter((_, i) => i % 2 === 0);
  const ys = numbers.filter((_, i) => i % 2 === 1);
  const [left, right] = range(xs);
  const [low, high] = range(ys);
  const size = Math.max(right - left, high - low) || 1;
  return Array.from(xs, (x, i) => ({
    x: 0.5 + (x - (left + right) / 2) / size,
    y: 0.5 - (ys[i] - (low + high) / 2) / size,
  }));
}

function range(values: Float32Array): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

/** The index of the nearest place within `reach`, or -1. */
export function nearest(places: Place[], at: Place, reach: number): number {
  let best = -1;
  let distance = reach;
  places.forEach((place, i) => {
    const d = Math.hypot(place.x - at.x, place.y - at.y);
    if (d < distance) [best, distance] = [i, d];
  });
  return best;
}

export function drawMap(root: HTMLElement, data: MapData): void {
  const places = readPlaces(data.places);
  const count = data.documents.length;
  const text = (i: number): string => (i < count ? data.documents[i] : data.queries[i - count]);
  const links = new Map<number, number[]>();
  for (const [query, document] of data.pairs) {
    links.set(count + query, [...(links.get(count + query) ?? []), document]);
    links.set(document, [...(links.get(document) ?? []), count + query]);
  }
  const find = make("input", { label: "Find a text" });
  find.type = "search";
  find.placeholder = "Find a text";
  const canvas = make("canvas", { label: `Map of ${count} documents and ${data.queries.length} queries` });
  const note = make("div", { class: "note", text: "Point at a dot: its text appears here." });
  note.setAttribute("aria-live", "polite");
  root.append(
    make("h1", { text: data.title }),
    make(
      "div",
      { class: "bar" },
      make("span", { class: "key document", text: `${count.toLocaleString("en")} documents` }),
      make("span", { class: "key query", text: `${data.queries.length.toLocaleString("en")} queries` }),
      find,
    ),
    canvas,
    note,
  );
  let chosen = -1;
  const draw = (): void => {
    const ratio = window.devicePixelRatio || 1;
    const { width, height } = canvas.getBoundingClientRect();
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    if (!pen) return;
    pen.scale(ratio, ratio);
    const style = getComputedStyle(root);
    const color = (name: string): string => style.getPropertyValue(name).trim();
    const spot = toScreen(width, height);
    const small = places.length > 1000 ? 2.4 : 3.8;
    const wanted = find.value.trim().toLowerCase();
    const dot = (i: number, size: number, alpha: number): void => {
      const { x, y } = spot(places[i]);
      pen.globalAlpha = alpha;
      pen.fillStyle = color(i < count ? "--document" : "--query");
      pen.beginPath();
      pen.arc(x, y, size, 0, 7);
      pen.fill();
    };
    places.forEach((_, i) => {
      const found = wanted !== "" && text(i).toLowerCase().includes(wanted);
      dot(i, found ? 4.5 : small, wanted === "" ? 0.55 : found ? 1 : 0.12);
    });
    if (chosen < 0) return;
    pen.globalAlpha = 1;
    pen.strokeStyle = color("--text");
    for (const other of links.get(chosen) ?? []) {
      const [a, b] = [spot(places[chosen]), spot(places[other])];
      pen.beginPath();
      pen.moveTo(a.x, a.y);
      pen.lineTo(b.x, b.y);
      pen.stroke();
      dot(other, 5, 1);
    }
    dot(chosen, 6.5, 1);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = { x: event.clientX - box.left, y: event.clientY - box.top };
    const next = nearest(places.map(toScreen(box.width, box.height)), at, 14);
    if (next === chosen) return;
    chosen = next;
    note.replaceChildren(...(chosen < 0 ? ["Point at a dot: its text appears here."] : describe(chosen)));
    draw();
  });
  const describe = (i: number): Node[] => [
    make("b", { class: i < count ? "document" : "query", text: i < count ? "document " : "query " }),
    document.createTextNode(text(i)),
    ...(links.get(i) ?? []).slice(0, 3).map((other) =>
      make("div", { class: "other" },
        make("b", { class: other < count ? "document" : "query", text: other < count ? "document " : "query " }),
        text(other)),
    ),
  ];
  find.addEventListener("input", draw);
  window.addEventListener("resize", draw);
  window.matchMedia?.("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}

function toScreen(width: number, height: number): (place: Place) => Place {
  const size = Math.min(width, height) - 24;
  const wide = Math.max(width - 24, size);
  return ({ x, y }) => ({ x: width / 2 + (x - 0.5) * Math.min(wide, size * 1.5), y: height / 2 + (y - 0.5) * size });
}
