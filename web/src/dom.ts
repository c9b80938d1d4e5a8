/** DOM: elements made in one line. Text is set as text, always. */

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

export function chooser(label: string, names: string[], chosen: number, pick: (i: number) => void): HTMLLabelElement {
  const select = make("select");
  names.forEach((name, i) => {
    const option = make("option", { text: name });
    option.value = String(i);
    select.append(option);
  });
  select.value = String(chosen);
  select.addEventListener("change", () => pick(Number(select.value)));
  return make("label", { class: "chooser" }, make("span", { text: label }), select);
}

export function toggle(label: string, on: boolean, title: string, flip: (on: boolean) => void): HTMLButtonElement {
  const button = make("button", { class: "toggle", text: label, title });
  button.type = "button";
  button.setAttribute("aria-pressed", String(on));
  button.addEventListener("click", () => flip(button.getAttribute("aria-pressed") !== "true"));
  return button;
}

/** A canvas as sharp as the screen; gives the drawing context, in CSS pixels. */
export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const dense = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * dense));
  canvas.height = Math.max(1, Math.round(height * dense));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.setTransform(dense, 0, 0, dense, 0, 0);
  return context;
}

/** At most one call a frame. */
export function framed(work: () => void): () => void {
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

/** The element whose colours and letters everything is drawn in. */
export function setHost(element: Element): void {
  host = element;
}

export function css(name: string): string {
  return getComputedStyle(host ?? document.documentElement).getPropertyValue(name).trim();
}
