/** The page: a tab for each task that a served model supports, with its form, its result and the attention of the model. */

import type { AttentionResponse, Body, Generation, ModelInfo } from "./client";
import { ApiError, curl, get, isAbort, post, python, stream } from "./client";
import { byId, codeBlock, errorMessage, formatTime, make, plural, roving } from "./elements";
import type { ImageChooser } from "./imageField";
import { imageChooser } from "./imageField";
import type { Field, StreamTask, Task } from "./tasks";
import { TASKS } from "./tasks";

const FINISH_REASONS: Record<string, string> = { stop: "finished", length: "token limit reached", stopped: "stopped" };

class Panel {
  readonly element: HTMLElement;
  readonly #inputs: { field: Field; input: HTMLTextAreaElement | HTMLInputElement }[];
  readonly #modelSelect: HTMLSelectElement;
  readonly #modelInfo = make("p", { class: "faint model" });
  readonly #sendButton = make("button", { type: "submit", class: "send", text: "Send" });
  readonly #stopButton = make("button", { type: "button", text: "Stop", hidden: true, on: { click: () => this.#running?.abort() } });
  readonly #answer = make("div", { class: "answer", "aria-live": "polite" }, make("p", { class: "faint", text: "The result is shown here." }));
  readonly #stats = make("p", { class: "stats faint", role: "status" });
  readonly #actions = make("div", { class: "actions" });
  readonly #attention = make("section", { class: "attention", "aria-label": "Attention", hidden: true });
  readonly #curl = codeBlock("This request with curl");
  readonly #python = codeBlock("This request in Python");
  readonly #images = new Map<string, ImageChooser>(); // by field
  #turns: string[] = []; // of the dialogue so far
  #running: AbortController | null = null;

  constructor(
    readonly id: string,
    readonly task: Task,
    readonly models: ModelInfo[],
  ) {
    this.#inputs = task.fields.map((field) => ({ field, input: this.#input(field) }));
    this.#modelSelect = make("select", {}, ...models.map(({ name }) => make("option", { value: name, text: name })));
    this.element = this.#build();
    this.#update();
  }

  #input(field: Field): HTMLTextAreaElement | HTMLInputElement {
    if (field.kind === "image") {
      const chooser = imageChooser(`${this.id}-${field.name}`, field.name, () => this.#update());
      this.#images.set(field.name, chooser);
      return chooser.input;
    }
    const common = { name: field.name, id: `${this.id}-${field.name}`, autocomplete: "off" };
    const input =
      field.kind === "text"
        ? make("textarea", { ...common, rows: field.rows, spellcheck: "false" })
        : make("input", { ...common, type: "number", min: field.min, max: field.max, step: field.step, placeholder: field.placeholder ?? "default" });
    input.value = field.value;
    return input;
  }

