/** Save: what is shown, as a file. */

import { make } from "./dom";
import type { Grid } from "./words";

/** A table with a line for each word that attends and a column for each word attended to. */
export function csvOf(grid: Grid): string {
  const wide = grid.columns.names.length;
  const lines = [["", ...grid.columns.names].map(quoted).join(",")];
  grid.rows.names.forEach((name, r) => {
    const row = Array.from(grid.values.subarray(r * wide, (r + 1) * wide), (value) => value.toPrecision(9));
    lines.push([quoted(name), ...row].join(","));
  });
  return lines.join("\r\n") + "\r\n";
}

/** A cell that no spreadsheet takes for a formula. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function download(content: Blob | string, name: string, type = "text/plain"): void {
  const blob = typeof content === "string" ? new Blob([content], { type }) : content;
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** An SVG as a PNG, twice as fine. */
export async function rastered(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = make("canvas");
  canvas.width = 2 * image.width;
  canvas.height = 2 * image.height;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large")))),
  );
}
