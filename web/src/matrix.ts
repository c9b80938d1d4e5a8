/** Matrix view: a row for each query, a column for each key, with zoom and a cell cursor. */

import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior, type ZoomTransform } from "d3-zoom";
import { COLORS } from "./color";
import { css, oncePerFrame, make, resizeCanvas } from "./dom";
import type { MatrixData } from "./matrixData";
import { escapeXml, visibleText } from "./lines";
import { formatNumber } from "./numbers";

const MIN_LABEL_PX = 110; // width of the row labels
const LABELLED_CELL_PX = 11; // smallest cell with a token label
const MAX_CELL_PX = 40; // at the deepest zoom

export interface MatrixOptions {
  setStatus: (text: string) => void;
  select: (query: number | null) => void;
  label: string;
}

export class MatrixView {
  readonly element = make("div", { class: "matrix" });
  private readonly canvas = make("canvas");
  private transform: ZoomTransform = zoomIdentity;
  private readonly zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  private base = 1; // pixels per cell when the full map is visible
  private width = 600;
  private height = 600;
  private margin = { left: MIN_LABEL_PX, top: 96 };
  private cursor: [number, number] | null = null;
  private readonly redraw = oncePerFrame(() => this.draw());

  constructor(
    private readonly data: MatrixData,
    private selected: number | null,
    private readonly options: MatrixOptions,
  ) {
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute(
      "aria-label",
      `${options.label}: ${data.rows} by ${data.columns} attention weights. Arrow keys move, plus and minus zoom.`,
    );
    this.element.append(this.canvas);
    this.zoom = zoom<HTMLCanvasElement, unknown>().on("zoom", (event: { transform: ZoomTransform }) => {
      this.transform = event.transform;
      this.redraw();
    });
    this.canvas.addEventListener("pointermove", (event) => this.onPointer(event));
    this.canvas.addEventListener("pointerleave", () => this.setCursor(null));
    this.canvas.addEventListener("click", () => {
      if (this.cursor) this.options.select((this.selected = this.selected === this.cursor[0] ? null : this.cursor[0]));
      this.redraw();
    });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("dblclick", (event) => event.stopPropagation());
  }

  /** Fit into the element and draw. */
  show(): void {
    const box = this.element.getBoundingClientRect();
    this.width = Math.max(240, box.width);
    this.height = Math.max(240, box.height);
    const { data } = this;
    const room = [this.width - MIN_LABEL_PX - 12, this.height - this.margin.top - 12];
    this.base = Math.min(room[0] / data.columns, room[1] / data.rows, 34);
    this.margin.left = Math.max(MIN_LABEL_PX, (this.width - data.columns * this.base) / 2);
    const maxScale = Math.max(1, MAX_CELL_PX / this.base);
    this.zoom
      .extent([[0, 0], [this.width, this.height]])
      .scaleExtent([1, maxScale])
      .translateExtent([[0, 0], [this.width, this.height]]);
    select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    this.draw();
  }

  /** Draw again after new tiles are loaded. */
  refresh(): void {
    this.updateStatus();
    this.draw();
    this.canvas.dataset.drawn = "true";
  }

  /** Current pixels per cell. */
  get cell(): number {
    return this.base * this.transform.k;
  }

  /** Center a cell at a readable size. */
  goTo(row: number, column: number, pixels = 24): void {
    const k = Math.max(1, pixels / this.base);
    const x = this.width / 2 - k * (this.margin.left + (column + 0.5) * this.base);
    const y = this.height / 2 - k * (this.margin.top + (row + 0.5) * this.base);
    this.cursor = [row, column];
    select(this.canvas).call((s) => this.zoom.transform(s, zoomIdentity.translate(x, y).scale(k)));
    this.updateStatus();
  }

  private origin(): { x: number; y: number } {
    // screen position of the first cell; the label margins do not move
    return {
      x: this.transform.applyX(this.margin.left),
      y: this.transform.applyY(this.margin.top),
    };
  }

