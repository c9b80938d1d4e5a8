/** Model: every head of every layer at a glance. Choose one to open it. */

import { paint } from "./colour";
import { make } from "./dom";
import { written } from "./numbers";
import { TILE, type Source, type Where } from "./source";
import type { State } from "./state";
import { gridOf } from "./words";

const SIZE = 64; // pixels on a side of a thumbnail

export class Model {
  readonly element = make("div", { class: "model" });
  private stopped = false;

  constructor(
    private readonly state: State,
    private readonly source: Source,
    private readonly off: ReadonlyMap<string, Set<number>>,
    private readonly open: (where: Where) => void,
  ) {
    this.element.setAttribute("role", "grid");
    this.element.setAttribute("aria-label", "all layers and heads");
  }

  show(): void {
    void this.fill();
  }

  stop(): void {
    this.stopped = true;
  }

  private async fill(): Promise<void> {
    const { sequence } = this.state.now;
    const { maps } = this.state.scene.sequences[sequence];
    const waiting: (() => Promise<void>)[] = [];
    maps.forEach((map, m) => {
      const row = make("div", { class: "layer" });
      row.setAttribute("role", "row");
      row.append(make("span", { class: "name", text: map.name }));
      for (let head = 0; head < map.heads; head++) {
        const cell = make("button", { class: "thumb" });
        cell.type = "button";
        cell.setAttribute("role", "gridcell");
        const facts = [`${map.name}, head ${head}`];
        if (map.entropy) facts.push(`entropy ${written(map.entropy[head], 2)}`);
        if (map.distance) facts.push(`looks ${written(map.distance[head], 1)} tokens far`);
        cell.title = facts.join(" · ");
        cell.setAttribute("aria-label", facts.join(", "));
        const now = this.state.now;
        if (now.map === m && now.head === head) cell.setAttribute("aria-current", "true");
        cell.classList.toggle("off", this.off.get(map.name)?.has(head) ?? false);
        const canvas = make("canvas");
        canvas.width = canvas.height = SIZE;
        cell.append(canvas, make("span", { class: "number", text: String(head) }));
        cell.addEventListener("click", () => this.open({ sequence, map: m, head }));
        cell.addEventListener("keydown", (event) => walkGrid(event, cell));
        row.append(cell);
        waiting.push(() => this.thumb(canvas, { sequence, map: m, head }));
      }
      this.element.append(row);
    });
    for (const work of waiting) {
      if (this.stopped) return;
      await work().catch(() => undefined); // a thumbnail that cannot come stays empty
    }
  }

  private async thumb(canvas: HTMLCanvasElement, where: Where): Promise<void> {
    const axes = this.state.axes(where);
    let [rows, columns] = [axes.queries.words.length, axes.keys.words.length];
    let values: Float32Array;
    if (this.source.live && Math.max(rows, columns) > TILE) {
      const level = Math.ceil(Math.log2(Math.max(rows, columns) / TILE));
      const tile = await this.source.tile({ ...where, level, row: 0, column: 0, pool: "max" });
      ({ rows, columns, values } = tile);
    } else {
      const { merge, hide } = this.state.now;
      const grid = gridOf(await this.source.weights(where), axes.queries, axes.keys, { merge, hide });
      [rows, columns, values] = [grid.rows.names.length, grid.columns.names.length, grid.values];
    }
    if (!rows || !columns) return;
    const picture = new OffscreenCanvas(columns, rows);
    const inner = picture.getContext("2d") as OffscreenCanvasRenderingContext2D;
    inner.putImageData(paint(values, rows, columns, 1), 0, 0);
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    const share = Math.min(SIZE / columns, SIZE / rows);
    context.imageSmoothingEnabled = share < 1;
    context.drawImage(picture, 0, 0, columns * share, rows * share);
  }
}

/** Arrow keys from one thumbnail to the next. */
function walkGrid(event: KeyboardEvent, cell: HTMLElement): void {
  const row = cell.parentElement as HTMLElement;
  const place = [...row.children].indexOf(cell);
  const next: Record<string, Element | null | undefined> = {
    ArrowLeft: cell.previousElementSibling,
    ArrowRight: cell.nextElementSibling,
    ArrowUp: row.previousElementSibling?.children[place],
    ArrowDown: row.nextElementSibling?.children[place],
  };
  const to = next[event.key];
  if (to instanceof HTMLButtonElement) {
    event.preventDefault();
    event.stopPropagation();
    to.focus();
  }
}
