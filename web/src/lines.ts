/** Lines: words on the left look at words on the right; the stronger, the thicker. Hover or focus one to see only its. */

import { INK } from "./colour";
import { css, framed, make, sized } from "./dom";
import { written } from "./numbers";
import type { Grid } from "./words";

const ROW = 22; // pixels a word
const GAP = 260; // pixels between the two columns
const FAINT = 0.02; // a weight that is not worth a line while all are shown

export interface LinesOptions {
  say: (text: string) => void;
  hold: (query: number | null) => void;
  label: string;
}

export class Lines {
  readonly element = make("div", { class: "lines" });
  private readonly canvas = make("canvas");
  private readonly left = make("div", { class: "column from" });
  private readonly right = make("div", { class: "column to" });
  private from: HTMLButtonElement[] = [];
  private to: HTMLElement[] = [];
  private hovered: number | null = null;
  private lit: number | null = null; // the word that is marked as active
  private chosen: number | null = null; // and the one marked as held
  private weighed: [number, number] = [0, 0]; // the words attended to that are shaded
  private readonly redraw = framed(() => this.draw());

  constructor(
    private readonly grid: Grid,
    private held: number | null,
    private readonly options: LinesOptions,
  ) {
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${options.label}: lines from each word to the words it attends to`);
    this.left.setAttribute("role", "listbox");
    this.left.setAttribute("aria-label", "attends from");
    this.from = grid.rows.names.map((name, i) => this.word(name, i));
    this.to = grid.columns.names.map((name) => make("div", { class: "word", text: visible(name) }));
    this.left.append(...this.from);
    this.right.append(...this.to);
    this.element.append(this.left, this.canvas, this.right);
    this.element.addEventListener("pointerleave", () => this.hover(null));
    this.element.addEventListener("scroll", () => (this.weigh(), this.redraw()));
  }

  /** Draw; to be called when the element has its size. */
  show(): void {
    this.mark();
    this.draw();
  }

  private word(name: string, i: number): HTMLButtonElement {
    const button = make("button", { class: "word", text: visible(name) });
    button.type = "button";
    button.setAttribute("role", "option");
    button.setAttribute("aria-selected", "false");
    button.tabIndex = i === (this.held ?? 0) ? 0 : -1;
    button.addEventListener("pointerenter", () => this.hover(i));
    button.addEventListener("focus", () => this.hover(i));
    button.addEventListener("click", () => {
      this.held = this.held === i ? null : i;
      this.options.hold(this.held);
      this.mark();
      this.redraw();
    });
    button.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (!step || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      const next = this.from[i + step];
      if (!next) return;
      button.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    return button;
  }

  private hover(query: number | null): void {
    if (this.hovered === query) return;
    this.hovered = query;
    this.mark();
    this.redraw();
  }

  private get active(): number | null {
    return this.hovered ?? this.held;
  }

  private mark(): void {
    const { active, grid } = this;
    for (const i of new Set([this.lit, this.chosen, active, this.held])) {
      if (i === null || !this.from[i]) continue;
      this.from[i].classList.toggle("active", i === active);
      this.from[i].setAttribute("aria-selected", String(i === this.held));
    }
    this.lit = active;
    this.chosen = this.held;
    this.weigh();
    if (active !== null) this.options.say(told(grid, active));
  }

  /** Shade the words attended to: those in sight, for a page of many words must follow the pointer. */
  private weigh(): void {
    const { active, grid, element } = this;
    const wide = grid.columns.names.length;
    const height = element.clientHeight || Infinity;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - 2);
    const last = Math.min(wide, Math.ceil((element.scrollTop + height) / ROW) + 2);
    for (let j = this.weighed[0]; j < this.weighed[1]; j++)
      if (active === null || j < first || j >= last) {
        const word = this.to[j];
        word.style.removeProperty("--share");
        delete word.dataset.weight;
        delete word.dataset.shown;
      }
    this.weighed = active === null ? [0, 0] : [first, last];
    if (active === null) return;
    for (let j = first; j < last; j++) {
      const word = this.to[j];
      const weight = grid.values[active * wide + j];
      word.style.setProperty("--share", (grid.peak ? weight / grid.peak : 0).toFixed(3));
      word.dataset.weight = weight.toFixed(7);
      word.dataset.shown = weight >= 0.01 ? written(weight, 2) : "";
    }
  }

  private draw(): void {
    const { grid, element, active } = this;
    const top = element.scrollTop;
    const height = Math.min(element.clientHeight || 600, Math.max(grid.rows.names.length, grid.columns.names.length) * ROW);
    const context = sized(this.canvas, GAP, height);
    context.clearRect(0, 0, GAP, height);
    const wide = grid.columns.names.length;
    const least = active === null ? FAINT * grid.peak : 0.002 * grid.peak;
    const first = active ?? 0;
    const last = active === null ? grid.rows.names.length : active + 1;
    const quiet = css("--line");
    for (let i = first; i < last; i++) {
      const y0 = (i + 0.5) * ROW - top;
      for (let j = 0; j < wide; j++) {
        const weight = grid.values[i * wide + j];
        if (weight <= least) continue;
        const y1 = (j + 0.5) * ROW - top;
        if (Math.max(y0, y1) < 0 || Math.min(y0, y1) > height) continue;
        const share = weight / grid.peak;
        context.globalAlpha = Math.min(1, active === null ? 0.75 * share : 0.15 + 0.85 * share);
        context.lineWidth = 0.5 + 3.5 * share;
        context.strokeStyle = active === null ? quiet : INK.query;
        context.beginPath();
        context.moveTo(0, y0);
        context.bezierCurveTo(GAP * 0.45, y0, GAP * 0.55, y1, GAP, y1);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  /** The lines as an SVG, all that would be drawn. */
  svg(): string {
    const { grid, active } = this;
    const wide = grid.columns.names.length;
    const side = 150;
    const height = Math.max(grid.rows.names.length, wide) * ROW;
    const out = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${2 * side + GAP}" height="${height}" font-family="sans-serif" font-size="13">`,
    ];
    grid.rows.names.forEach((_, i) => {
      if (active !== null && i !== active) return;
      for (let j = 0; j < wide; j++) {
        const share = grid.peak ? grid.values[i * wide + j] / grid.peak : 0;
        if (share <= FAINT) continue;
        const [y0, y1] = [(i + 0.5) * ROW, (j + 0.5) * ROW];
        const path = `M${side} ${y0}C${side + GAP * 0.45} ${y0} ${side + GAP * 0.55} ${y1} ${side + GAP} ${y1}`;
        out.push(
          `<path d="${path}" fill="none" stroke="${INK.key}" stroke-width="${(0.5 + 3.5 * share).toFixed(2)}" opacity="${share.toFixed(3)}"/>`,
        );
      }
    });
    const text = (name: string, x: number, i: number, anchor: string) =>
      `<text x="${x}" y="${(i + 0.5) * ROW + 4}" text-anchor="${anchor}">${escaped(visible(name))}</text>`;
    grid.rows.names.forEach((name, i) => out.push(text(name, side - 8, i, "end")));
    grid.columns.names.forEach((name, j) => out.push(text(name, side + GAP + 8, j, "start")));
    return out.join("\n") + "\n</svg>\n";
  }
}

/** "it" attends to animal 0.69, it 0.10, ... */
export function told(grid: Grid, row: number, count = 4): string {
  const wide = grid.columns.names.length;
  const order = Array.from({ length: wide }, (_, j) => j)
    .sort((a, b) => grid.values[row * wide + b] - grid.values[row * wide + a])
    .slice(0, count);
  const parts = order.map((j) => `${visible(grid.columns.names[j])} ${written(grid.values[row * wide + j], 6)}`);
  return `${visible(grid.rows.names[row])} → ${parts.join(", ")}`;
}

/** A name one can see: white space is told. */
export function visible(name: string): string {
  return name.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣") || "∅";
}

export function escaped(text: string): string {
  return text.replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
}
