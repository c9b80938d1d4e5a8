/** The viewer: choosers and switches above, one view or two to compare below, and a line that tells what is pointed at. */

import { chooser, make, setHost, toggle } from "./dom";
import { Dense, Tiled, type Field } from "./field";
import { Lines, told } from "./lines";
import { Matrix } from "./matrix";
import { Model } from "./model";
import { written } from "./numbers";
import { csvOf, download, rastered } from "./save";
import type { Answer, Scene } from "./scene";
import type { Source, Where } from "./source";
import { State, VIEWS, type Chosen, type ViewName } from "./state";
import { stepsTable } from "./steps";
import { gridOf, hiddenShare, type Grid } from "./words";

const LARGE = 1024; // tokens from which a map comes in tiles
const TITLES: Record<ViewName, string> = { lines: "Lines", matrix: "Matrix", model: "Model", steps: "Steps" };
const KEYS: [string, string][] = [
  ["1 2 3 4", "lines, matrix, model, steps"],
  ["[ ]", "the head before, the next head"],
  ["{ }", "the layer below, the layer above"],
  ["w", "pieces as words"],
  ["p", "plain words only, without special tokens"],
  ["v", "scaled by what is moved"],
  ["c", "compare with a second head"],
  ["o", "switch the head off (live)"],
  ["arrows", "from word to word, from cell to cell"],
  ["+ − 0", "zoom the matrix in, out, back"],
  ["Esc", "let the word go"],
];

export class Viewer {
  readonly state: State;
  private readonly head = make("header");
  private readonly stage = make("main");
  private readonly told = make("output", { class: "told" });
  private readonly notes = make("p", { class: "notes" });
  private readonly answer = make("div", { class: "answer" });
  private readonly off = new Map<string, Set<number>>();
  private shown: { grid: Grid | null; lines?: Lines; matrix?: Matrix; model?: Model }[] = [];
  private turn = 0;
  private pool: "max" | "mean" = "max";

