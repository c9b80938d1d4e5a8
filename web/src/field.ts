/** Fields: the values of a map, wherever they lie: all at hand, or in tiles that come when they are looked at. */

import { paint } from "./colour";
import { TILE, type Source, type Tile, type Where } from "./source";
import type { Grid } from "./words";

export interface Viewport {
  x: number; // the first column shown, in cells, with a fraction
  y: number;
  columns: number; // how many are shown
  rows: number;
  cell: number; // pixels a cell
}

export interface Field {
  readonly rows: number;
  readonly columns: number;
  name(row: number): string;
  columnName(column: number): string;
  value(row: number, column: number): number | null; // null: not here yet
  draw(context: CanvasRenderingContext2D, view: Viewport): void;
  readonly peak: number;
}

/** A map that is all there. */
export class Dense implements Field {
  readonly rows: number;
  readonly columns: number;
  readonly peak: number;
  private picture: OffscreenCanvas | null = null;

  constructor(
    readonly grid: Grid,
    private readonly both = false,
  ) {
    this.rows = grid.rows.names.length;
    this.columns = grid.columns.names.length;
    this.peak = grid.peak;
  }

  name(row: number): string {
    return this.grid.rows.names[row];
  }

  columnName(column: number): string {
    return this.grid.columns.names[column];
  }

  value(row: number, column: number): number {
    return this.grid.values[row * this.columns + column];
  }

  draw(context: CanvasRenderingContext2D, view: Viewport): void {
    if (!this.rows || !this.columns) return;
    if (!this.picture) {
      this.picture = new OffscreenCanvas(this.columns, this.rows);
      const inner = this.picture.getContext("2d") as OffscreenCanvasRenderingContext2D;
      inner.putImageData(paint(this.grid.values, this.rows, this.columns, this.peak, this.both), 0, 0);
    }
    context.imageSmoothingEnabled = view.cell < 1;
    context.drawImage(
      this.picture,
      -view.x * view.cell,
      -view.y * view.cell,
      this.columns * view.cell,
      this.rows * view.cell,
    );
  }
}

interface Held {
  tile: Tile | null;
  picture: OffscreenCanvas | null;
  used: number;
}

const HELD = 160; // tiles kept
const PENDING = 4; // asked for at once

/** A map too long to hold: an overview first, then what is looked at, as fine as the screen shows it. */
export class Tiled implements Field {
  peak = 1e-9;
  readonly top: number; // the level of the overview: one tile or four
  private readonly held = new Map<string, Held>();
  private readonly queue: string[] = [];
  private pending = 0;
  private clock = 0;

  constructor(
    private readonly source: Source,
    private readonly where: Where,
    private readonly names: { rows: string[]; columns: string[] },
    private readonly pool: "max" | "mean",
    private readonly changed: () => void,
  ) {
    this.top = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.columns) / (2 * TILE))));
  }

  get rows(): number {
    return this.names.rows.length;
  }

  get columns(): number {
    return this.names.columns.length;
  }

  name(row: number): string {
    return this.names.rows[row];
  }

  columnName(column: number): string {
    return this.names.columns[column];
  }

  value(row: number, column: number): number | null {
    const tile = this.held.get(this.key(0, Math.floor(row / TILE), Math.floor(column / TILE)))?.tile;
    return tile ? tile.values[(row % TILE) * tile.columns + (column % TILE)] : null;
  }

  /** The level whose cells are about a pixel or larger. */
  level(cell: number): number {
    return Math.max(0, Math.min(this.top, Math.floor(-Math.log2(Math.max(cell, 1e-9)))));
  }

  draw(context: CanvasRenderingContext2D, view: Viewport): void {
    this.clock++;
    const wanted = this.level(view.cell);
    this.queue.length = 0;
    for (let level = this.top; level >= wanted; level--) {
      if (level !== this.top && level !== wanted) continue; // the overview lies under what is still to come
      this.drawLevel(context, view, level);
    }
    this.next();
  }

  private drawLevel(context: CanvasRenderingContext2D, view: Viewport, level: number): void {
    const span = TILE * 2 ** level; // tokens on a side of a tile
    const within = (from: number, count: number, all: number) => [
      Math.max(0, Math.floor(from / span)),
      Math.min(Math.ceil(all / span) - 1, Math.floor((from + count) / span)),
    ];
    const [r0, r1] = within(view.y, view.rows, this.rows);
    const [c0, c1] = within(view.x, view.columns, this.columns);
    for (let row = r0; row <= r1; row++)
      for (let column = c0; column <= c1; column++) {
        const key = this.key(level, row, column);
        const held = this.held.get(key);
        if (!held) {
          this.queue.push(key);
          continue;
        }
        held.used = this.clock;
        if (!held.tile) continue;
        held.picture ??= this.painted(held.tile);
        const scale = 2 ** level * view.cell;
        context.imageSmoothingEnabled = scale < 1;
        context.drawImage(
          held.picture,
          (column * span - view.x) * view.cell,
          (row * span - view.y) * view.cell,
          held.tile.columns * scale,
          held.tile.rows * scale,
        );
      }
  }

  private painted(tile: Tile): OffscreenCanvas {
    const picture = new OffscreenCanvas(tile.columns, tile.rows);
    const inner = picture.getContext("2d") as OffscreenCanvasRenderingContext2D;
    inner.putImageData(paint(tile.values, tile.rows, tile.columns, this.peak), 0, 0);
    return picture;
  }

  private key(level: number, row: number, column: number): string {
    return `${level} ${row} ${column}`;
  }

  private next(): void {
    while (this.pending < PENDING && this.queue.length) {
      const key = this.queue.shift() as string;
      const [level, row, column] = key.split(" ").map(Number);
      this.held.set(key, { tile: null, picture: null, used: this.clock });
      this.pending++;
      this.source
        .tile({ ...this.where, level, row, column, pool: this.pool })
        .then((tile) => this.arrived(key, level, tile))
        .catch(() => this.held.delete(key)) // asked for again when it is next in sight
        .finally(() => {
          this.pending--;
          this.next();
        });
    }
  }

  private arrived(key: string, level: number, tile: Tile): void {
    this.held.set(key, { tile, picture: null, used: this.clock });
    if (level === this.top) {
      const peak = tile.values.reduce((most, value) => Math.max(most, value), 0);
      if (peak > this.peak) {
        this.peak = peak; // shades follow the overview, so that a zoom does not change them
        for (const held of this.held.values()) held.picture = null;
      }
    }
    if (this.held.size > HELD) {
      const old = [...this.held].filter(([k]) => !k.startsWith(`${this.top} `)).sort((a, b) => a[1].used - b[1].used);
      for (const [k] of old.slice(0, this.held.size - HELD)) this.held.delete(k);
    }
    this.changed();
  }
}
