/** Steps: one word, one head, the numbers of the lecture in their order. */

import { ramp, isDark } from "./colour";
import { make } from "./dom";
import { visible } from "./lines";
import { written } from "./numbers";
import type { Step } from "./source";
import type { Axis, MapInfo } from "./scene";

const SHOWN = 400; // keys that are listed

export function stepsTable(step: Step, map: MapInfo, head: number, query: number, queries: Axis, keys: Axis): HTMLElement {
  const K = step.query.length;
  const name = visible(queries.words[query]);
  const intro = make("p", { class: "intro" });
  intro.append(
    make("b", { text: name }),
    ` asks, in ${map.name}, head ${head}. Its query q has ${K} numbers; each word has a key k and a value v.`,
  );
  const table = make("table", { class: "steps" });
  const header = make("tr");
  const root = map.scale ? Math.round(1 / map.scale ** 2) : K;
  for (const [text, title] of [
    ["word", "who could be attended to"],
    ["q·k", "the product of query and key: how well they match"],
    [Math.abs(root - K) < 1e-3 || root > 1 ? `÷ √${root}` : "× scale", "divided by the root of the width, so that its size does not grow with it"],
    ["mask", "may it be seen at all?"],
    ["softmax", "exponentials, divided by their sum: the weights, which add up to 1"],
    ["weight × v", "what each word gives: its value, times its weight"],
  ])
    header.append(make("th", { text, title }));
  table.append(make("thead", {}, header));
  const body = make("tbody");
  const S = step.weights.length;
  const V = step.values.length / S;
  const order = Array.from({ length: S }, (_, j) => j);
  const listed = S <= SHOWN ? order : order.sort((a, b) => step.weights[b] - step.weights[a]).slice(0, SHOWN);
  let most = 0;
  for (let j = 0; j < S; j++)
    for (let d = 0; d < V; d++) most = Math.max(most, Math.abs(step.weights[j] * step.values[j * V + d]));
  for (let d = 0; d < V; d++) most = Math.max(most, Math.abs(step.output[d]));
  for (const j of listed) {
    const row = make("tr");
    row.append(
      make("th", { text: visible(keys.words[j]) }),
      cell(step.scores[j]),
      cell(step.scaled[j]),
      make("td", { class: "mask", text: step.allowed[j] ? "" : "−∞" }),
      weighted(step.weights[j]),
      make("td", {}, strip(V, (d) => step.weights[j] * step.values[j * V + d], most)),
    );
    body.append(row);
  }
  table.append(body);
  const total = make("tr");
  total.append(
    make("th", { text: "sum" }), make("td"), make("td"), make("td"),
    cell(step.weights.reduce((sum, w) => sum + w, 0)),
    make("td", {}, strip(V, (d) => step.output[d], most)),
  );
  table.append(make("tfoot", {}, total));
  const out = make("div", { class: "stepview" }, intro, table);
  if (S > SHOWN) out.append(make("p", { class: "note", text: `The ${SHOWN} largest of ${S.toLocaleString("en")} weights.` }));
  out.append(
    make("p", {
      class: "note",
      text: "The last line is what this head hands on for the word. Violet is below 0, orange above.",
    }),
  );
  return out;
}

function cell(value: number): HTMLTableCellElement {
  const td = make("td", { class: "number", text: written(value, 3), title: String(value) });
  td.dataset.value = value.toPrecision(9);
  return td;
}

function weighted(value: number): HTMLTableCellElement {
  const td = cell(value);
  td.textContent = written(value, 4);
  td.classList.add("weight");
  td.style.setProperty("--share", value.toFixed(4));
  return td;
}

/** A vector as a row of coloured cells. */
function strip(count: number, at: (d: number) => number, most: number): HTMLCanvasElement {
  const canvas = make("canvas", { class: "strip" });
  canvas.width = count;
  canvas.height = 1;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${count} numbers from ${written(Math.min(...range(count, at)), 3)} to ${written(Math.max(...range(count, at)), 3)}`);
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  const image = new ImageData(count, 1);
  const table = ramp(isDark(), true);
  for (let d = 0; d < count; d++) {
    const place = Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, at(d) / (most || 1))));
    image.data.set(table.subarray(4 * place, 4 * place + 4), 4 * d);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function range(count: number, at: (d: number) => number): number[] {
  return Array.from({ length: count }, (_, d) => at(d));
}
