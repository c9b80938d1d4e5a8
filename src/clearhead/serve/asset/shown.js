/** Shown: the answer of each task, as something to look at. Words of users and models are text here, never code. */

import { make, roving, shared } from "./dom.js";

const ROWS = 40; // of a table of texts; more cannot be taken in

export function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function bars(caption, rows) {
  return make("table", { class: "bars" }, make("caption", { class: "unseen", text: caption }), make("tbody", {}, ...rows));
}

function bar(name, share, isBest, head = "th") {
  const cells = [make(head, { scope: head === "th" && "row", text: name }), shared(make("td", { class: "bar" }), share)];
  return make("tr", { class: isBest ? "best" : "" }, ...cells, make("td", { class: "number", text: percent(share) }));
}

/** A label, labels or a number, and a bar for the score of each label. */
export function labels({ answer, scores }) {
  const best = [answer].flat();
  const said = typeof answer === "number" ? answer.toPrecision(4) : best.join(", ") || "none of the labels";
  const rows = Object.entries(scores).sort((a, b) => b[1] - a[1]);
  const shown = rows.map(([name, score]) => bar(name, score, best.includes(name)));
  return [make("p", { class: "said", text: said }), ...(rows.length ? [bars("Score of each label", shown)] : [])];
}

/** The words in the colours of their tags, and the names that these mark. */
export function tags({ words, tags, scores, names }) {
  const kinds = [...new Set([...names.map((name) => name.label), ...tags.map(kindOf)])].filter((kind) => kind !== "O");
  const colour = (kind) => `tag colour${kinds.indexOf(kind) % 7}`;
  const shown = words.flatMap((word, i) => {
    const tag = tags[i];
    if (tag === "O") return [make("span", { text: word, title: percent(scores[i]) }), " "];
    const small = make("small", { text: tag });
    return [make("span", { class: colour(kindOf(tag)), title: percent(scores[i]) }, make("span", { text: word }), small), " "];
  });
  const rows = names.map(({ label, text }) =>
    make("li", {}, make("span", { class: colour(label), text: label }), " ", make("span", { text })),
  );
  const list = rows.length ? make("ul", { class: "names", "aria-label": "Names" }, ...rows) : make("p", { class: "faint", text: "No names are marked." });
  return [make("p", { class: "words" }, ...shown), list];
}

function kindOf(tag) {
  return tag.replace(/^[BIESLU]-/, "");
}

/** The answer in its context, and the others: pointing at one shows where it stands. */
export function spans({ best, spans, none_share }, context) {
  const letters = [...context]; // the server counts characters, JavaScript counts halves of some
  const text = make("p", { class: "context" });
  const mark = (span) => {
    if (!span) return text.replaceChildren(context);
    const part = (begin, end) => letters.slice(begin, end).join("");
    text.replaceChildren(part(0, span.start), make("mark", { text: part(span.start, span.end) }), part(span.end));
  };
  mark(best);
  const rows = spans.map((span, i) => {
    const row = bar(span.text, span.share, best !== null && i === 0, "td");
    const button = make("button", { type: "button", class: "span", text: span.text });
    row.firstChild.replaceChildren(button);
    for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => mark(span));
    for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => mark(best));
    return row;
  });
  rows.push(bar("no answer", none_share, best === null, "td"));
  const said = make("p", { class: "said", text: best ? best.text : "There is no answer in this text." });
  return [said, text, bars("The likeliest answers", rows)];
}

/** The translation; a written token that is pointed at shades the tokens that were read for it. */
export function translation({ text, nbest, source, tokens, alignment }) {
  const shown = [make("p", { class: "said", text })];
  if (alignment) {
    const read = make("p", { class: "pieces source", "aria-label": "What was read" }, ...source.map((token) => piece("span", token)));
    const written = make("p", { class: "pieces", role: "toolbar", "aria-label": "What was written" }, ...tokens.map((token) => piece("button", token)));
    const told = make("p", { class: "faint told", role: "status", text: "Point at a written token to see what was read for it." });
    [...written.children].forEach((button, i) => {
      const row = alignment[i];
      const show = () => {
        const most = Math.max(0.3, ...row); // a row that looks everywhere stays pale
        [...read.children].forEach((span, j) => shared(span, row[j] / most));
        [...written.children].forEach((other) => other.classList.toggle("active", other === button));
        const order = row.map((_, j) => j).sort((a, b) => row[b] - row[a]).slice(0, 3);
        told.textContent = `${spoken(tokens[i])} ← ${order.map((j) => `${spoken(source[j])} ${percent(row[j])}`).join(", ")}`;
      };
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, show);
    });
    roving(written);
    shown.push(make("div", { class: "alignment" }, make("h3", { text: "Written" }), written, make("h3", { text: "Read" }), read, told));
  }
  if (nbest.length > 1) {
    const rows = nbest.map((one) => make("tr", {}, make("td", { text: one.text }), make("td", { class: "number", text: one.score.toFixed(3) })));
    const head = make("tr", {}, make("th", { scope: "col", text: "The likeliest translations" }), make("th", { scope: "col", class: "number", text: "score" }));
    shown.push(make("table", { class: "others" }, make("thead", {}, head), make("tbody", {}, ...rows)));
  }
  return shown;
}

/** A token as a reader would write it; one that begins a word stands apart. */
function piece(tag, token) {
  const given = { class: begins(token) ? "piece first" : "piece", text: spoken(token) };
  return make(tag, tag === "button" ? { ...given, type: "button" } : given);
}

function begins(token) {
  return /^[▁Ġ]/.test(token) || /^<.*>$/.test(token);
}

function spoken(token) {
  return token.replace(/^##/, "").replaceAll(/[▁Ġ]/g, " ").trim() || "␣";
}

/** How alike the texts are: the cosine of each two vectors. */
export function likeness(texts, { vectors, cut }) {
  const unit = vectors.slice(0, ROWS).map((v) => {
    const length = Math.hypot(...v) || 1;
    return v.map((x) => x / length);
  });
  const cosine = unit.map((a) => unit.map((b) => a.reduce((sum, x, i) => sum + x * b[i], 0)));
  const head = make("tr", {}, make("td"), ...unit.map((_, i) => make("th", { scope: "col", text: String(i + 1) })));
  const rows = cosine.map((row, i) => {
    const name = make("th", { scope: "row", title: texts[i] }, make("b", { text: String(i + 1) }), " ", texts[i]);
    const cells = row.map((x, j) => shared(make("td", { class: i === j ? "same" : x < 0 ? "below" : "", text: x.toFixed(2) }), Math.abs(x)));
    return make("tr", {}, name, ...cells);
  });
  const best = closest(cosine);
  const notes = [];
  if (best) notes.push(`Most alike: ${best[0] + 1} and ${best[1] + 1}, ${cosine[best[0]][best[1]].toFixed(2)}.`);
  if (vectors.length > ROWS) notes.push(`The first ${ROWS} of ${vectors.length} lines are shown.`);
  const long = cut.flatMap((is, i) => (is ? [i + 1] : []));
  if (long.length) notes.push(`Longer than the model reads: ${long.join(", ")}.`);
  const caption = make("caption", { class: "unseen", text: "Cosine similarity of each two lines" });
  const table = make("table", { class: "heat" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
  return [make("p", { class: "said small", text: notes.join(" ") }), make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Similarity" }, table)];
}

function closest(cosine) {
  let best = null;
  cosine.forEach((row, i) =>
    row.forEach((x, j) => {
      if (j > i && (!best || x > cosine[best[0]][best[1]])) best = [i, j];
    }),
  );
  return best;
}
