import { describe, expect, it } from "vitest";
import { toGrid, hiddenFraction, toSide } from "../src/grid";
import type { Axis } from "../src/scene";

const axis: Axis = {
  name: "text",
  words: ["[CLS]", "un", "broken", "sea", "[SEP]"],
  special: [true, false, false, false, true],
  joined: [false, false, true, false, false],
};

// each row sums to 1
const weights = Float32Array.from([
  0.2, 0.2, 0.2, 0.2, 0.2,
  0.5, 0.1, 0.1, 0.1, 0.2,
  0.1, 0.3, 0.3, 0.1, 0.2,
  0.0, 0.25, 0.25, 0.5, 0.0,
  1.0, 0.0, 0.0, 0.0, 0.0,
]);

describe("sides", () => {
  it("merges the subwords of a word", () => {
    expect(toSide(axis, { mergeSubwords: true, hideSpecial: false }).names).toEqual(["[CLS]", "unbroken", "sea", "[SEP]"]);
  });
  it("hides special tokens", () => {
    expect(toSide(axis, { mergeSubwords: false, hideSpecial: true }).members).toEqual([[1], [2], [3]]);
  });
  it("does not merge across a hidden token", () => {
    const odd: Axis = { ...axis, words: ["a", "[SEP]", "b"], special: [false, true, false], joined: [false, false, true] };
    expect(toSide(odd, { mergeSubwords: true, hideSpecial: true }).names).toEqual(["a", "b"]);
  });
});

describe("grids", () => {
  const unchanged = { mergeSubwords: false, hideSpecial: false };
  it("are the weights themselves by default", () => {
    const grid = toGrid(weights, axis, axis, unchanged);
    expect(Array.from(grid.values)).toEqual(Array.from(weights));
    expect(grid.peak).toBe(1);
  });
  it("sum attention to a word and average attention from it", () => {
    const grid = toGrid(weights, axis, axis, { mergeSubwords: true, hideSpecial: false });
    const row = Array.from(grid.values.subarray(4, 8)); // from "unbroken"
    expect(row[0]).toBeCloseTo(0.3, 6);
    expect(row[1]).toBeCloseTo(0.4, 6); // (0.2 + 0.6) / 2
    expect(row.reduce((a, b) => a + b)).toBeCloseTo(1, 6);
  });
  it("are renormalized when special tokens are hidden", () => {
    const grid = toGrid(weights, axis, axis, { mergeSubwords: false, hideSpecial: true });
    for (let r = 0; r < 3; r++) {
      const row = Array.from(grid.values.subarray(3 * r, 3 * r + 3));
      expect(row.reduce((a, b) => a + b)).toBeCloseTo(1, 6);
    }
    expect(grid.values[0]).toBeCloseTo(1 / 3, 6);
  });
  it("report the hidden fraction", () => {
    expect(hiddenFraction(weights, axis, axis)).toBeCloseTo((0.7 + 0.3 + 0) / 3, 6);
  });
  it("are scaled by value norms", () => {
    const grid = toGrid(weights, axis, axis, unchanged, Float32Array.from([0, 1, 2, 3, 4]));
    expect(grid.values[3 * 5 + 3]).toBeCloseTo(1.5, 6);
    expect(grid.values[4 * 5]).toBe(0);
  });
});
