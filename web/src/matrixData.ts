/** Data behind the matrix view: a full map in memory, or tiles that are loaded when they become visible. */

import { paint } from "./color";
import { TILE, type Source, type Tile, type HeadRef } from "./source";
import type { Grid } from "./grid";

export interface Viewport {
  x: number; // first visible column, in cells, with a fraction
  y: number;
  columns: number; // number of visible columns
  rows: number;
  cell: number; // pixels per cell
}

export interface MatrixData {
  readonly rows: number;
  readonly columns: number;
  rowName(row: number): string;
  columnName(column: number): string;
  value(row: number, column: number): number | null; // null: not loaded
  draw(context: CanvasRenderingContext2D, view: Viewport): void;
  readonly peak: number;
}

/** A map that is in memory. */
export class DenseMatrix implements MatrixData {
  readonly rows: number;
  readonly columns: number;
  readonly peak: number;
  private image: OffscreenCanvas | null = null;

  constructor(
    readonly grid: Grid,
    private readonly diverging = false,
  ) {
    this.rows = grid.rows.names.length;
    this.columns = grid.columns.names.length;
    this.peak = grid.peak;
  }

  rowName(row: number): string {
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
    if (!this.image) {
      this.image = new OffscreenCanvas(this.columns, this.rows);
      const inner = this.image.getContext("2d") as OffscreenCanvasRenderingContext2D;
      inner.putImageData(paint(this.grid.values, this.rows, this.columns, this.peak, this.diverging), 0, 0);
    }
    context.imageSmoothingEnabled = view.cell < 1;
    context.drawImage(
      this.image,
      -view.x * view.cell,
      -view.y * view.cell,
      this.columns * view.cell,
      this.rows * view.cell,
    );
  }
}

interface CachedTile {
  tile: Tile | null; // null: requested
  image: OffscreenCanvas | null;
  used: number; // when it was last drawn
}

const MAX_CACHED_TILES = 160;
const MAX_PENDING_REQUESTS = 4;

/** A map that is too large for memory: loads an overview first, then the visible tiles at the screen's resolution. */
export class TiledMatrix implements MatrixData {
  peak = 1e-9;
  readonly top: number; // level of the overview, which has one to four tiles
  private readonly cache = new Map<string, CachedTile>();
  private readonly queue: string[] = [];
  private pending = 0;
  private clock = 0;

  constructor(
    private readonly source: Source,
    private readonly head: HeadRef,
    private readonly names: { rows: string[]; columns: string[] },
    private readonly pool: "max" | "mean",
    private readonly onLoad: () => void,
  ) {
    this.top = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.columns) / (2 * TILE))));
  }

  get rows(): number {
    return this.names.rows.length;
  }

  get columns(): number {
    return this.names.columns.length;
  }

  rowName(row: number): string {
    return this.names.rows[row];
  }

  columnName(column: number): string {
    return this.names.columns[column];
  }

  value(row: number, column: number): number | null {
    const tile = this.cache.get(this.key(0, Math.floor(row / TILE), Math.floor(column / TILE)))?.tile;
    return tile ? tile.values[(row % TILE) * tile.columns + (column % TILE)] : null;
  }

  /** The finest level whose cells are about one pixel or larger. */
  level(cell: number): number {
    return Math.max(0, Math.min(this.top, Math.floor(-Math.log2(Math.max(cell, 1e-9)))));
  }

  draw(context: CanvasRenderingContext2D, view: Viewport): void {
    this.clock++;
    const wanted = this.level(view.cell);
    this.queue.length = 0;
    for (let level = this.top; level >= wanted; level--) {
      if (level !== this.top && level !== wanted) continue; // the overview is drawn below tiles that are not loaded
      this.drawLevel(context, view, level);
    }
    this.requestNext();
  }

  private drawLevel(context: CanvasRenderingContext2D, view: Viewport, level: number): void {
    const span = TILE * 2 ** level; // tokens per side of a tile
    const tileRange = (from: number, count: number, total: number) => [
      Math.max(0, Math.floor(from / span)),
      Math.min(Math.ceil(total / span) - 1, Math.floor((from + count) / span)),
    ];
    const [r0, r1] = tileRange(view.y, view.rows, this.rows);
    const [c0, c1] = tileRange(view.x, view.columns, this.columns);
    for (let row = r0; row <= r1; row++)
      for (let column = c0; column <= c1; column++) {
        const key = this.key(level, row, column);
        const cached = this.cache.get(key);
        if (!cached) {
          this.queue.push(key);
          continue;
        }
        cached.used = this.clock;
        if (!cached.tile) continue;
        cached.image ??= this.render(cached.tile);
        const scale = 2 ** level * view.cell;
        context.imageSmoothingEnabled = scale < 1;
        context.drawImage(
          cached.image,
          (column * span - view.x) * view.cell,
          (row * span - view.y) * view.cell,
          cached.tile.columns * scale,
          cached.tile.rows * scale,
        );
      }
  }

  private render(tile: Tile): OffscreenCanvas {
    const image = new OffscreenCanvas(tile.columns, tile.rows);
    const inner = image.getContext("2d") as OffscreenCanvasRenderingContext2D;
    inner.putImageData(paint(tile.values, tile.rows, tile.columns, this.peak), 0, 0);
    return image;
  }

  private key(level: number, row: number, column: number): string {
    return `${level} ${row} ${column}`;
  }

  private requestNext(): void {
    while (this.pending < MAX_PENDING_REQUESTS && this.queue.length) {
      const key = this.queue.shift() as string;
      const [level, row, column] = key.split(" ").map(Number);
      this.cache.set(key, { tile: null, image: null, used: this.clock });
      this.pending++;
      this.source
        .tile({ ...this.head, level, row, column, pool: this.pool })
        .then((tile) => this.store(key, level, tile))
        .catch(() => this.cache.delete(key)) // requested again when it is next visible
        .finally(() => {
          this.pending--;
          this.requestNext();
        });
    }
  }

  private store(key: string, level: number, tile: Tile): void {
    this.cache.set(key, { tile, image: null, used: this.clock });
    if (level === this.top) {
      const peak = tile.values.reduce((largest, value) => Math.max(largest, value), 0);
      if (peak > this.peak) {
        this.peak = peak; // colors follow the overview, so that zooming does not change them
        for (const cached of this.cache.values()) cached.image = null;
      }
    }
    if (this.cache.size > MAX_CACHED_TILES) {
      const oldest = [...this.cache].filter(([k]) => !k.startsWith(`${this.top} `)).sort((a, b) => a[1].used - b[1].used);
      for (const [k] of oldest.slice(0, this.cache.size - MAX_CACHED_TILES)) this.cache.delete(k);
    }
    this.onLoad();
  }
}
