/** The page of an index: ask a question, see the answer in its sentence, open the document, say whether it is right. */

import { get, isAbort, post } from "./client";
import { byId, errorMessage, formatTime, make, plural, withValue } from "./elements";

export interface Passage {
  text: string;
  source: string;
  start: number;
  end: number;
  heading: string;
  page: number | null;
  text_rank: number | null;
  vector_rank: number | null;
}

export interface Found {
  text: string;
  probability: number;
  source: string;
  start: number;
  end: number;
  page: number | null;
  heading: string;
  sentence: [number, number];
  passage: Passage;
}

interface Asked {
  question: string;
  answer: Found | null;
  probability: number;
  candidates: Found[];
  passages: { passage: Passage; relevance: number }[];
}

interface IndexInfo {
  passages: number;
  version: number;
  vectors: boolean;
  answers: boolean;
  feedback: boolean;
}

interface SourceBody {
  source: string;
  passages: { text: string; start: number; end: number; heading: string; page: number | null }[];
}

/** A text with parts marked: ranges are characters (code points) of the document that the text begins at `base` of. */
export function marked(text: string, base: number, answer: [number, number] | null, sentence: [number, number] | null): Node[] {
  // single line breaks are those of the file, not of its paragraphs
  const characters = Array.from(text).map((c, i, all) => (c === "\n" && i > 0 && all[i - 1] !== "\n" && all[i + 1] !== "\n" ? " " : c));
  const cuts = [0, characters.length];
  for (const range of [answer, sentence]) if (range) cuts.push(range[0] - base, range[1] - base);
  const places = [...new Set(cuts)].filter((n) => n >= 0 && n <= characters.length).sort((a, b) => a - b);
  const within = (range: [number, number] | null, at: number) => range !== null && at >= range[0] - base && at < range[1] - base;
  return places.slice(1).map((end, i) => {
    const start = places[i];
    const part = characters.slice(start, end).join("");
    if (within(answer, start)) return make("mark", { text: part });
    return within(sentence, start) ? make("span", { class: "sentence", text: part }) : document.createTextNode(part);
  });
}

export function place(passage: { source: string; page: number | null; heading: string }, open: () => void): HTMLElement {
  const link = make("button", { type: "button", class: "link", text: passage.source, on: { click: open } });
  const more = [passage.page === null ? "" : `page ${passage.page}`, passage.heading].filter(Boolean);
  return make("p", { class: "place" }, link, ...more.map((text) => make("span", { text })));
}

function foundBy(passage: Passage): string {
  const ranks = [["words", passage.text_rank], ["vectors", passage.vector_rank]] as const;
  const parts = ranks.filter(([, rank]) => rank !== null).map(([name, rank]) => `${name}, place ${rank}`);
  return parts.length ? `found by ${parts.join("; ")}` : "";
}

async function openSource(source: string, range: [number, number]): Promise<void> {
  const dialog = byId("source") as HTMLDialogElement;
  const close = make("button", { type: "button", class: "secondary", text: "Close", on: { click: () => dialog.close() } });
  dialog.replaceChildren(make("header", {}, make("h2", { text: source }), close));
  dialog.showModal();
  try {
    const body = await post<SourceBody>("source", { source });
    let heading = "";
    let shown = 0;
    for (const passage of body.passages) {
      // passages overlap: only what the last one did not show
      const skip = Math.max(0, shown - passage.start);
      const text = Array.from(passage.text).slice(skip).join("");
      shown = Math.max(shown, passage.end);
      const here = passage.start < range[1] && passage.end > range[0];
      const section = make("section", { class: here ? "here" : "" });
      if (passage.heading && passage.heading !== heading) section.append(make("h3", { text: passage.heading }));
      heading = passage.heading;
      section.append(...marked(text, passage.start + skip, range, null));
      dialog.append(section);
    }
    dialog.querySelector("mark")?.scrollIntoView({ block: "center" });
  } catch (error) {
    dialog.append(errorMessage(error));
  }
}

function evidence(found: Found): HTMLElement[] {
  const range: [number, number] = [found.start, found.end];
  const quote = make("blockquote", {}, ...marked(found.passage.text, found.passage.start, range, found.sentence));
  return [quote, place(found, () => void openSource(found.source, range))];
}

