/** DOM elements. Text is always set as text, never parsed as HTML. */

type Listeners = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
type Attribute = string | number | boolean | undefined;
interface Properties {
  text?: string;
  on?: Listeners;
  [attribute: string]: Attribute | Listeners;
}

/** Creates an element. `text` is its text, `on` its listeners, anything else an attribute with a fixed name. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") element.textContent = String(value ?? "");
    else if (name === "on") {
      for (const [event, listener] of Object.entries(value as Listeners)) element.addEventListener(event, listener as EventListener);
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** Sets a value from 0 to 1 that the style sheet draws as a bar or a color. */
export function withValue<E extends HTMLElement>(element: E, value: number): E {
  element.style.setProperty("--value", String(Math.min(1, Math.max(0, value))));
  return element;
}

/** Roving tabindex: one button of a group is in the tab order, arrow keys move between them. */
export function roving(parent: HTMLElement, onMove: (button: HTMLButtonElement) => void = () => {}): void {
  const buttons = () => [...parent.querySelectorAll("button")];
  buttons().forEach((button, i) => (button.tabIndex = i ? -1 : 0));
  parent.addEventListener("keydown", (event) => {
    const all = buttons();
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const targets: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 };
    const to = targets[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = all[(to + all.length) % all.length];
    all.forEach((button) => (button.tabIndex = button === next ? 0 : -1));
    next.focus();
    onMove(next);
  });
}

/** An error message next to what caused it. */
export function errorMessage(error: unknown): HTMLElement {
  return make("p", { class: "error", role: "alert", text: error instanceof Error ? error.message : String(error) });
}

export interface CodeBlock {
  element: HTMLElement;
  set(text: string): void;
}

/** A block of code with a button that copies it. */
export function codeBlock(label: string): CodeBlock {
  const pre = make("pre", { tabindex: 0, "aria-label": label });
  const button = make("button", { type: "button", class: "secondary copy", text: "Copy", "aria-label": `Copy: ${label}` });
  button.addEventListener("click", async () => {
    button.textContent = (await copy(pre)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  const element = make("div", { class: "code" }, pre, button);
  return { element, set: (text) => void (pre.textContent = text) };
}

/** Copies to the clipboard, which browsers allow in secure contexts only; otherwise selects the text for the user. */
async function copy(pre: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(pre.textContent ?? "");
    return true;
  } catch {
    getSelection()?.selectAllChildren(pre);
    pre.focus();
    return false;
  }
}

export function formatTime(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`no element has the id ${id}`);
  return element;
}
