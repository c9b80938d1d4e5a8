/** The result of each task as elements. Texts of users and models are set as text. */

import type { Alternative, Caption, Classification, Embeddings, QaAnswer, Span, Tags, Translation } from "./client";
import { make, roving, withValue } from "./elements";

const MAX_ROWS = 40; // of the similarity matrix

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function barTable(caption: string, rows: HTMLElement[]): HTMLElement {
  return make("table", { class: "bars" }, make("caption", { class: "visually-hidden", text: caption }), make("tbody", {}, ...rows));
}

function bar(name: string, value: number, isBest: boolean, head: "th" | "td" = "th"): HTMLTableRowElement {
  const label = make(head, { scope: head === "th" && "row", text: name });
  const number = make("td", { class: "number", text: percent(value) });
  return make("tr", { class: isBest ? "best" : "" }, label, withValue(make("td", { class: "bar" }), value), number);
}

/** The predicted label, labels or number, and the score of each label as a bar. */
export function classification({ answer, scores }: Classification): HTMLElement[] {
  const best = [answer].flat();
  const text = typeof answer === "number" ? answer.toPrecision(4) : best.join(", ") || "no label";
  const sorted = Object.entries(scores).sort((a, b) => b[1] - a[1]);
  const rows = sorted.map(([name, score]) => bar(name, score, best.includes(name)));
  return [make("p", { class: "result", text }), ...(rows.length ? [barTable("Score of each label", rows)] : [])];
}

/** The words, colored by tag, and the named entities. */
export function tagged({ words, tags, scores, entities }: Tags): HTMLElement[] {
  const labels = [...new Set([...entities.map(({ label }) => label), ...tags.map(labelOf)])].filter((label) => label !== "O");
  const color = (label: string) => `tag color${labels.indexOf(label) % 7}`;
  const text = words.flatMap((word, i) => {
    const tag = tags[i];
    const title = percent(scores[i]);
    if (tag === "O") return [make("span", { text: word, title }), " "];
    return [make("span", { class: color(labelOf(tag)), title }, make("span", { text: word }), make("small", { text: tag })), " "];
  });
  const rows = entities.map((entity) =>
    make("li", {}, make("span", { class: color(entity.label), text: entity.label }), " ", make("span", { text: entity.text })),
  );
  const list = rows.length
    ? make("ul", { class: "entities", "aria-label": "Named entities" }, ...rows)
    : make("p", { class: "faint", text: "No named entities." });
  return [make("p", { class: "words" }, ...text), list];
}

function labelOf(tag: string): string {
  return tag.replace(/^[BIESLU]-/, "");
}

/** The answer, highlighted in its context, and the n best answers: hovering over one highlights it instead. */
export function spans({ best, spans, no_answer_probability }: QaAnswer, context: string): HTMLElement[] {
  const characters = [...context]; // the server counts code points, JavaScript counts UTF-16 units
  const text = make("p", { class: "context" });
  const highlight = (span: Span | null) => {
    if (!span) return text.replaceChildren(context);
    const part = (start: number, end?: number) => characters.slice(start, end).join("");
    text.replaceChildren(part(0, span.start), make("mark", { text: part(span.start, span.end) }), part(span.end));
  };
  highlight(best);
  const rows = spans.map((span, i) => {
    const row = bar(span.text, span.probability, best !== null && i === 0, "td");
    row.cells[0].replaceChildren(make("button", { type: "button", class: "span", text: span.text }));
    for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => highlight(span));
    for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => highlight(best));
    return row;
  });
  rows.push(bar("no answer", no_answer_probability, best === null, "td"));
  const result = make("p", { class: "result", text: best ? best.text : "The context does not contain the answer." });
  return [result, text, barTable("Most likely answers", rows)];
}

/** The translation, its alignment and the n best hypotheses. */
export function translation({ text, nbest, source, tokens, alignment: weights }: Translation): HTMLElement[] {
  const shown: HTMLElement[] = [make("p", { class: "result", text })];
  if (weights) shown.push(alignment(source, tokens, weights));
  return [...shown, ...hypotheses(nbest, "n best translations")];
}

export function caption({ text, nbest }: Caption): HTMLElement[] {
  return [make("p", { class: "result", text }), ...hypotheses(nbest, "n best captions")];
}

