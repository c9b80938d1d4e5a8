/** The explanation of a score: tokens shaded by what they add; a token shows what it adds with each other token. */

import { make } from "../dom";

export interface ExplanationData {
  kind: "explanation";
  title: string;
  score: number;
  baseline: number;
  first: string[];
  second: string[];
  first_values: number[];
  second_values: number[];
  pairs: number[][] | null; // (first, second) of a cosine
}

/** The shade of a value: how strong, from 0 to 1, and whether it adds or takes away. */
export function shade(value: number, largest: number): { strength: number; adds: boolean } {
  return { strength: largest > 0 ? Math.min(1, Math.abs(value) / largest) : 0, adds: value >= 0 };
}

/** What the tokens of the other text add together with this token. */
export function column(pairs: number[][], side: "first" | "second", index: number): number[] {
  return side === "first" ? pairs[index] : pairs.map((row) => row[index]);
}

export function drawExplanation(root: HTMLElement, data: ExplanationData): void {
  const note = make("div", { class: "note" });
  note.setAttribute("aria-live", "polite");
  const tokens = { first: line(data.first), second: line(data.second) };
  const paint = (side: "first" | "second", values: number[]): void => {
    const largest = Math.max(...values.map(Math.abs), 0);
    tokens[side].forEach((element, i) => {
      const { strength, adds } = shade(values[i], largest);
      element.style.setProperty("--strength", `${Math.round(strength * 75)}%`);
      element.classList.toggle("less", !adds);
      element.title = `${data[side][i]}: ${values[i].toFixed(4)}`;
    });
  };
  const rest = (): void => {
    paint("first", data.first_values);
    paint("second", data.second_values);
    note.textContent = data.pairs
      ? "Point at a token: the other text shows what it adds together with each of its tokens."
      : `A pair of masked texts has ${data.baseline.toFixed(3)}; the tokens add the rest.`;
  };
  for (const side of ["first", "second"] as const) {
    const other = side === "first" ? "second" : "first";
    tokens[side].forEach((element, i) => {
      const show = (): void => {
        if (!data.pairs) return;
        paint(other, column(data.pairs, side, i));
        note.textContent = `“${data[side][i]}” adds ${data[`${side}_values`][i].toFixed(4)} of ${data.score.toFixed(4)}.`;
      };
      element.tabIndex = 0;
      element.addEventListener("pointerenter", show);
      element.addEventListener("focus", show);
      element.addEventListener("pointerleave", rest);
      element.addEventListener("blur", rest);
    });
  }
  root.append(
    make("h1", { text: `${data.title}: ${data.score.toFixed(3)}` }),
    make("div", { class: "bar" }, make("span", { class: "key more", text: "adds" }), make("span", { class: "key less", text: "takes away" })),
    make("p", { class: "tokens" }, ...tokens.first),
    make("p", { class: "tokens" }, ...tokens.second),
    note,
  );
  rest();
}

function line(words: string[]): HTMLElement[] {
  return words.map((word) => make("span", { class: "token", text: word }));
}
