import { describe, expect, it } from "vitest";
import { toCsv } from "../src/export";
import { escapeXml, describeRow, visibleText } from "../src/lines";
import { niceStep } from "../src/matrix";
import { parseScene, type Scene } from "../src/scene";
import { fromHash, State, toHash } from "../src/state";
import type { Grid } from "../src/grid";

const axis = { name: "text", words: ["a", "b"], special: [false, false], joined: [false, false] };
const map = { name: "encoder.0", kind: "self" as const, queries: 0, keys: 0, heads: 3 };
const scene: Scene = {
  version: 1,
  title: "t",
  model: "m",
  live: false,
  sequences: [
    { label: "one", axes: [axis], maps: [map, { ...map, name: "encoder.1", heads: 2 }] },
    { label: "two", axes: [axis], maps: [map] },
  ],
};

describe("state", () => {
  it("clamps to what exists", () => {
    const state = new State(scene, { map: 9, head: 9 });
    expect([state.now.map, state.now.head]).toEqual([1, 1]);
    state.set({ sequence: 1 });
    expect([state.now.map, state.now.head]).toEqual([0, 1]);
    state.set({ head: -1 });
    expect(state.now.head).toBe(0);
  });
  it("clears the query when the rows change", () => {
    const state = new State(scene, { query: 1 });
    state.set({ head: 1 });
    expect(state.now.query).toBe(1);
    state.set({ mergeSubwords: true });
    expect(state.now.query).toBeNull();
  });
  it("is encoded in the URL fragment", () => {
    const state = new State(scene, { view: "matrix", map: 1, head: 1, mergeSubwords: true, query: 1 });
    expect(fromHash(toHash(state.now))).toMatchObject({ view: "matrix", map: 1, head: 1, mergeSubwords: true, hideSpecial: false, query: 1 });
  });
  it("keeps the second head of a comparison in the fragment", () => {
    const state = new State(scene, { head: 2, compared: { sequence: 1, map: 0, head: 1 } });
    expect(toHash(state.now)).toBe("#lines.0.0.2.vs1-0-1");
    expect(fromHash("#lines.0.0.2.vs1-0-1")).toMatchObject({ head: 2, compared: { sequence: 1, map: 0, head: 1 } });
    expect(fromHash("#lines.0.0.2").compared).toBeNull();
    expect(new State(scene, fromHash("#lines.0.0.2.vs7-7-7")).now.compared).toEqual({ sequence: 1, map: 0, head: 2 });
  });
  it("ignores invalid fragments", () => {
    expect(fromHash("#<img onerror=1>.x")).toEqual({});
    expect(fromHash("#lines.0.0.0.vs1-x-1").compared).toBeNull();
  });
});

describe("scenes", () => {
  it("are refused when an axis is missing", () => {
    const broken = { ...scene, sequences: [{ ...scene.sequences[0], axes: [] }] };
    expect(() => parseScene(JSON.stringify(broken))).toThrow("encoder.0 refers to an axis");
    expect(() => parseScene('{"version": 2}')).toThrow("version 2 is not supported");
  });
});

describe("files", () => {
  const grid: Grid = {
    values: Float32Array.from([0.5, 0.5, 1, 0]),
    rows: { names: ["=1+1", 'say "hi", you'], members: [[0], [1]] },
    columns: { names: ["a", "b"], members: [[0], [1]] },
    peak: 1,
  };
  it("are safe for spreadsheets", () => {
    const lines = toCsv(grid).split("\r\n");
    expect(lines[0]).toBe(",a,b");
    expect(lines[1]).toBe("'=1+1,0.500000000,0.500000000");
    expect(lines[2].startsWith('"say ""hi"", you",1')).toBe(true);
  });
  it("escape labels", () => {
    expect(escapeXml('<b>&"')).toBe("&#60;b&#62;&#38;&#34;");
  });
  it("describe the largest weights first", () => {
    expect(describeRow(grid, 1, 1)).toBe('say "hi", you → a 1.000000');
  });
  it("show white space", () => {
    expect([visibleText(" "), visibleText("a\n"), visibleText("")]).toEqual(["␣", "a⏎", "∅"]);
  });
});

it("steps nicely", () => {
  expect([1, 3, 7, 40, 1200].map(niceStep)).toEqual([1, 5, 10, 50, 2000]);
});