function hypotheses(nbest: Alternative[], title: string): HTMLElement[] {
  if (nbest.length < 2) return [];
  const rows = nbest.map((one) => make("tr", {}, make("td", { text: one.text }), make("td", { class: "number", text: one.score.toFixed(3) })));
  const head = make("tr", {}, make("th", { scope: "col", text: title }), make("th", { scope: "col", class: "number", text: "score" }));
  return [make("table", { class: "hypotheses" }, make("thead", {}, head), make("tbody", {}, ...rows))];
}

/** Hovering over a target token shades the source tokens that it is aligned with. */
function alignment(source: string[], target: string[], weights: number[][]): HTMLElement {
  const sources = source.map((token) => make("span", tokenAttributes(token)));
  const targets = target.map((token) => make("button", { type: "button", ...tokenAttributes(token) }));
  const sourceRow = make("p", { class: "tokens source", "aria-label": "Source tokens" }, ...sources);
  const targetRow = make("p", { class: "tokens", role: "toolbar", "aria-label": "Target tokens" }, ...targets);
  const hint = make("p", { class: "faint token-hint", role: "status", text: "Hover over a target token to see the source tokens it is aligned with." });
  targets.forEach((button, i) => {
    const row = weights[i];
    const show = () => {
      const maximum = Math.max(0.3, ...row); // a flat row stays pale
      sources.forEach((span, j) => withValue(span, row[j] / maximum));
      targets.forEach((other) => other.classList.toggle("active", other === button));
      const order = row.map((_, j) => j).sort((a, b) => row[b] - row[a]);
      const top = order.slice(0, 3).map((j) => `${tokenText(source[j])} ${percent(row[j])}`);
      hint.textContent = `${tokenText(target[i])} ← ${top.join(", ")}`;
    };
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, show);
  });
  roving(targetRow);
  return make("div", { class: "alignment" }, make("h3", { text: "Target" }), targetRow, make("h3", { text: "Source" }), sourceRow, hint);
}

/** The first token of a word has a space before it. */
function tokenAttributes(token: string): { class: string; text: string } {
  const startsWord = /^[▁Ġ]/.test(token) || /^<.*>$/.test(token);
  return { class: startsWord ? "token first" : "token", text: tokenText(token) };
}

/** A token without the marks of its vocabulary. */
function tokenText(token: string): string {
  return token.replace(/^##/, "").replaceAll(/[▁Ġ]/g, " ").trim() || "␣";
}

/** The cosine similarity of every two texts. */
export function similarity(texts: string[], { vectors, truncated }: Embeddings): HTMLElement[] {
  const unit = vectors.slice(0, MAX_ROWS).map((vector) => {
    const length = Math.hypot(...vector) || 1;
    return vector.map((x) => x / length);
  });
  const cosine = unit.map((a) => unit.map((b) => a.reduce((sum, x, i) => sum + x * b[i], 0)));
  const head = make("tr", {}, make("td"), ...unit.map((_, i) => make("th", { scope: "col", text: String(i + 1) })));
  const rows = cosine.map((row, i) => {
    const name = make("th", { scope: "row", title: texts[i] }, make("b", { text: String(i + 1) }), " ", texts[i]);
    const kind = (j: number, x: number) => (i === j ? "diagonal" : x < 0 ? "negative" : "");
    const cells = row.map((x, j) => withValue(make("td", { class: kind(j, x), text: x.toFixed(2) }), Math.abs(x)));
    return make("tr", {}, name, ...cells);
  });
  const best = mostSimilar(cosine);
  const notes: string[] = [];
  if (best) notes.push(`Most similar: ${best[0] + 1} and ${best[1] + 1}, ${cosine[best[0]][best[1]].toFixed(2)}.`);
  if (vectors.length > MAX_ROWS) notes.push(`Showing the first ${MAX_ROWS} of ${vectors.length} texts.`);
  const long = truncated.flatMap((is, i) => (is ? [i + 1] : []));
  if (long.length) notes.push(`Truncated to the model's maximum length: ${long.join(", ")}.`);
  const caption = make("caption", { class: "visually-hidden", text: "Cosine similarity of every two texts" });
  const table = make("table", { class: "heatmap" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
  const region = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Similarity" }, table);
  return [make("p", { class: "result small", text: notes.join(" ") }), region];
}

function mostSimilar(cosine: number[][]): [number, number] | null {
  let best: [number, number] | null = null;
  for (let i = 0; i < cosine.length; i++) {
    for (let j = i + 1; j < cosine.length; j++) {
      if (best === null || cosine[i][j] > cosine[best[0]][best[1]]) best = [i, j];
    }
  }
  return best;
}