function feedback(question: string, found: Found): HTMLElement {
  const row = make("p", { class: "feedback" }, make("span", { class: "faint", text: "Is this right?" }));
  for (const [text, right] of [["Yes", true], ["No", false]] as const) {
    const click = async () => {
      try {
        const { source, start, end } = found;
        const { rows } = await post<{ rows: number }>("feedback", { question, source, start, end, right });
        row.replaceChildren(make("span", { class: "faint", text: `Thank you: ${plural(rows, "row")} to train on.` }));
      } catch (error) {
        row.replaceChildren(errorMessage(error));
      }
    };
    row.append(make("button", { type: "button", class: "secondary", text, on: { click } }));
  }
  return row;
}

function chance(probability: number, text: string): HTMLElement {
  return make("p", { class: "chance" }, withValue(make("i", { "aria-hidden": "true" }), probability), text);
}

export function answerCard(asked: Asked, withFeedback: boolean): HTMLElement {
  const card = make("section", { class: "card", "aria-label": "Answer" });
  const percent = `${Math.round(100 * asked.probability)} %`;
  const best = asked.answer ?? asked.candidates[0];
  if (asked.answer) {
    card.append(make("p", { class: "answer", text: asked.answer.text }), chance(asked.probability, `${percent} likely to be right`));
  } else {
    card.append(make("p", { class: "none", text: "The documents probably do not say." }));
    if (best) card.append(chance(asked.probability, `the nearest candidate, “${best.text}”, is ${percent} likely to be right`));
  }
  if (best) {
    card.append(...evidence(best));
    if (withFeedback) card.append(feedback(asked.question, best));
  }
  return card;
}

function others(asked: Asked): HTMLElement[] {
  const rest = asked.candidates.slice(1);
  if (!asked.answer || !rest.length) return [];
  const items = rest.map((found) => {
    const open = () => void openSource(found.source, [found.start, found.end]);
    const link = make("button", { type: "button", class: "link", text: found.source, on: { click: open } });
    return make("li", {}, `${found.text} `, make("span", { class: "faint", text: `${Math.round(100 * found.probability)} %, ` }), link);
  });
  return [make("section", {}, make("h3", { text: "Other candidates" }), make("ul", { class: "others" }, ...items))];
}

function hit(passage: Passage, note: string): HTMLElement {
  const range: [number, number] = [passage.start, passage.end];
  const head = place(passage, () => void openSource(passage.source, range));
  head.append(make("span", { text: note }));
  return make("article", { class: "hit" }, make("blockquote", {}, ...marked(passage.text, 0, null, null)), head);
}

async function start(): Promise<void> {
  const output = byId("output");
  const input = byId("question") as HTMLInputElement;
  let info: IndexInfo;
  try {
    info = await get<IndexInfo>("index");
  } catch (error) {
    output.replaceChildren(errorMessage(error));
    return;
  }
  byId("about").textContent = `${plural(info.passages, "passage")}. Documents stay on this machine.`;
  input.placeholder = info.answers ? "Ask the documents a question" : "Search the documents";
  const buttons = byId("buttons");
  if (info.answers) buttons.append(make("button", { type: "submit", class: "send", text: "Ask", value: "ask" }));
  buttons.append(make("button", { type: "submit", class: info.answers ? "" : "send", text: "Search", value: "search" }));
  let running: AbortController | null = null;

  async function show(question: string, ask: boolean): Promise<void> {
    running?.abort();
    const own = (running = new AbortController());
    output.setAttribute("aria-busy", "true");
    const began = performance.now();
    try {
      const parts: HTMLElement[] = [];
      if (ask) {
        const asked = await post<Asked>("ask", { question }, own.signal);
        const read = asked.passages.map(({ passage, relevance }) => hit(passage, `relevance ${relevance.toFixed(1)}, ${foundBy(passage)}`));
        const title = `${plural(read.length, "passage")} read in ${formatTime(performance.now() - began)}`;
        if (asked.question !== question) parts.push(make("p", { class: "faint", text: `Asked as: ${asked.question}` }));
        parts.push(answerCard(asked, info.feedback), ...others(asked), make("details", {}, make("summary", { text: title }), ...read));
      } else {
        const { results } = await post<{ results: Passage[] }>("search", { query: question }, own.signal);
        const title = `${plural(results.length, "passage")} in ${formatTime(performance.now() - began)}`;
        parts.push(make("p", { class: "faint", text: title }), ...results.map((passage) => hit(passage, foundBy(passage))));
      }
      output.replaceChildren(...parts);
    } catch (error) {
      if (!isAbort(error)) output.replaceChildren(errorMessage(error));
    } finally {
      if (running === own) output.removeAttribute("aria-busy");
    }
  }

  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const by = (event.submitter as HTMLButtonElement | null)?.value;
    if (input.value.trim()) void show(input.value.trim(), info.answers && by !== "search");
  });
}

if (document.getElementById("form") !== null) void start();
