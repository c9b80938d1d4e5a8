/** The viewer: controls at the top, one view or two for comparison, and a status line. */

import { dropdown, make, setHost, toggle } from "./dom";
import { DenseMatrix, TiledMatrix, type MatrixData } from "./matrixData";
import { LinesView, describeRow } from "./lines";
import { MatrixView } from "./matrix";
import { ModelView } from "./model";
import { formatNumber } from "./numbers";
import { toCsv, download, rasterize } from "./export";
import type { Answer, Scene } from "./scene";
import type { Source, HeadRef } from "./source";
import { State, VIEWS, type Selection, type ViewName } from "./state";
import { stepsTable } from "./steps";
import { toGrid, hiddenFraction, type Grid } from "./grid";

const MAX_FULL_TOKENS = 1024; // longer maps are loaded in tiles
const TITLES: Record<ViewName, string> = { lines: "Lines", matrix: "Matrix", model: "Model", steps: "Steps" };
const KEYS: [string, string][] = [
  ["1 2 3 4", "lines, matrix, model, steps"],
  ["[ ]", "previous head, next head"],
  ["{ }", "previous layer, next layer"],
  ["w", "merge subwords into words"],
  ["h", "hide special tokens"],
  ["v", "value-weighted attention"],
  ["c", "compare with a second head"],
  ["a", "ablate the head (live page)"],
  ["arrows", "move between tokens or cells"],
  ["+ − 0", "zoom the matrix in, out, reset"],
  ["Esc", "clear the selected token"],
];

export class Viewer {
  readonly state: State;
  private readonly head = make("header");
  private readonly stage = make("main");
  private readonly status = make("output", { class: "status" });
  private readonly notes = make("p", { class: "notes" });
  private readonly answer = make("div", { class: "answer" });
  private readonly ablated = new Map<string, Set<number>>();
  private shown: { grid: Grid | null; lines?: LinesView; matrix?: MatrixView; model?: ModelView }[] = [];
  private renderCount = 0;
  private pool: "max" | "mean" = "max";

