/** Lines view: lines from query tokens on the left to key tokens on the right; hover or focus a token to isolate it. */

import { COLORS } from "./color";
import { css, oncePerFrame, make, resizeCanvas } from "./dom";
import { formatNumber } from "./numbers";
import type { Grid } from "./grid";

const ROW_PX = 22;
const GAP_PX = 260; // between the two columns
const MIN_SHARE = 0.02; // of the largest weight, for a line while all queries are shown
const MIN_SHARE_ACTIVE = 0.002; // for a line while one query is shown

export interface LinesOptions {
  setStatus: (text: string) => void;
  select: (query: number | null) => void;
  label: string;
}

export class LinesView {
  readonly element = make("div", { class: "lines" });
  private readonly canvas = make("canvas");
  private readonly left = make("div", { class: "column from" });
  private readonly right = make("div", { class: "column to" });
  private from: HTMLButtonElement[] = [];
  private to: HTMLElement[] = [];
  private hovered: number | null = null;
  private markedActive: number | null = null; // token with the active style
  private markedSelected: number | null = null; // token with the selected style
  private shadedRange: [number, number] = [0, 0]; // key tokens with a shade
  private readonly redraw = oncePerFrame(() => this.draw());

  constructor(
    private readonly grid: Grid,
    private selected: number | null,
    private readonly options: LinesOptions,
  ) {
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${options.label}: lines from each token to the tokens it attends to`);
    this.left.setAttribute("role", "listbox");
    this.left.setAttribute("aria-label", "query tokens");
    this.from = grid.rows.names.map((name, i) => this.queryButton(name, i));
    this.to = grid.columns.names.map((name) => make("div", { class: "word", text: visibleText(name) }));
    this.left.append(...this.from);
    this.right.append(...this.to);
    this.element.append(this.left, this.canvas, this.right);
    this.element.addEventListener("pointerleave", () => this.hover(null));
    this.element.addEventListener("scroll", () => (this.shadeKeys(), this.redraw()));
  }

  /** Draw; call it when the element has its size. */
  show(): void {
    this.updateMarks();
    this.draw();
  }

  private queryButton(name: string, i: number): HTMLButtonElement {
    const button = make("button", { class: "word", text: visibleText(name) });
    button.type = "button";
    button.setAttribute("role", "option");
    button.setAttribute("aria-selected", "false");
    button.tabIndex = i === (this.selected ?? 0) ? 0 : -1;
    button.addEventListener("pointerenter", () => this.hover(i));
    button.addEventListener("focus", () => this.hover(i));
    button.addEventListener("click", () => {
      this.selected = this.selected === i ? null : i;
      this.options.select(this.selected);
      this.updateMarks();
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
    this.updateMarks();
    this.redraw();
  }

  private get active(): number | null {
    return this.hovered ?? this.selected;
  }

  private updateMarks(): void {
    const { active, grid } = this;
    for (const i of new Set([this.markedActive, this.markedSelected, active, this.selected])) {
      if (i === null || !this.from[i]) continue;
      this.from[i].classList.toggle("active", i === active);
      this.from[i].setAttribute("aria-selected", String(i === this.selected));
    }
    this.markedActive = active;
    this.markedSelected = this.selected;
    this.shadeKeys();
    if (active !== null) this.options.setStatus(describeRow(grid, active));
  }

  /** Shade the visible key tokens only, so that long texts follow the pointer without delay. */
  private shadeKeys(): void {
    const { active, grid, element } = this;
    const width = grid.columns.names.length;
    const height = element.clientHeight || Infinity;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_PX) - 2);
    const last = Math.min(width, Math.ceil((element.scrollTop + height) / ROW_PX) + 2);
    for (let j = this.shadedRange[0]; j < this.shadedRange[1]; j++)
      if (active === null || j < first || j >= last) {
        const word = this.to[j];
        word.style.removeProperty("--share");
        delete word.dataset.weight;
        delete word.dataset.shown;
      }
    this.shadedRange = active === null ? [0, 0] : [first, last];
    if (active === null) return;
    for (let j = first; j < last; j++) {
      const word = this.to[j];
      const weight = grid.values[active * width + j];
      word.style.setProperty("--share", (grid.peak ? weight / grid.peak : 0).toFixed(3));
      word.dataset.weight = weight.toFixed(7);
      word.dataset.shown = weight >= 0.01 ? formatNumber(weight, 2) : "";
    }
  }

  private draw(): void {
    const { grid, element, active } = this;
    const top = element.scrollTop;
    const height = Math.min(element.clientHeight || 600, Math.max(grid.rows.names.length, grid.columns.names.length) * ROW_PX);
    const context = resizeCanvas(this.canvas, GAP_PX, height);
    context.clearRect(0, 0, GAP_PX, height);
    const width = grid.columns.names.length;
    const minimum = (active === null ? MIN_SHARE : MIN_SHARE_ACTIVE) * grid.peak;
    const first = active ?? 0;
    const last = active === null ? grid.rows.names.length : active + 1;
    const lineColor = css("--line");
    for (let i = first; i < last; i++) {
      const y0 = (i + 0.5) * ROW_PX - top;
      for (let j = 0; j < width; j++) {
        const weight = grid.values[i * width + j];
        if (weight <= minimum) continue;
        const y1 = (j + 0.5) * ROW_PX - top;
        if (Math.max(y0, y1) < 0 || Math.min(y0, y1) > height) continue;
        const share = weight / grid.peak;
        context.globalAlpha = Math.min(1, active === null ? 0.75 * share : 0.15 + 0.85 * share);
        context.lineWidth = 0.5 + 3.5 * share;
        context.strokeStyle = active === null ? lineColor : COLORS.query;
        context.beginPath();
        context.moveTo(0, y0);
        context.bezierCurveTo(GAP_PX * 0.45, y0, GAP_PX * 0.55, y1, GAP_PX, y1);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  /** Return the lines as an SVG. */
  svg(): string {
    const { grid, active } = this;
    const width = grid.columns.names.length;
    const side = 150;
    const height = Math.max(grid.rows.names.length, width) * ROW_PX;
    const out = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${2 * side + GAP_PX}" height="${height}" font-family="sans-serif" font-size="13">`,
    ];
    grid.rows.names.forEach((_, i) => {
      if (active !== null && i !== active) return;
      for (let j = 0; j < width; j++) {
        const share = grid.peak ? grid.values[i * width + j] / grid.peak : 0;
        if (share <= MIN_SHARE) continue;
        const [y0, y1] = [(i + 0.5) * ROW_PX, (j + 0.5) * ROW_PX];
        const path = `M${side} ${y0}C${side + GAP_PX * 0.45} ${y0} ${side + GAP_PX * 0.55} ${y1} ${side + GAP_PX} ${y1}`;
        out.push(
          `<path d="${path}" fill="none" stroke="${COLORS.key}" stroke-width="${(0.5 + 3.5 * share).toFixed(2)}" opacity="${share.toFixed(3)}"/>`,
        );
      }
    });
    const text = (name: string, x: number, i: number, anchor: string) =>
      `<text x="${x}" y="${(i + 0.5) * ROW_PX + 4}" text-anchor="${anchor}">${escapeXml(visibleText(name))}</text>`;
    grid.rows.names.forEach((name, i) => out.push(text(name, side - 8, i, "end")));
    grid.columns.names.forEach((name, j) => out.push(text(name, side + GAP_PX + 8, j, "start")));
    return out.join("\n") + "\n</svg>\n";
  }
}

/** Describe the largest weights of a row: "it → animal 0.69, it 0.10". */
export function describeRow(grid: Grid, row: number, count = 4): string {
  const width = grid.columns.names.length;
  const order = Array.from({ length: width }, (_, j) => j)
    .sort((a, b) => grid.values[row * width + b] - grid.values[row * width + a])
    .slice(0, count);
  const parts = order.map((j) => `${visibleText(grid.columns.names[j])} ${formatNumber(grid.values[row * width + j], 6)}`);
  return `${visibleText(grid.rows.names[row])} → ${parts.join(", ")}`;
}

/** Return a token with white space as visible characters. */
export function visibleText(name: string): string {
  return name.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣") || "∅";
}

/** Escape text for SVG. */
export function escapeXml(text: string): string {
  return text.replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
}
