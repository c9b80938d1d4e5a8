/** Model view: thumbnails of every head of every layer; click one to open it. */

import { paint } from "./color";
import { make } from "./dom";
import { formatNumber } from "./numbers";
import { TILE, type Source, type HeadRef } from "./source";
import type { State } from "./state";
import { toGrid } from "./grid";

const THUMBNAIL_PX = 64;

export class ModelView {
  readonly element = make("div", { class: "model" });
  private stopped = false;

  constructor(
    private readonly state: State,
    private readonly source: Source,
    private readonly ablated: ReadonlyMap<string, Set<number>>,
    private readonly open: (where: HeadRef) => void,
  ) {
    this.element.setAttribute("role", "grid");
    this.element.setAttribute("aria-label", "all heads of all layers");
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
    const pending: (() => Promise<void>)[] = [];
    maps.forEach((map, m) => {
      const row = make("div", { class: "layer" });
      row.setAttribute("role", "row");
      row.append(make("span", { class: "name", text: map.name }));
      for (let head = 0; head < map.heads; head++) {
        const cell = make("button", { class: "thumb" });
        cell.type = "button";
        cell.setAttribute("role", "gridcell");
        const details = [`${map.name}, head ${head}`];
        if (map.entropy) details.push(`entropy ${formatNumber(map.entropy[head], 2)}`);
        if (map.distance) details.push(`mean distance ${formatNumber(map.distance[head], 1)} tokens`);
        cell.title = details.join(" · ");
        cell.setAttribute("aria-label", details.join(", "));
        const now = this.state.now;
        if (now.map === m && now.head === head) cell.setAttribute("aria-current", "true");
        cell.classList.toggle("ablated", this.ablated.get(map.name)?.has(head) ?? false);
        const canvas = make("canvas");
        canvas.width = canvas.height = THUMBNAIL_PX;
        cell.append(canvas, make("span", { class: "number", text: String(head) }));
        cell.addEventListener("click", () => this.open({ sequence, map: m, head }));
        cell.addEventListener("keydown", (event) => moveFocus(event, cell));
        row.append(cell);
        pending.push(() => this.drawThumbnail(canvas, { sequence, map: m, head }));
      }
      this.element.append(row);
    });
    for (const work of pending) {
      if (this.stopped) return;
      await work().catch(() => undefined); // a thumbnail that fails to load stays empty
    }
  }

  private async drawThumbnail(canvas: HTMLCanvasElement, where: HeadRef): Promise<void> {
    const axes = this.state.axes(where);
    let [rows, columns] = [axes.queries.words.length, axes.keys.words.length];
    let values: Float32Array;
    if (this.source.live && Math.max(rows, columns) > TILE) {
      const level = Math.ceil(Math.log2(Math.max(rows, columns) / TILE));
      const tile = await this.source.tile({ ...where, level, row: 0, column: 0, pool: "max" });
      ({ rows, columns, values } = tile);
    } else {
      const { mergeSubwords, hideSpecial } = this.state.now;
      const grid = toGrid(await this.source.weights(where), axes.queries, axes.keys, { mergeSubwords, hideSpecial });
      [rows, columns, values] = [grid.rows.names.length, grid.columns.names.length, grid.values];
    }
    if (!rows || !columns) return;
    const image = new OffscreenCanvas(columns, rows);
    const inner = image.getContext("2d") as OffscreenCanvasRenderingContext2D;
    inner.putImageData(paint(values, rows, columns, 1), 0, 0);
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    const scale = Math.min(THUMBNAIL_PX / columns, THUMBNAIL_PX / rows);
    context.imageSmoothingEnabled = scale < 1;
    context.drawImage(image, 0, 0, columns * scale, rows * scale);
  }
}

/** Move the focus between thumbnails with the arrow keys. */
function moveFocus(event: KeyboardEvent, cell: HTMLElement): void {
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