  constructor(
    root: HTMLElement,
    private readonly scene: Scene,
    private readonly source: Source,
    start: Partial<Chosen> = {},
  ) {
    this.state = new State(scene, start);
    root.classList.add("clearhead");
    setHost(root);
    this.told.setAttribute("aria-live", "polite");
    this.notes.setAttribute("role", "note");
    this.stage.setAttribute("tabindex", "-1");
    const caution = make("p", {
      class: "caution",
      text: "Weights tell where a head reads. They do not tell why the model answers as it does: a head that looks hard may not matter.",
    });
    root.append(this.head, this.answer, this.stage, make("footer", {}, this.told, this.notes, caution, this.files()));
    this.state.onChange((now, before) => {
      const onlyHeld = Object.keys(now).every((k) => k === "query" || now[k as keyof Chosen] === before[k as keyof Chosen]);
      if (!onlyHeld || now.view === "steps") void this.render();
    });
    const hears: EventTarget = root.id ? document : root; // a page hears every key, a notebook's cell its own
    hears.addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
    new ResizeObserver(() => this.shown.forEach((s) => (s.matrix?.show(), s.lines?.show()))).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void this.render());
    void this.render();
  }

  private async render(): Promise<void> {
    const turn = ++this.turn;
    this.controls();
    this.drawAnswer();
    const { now } = this.state;
    this.shown.forEach((s) => s.model?.stop());
    this.shown = [];
    this.stage.setAttribute("aria-busy", "true");
    const panels: HTMLElement[] = [];
    const places: Where[] = now.beside && now.view !== "model" ? [now, now.beside] : [now];
    try {
      for (const where of places) panels.push(await this.panel(where, places.length > 1));
    } catch (error) {
      panels.push(make("p", { class: "fault", text: error instanceof Error ? error.message : String(error) }));
    }
    if (turn !== this.turn) return; // something newer is on its way
    this.stage.replaceChildren(...panels);
    this.stage.classList.toggle("two", panels.length > 1);
    this.stage.removeAttribute("aria-busy");
    this.shown.forEach((s) => (s.lines?.show(), s.matrix?.show(), s.model?.show()));
    this.note();
  }

  private async panel(where: Where, titled: boolean): Promise<HTMLElement> {
    const { now } = this.state;
    const map = this.state.map(where);
    const label = `${map.name}, head ${where.head}`;
    const section = make("section", { class: "panel", label });
    if (titled) section.append(this.besideTitle(where, label));
    const options = {
      say: (text: string) => (this.told.textContent = text),
      hold: (query: number | null) => this.state.set({ query }),
      label,
    };
    if (now.view === "model") {
      const model = new Model(this.state, this.source, this.off, (to) => this.state.set({ ...to, view: "matrix" }));
      this.shown.push({ grid: null, model });
      section.append(model.element);
    } else if (now.view === "steps") {
      section.append(await this.steps(where));
    } else if (now.view === "lines") {
      const grid = await this.grid(where);
      const lines = new Lines(grid, now.query, options);
      this.shown.push({ grid, lines });
      section.append(lines.element);
    } else {
      const { grid, field } = await this.field(where);
      const matrix = new Matrix(field, now.query, options);
      this.shown.push({ grid, matrix });
      section.append(matrix.element);
    }
    return section;
  }

  private isLarge(where: Where): boolean {
    const axes = this.state.axes(where);
    return this.source.live && Math.max(axes.queries.words.length, axes.keys.words.length) > LARGE;
  }

  private async grid(where: Where): Promise<Grid> {
    if (this.isLarge(where)) throw new Error("lines are for up to 1,024 tokens: the matrix shows all of them (press 2)");
    const { merge, hide, moved } = this.state.now;
    const axes = this.state.axes(where);
    const [weights, norms] = await Promise.all([
      this.source.weights(where),
      moved ? this.source.norms(where) : Promise.resolve(null),
    ]);
    return gridOf(weights, axes.queries, axes.keys, { merge, hide }, norms);
  }

  private async field(where: Where): Promise<{ grid: Grid | null; field: Field }> {
    if (!this.isLarge(where)) {
      const grid = await this.grid(where);
      return { grid, field: new Dense(grid) };
    }
    const axes = this.state.axes(where);
    const names = { rows: axes.queries.words, columns: axes.keys.words };
    const index = this.shown.length;
    return { grid: null, field: new Tiled(this.source, where, names, this.pool, () => this.shown[index]?.matrix?.redrawn()) };
  }

  private async steps(where: Where): Promise<HTMLElement> {
    const { now } = this.state;
    const axes = this.state.axes(where);
    const query = Math.min(now.query ?? firstPlain(axes.queries.special), axes.queries.words.length - 1);
    const pick = chooser("word", axes.queries.words.map((word, i) => `${i} ${word}`), query, (i) => this.state.set({ query: i }));
    const step = await this.source.step(where, query);
    if (!step) {
      const why = this.source.live
        ? "This attention is not a product of queries and keys alone: its steps cannot be told this way."
        : "This page carries the steps of some layers only: choose one of those, or open the live page.";
      return make("div", { class: "stepview" }, pick, make("p", { class: "fault", text: why }));
    }
    return make("div", {}, pick, stepsTable(step, this.state.map(where), where.head, query, axes.queries, axes.keys));
  }

  private controls(): void {
    const { now } = this.state;
    const held = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.keep : undefined;
    const sequence = this.scene.sequences[now.sequence];
    const title = make("h1", { text: this.scene.title || "clearhead" });
    const model = make("span", { class: "modelname", text: this.scene.model });
    const tabs = make("div", { class: "tabs" });
    tabs.setAttribute("role", "tablist");
    VIEWS.forEach((view, i) => {
      const tab = make("button", { text: TITLES[view], title: `${TITLES[view]} (${i + 1})` });
      tab.type = "button";
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", String(now.view === view));
      tab.dataset.keep = view;
      tab.addEventListener("click", () => this.state.set({ view }));
      tabs.append(tab);
    });
    const bar = make("div", { class: "bar" });
    if (this.scene.sequences.length > 1)
      bar.append(keep("sequence", chooser("input", this.scene.sequences.map((s) => s.label), now.sequence, (i) => this.state.set({ sequence: i }))));
    bar.append(
      keep("layer", chooser("layer", sequence.maps.map((m) => m.name), now.map, (map) => this.state.set({ map }))),
      keep("head", chooser("head", numbers(sequence.maps[now.map].heads), now.head, (head) => this.state.set({ head }))),
      keep("merge", toggle("words", now.merge, "Pieces of a word as one: attention to it is their sum, from it their mean (w)", (merge) => this.state.set({ merge }))),
      keep("hide", toggle("plain", now.hide, "Hide special tokens; what is left is made to add up to 1 again (p)", (hide) => this.state.set({ hide }))),
      keep("moved", toggle("× moved", now.moved, "Each weight times the norm of what it moves, ‖value · W_O‖ (v)", (moved) => this.state.set({ moved }))),
      keep("beside", toggle("compare", now.beside !== null, "A second head or input beside it (c)", (on) => this.compare(on))),
    );
    if (this.isLarge(now)) bar.append(keep("pool", toggle("mean", this.pool === "mean", "Cells show the mean of their weights, not the largest", (on) => { this.pool = on ? "mean" : "max"; void this.render(); })));
    if (this.source.live) {
      const isOff = this.off.get(sequence.maps[now.map].name)?.has(now.head) ?? false;
      bar.append(keep("off", toggle("head off", isOff, "Switch this head off and see what the model answers (o)", (on) => void this.switch(on))));
    }
    const help = make("details", { class: "help" }, make("summary", { text: "?", label: "keys" }));
    const list = make("dl");
    for (const [key, what] of KEYS) list.append(make("dt", { text: key }), make("dd", { text: what }));
    help.append(list);
    this.head.replaceChildren(make("div", { class: "title" }, title, model, help), tabs, bar);
    if (held) this.head.querySelector<HTMLElement>(`[data-keep="${CSS.escape(held)}"]`)?.focus();
  }

  private besideTitle(where: Where, label: string): HTMLElement {
    if (where !== this.state.now.beside) return make("h2", { text: label });
    const { maps } = this.scene.sequences[where.sequence];
    const set = (change: Partial<Where>) => this.state.set({ beside: { ...where, ...change } });
    const row = make("h2", { class: "bar" });
    if (this.scene.sequences.length > 1)
      row.append(chooser("input", this.scene.sequences.map((s) => s.label), where.sequence, (sequence) => set({ sequence })));
    row.append(
      chooser("layer", maps.map((m) => m.name), where.map, (map) => set({ map })),
      chooser("head", numbers(maps[where.map].heads), where.head, (head) => set({ head })),
    );
    return row;
  }

  private compare(on: boolean): void {
    const { now } = this.state;
    const inputs = this.scene.sequences.length;
    const beside =
      inputs > 1 // another input, or where there is none, another head
        ? { sequence: (now.sequence + 1) % inputs, map: now.map, head: now.head }
        : { sequence: now.sequence, map: now.map, head: (now.head + 1) % this.state.map().heads };
    this.state.set({ beside: on ? beside : null });
  }

  private async switch(on: boolean): Promise<void> {
    const { now } = this.state;
    const { name } = this.state.map();
    const heads = this.off.get(name) ?? new Set();
    if (on) heads.add(now.head);
    else heads.delete(now.head);
    if (heads.size) this.off.set(name, heads);
    else this.off.delete(name);
    this.controls();
    if (!this.off.size) {
      this.drawAnswer();
      return;
    }
    const turned = Object.fromEntries([...this.off].map(([map, set]) => [map, [...set].sort((a, b) => a - b)]));
    this.answer.setAttribute("aria-busy", "true");
    try {
      this.drawAnswer(await this.source.without(now.sequence, turned));
    } catch (error) {
      this.told.textContent = error instanceof Error ? error.message : String(error);
    }
    this.answer.removeAttribute("aria-busy");
  }

  private drawAnswer(changed?: Answer): void {
    const full = this.scene.sequences[this.state.now.sequence].answer;
    this.answer.replaceChildren();
    if (!full) return;
    const line = (label: string, answer: Answer, mark: string) => {
      const row = make("div", { class: `said ${mark}` }, make("span", { class: "label", text: label }), make("span", { class: "text", text: answer.text }));
      if (answer.score !== null) {
        const score = make("span", { class: "score", text: `${answer.what} ${written(answer.score, 4)}` });
        score.dataset.value = String(answer.score);
        row.append(score);
      }
      this.answer.append(row);
    };
    line("answer", full, "whole");
    if (changed) {
      const names = [...this.off].map(([map, set]) => `${map}: ${[...set].join(", ")}`).join("; ");
      line(`without ${names}`, changed, "changed");
    }
  }

  private note(): void {
    const { now } = this.state;
    const notes: string[] = [];
    if (now.merge) notes.push("Pieces are merged: to a word the sum of its pieces, from a word their mean.");
    if (now.moved) notes.push("Weights are scaled by the norm of the value they move; they no longer add up to 1.");
    this.notes.textContent = notes.join(" ");
    if (now.hide && now.view !== "model" && now.view !== "steps" && !this.isLarge(now)) {
      const axes = this.state.axes();
      void this.source.weights(now).then((weights) => {
        const share = hiddenShare(weights, axes.queries, axes.keys);
        this.notes.textContent = `${notes.join(" ")} Special tokens are hidden: ${written(100 * share, 1)} % of the attention went to them, and the rest is scaled up to 1.`.trim();
      });
    }
    const first = this.shown[0]?.grid;
    if (first && now.query !== null && now.query < first.rows.names.length) this.told.textContent = told(first, now.query);
  }

  private files(): HTMLElement {
    const bar = make("div", { class: "files" });
    const button = (text: string, work: () => Promise<void> | void) => {
      const made = make("button", { text, title: `Save what is shown as ${text}` });
      made.type = "button";
      made.addEventListener("click", () => {
        void Promise.resolve()
          .then(work)
          .catch((error: Error) => (this.told.textContent = error.message));
      });
      bar.append(made);
    };
    button("SVG", () => download(this.svg(), `${this.fileName()}.svg`, "image/svg+xml"));
    button("PNG", async () => {
      const matrix = this.shown[0]?.matrix;
      download(matrix ? await matrix.png() : await rastered(this.svg()), `${this.fileName()}.png`);
    });
    button("CSV", async () => {
      const grid = this.shown[0]?.grid ?? (await this.grid(this.state.now));
      download(csvOf(grid), `${this.fileName()}.csv`, "text/csv");
    });
    return bar;
  }

  private svg(): string {
    const shown = this.shown[0];
    const found = shown?.lines?.svg() ?? shown?.matrix?.svg();
    if (!found) throw new Error("lines and matrix can be saved as pictures: open one of them");
    return found;
  }

  private fileName(): string {
    const { now } = this.state;
    return `${this.state.map().name}-head-${now.head}`;
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement) return;
    const { now } = this.state;
    const maps = this.scene.sequences[now.sequence].maps.length;
    const act: Record<string, () => void> = {
      "[": () => this.state.set({ head: now.head - 1 }),
      "]": () => this.state.set({ head: now.head + 1 }),
      "{": () => this.state.set({ map: Math.max(0, now.map - 1) }),
      "}": () => this.state.set({ map: Math.min(maps - 1, now.map + 1) }),
      w: () => this.state.set({ merge: !now.merge }),
      p: () => this.state.set({ hide: !now.hide }),
      v: () => this.state.set({ moved: !now.moved }),
      c: () => this.compare(now.beside === null),
      o: () => this.source.live && void this.switch(!(this.off.get(this.state.map().name)?.has(now.head) ?? false)),
      Escape: () => (this.state.set({ query: null }), void this.render()),
    };
    VIEWS.forEach((view, i) => (act[String(i + 1)] = () => this.state.set({ view })));
    const work = act[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  }
}

function numbers(count: number): string[] {
  return Array.from({ length: count }, (_, i) => String(i));
}

function firstPlain(special: boolean[]): number {
  const found = special.indexOf(false);
  return found < 0 ? 0 : found;
}

function keep<T extends HTMLElement>(name: string, element: T): T {
  (element.querySelector("select") ?? element).dataset.keep = name;
  return element;
}
