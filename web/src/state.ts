/** Selection state of the page: notifies listeners of changes and is encoded in the URL fragment. */

import type { Scene } from "./scene";
import type { HeadRef } from "./source";

export const VIEWS = ["lines", "matrix", "model", "steps"] as const;
export type ViewName = (typeof VIEWS)[number];

export interface Selection extends HeadRef {
  view: ViewName;
  mergeSubwords: boolean;
  hideSpecial: boolean;
  valueWeighted: boolean;
  query: number | null; // the selected token, as a row of the current grid
  compared: HeadRef | null; // a second head to compare with
}

export class State {
  private listeners: ((now: Selection, before: Selection) => void)[] = [];
  now: Selection;

  constructor(
    readonly scene: Scene,
    start: Partial<Selection> = {},
  ) {
    this.now = this.clamped({
      sequence: 0,
      map: 0,
      head: 0,
      view: "lines",
      mergeSubwords: false,
      hideSpecial: false,
      valueWeighted: false,
      query: null,
      compared: null,
      ...start,
    });
  }

  onChange(listener: (now: Selection, before: Selection) => void): void {
    this.listeners.push(listener);
  }

  set(change: Partial<Selection>): void {
    const before = this.now;
    const inputChanged = change.sequence !== undefined && change.sequence !== before.sequence;
    const rowsChanged = change.mergeSubwords !== undefined || change.hideSpecial !== undefined;
    const query = change.query !== undefined ? change.query : inputChanged || rowsChanged ? null : before.query;
    this.now = this.clamped({ ...before, ...change, query });
    for (const listener of this.listeners) listener(this.now, before);
  }

  map(where: HeadRef = this.now) {
    return this.scene.sequences[where.sequence].maps[where.map];
  }

  axes(where: HeadRef = this.now) {
    const { axes } = this.scene.sequences[where.sequence];
    const map = this.map(where);
    return { queries: axes[map.queries], keys: axes[map.keys] };
  }

  /** Clamp input, layer and head to the nearest that exists. */
  private clamped(selection: Selection): Selection {
    const head = this.clampedHead(selection);
    return { ...selection, ...head, compared: selection.compared && this.clampedHead(selection.compared) };
  }

  private clampedHead(where: HeadRef): HeadRef {
    const sequence = clamp(where.sequence, this.scene.sequences.length);
    const maps = this.scene.sequences[sequence].maps;
    const map = clamp(where.map, maps.length);
    return { sequence, map, head: clamp(where.head, maps[map].heads) };
  }
}

function clamp(value: number, count: number): number {
  return Math.max(0, Math.min(count - 1, value));
}

/** Encode the selection as a URL fragment. */
export function toHash(selection: Selection): string {
  const parts = [selection.view, selection.sequence, selection.map, selection.head];
  const flags = [
    selection.mergeSubwords && "words",
    selection.hideSpecial && "nospecial",
    selection.valueWeighted && "weighted",
  ].filter(Boolean);
  const query = selection.query === null ? [] : [`at${selection.query}`];
  const { compared } = selection;
  const second = compared === null ? [] : [`vs${compared.sequence}-${compared.map}-${compared.head}`];
  return "#" + [...parts, ...flags, ...query, ...second].join(".");
}

/** Decode a URL fragment; returns nothing for an unknown view. */
export function fromHash(hash: string): Partial<Selection> {
  const [view, sequence, map, head, ...flags] = hash.replace(/^#/, "").split(".");
  if (!VIEWS.includes(view as ViewName)) return {};
  const query = flags.find((flag) => /^at\d+$/.test(flag));
  const second = flags.map((flag) => /^vs(\d+)-(\d+)-(\d+)$/.exec(flag)).find((match) => match !== null);
  return {
    view: view as ViewName,
    sequence: Number(sequence) || 0,
    map: Number(map) || 0,
    head: Number(head) || 0,
    mergeSubwords: flags.includes("words"),
    hideSpecial: flags.includes("nospecial"),
    valueWeighted: flags.includes("weighted"),
    query: query ? Number(query.slice(2)) : null,
    compared: second ? { sequence: Number(second[1]), map: Number(second[2]), head: Number(second[3]) } : null,
  };
}