  private onPointer(event: PointerEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const { x, y } = this.origin();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const [row, column] = [Math.floor((py - y) / this.cell), Math.floor((px - x) / this.cell)];
    const inside = row >= 0 && column >= 0 && row < this.data.rows && column < this.data.columns;
    this.setCursor(inside && px > this.margin.left && py > this.margin.top ? [row, column] : null);
  }

  private setCursor(to: [number, number] | null): void {
    if (to?.[0] === this.cursor?.[0] && to?.[1] === this.cursor?.[1]) return;
    this.cursor = to;
    this.updateStatus();
    this.redraw();
  }

  private updateStatus(): void {
    if (!this.cursor) return;
    const [row, column] = this.cursor;
    const value = this.data.value(row, column);
    const names = `${visibleText(this.data.rowName(row))} → ${visibleText(this.data.columnName(column))}`;
    const place = this.data.rows > 64 ? ` (${row}, ${column})` : "";
    this.options.setStatus(`${names}${place}: ${value === null ? "zoom in to read the value" : formatNumber(value, 7)}`);
  }

  private onKey(event: KeyboardEvent): void {
    const by: Record<string, [number, number]> = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    };
    const step = by[event.key];
    if (step && !event.altKey) {
      const [row, column] = this.cursor ?? [0, -1 + (step[1] === 0 ? 1 : 0)];
      const stepSize = event.shiftKey ? 10 : 1;
      const next: [number, number] = [
        Math.max(0, Math.min(this.data.rows - 1, row + stepSize * step[0])),
        Math.max(0, Math.min(this.data.columns - 1, column + stepSize * step[1])),
      ];
      if (this.cell >= LABELLED_CELL_PX && this.transform.k > 1) this.goTo(...next, this.cell);
      else this.setCursor(next);
    } else if (event.key === "+" || event.key === "=") this.scale(1.6);
    else if (event.key === "-") this.scale(1 / 1.6);
    else if (event.key === "0") select(this.canvas).call((s) => this.zoom.transform(s, zoomIdentity));
    else if (event.key === "Enter" && this.cursor) this.options.select((this.selected = this.cursor[0]));
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.redraw();
  }

  private scale(by: number): void {
    if (by > 1 && this.cursor) {
      this.goTo(...this.cursor, Math.min(MAX_CELL_PX, this.cell * by));
      return;
    }
    select(this.canvas).call((s) => this.zoom.scaleBy(s, by));
  }

  private draw(): void {
    const context = resizeCanvas(this.canvas, this.width, this.height);
    const { data, margin, cell } = this;
    const { x, y } = this.origin();
    const [ink, faint, ground] = [css("--text"), css("--muted"), css("--background")];
    context.fillStyle = ground;
    context.fillRect(0, 0, this.width, this.height);
    context.save();
    context.beginPath();
    context.rect(margin.left, margin.top, this.width - margin.left, this.height - margin.top);
    context.clip();
    context.translate(x, y);
    const view = {
      x: Math.max(0, (margin.left - x) / cell),
      y: Math.max(0, (margin.top - y) / cell),
      columns: (this.width - margin.left) / cell,
      rows: (this.height - margin.top) / cell,
      cell,
    };
    context.translate(view.x * cell, view.y * cell);
    data.draw(context, view);
    context.translate(-view.x * cell, -view.y * cell);
    context.strokeStyle = faint;
    context.lineWidth = 1;
    context.strokeRect(0, 0, data.columns * cell, data.rows * cell);
    const mark = (row: number, color: string) => {
      context.strokeStyle = color;
      context.strokeRect(0, row * cell, data.columns * cell, Math.max(1, cell));
    };
    if (this.selected !== null && this.selected < data.rows) mark(this.selected, COLORS.query);
    if (this.cursor) {
      context.globalAlpha = 0.5;
      mark(this.cursor[0], faint);
      context.strokeRect(this.cursor[1] * cell, 0, Math.max(1, cell), data.rows * cell);
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.strokeStyle = COLORS.query;
      context.strokeRect(this.cursor[1] * cell, this.cursor[0] * cell, Math.max(2, cell), Math.max(2, cell));
    }
    context.restore();
    this.drawLabels(context, x, y, ink, faint);
  }

  private drawLabels(context: CanvasRenderingContext2D, x: number, y: number, ink: string, faint: string): void {
    const { data, margin, cell } = this;
    context.font = `${Math.max(9, Math.min(13, cell * 0.72))}px ${css("--font")}`;
    context.textBaseline = "middle";
    const labelled = cell >= LABELLED_CELL_PX;
    const stride = labelled ? 1 : niceStep(60 / cell);
    const text = (name: string, index: number) => (labelled ? truncate(visibleText(name)) : index.toLocaleString("en"));
    const first = (edge: number, start: number) => Math.max(0, Math.ceil((edge - start) / cell / stride) * stride);
    context.textAlign = "right";
    for (let row = first(margin.top, y + cell / 2); row < data.rows; row += stride) {
      const at = y + (row + 0.5) * cell;
      if (at > this.height) break;
      const active = this.cursor?.[0] === row || this.selected === row;
      context.fillStyle = active ? COLORS.query : labelled ? ink : faint;
      context.fillText(text(data.rowName(row), row), margin.left - 6, at);
    }
    context.textAlign = "left";
    for (let column = first(margin.left, x + cell / 2); column < data.columns; column += stride) {
      const at = x + (column + 0.5) * cell;
      if (at > this.width) break;
      context.fillStyle = this.cursor?.[1] === column ? COLORS.query : labelled ? ink : faint;
      context.save();
      context.translate(at, margin.top - 6);
      context.rotate(-Math.PI / 2.6);
      context.fillText(text(data.columnName(column), column), 0, 0);
      context.restore();
    }
  }

  /** Return the full map as an SVG of rectangles. */
  svg(): string {
    const { data, margin } = this;
    if (data.rows * data.columns > 40_000) throw new Error("the map has more than 40,000 cells: export PNG or CSV instead");
    const cell = 18;
    const size = [margin.left + data.columns * cell + 12, margin.top + data.rows * cell + 12];
    const out = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${size[0]}" height="${size[1]}" font-family="sans-serif" font-size="12">`,
    ];
    for (let r = 0; r < data.rows; r++) {
      out.push(
        `<text x="${margin.left - 6}" y="${margin.top + (r + 0.5) * cell + 4}" text-anchor="end">${escapeXml(truncate(visibleText(data.rowName(r))))}</text>`,
      );
      for (let c = 0; c < data.columns; c++) {
        const value = data.value(r, c) ?? 0;
        const share = data.peak ? Math.sqrt(Math.max(0, value / data.peak)) : 0;
        out.push(
          `<rect x="${margin.left + c * cell}" y="${margin.top + r * cell}" width="${cell - 0.5}" height="${cell - 0.5}" fill="#08519c" fill-opacity="${share.toFixed(3)}"/>`,
        );
      }
    }
    for (let c = 0; c < data.columns; c++) {
      const at = `${margin.left + (c + 0.6) * cell} ${margin.top - 6}`;
      out.push(`<text transform="translate(${at}) rotate(-60)">${escapeXml(truncate(visibleText(data.columnName(c))))}</text>`);
    }
    return out.join("\n") + "\n</svg>\n";
  }

  png(): Promise<Blob> {
    return new Promise((resolve, reject) =>
      this.canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the image is too large to export")))),
    );
  }
}

function truncate(name: string): string {
  return name.length <= 14 ? name : name.slice(0, 13) + "…";
}

/** Return the smallest 1, 2 or 5 times a power of ten that is at least `minimum`. */
export function niceStep(minimum: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, minimum)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= minimum) ?? 10 * power;
}