  #build(): HTMLElement {
    const labelled = (kind: Field["kind"]) =>
      this.#inputs
        .filter(({ field }) => field.kind === kind)
        .map(({ field, input }) =>
          make(
            "div",
            { class: kind === "number" ? "field small" : "field" },
            make("label", { for: input.id, text: field.label }),
            this.#images.get(field.name)?.element ?? input,
          ),
        );
    const numbers = labelled("number");
    const buttons = [this.#sendButton, this.#stopButton];
    if (this.id === "chat") {
      buttons.push(make("button", { type: "button", class: "secondary", text: "New chat", on: { click: () => this.#newChat() } }));
    }
    const form = make(
      "form",
      {
        novalidate: true,
        "aria-label": this.task.title,
        on: { submit: (event) => (event.preventDefault(), void this.send()), input: () => this.#update() },
      },
      make("p", { class: "description", text: this.task.title }),
      make("div", { class: "field" }, make("label", {}, "Model ", this.#modelSelect), this.#modelInfo),
      ...labelled("text"),
      ...labelled("image"),
      ...(numbers.length ? [make("div", { class: "numbers" }, ...numbers)] : []),
      make("div", { class: "buttons" }, ...buttons, make("span", { class: "faint shortcut" }, make("kbd", { text: "Ctrl" }), "+", make("kbd", { text: "Enter" }))),
      make(
        "details",
        { class: "as-code" },
        make("summary", { text: "This request as code" }),
        make("h3", { text: "curl" }),
        this.#curl.element,
        make("h3", { text: "Python" }),
        this.#python.element,
        make("p", { class: "faint", text: "If the server requires a key: -H 'Authorization: Bearer KEY', or api_key." }),
      ),
    );
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      void this.send();
    });
    const output = make("section", { class: "output", "aria-label": "Result" }, this.#answer, this.#stats, this.#actions);
    const attributes = { class: "panel", role: "tabpanel", id: `panel-${this.id}`, "aria-labelledby": `tab-${this.id}` };
    return make("div", attributes, form, output, this.#attention);
  }

  get #model(): ModelInfo {
    return this.models.find(({ name }) => name === this.#modelSelect.value) ?? this.models[0];
  }

  /** The request as the form is now; throws if a number is invalid. */
  #body(): Body {
    const values: Body = { model: this.#modelSelect.value };
    for (const { field, input } of this.#inputs) {
      if (field.kind === "text") values[field.name] = input.value;
      else if (field.kind === "image") values[field.name] = this.#image(field.name, field.label);
      else if (!input.validity.valid) throw new ApiError(`${field.label}: ${input.validationMessage}`, field.name);
      else if (input.value !== "") values[field.name] = Number(input.value);
    }
    return this.task.body ? this.task.body(values, this.#turns) : values;
  }

  #image(name: string, label: string): string {
    const value = this.#images.get(name)?.value() ?? null;
    if (value === null) throw new ApiError(`${label}: choose a file`, name);
    return value;
  }

  get #route(): string {
    return this.task.route ?? this.id;
  }

  #update(): void {
    const { architecture, parameters, max_len } = this.#model;
    const length = max_len === null ? "" : `, maximum length ${max_len.toLocaleString("en")} tokens`;
    this.#modelInfo.textContent = `${architecture}, ${plural(parameters, "parameter")}${length}`;
    for (const { input } of this.#inputs) input.removeAttribute("aria-invalid");
    try {
      const body = this.#body();
      this.#curl.set(curl("POST", this.#route, body));
      this.#python.set(python(this.#route, body));
    } catch {
      // an invalid number or a missing image is reported when the request is sent
    }
  }

  async send(): Promise<void> {
    if (this.#running) return;
    const running = (this.#running = new AbortController());
    this.#setBusy(true);
    this.#actions.replaceChildren();
    this.#attention.replaceChildren();
    this.#attention.hidden = true;
    this.#stats.textContent = "";
    const start = performance.now();
    const model = this.#model;
    try {
      const body = this.#body();
      let stats: string[];
      let result: unknown;
      if (this.task.streams) {
        const generation = await this.#stream(this.task, body, running.signal);
        if (this.id === "chat") this.#keepTurn(body.turns as string[], generation.text);
        stats = generationStats(generation, performance.now() - start);
        result = generation;
      } else {
        result = await post(this.#route, body, running.signal);
        this.#answer.replaceChildren(...this.task.show(result, body));
        stats = this.task.stats?.(result) ?? [];
      }
      this.#stats.textContent = [model.name, ...stats, formatTime(performance.now() - start)].join(" · ");
      this.#offerAttention(body, result, model);
    } catch (error) {
      this.#showError(error);
    } finally {
      this.#running = null;
      this.#setBusy(false);
      this.#update();
    }
  }

  /** Shows a text as it is generated; if it is stopped, what there is stays. */
  async #stream(task: StreamTask, body: Body, signal: AbortSignal): Promise<Generation> {
    const output = make("span", { class: "streaming" });
    const before = [...this.#answer.childNodes];
    const result: Generation = { text: "", tokens: null, finish_reason: "stopped", seed: null, dropped_turns: 0 };
    this.#answer.replaceChildren(...task.begin(body, output));
    try {
      for await (const { text = "", ...more } of stream(this.id, body, signal)) {
        result.text += text;
        output.append(text);
        Object.assign(result, more);
      }
    } catch (error) {
      if (!isAbort(error)) {
        if (!result.text) this.#answer.replaceChildren(...before);
        throw error;
      }
    } finally {
      output.classList.remove("streaming");
    }
    return result;
  }

  #showError(error: unknown): void {
    this.#answer.querySelectorAll(".error").forEach((old) => old.remove());
    if (isAbort(error)) {
      this.#stats.textContent = "stopped";
      return;
    }
    if (this.task.streams) this.#answer.append(errorMessage(error)); // what was generated before stays
    else this.#answer.replaceChildren(errorMessage(error));
    const param = error instanceof ApiError ? String(error.param ?? "").split(".")[0] : "";
    const found = this.#inputs.find(({ field }) => field.name === param || (field.name === "turn" && param === "turns"));
    setTimeout(() => found?.input.setAttribute("aria-invalid", "true")); // after #update
  }

  #setBusy(isBusy: boolean): void {
    this.#sendButton.disabled = isBusy;
    this.#stopButton.hidden = !isBusy;
    this.#answer.setAttribute("aria-busy", String(isBusy));
  }

  /** Adds a turn to the dialogue, unless the reply is empty. */
  #keepTurn(turns: string[], reply: string): void {
    if (reply.trim()) {
      this.#turns = [...turns, reply];
      this.#inputs[0].input.value = "";
    } else {
      this.#answer.append(make("p", { class: "faint", text: "The reply is empty. This message is left out of the next request." }));
    }
    this.#answer.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  #newChat(): void {
    this.#running?.abort();
    this.#turns = [];
    this.#answer.replaceChildren();
    this.#actions.replaceChildren();
    this.#stats.textContent = "";
    this.#attention.hidden = true;
    this.#update();
    this.#inputs[0].input.focus();
  }

  /** Adds the button that shows the attention for this result. */
  #offerAttention(body: Body, result: unknown, model: ModelInfo): void {
    const attention = this.task.attention?.bind(this.task);
    if (!attention) return;
    const button = make("button", { type: "button", text: "Show attention" });
    const texts = this.task.streams ? [] : (this.task.choices?.(body) ?? []);
    const choice = make("select", {}, ...texts.map((text, i) => make("option", { value: i, text: `${i + 1} ${text.slice(0, 40)}` })));
    button.addEventListener("click", async () => {
      button.disabled = true;
      this.#actions.querySelector(".error")?.remove();
      try {
        const input = attention(body, result as Generation, Number(choice.value), model);
        this.#showAttention(await post<AttentionResponse>("attention", { model: model.name, ...input }));
      } catch (error) {
        this.#actions.append(errorMessage(error));
      } finally {
        button.disabled = false;
      }
    });
    this.#actions.replaceChildren(button, ...(texts.length > 1 ? [make("label", { class: "faint" }, "of text ", choice)] : []));
  }

  #showAttention({ page, layers }: AttentionResponse): void {
    if (!/^\/see\/[\w-]+\/$/.test(page)) throw new ApiError("the address of the attention page is invalid");
    const src = page.slice(1); // relative to this page
    const heads = layers.reduce((sum, layer) => sum + layer.heads, 0);
    this.#attention.replaceChildren(
      make("h2", { text: "Attention" }),
      make("p", { class: "faint", text: `${plural(layers.length, "layer")}, ${plural(heads, "head")}` }),
      make("a", { href: src, target: "_blank", rel: "noopener", text: "Open in a new tab" }),
      make("button", { type: "button", class: "secondary", text: "Close", on: { click: () => void (this.#attention.hidden = true) } }),
      make("iframe", { src, title: "Attention of each layer and head" }),
    );
    this.#attention.hidden = false;
    this.#attention.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }
}

function generationStats({ tokens, finish_reason, seed, dropped_turns }: Generation, milliseconds: number): string[] {
  const stats = [FINISH_REASONS[finish_reason] ?? finish_reason];
  if (tokens !== null) stats.unshift(`${plural(tokens, "token")}, ${Math.round((1000 * tokens) / milliseconds)} tokens/s`);
  if (seed !== null) stats.push(`seed ${seed}`);
  if (dropped_turns) stats.push(`${plural(dropped_turns, "turn")} dropped to fit the context`);
  return stats;
}

function start(models: ModelInfo[]): void {
  const tabs = byId("tabs");
  const main = byId("main");
  const panels = new Map<string, Panel>();
  for (const [id, task] of Object.entries(TASKS)) {
    const able = models.filter((model) => model.tasks.includes(id));
    able.sort((a, b) => a.tasks.indexOf(id) - b.tasks.indexOf(id)); // models trained for the task first
    if (able.length) panels.set(id, new Panel(id, task, able));
  }
  const show = (id: string) => {
    for (const tab of tabs.querySelectorAll("button")) {
      const isSelected = tab.dataset.task === id;
      tab.setAttribute("aria-selected", String(isSelected));
      tab.tabIndex = isSelected ? 0 : -1;
      if (isSelected) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    for (const [name, { element }] of panels) element.hidden = name !== id;
    history.replaceState(null, "", `#${id}`);
  };
  for (const [id, { element, task }] of panels) {
    const attributes = { type: "button", role: "tab", id: `tab-${id}`, "data-task": id, "aria-controls": element.id };
    tabs.append(make("button", { ...attributes, text: task.name, on: { click: () => show(id) } }));
    main.append(element);
  }
  roving(tabs, (tab) => show(tab.dataset.task ?? ""));
  const fromHash = () => location.hash.slice(1);
  addEventListener("hashchange", () => panels.has(fromHash()) && show(fromHash()));
  const first = panels.has(fromHash()) ? fromHash() : panels.keys().next().value;
  if (first !== undefined) show(first);
  main.removeAttribute("aria-busy");
}

try {
  start((await get<{ models: ModelInfo[] }>("models")).models);
} catch (error) {
  byId("main").replaceChildren(errorMessage(error));
}
