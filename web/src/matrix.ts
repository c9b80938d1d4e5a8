/** Matrix: a row for each word that attends, a column for each word attended to. Zoom as in a map; arrows move a cell. */

import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior, type ZoomTransform } from "d3-zoom";
import { INK } from "./colour";
import { css, framed, make, sized } from "./dom";
import type { Field } from "./field";
import { escaped, visible } from "./lines";
import { written } from "./numbers";

const NAMES = 110; // pixels for the names of rows, at least
const LEGIBLE = 11; // pixels a cell from which names are written
const LARGEST = 40; // pixels a cell at the deepest zoom

export interface MatrixOptions {
  say: (text: string) => void;
  hold: (query: number | null) => void;
  label: string;
}

export class Matrix {
  readonly element = make("div", { class: "matrix" });
  private readonly canvas = make("canvas");
  private transform: ZoomTransform = zoomIdentity;
  private readonly zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  private base = 1; // pixels a cell when the whole map is in sight
  private width = 600;
  private height = 600;
  private margin = { left: NAMES, top: 96 };
  private at: [number, number] | null = null;
  private readonly redraw = framed(() => this.draw());

  constructor(
    private readonly field: Field,
    private held: number | null,
    private readonly options: MatrixOptions,
  ) {
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute(
      "aria-label",
      `${options.label}: ${field.rows} by ${field.columns} attention weights. Arrow keys move, plus and minus zoom.`,
    );
    this.element.append(this.canvas);
    this.zoom = zoom<HTMLCanvasElement, unknown>().on("zoom", (event: { transform: ZoomTransform }) => {
      this.transform = event.transform;
      this.redraw();
    });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.move(null));
    this.canvas.addEventListener("click", () => {
      if (this.at) this.options.hold((this.held = this.held === this.at[0] ? null : this.at[0]));
      this.redraw();
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("dblclick", (event) => event.stopPropagation());
  }

  /** Fit into the element and draw. */
  show(): void {
    const box = this.element.getBoundingClientRect();
    this.width = Math.max(240, box.width);
    this.height = Math.max(240, box.height);
    const { field } = this;
    const room = [this.width - NAMES - 12, this.height - this.margin.top - 12];
    this.base = Math.min(room[0] / field.columns, room[1] / field.rows, 34);
    this.margin.left = Math.max(NAMES, (this.width - field.columns * this.base) / 2);
    const most = Math.max(1, LARGEST / this.base);
    this.zoom
      .extent([[0, 0], [this.width, this.height]])
      .scaleExtent([1, most])
      .translateExtent([[0, 0], [this.width, this.height]]);
    select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    this.draw();
  }

  /** Something new has come: draw again. */
  redrawn(): void {
    this.tell();
    this.draw();
    this.canvas.dataset.drawn = "true";
  }

  /** Pixels a cell now. */
  get cell(): number {
    return this.base * this.transform.k;
  }

  /** Bring a cell into the middle at a size at which it can be read. */
  goTo(row: number, column: number, pixels = 24): void {
    const k = Math.max(1, pixels / this.base);
    const x = this.width / 2 - k * (this.margin.left + (column + 0.5) * this.base);
    const y = this.height / 2 - k * (this.margin.top + (row + 0.5) * this.base);
    this.at = [row, column];
    select(this.canvas).call((s) => this.zoom.transform(s, zoomIdentity.translate(x, y).scale(k)));
    this.tell();
  }

  private place(): { x: number; y: number } {
    // the corner of the cells on the screen; the margins of names stay where they are
    return {
      x: this.transform.applyX(this.margin.left),
      y: this.transform.applyY(this.margin.top),
    };
  }

  private point(event: PointerEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const { x, y } = this.place();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const [row, column] = [Math.floor((py - y) / this.cell), Math.floor((px - x) / this.cell)];
    const inside = row >= 0 && column >= 0 && row < this.field.rows && column < this.field.columns;
    this.move(inside && px > this.margin.left && py > this.margin.top ? [row, column] : null);
  }

  private move(to: [number, number] | null): void {
    if (to?.[0] === this.at?.[0] && to?.[1] === this.at?.[1]) return;
    this.at = to;
    this.tell();
    this.redraw();
  }

  private tell(): void {
    if (!this.at) return;
    const [row, column] = this.at;
    const value = this.field.value(row, column);
    const names = `${visible(this.field.name(row))} → ${visible(this.field.columnName(column))}`;
    const place = this.field.rows > 64 ? ` (${row}, ${column})` : "";
    this.options.say(`${names}${place}: ${value === null ? "zoom in to read it" : written(value, 7)}`);
  }

  private key(event: KeyboardEvent): void {
    const by: Record<string, [number, number]> = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    };
    const step = by[event.key];
    if (step && !event.altKey) {
      const [row, column] = this.at ?? [0, -1 + (step[1] === 0 ? 1 : 0)];
      const far = event.shiftKey ? 10 : 1;
      const next: [number, number] = [
        Math.max(0, Math.min(this.field.rows - 1, row + far * step[0])),
        Math.max(0, Math.min(this.field.columns - 1, column + far * step[1])),
      ];
      if (this.cell >= LEGIBLE && this.transform.k > 1) this.goTo(...next, this.cell);
      else this.move(next);
    } else if (event.key === "+" || event.key === "=") this.scale(1.6);
    else if (event.key === "-") this.scale(1 / 1.6);
    else if (event.key === "0") select(this.canvas).call((s) => this.zoom.transform(s, zoomIdentity));
    else if (event.key === "Enter" && this.at) this.options.hold((this.held = this.at[0]));
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.redraw();
  }

