import { describe, expect, test } from "vitest";
import { column, drawExplanation, shade } from "../src/vectors/explanation";
import { nearest, readPlaces } from "../src/vectors/map";

function encode(numbers: number[]): string {
  return btoa(String.fromCharCode(...new Uint8Array(new Float32Array(numbers).buffer)));
}

describe("map", () => {
  test("places fill the unit square with one scale", () => {
    const places = readPlaces(encode([0, 0, 10, 0, 10, 5]));
    expect(places[0].x).toBeCloseTo(0);
    expect(places[1].x).toBeCloseTo(1);
    expect(places[2].y).toBeCloseTo(0.25); // up is less
    expect(places[0].y).toBeCloseTo(0.75);
  });

  test("the nearest place within reach", () => {
    const places = [{ x: 0, y: 0 }, { x: 10, y: 0 }];
    expect(nearest(places, { x: 7, y: 0 }, 5)).toBe(1);
    expect(nearest(places, { x: 5, y: 20 }, 5)).toBe(-1);
  });
});

describe("explanation", () => {
  test("shades by the largest value and by sign", () => {
    expect(shade(-0.5, 1)).toEqual({ strength: 0.5, adds: false });
    expect(shade(0.5, 0)).toEqual({ strength: 0, adds: true });
  });

  test("a token of either side picks its row or column", () => {
    const pairs = [[1, 2, 3], [4, 5, 6]];
    expect(column(pairs, "first", 1)).toEqual([4, 5, 6]);
    expect(column(pairs, "second", 2)).toEqual([3, 6]);
  });

  test("tokens are text, never HTML", () => {
    const root = document.createElement("div");
    drawExplanation(root, {
      kind: "explanation", title: "Similarity", score: 0.5, baseline: 0, first: ["<img src=x>"], second: ["b"],
      first_values: [0.5], second_values: [0.5], pairs: [[0.5]],
    });
    expect(root.querySelector("img")).toBeNull();
    expect(root.textContent).toContain("<img src=x>");
  });
});