  constructor(
    root: HTMLElement,
    private readonly scene: Scene,
    private readonly source: Source,
    start: Partial<Selection> = {},
  ) {
    this.state = new State(scene, start);
    root.classList.add("clearhead");
    setHost(root);
    this.status.setAttribute("aria-live", "polite");
    this.notes.setAttribute("role", "note");
    this.stage.setAttribute("tabindex", "-1");
    const caution = make("p", {
      class: "caution",
      text: "Attention weights show where a head reads, not why the model makes a prediction: a head with large weights may have no effect.",
    });
    root.append(this.head, this.answer, this.stage, make("footer", {}, this.status, this.notes, caution, this.exportButtons()));
    this.state.onChange((now, before) => {
      const onlyQuery = Object.keys(now).every((k) => k === "query" || now[k as keyof Selection] === before[k as keyof Selection]);
      if (!onlyQuery || now.view === "steps") void this.render();
    });
    const keyTarget: EventTarget = root.id ? document : root; // a widget only handles keys of its own cell
    keyTarget.addEventListener("keydown", (event) => this.onKey(event as KeyboardEvent));
    new ResizeObserver(() => this.shown.forEach((s) => (s.matrix?.show(), s.lines?.show()))).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void this.render());
    void this.render();
  }

  private async render(): Promise<void> {
    const renderId = ++this.renderCount;
    this.controls();
    this.drawAnswer();
    const { now } = this.state;
    this.shown.forEach((s) => s.model?.stop());
    this.shown = [];
    this.stage.setAttribute("aria-busy", "true");
    const panels: HTMLElement[] = [];
    const heads: HeadRef[] = now.compared && now.view !== "model" ? [now, now.compared] : [now];
    try {
      for (const where of heads) panels.push(await this.panel(where, heads.length > 1));
    } catch (error) {
      panels.push(make("p", { class: "error", text: error instanceof Error ? error.message : String(error) }));
    }
    if (renderId !== this.renderCount) return; // a newer render is under way
    this.stage.replaceChildren(...panels);
    this.stage.classList.toggle("two", panels.length > 1);
    this.stage.removeAttribute("aria-busy");
    this.shown.forEach((s) => (s.lines?.show(), s.matrix?.show(), s.model?.show()));
    this.updateNotes();
  }

  private async panel(where: HeadRef, titled: boolean): Promise<HTMLElement> {
    const { now } = this.state;
    const map = this.state.map(where);
    const label = `${map.name}, head ${where.head}`;
    const section = make("section", { class: "panel", label });
    if (titled) section.append(this.panelTitle(where, label));
    const options = {
      setStatus: (text: string) => (this.status.textContent = text),
      select: (query: number | null) => this.state.set({ query }),
      label,
    };
    if (now.view === "model") {
      const model = new ModelView(this.state, this.source, this.ablated, (to) => this.state.set({ ...to, view: "matrix" }));
      this.shown.push({ grid: null, model });
      section.append(model.element);
    } else if (now.view === "steps") {
      section.append(await this.steps(where));
    } else if (now.view === "lines") {
      const grid = await this.grid(where);
      const lines = new LinesView(grid, now.query, options);
      this.shown.push({ grid, lines });
      section.append(lines.element);
    } else {
      const { grid, data } = await this.matrixData(where);
      const matrix = new MatrixView(data, now.query, options);
      this.shown.push({ grid, matrix });
      section.append(matrix.element);
    }
    return section;
  }

  private isLarge(where: HeadRef): boolean {
    const axes = this.state.axes(where);
    return this.source.live && Math.max(axes.queries.words.length, axes.keys.words.length) > MAX_FULL_TOKENS;
  }

  private async grid(where: HeadRef): Promise<Grid> {
    if (this.isLarge(where)) throw new Error("the lines view supports up to 1,024 tokens: use the matrix view (press 2)");
    const { mergeSubwords, hideSpecial, valueWeighted } = this.state.now;
    const axes = this.state.axes(where);
    const [weights, norms] = await Promise.all([
      this.source.weights(where),
      valueWeighted ? this.source.norms(where) : Promise.resolve(null),
    ]);
    return toGrid(weights, axes.queries, axes.keys, { mergeSubwords, hideSpecial }, norms);
  }

  private async matrixData(where: HeadRef): Promise<{ grid: Grid | null; data: MatrixData }> {
    if (!this.isLarge(where)) {
      const grid = await this.grid(where);
      return { grid, data: new DenseMatrix(grid) };
    }
    const axes = this.state.axes(where);
    const names = { rows: axes.queries.words, columns: axes.keys.words };
    const index = this.shown.length;
    return { grid: null, data: new TiledMatrix(this.source, where, names, this.pool, () => this.shown[index]?.matrix?.refresh()) };
  }

  private async steps(where: HeadRef): Promise<HTMLElement> {
    const { now } = this.state;
    const axes = this.state.axes(where);
    const query = Math.min(now.query ?? firstOrdinary(axes.queries.special), axes.queries.words.length - 1);
    const tokenDropdown = dropdown("token", axes.queries.words.map((word, i) => `${i} ${word}`), query, (i) => this.state.set({ query: i }));
    const step = await this.source.step(where, query);
    if (!step) {
      const reason = this.source.live
        ? "This layer is not plain dot-product attention, so its steps cannot be shown."
        : "This page has the steps of some layers only: choose another layer, or open the live page (clearhead see --live).";
      return make("div", { class: "stepview" }, tokenDropdown, make("p", { class: "error", text: reason }));
    }
    return make("div", {}, tokenDropdown, stepsTable(step, this.state.map(where), where.head, query, axes.queries, axes.keys));
  }

  private controls(): void {
    const { now } = this.state;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.keep : undefined;
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
      bar.append(keep("sequence", dropdown("input", this.scene.sequences.map((s) => s.label), now.sequence, (i) => this.state.set({ sequence: i }))));
    bar.append(
      keep("layer", dropdown("layer", sequence.maps.map((m) => m.name), now.map, (map) => this.state.set({ map }))),
      keep("head", dropdown("head", indices(sequence.maps[now.map].heads), now.head, (head) => this.state.set({ head }))),
      keep("mergeSubwords", toggle("merge subwords", now.mergeSubwords, "Show the subwords of a word as one token: attention to the word is their sum, attention from it their mean (w)", (mergeSubwords) => this.state.set({ mergeSubwords }))),
      keep("hideSpecial", toggle("hide special tokens", now.hideSpecial, "Hide tokens such as [CLS] and [SEP] and renormalize the rest to sum to 1 (h)", (hideSpecial) => this.state.set({ hideSpecial }))),
      keep("valueWeighted", toggle("value-weighted", now.valueWeighted, "Multiply each weight by the norm of the projected value vector, ‖value · W_O‖ (v)", (valueWeighted) => this.state.set({ valueWeighted }))),
      keep("compare", toggle("compare", now.compared !== null, "Show a second head or input side by side (c)", (on) => this.compare(on))),
    );
    if (this.isLarge(now)) bar.append(keep("pool", toggle("mean pooling", this.pool === "mean", "Cells show the mean of their weights instead of the maximum", (on) => { this.pool = on ? "mean" : "max"; void this.render(); })));
    if (this.source.live) {
      const isAblated = this.ablated.get(sequence.maps[now.map].name)?.has(now.head) ?? false;
      bar.append(keep("ablate", toggle("ablate head", isAblated, "Set the output of this head to zero and show the new prediction (a)", (on) => void this.ablate(on))));
    }
    const help = make("details", { class: "help" }, make("summary", { text: "?", label: "keyboard shortcuts", title: "Keyboard shortcuts" }));
    const list = make("dl");
    for (const [key, action] of KEYS) list.append(make("dt", { text: key }), make("dd", { text: action }));
    help.append(list);
    this.head.replaceChildren(make("div", { class: "title" }, title, model, help), tabs, bar);
    if (focused) this.head.querySelector<HTMLElement>(`[data-keep="${CSS.escape(focused)}"]`)?.focus();
  }

  private panelTitle(where: HeadRef, label: string): HTMLElement {
    if (where !== this.state.now.compared) return make("h2", { text: label });
    const { maps } = this.scene.sequences[where.sequence];
    const set = (change: Partial<HeadRef>) => this.state.set({ compared: { ...where, ...change } });
    const row = make("h2", { class: "bar" });
    if (this.scene.sequences.length > 1)
      row.append(dropdown("input", this.scene.sequences.map((s) => s.label), where.sequence, (sequence) => set({ sequence })));
    row.append(
      dropdown("layer", maps.map((m) => m.name), where.map, (map) => set({ map })),
      dropdown("head", indices(maps[where.map].heads), where.head, (head) => set({ head })),
    );
    return row;
  }

  private compare(on: boolean): void {
    const { now } = this.state;
    const inputs = this.scene.sequences.length;
    const compared =
      inputs > 1 // the next input, or the next head of the only input
        ? { sequence: (now.sequence + 1) % inputs, map: now.map, head: now.head }
        : { sequence: now.sequence, map: now.map, head: (now.head + 1) % this.state.map().heads };
    this.state.set({ compared: on ? compared : null });
  }

  private async ablate(on: boolean): Promise<void> {
    const { now } = this.state;
    const { name } = this.state.map();
    const heads = this.ablated.get(name) ?? new Set();
    if (on) heads.add(now.head);
    else heads.delete(now.head);
    if (heads.size) this.ablated.set(name, heads);
    else this.ablated.delete(name);
    this.controls();
    if (!this.ablated.size) {
      this.drawAnswer();
      return;
    }
    const selected = Object.fromEntries([...this.ablated].map(([map, set]) => [map, [...set].sort((a, b) => a - b)]));
    this.answer.setAttribute("aria-busy", "true");
    try {
      this.drawAnswer(await this.source.ablate(now.sequence, selected));
    } catch (error) {
      this.status.textContent = error instanceof Error ? error.message : String(error);
    }
    this.answer.removeAttribute("aria-busy");
  }

  private drawAnswer(ablated?: Answer): void {
    const full = this.scene.sequences[this.state.now.sequence].answer;
    this.answer.replaceChildren();
    if (!full) return;
    const line = (label: string, answer: Answer, kind: string) => {
      const row = make("div", { class: `prediction ${kind}` }, make("span", { class: "label", text: label }), make("span", { class: "text", text: answer.text }));
      if (answer.score !== null) {
        const score = make("span", { class: "score", text: `${answer.metric} ${formatNumber(answer.score, 4)}` });
        score.dataset.value = String(answer.score);
        row.append(score);
      }
      this.answer.append(row);
    };
    line("prediction", full, "full");
    if (ablated) {
      const names = [...this.ablated].map(([map, set]) => `${map} head${set.size > 1 ? "s" : ""} ${[...set].join(", ")}`).join("; ");
      line(`without ${names}`, ablated, "ablated");
    }
  }

  private updateNotes(): void {
    const { now } = this.state;
    const notes: string[] = [];
    if (now.mergeSubwords) notes.push("Subwords are merged: attention to a word is the sum over its subwords, attention from it their mean.");
    if (now.valueWeighted) notes.push("Weights are multiplied by the norms of the projected values; they no longer sum to 1.");
    this.notes.textContent = notes.join(" ");
    if (now.hideSpecial && now.view !== "model" && now.view !== "steps" && !this.isLarge(now)) {
      const axes = this.state.axes();
      void this.source.weights(now).then((weights) => {
        const fraction = hiddenFraction(weights, axes.queries, axes.keys);
        this.notes.textContent = `${notes.join(" ")} Special tokens are hidden: they receive ${formatNumber(100 * fraction, 1)} % of the attention; the rest is renormalized to sum to 1.`.trim();
      });
    }
    const first = this.shown[0]?.grid;
    if (first && now.query !== null && now.query < first.rows.names.length) this.status.textContent = describeRow(first, now.query);
  }

  private exportButtons(): HTMLElement {
    const bar = make("div", { class: "files" });
    const button = (text: string, work: () => Promise<void> | void) => {
      const element = make("button", { text, title: `Save the current view as ${text}` });
      element.type = "button";
      element.addEventListener("click", () => {
        void Promise.resolve()
          .then(work)
          .catch((error: Error) => (this.status.textContent = error.message));
      });
      bar.append(element);
    };
    button("SVG", () => download(this.svg(), `${this.fileName()}.svg`, "image/svg+xml"));
    button("PNG", async () => {
      const matrix = this.shown[0]?.matrix;
      download(matrix ? await matrix.png() : await rasterize(this.svg()), `${this.fileName()}.png`);
    });
    button("CSV", async () => {
      const grid = this.shown[0]?.grid ?? (await this.grid(this.state.now));
      download(toCsv(grid), `${this.fileName()}.csv`, "text/csv");
    });
    return bar;
  }

  private svg(): string {
    const shown = this.shown[0];
    const svg = shown?.lines?.svg() ?? shown?.matrix?.svg();
    if (!svg) throw new Error("only the lines and matrix views can be saved as images: open one of them");
    return svg;
  }

  private fileName(): string {
    const { now } = this.state;
    return `${this.state.map().name}-head-${now.head}`;
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement) return;
    const { now } = this.state;
    const maps = this.scene.sequences[now.sequence].maps.length;
    const actions: Record<string, () => void> = {
      "[": () => this.state.set({ head: now.head - 1 }),
      "]": () => this.state.set({ head: now.head + 1 }),
      "{": () => this.state.set({ map: Math.max(0, now.map - 1) }),
      "}": () => this.state.set({ map: Math.min(maps - 1, now.map + 1) }),
      w: () => this.state.set({ mergeSubwords: !now.mergeSubwords }),
      h: () => this.state.set({ hideSpecial: !now.hideSpecial }),
      v: () => this.state.set({ valueWeighted: !now.valueWeighted }),
      c: () => this.compare(now.compared === null),
      a: () => this.source.live && void this.ablate(!(this.ablated.get(this.state.map().name)?.has(now.head) ?? false)),
      Escape: () => (this.state.set({ query: null }), void this.render()),
    };
    VIEWS.forEach((view, i) => (actions[String(i + 1)] = () => this.state.set({ view })));
    const work = actions[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  }
}

function indices(count: number): string[] {
  return Array.from({ length: count }, (_, i) => String(i));
}

/** Index of the first token that is not special. */
function firstOrdinary(special: boolean[]): number {
  const index = special.indexOf(false);
  return index < 0 ? 0 : index;
}

/** Name a control, so that it keeps the focus when the controls are rebuilt. */
function keep<T extends HTMLElement>(name: string, element: T): T {
  (element.querySelector("select") ?? element).dataset.keep = name;
  return element;
}
