/** Steps view: the computation of one query in one head, as a table. */

import { colorTable, divergingIndex, isDark } from "./color";
import { make } from "./dom";
import { visibleText } from "./lines";
import { formatNumber } from "./numbers";
import type { Step } from "./source";
import type { Axis, MapInfo } from "./scene";

const MAX_KEYS = 400; // listed

export function stepsTable(step: Step, map: MapInfo, head: number, query: number, queries: Axis, keys: Axis): HTMLElement {
  const K = step.query.length;
  const name = visibleText(queries.words[query]);
  const intro = make("p", { class: "intro" });
  intro.append(
    make("b", { text: name }),
    ` in ${map.name}, head ${head}: its query vector q has ${K} dimensions; every token has a key vector k and a value vector v.`,
  );
  const table = make("table", { class: "steps" });
  const header = make("tr");
  const root = map.scale ? Math.round(1 / map.scale ** 2) : K;
  for (const [text, title] of [
    ["token", "the token attended to"],
    ["q·k", "dot product of query and key"],
    [Math.abs(root - K) < 1e-3 || root > 1 ? `÷ √${root}` : "× scale", "scaled by the square root of the head dimension"],
    ["mask", "−∞ where the mask forbids attention"],
    ["softmax", "attention weights; they sum to 1"],
    ["weight × v", "value vector times attention weight"],
  ])
    header.append(make("th", { text, title }));
  table.append(make("thead", {}, header));
  const body = make("tbody");
  const S = step.weights.length;
  const V = step.values.length / S;
  const order = Array.from({ length: S }, (_, j) => j);
  const listed = S <= MAX_KEYS ? order : order.sort((a, b) => step.weights[b] - step.weights[a]).slice(0, MAX_KEYS);
  let peak = 0;
  for (let j = 0; j < S; j++)
    for (let d = 0; d < V; d++) peak = Math.max(peak, Math.abs(step.weights[j] * step.values[j * V + d]));
  for (let d = 0; d < V; d++) peak = Math.max(peak, Math.abs(step.output[d]));
  for (const j of listed) {
    const row = make("tr");
    row.append(
      make("th", { text: visibleText(keys.words[j]) }),
      cell(step.scores[j]),
      cell(step.scaled[j]),
      make("td", { class: "mask", text: step.allowed[j] ? "" : "−∞" }),
      weightCell(step.weights[j]),
      make("td", {}, strip(V, (d) => step.weights[j] * step.values[j * V + d], peak)),
    );
    body.append(row);
  }
  table.append(body);
  const total = make("tr");
  total.append(
    make("th", { text: "sum" }), make("td"), make("td"), make("td"),
    cell(step.weights.reduce((sum, w) => sum + w, 0)),
    make("td", {}, strip(V, (d) => step.output[d], peak)),
  );
  table.append(make("tfoot", {}, total));
  const out = make("div", { class: "stepview" }, intro, table);
  if (S > MAX_KEYS) out.append(make("p", { class: "note", text: `Only the ${MAX_KEYS} largest of ${S.toLocaleString("en")} weights are listed.` }));
  out.append(
    make("p", {
      class: "note",
      text: "The last row is the output of this head for the token. Violet is negative, orange is positive.",
    }),
  );
  return out;
}

function cell(value: number): HTMLTableCellElement {
  const td = make("td", { class: "number", text: formatNumber(value, 3), title: String(value) });
  td.dataset.value = value.toPrecision(9);
  return td;
}

function weightCell(value: number): HTMLTableCellElement {
  const td = cell(value);
  td.textContent = formatNumber(value, 4);
  td.classList.add("weight");
  td.style.setProperty("--share", value.toFixed(4));
  return td;
}

/** Draw a vector as a row of colored cells. */
function strip(count: number, at: (d: number) => number, peak: number): HTMLCanvasElement {
  const canvas = make("canvas", { class: "strip" });
  canvas.width = count;
  canvas.height = 1;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${count} values from ${formatNumber(Math.min(...range(count, at)), 3)} to ${formatNumber(Math.max(...range(count, at)), 3)}`);
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  const image = new ImageData(count, 1);
  const table = colorTable(isDark(), true);
  for (let d = 0; d < count; d++) {
    const index = divergingIndex(at(d), peak);
    image.data.set(table.subarray(4 * index, 4 * index + 4), 4 * d);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function range(count: number, at: (d: number) => number): number[] {
  return Array.from({ length: count }, (_, d) => at(d));
}