  private scale(by: number): void {
    if (by > 1 && this.at) {
      this.goTo(...this.at, Math.min(LARGEST, this.cell * by));
      return;
    }
    select(this.canvas).call((s) => this.zoom.scaleBy(s, by));
  }

  private draw(): void {
    const context = sized(this.canvas, this.width, this.height);
    const { field, margin, cell } = this;
    const { x, y } = this.place();
    const [ink, faint, ground] = [css("--ink"), css("--faint"), css("--ground")];
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
    field.draw(context, view);
    context.translate(-view.x * cell, -view.y * cell);
    context.strokeStyle = faint;
    context.lineWidth = 1;
    context.strokeRect(0, 0, field.columns * cell, field.rows * cell);
    const mark = (row: number, colour: string) => {
      context.strokeStyle = colour;
      context.strokeRect(0, row * cell, field.columns * cell, Math.max(1, cell));
    };
    if (this.held !== null && this.held < field.rows) mark(this.held, INK.query);
    if (this.at) {
      context.globalAlpha = 0.5;
      mark(this.at[0], faint);
      context.strokeRect(this.at[1] * cell, 0, Math.max(1, cell), field.rows * cell);
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.strokeStyle = INK.query;
      context.strokeRect(this.at[1] * cell, this.at[0] * cell, Math.max(2, cell), Math.max(2, cell));
    }
    context.restore();
    this.names(context, x, y, ink, faint);
  }

  private names(context: CanvasRenderingContext2D, x: number, y: number, ink: string, faint: string): void {
    const { field, margin, cell } = this;
    context.font = `${Math.max(9, Math.min(13, cell * 0.72))}px ${css("--font")}`;
    context.textBaseline = "middle";
    const legible = cell >= LEGIBLE;
    const every = legible ? 1 : niceStep(60 / cell);
    const text = (name: string, index: number) => (legible ? cut(visible(name)) : index.toLocaleString("en"));
    const first = (edge: number, start: number) => Math.max(0, Math.ceil((edge - start) / cell / every) * every);
    context.textAlign = "right";
    for (let row = first(margin.top, y + cell / 2); row < field.rows; row += every) {
      const at = y + (row + 0.5) * cell;
      if (at > this.height) break;
      const active = this.at?.[0] === row || this.held === row;
      context.fillStyle = active ? INK.query : legible ? ink : faint;
      context.fillText(text(field.name(row), row), margin.left - 6, at);
    }
    context.textAlign = "left";
    for (let column = first(margin.left, x + cell / 2); column < field.columns; column += every) {
      const at = x + (column + 0.5) * cell;
      if (at > this.width) break;
      context.fillStyle = this.at?.[1] === column ? INK.query : legible ? ink : faint;
      context.save();
      context.translate(at, margin.top - 6);
      context.rotate(-Math.PI / 2.6);
      context.fillText(text(field.columnName(column), column), 0, 0);
      context.restore();
    }
  }

  /** The whole map as an SVG of rectangles, where it is small enough to be one. */
  svg(): string {
    const { field, margin } = this;
    if (field.rows * field.columns > 40_000) throw new Error("more than 40,000 cells: export PNG or CSV instead");
    const cell = 18;
    const size = [margin.left + field.columns * cell + 12, margin.top + field.rows * cell + 12];
    const out = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${size[0]}" height="${size[1]}" font-family="sans-serif" font-size="12">`,
    ];
    for (let r = 0; r < field.rows; r++) {
      out.push(
        `<text x="${margin.left - 6}" y="${margin.top + (r + 0.5) * cell + 4}" text-anchor="end">${escaped(cut(visible(field.name(r))))}</text>`,
      );
      for (let c = 0; c < field.columns; c++) {
        const value = field.value(r, c) ?? 0;
        const share = field.peak ? Math.sqrt(Math.max(0, value / field.peak)) : 0;
        out.push(
          `<rect x="${margin.left + c * cell}" y="${margin.top + r * cell}" width="${cell - 0.5}" height="${cell - 0.5}" fill="#08519c" fill-opacity="${share.toFixed(3)}"/>`,
        );
      }
    }
    for (let c = 0; c < field.columns; c++) {
      const at = `${margin.left + (c + 0.6) * cell} ${margin.top - 6}`;
      out.push(`<text transform="translate(${at}) rotate(-60)">${escaped(cut(visible(field.columnName(c))))}</text>`);
    }
    return out.join("\n") + "\n</svg>\n";
  }

  png(): Promise<Blob> {
    return new Promise((resolve, reject) =>
      this.canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large")))),
    );
  }
}

function cut(name: string): string {
  return name.length <= 14 ? name : name.slice(0, 13) + "…";
}

/** 1, 2 or 5 times a power of ten, and no less than asked. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) ?? 10 * power;
}
