/** State: what is chosen on the page. Views read it and are told when it changes; it stands in the address, too. */

import type { Scene } from "./scene";
import type { Where } from "./source";

export const VIEWS = ["lines", "matrix", "model", "steps"] as const;
export type ViewName = (typeof VIEWS)[number];

export interface Chosen extends Where {
  view: ViewName;
  merge: boolean;
  hide: boolean;
  moved: boolean;
  query: number | null; // the word that is held, as a row of the grid shown
  beside: Where | null; // a second head to compare with
}

export class State {
  private listeners: ((now: Chosen, before: Chosen) => void)[] = [];
  now: Chosen;

  constructor(
    readonly scene: Scene,
    start: Partial<Chosen> = {},
  ) {
    this.now = this.mended({
      sequence: 0,
      map: 0,
      head: 0,
      view: "lines",
      merge: false,
      hide: false,
      moved: false,
      query: null,
      beside: null,
      ...start,
    });
  }

  onChange(listener: (now: Chosen, before: Chosen) => void): void {
    this.listeners.push(listener);
  }

  set(change: Partial<Chosen>): void {
    const before = this.now;
    const moves = change.sequence !== undefined && change.sequence !== before.sequence;
    const recut = change.merge !== undefined || change.hide !== undefined;
    const query = change.query !== undefined ? change.query : moves || recut ? null : before.query;
    this.now = this.mended({ ...before, ...change, query });
    for (const listener of this.listeners) listener(this.now, before);
  }

  map(where: Where = this.now) {
    return this.scene.sequences[where.sequence].maps[where.map];
  }

  axes(where: Where = this.now) {
    const { axes } = this.scene.sequences[where.sequence];
    const map = this.map(where);
    return { queries: axes[map.queries], keys: axes[map.keys] };
  }

  /** Numbers that are there: a map, head or sequence out of range becomes the nearest. */
  private mended(chosen: Chosen): Chosen {
    const place = this.placed(chosen);
    return { ...chosen, ...place, beside: chosen.beside && this.placed(chosen.beside) };
  }

  private placed(where: Where): Where {
    const sequence = clamp(where.sequence, this.scene.sequences.length);
    const maps = this.scene.sequences[sequence].maps;
    const map = clamp(where.map, maps.length);
    return { sequence, map, head: clamp(where.head, maps[map].heads) };
  }
}

function clamp(value: number, count: number): number {
  return Math.max(0, Math.min(count - 1, value));
}

/** The choice as an address' fragment, and back. */
export function toHash(chosen: Chosen): string {
  const parts = [chosen.view, chosen.sequence, chosen.map, chosen.head];
  const flags = [chosen.merge && "words", chosen.hide && "plain", chosen.moved && "moved"].filter(Boolean);
  const held = chosen.query === null ? [] : [`at${chosen.query}`];
  return "#" + [...parts, ...flags, ...held].join(".");
}

export function fromHash(hash: string): Partial<Chosen> {
  const [view, sequence, map, head, ...flags] = hash.replace(/^#/, "").split(".");
  if (!VIEWS.includes(view as ViewName)) return {};
  const held = flags.find((flag) => /^at\d+$/.test(flag));
  return {
    view: view as ViewName,
    sequence: Number(sequence) || 0,
    map: Number(map) || 0,
    head: Number(head) || 0,
    merge: flags.includes("words"),
    hide: flags.includes("plain"),
    moved: flags.includes("moved"),
    query: held ? Number(held.slice(2)) : null,
  };
}
