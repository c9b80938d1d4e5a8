/** Export of the current view as a file. */

import { make } from "./dom";
import type { Grid } from "./grid";

/** Return CSV with a row for each query and a column for each key. */
export function toCsv(grid: Grid): string {
  const width = grid.columns.names.length;
  const lines = [["", ...grid.columns.names].map(quote).join(",")];
  grid.rows.names.forEach((name, r) => {
    const row = Array.from(grid.values.subarray(r * width, (r + 1) * width), (value) => value.toPrecision(9));
    lines.push([quote(name), ...row].join(","));
  });
  return lines.join("\r\n") + "\r\n";
}

/** Quote a CSV cell; a leading apostrophe keeps spreadsheets from running it as a formula. */
function quote(text: string): string {
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

/** Return an SVG as a PNG at twice its resolution. */
export async function rasterize(svg: string): Promise<Blob> {
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
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the image is too large to export")))),
  );
}
