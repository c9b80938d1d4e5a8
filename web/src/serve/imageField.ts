/** A field for an image file that is chosen, dropped or pasted; it is shown, and sent in base64. */

import { make } from "./elements";

export interface ImageChooser {
  element: HTMLElement;
  input: HTMLInputElement;
  /** The file in base64; null if there is none yet. */
  value(): string | null;
}

export function imageChooser(id: string, name: string, onChange: () => void): ImageChooser {
  let content: string | null = null;
  const input = make("input", { type: "file", id, name, accept: "image/*" });
  const preview = make("img", { class: "preview", alt: "The chosen image", hidden: true });
  const hint = make("span", { class: "faint", text: "Drop an image here, paste one, or choose a file." });
  const element = make("label", { class: "drop", for: id }, preview, hint, input);

  const take = async (file: File | null | undefined): Promise<void> => {
    if (!file) return;
    const url = await dataUrl(file);
    content = url.slice(url.indexOf(",") + 1);
    preview.src = url;
    preview.hidden = false;
    hint.textContent = `${file.name || "pasted image"}, ${Math.ceil(file.size / 1024).toLocaleString("en")} KB`;
    onChange();
  };

  input.addEventListener("change", () => void take(input.files?.[0]));
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    element.classList.add("over");
  });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    element.classList.remove("over");
    void take(event.dataTransfer?.files[0]);
  });
  document.addEventListener("paste", (event) => {
    if (element.offsetParent !== null) void take(event.clipboardData?.files[0]);
  });
  return { element, input, value: () => content };
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}
