/** DOM helpers: elements in one line. Text is always set as text, never as HTML. */

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  options: { class?: string; text?: string; label?: string; title?: string } = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (options.class) element.className = options.class;
  if (options.text !== undefined) element.textContent = options.text;
  if (options.label) element.setAttribute("aria-label", options.label);
  if (options.title) element.title = options.title;
  element.append(...children);
  return element;
}

export function dropdown(label: string, names: string[], selected: number, onPick: (i: number) => void): HTMLLabelElement {
  const select = make("select");
  names.forEach((name, i) => {
    const option = make("option", { text: name });
    option.value = String(i);
    select.append(option);
  });
  select.value = String(selected);
  select.addEventListener("change", () => onPick(Number(select.value)));
  return make("label", { class: "dropdown" }, make("span", { text: label }), select);
}

export function toggle(label: string, on: boolean, title: string, onToggle: (on: boolean) => void): HTMLButtonElement {
  const button = make("button", { class: "toggle", text: label, title });
  button.type = "button";
  button.setAttribute("aria-pressed", String(on));
  button.addEventListener("click", () => onToggle(button.getAttribute("aria-pressed") !== "true"));
  return button;
}

/** Resize a canvas to the screen's resolution and return its context, scaled to CSS pixels. */
export function resizeCanvas(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const density = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * density));
  canvas.height = Math.max(1, Math.round(height * density));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.setTransform(density, 0, 0, density, 0, 0);
  return context;
}

/** Return a function that runs `work` at most once per animation frame. */
export function oncePerFrame(work: () => void): () => void {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

let host: Element | null = null;

/** Set the element that provides colors and fonts. */
export function setHost(element: Element): void {
  host = element;
}

/** Value of a CSS variable of the host element. */
export function css(name: string): string {
  return getComputedStyle(host ?? document.documentElement).getPropertyValue(name).trim();
}
