/** The page: a tab for each task that some model here can do; what is asked, what is answered, what is behind it. */

import { ask, curl, events, Fault, get, python } from "./ask.js";
import { code, counted, fault, make, roving, seconds } from "./dom.js";
import { labels, likeness, spans, tags, translation } from "./shown.js";

const TEXT = { kind: "text", rows: 3 };
const DRAWN = [
  { name: "max_new", label: "Tokens", value: 60, min: 1, max: 4096, step: 1 },
  { name: "temperature", label: "Temperature", value: 0.8, min: 0, max: 2, step: "any" },
  { name: "top_p", label: "Top p", value: 0.95, min: 0, max: 1, step: "any" },
  { name: "seed", label: "Seed", value: "", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, hint: "any" },
];

/**
 * Each task: its fields; `body`, where it is not the fields as they are; `show`, the answer as elements; `facts`, what
 * is told of it; `look`, the text or texts whose attention is behind it.
 */
const TASKS = {
  classify: {
    says: "What a text is called.",
    fields: [{ ...TEXT, name: "text", label: "Text", value: "A film that warms the heart and never once insults the mind." }],
    show: ({ answers }) => labels(answers[0]),
    look: ({ text }) => ({ text }),
  },
  pair: {
    says: "What two texts are to each other, or how alike they are.",
    fields: [
      { ...TEXT, name: "text", label: "First text", value: "A man plays the guitar on a small stage." },
      { ...TEXT, name: "second", label: "Second text", value: "Somebody is making music." },
    ],
    show: ({ answers }) => labels(answers[0]),
    look: ({ text, second }) => ({ text, second }),
  },
  tag: {
    says: "The names in a text.",
    fields: [{ ...TEXT, name: "text", label: "Text", value: "Ada Lovelace met Charles Babbage in London in June 1833." }],
    show: ({ answers }) => tags(answers[0]),
    facts: ({ answers }) => [counted(answers[0].words.length, "word"), counted(answers[0].names.length, "name")],
    look: ({ text }) => ({ text }),
  },
  qa: {
    name: "Question",
    says: "Where the answer to a question stands in a text.",
    fields: [
      { ...TEXT, name: "question", label: "Question", rows: 2, value: "Where did Ada Lovelace meet Charles Babbage?" },
      {
        ...TEXT, name: "context", label: "Text in which the answer stands", rows: 7,
        value:
          "Ada Lovelace was seventeen when she met Charles Babbage at a party in London in June 1833. He showed her " +
          "a part of his Difference Engine, and she understood at once what it was for. Ten years later she wrote " +
          "the notes on his Analytical Engine for which she is remembered.",
      },
      { name: "nbest", label: "Answers", value: 3, min: 1, max: 20, step: 1 },
    ],
    show: ({ answers }, { context }) => spans(answers[0], context),
    look: ({ question, context }) => ({ text: question, second: context }),
  },
  translate: {
    says: "A text in another language.",
    fields: [
      { ...TEXT, name: "text", label: "Text", value: "A dog runs across the wet grass with a stick in its mouth." },
      { name: "beam", label: "Beam", value: "", min: 1, max: 16, step: 1, hint: "default" },
      { name: "nbest", label: "Translations", value: 3, min: 1, max: 16, step: 1 },
    ],
    body: (given) => ({ ...given, align: true }),
    show: ({ answers }) => translation(answers[0]),
    facts: ({ answers }) => [`${counted(answers[0].source.length, "token")} read`, `${answers[0].tokens.length} written`],
    look: ({ text }, { answers }) => ({ text, second: answers[0].text }),
  },
  embed: {
    says: "How alike texts are, by the angle between their vectors.",
    fields: [
      {
        ...TEXT, name: "text", label: "Texts, one a line", rows: 6,
        value: [
          "A man is playing a guitar.", "Somebody makes music on a stage.", "The orchestra rehearses tonight.",
          "How do I cook rice?", "What is the best way to boil rice?", "The stock market fell on Monday.",
        ].join("\n"),
      },
    ],
    body: ({ text, ...rest }) => ({ ...rest, text: text.split("\n").filter((line) => line.trim()) }),
    show: (answer, { text }) => likeness(text, answer),
    facts: ({ vectors, tokens }) => [
      counted(tokens.reduce((a, b) => a + b, 0), "token"), `${vectors.length} × ${vectors[0].length} numbers`,
    ],
    choices: ({ text }) => text,
    look: ({ text }, _, choice) => ({ text: text[choice] }),
  },
  generate: {
    says: "How a text goes on.",
    fields: [{ ...TEXT, name: "prompt", label: "Prompt", value: "The old man looked at the sea and" }, ...DRAWN],
    body: (given) => ({ ...given, stream: true }),
    streams: true,
    begin: ({ prompt }, written) => [make("p", { class: "written" }, make("span", { class: "faint", text: prompt }), written)],
    look: ({ prompt }, { text }) => ({ text: prompt + text }),
  },
  chat: {
    says: "A conversation.",
    fields: [{ ...TEXT, name: "turn", label: "You", rows: 2, value: "Hello, how are you today?" }, ...DRAWN],
    body: ({ turn, model, ...rest }, panel) => ({ model, turns: [...panel.turns, turn], ...rest, stream: true }),
    streams: true,
    begin: ({ turns }, written) => turns.map((text, i) => bubble((turns.length - i) % 2, text)).concat(bubble(false, written)),
    done: ({ turns }, { text }, panel) => panel.keep(turns, text),
    // without the marks that part the turns; a model with an encoder reads the turns there, and writes its own beside
    look: ({ turns }, { text }, _, model) =>
      model.tasks.includes("generate") ? { text: [...turns, text].join("\n") } : { text: turns.join("\n"), second: text },
  },
};

function bubble(isUser, said) {
  const who = make("b", { class: "unseen", text: isUser ? "You: " : "Model: " });
  return make("p", { class: isUser ? "bubble user" : "bubble" }, who, said);
}

/** One task: its form, its answer and the attention behind. */
class Panel {
  turns = [];
  #running = null;

  constructor(task, models) {
    this.task = task;
    this.about = TASKS[task];
    this.models = models;
    this.fields = this.about.fields.map((field) => ({ ...field, input: this.#input(field) }));
    this.chooser = make("select", {}, ...models.map(({ name }) => make("option", { value: name, text: name })));
    this.model = make("p", { class: "faint model" });
    this.button = make("button", { type: "submit", class: "send", text: "Send" });
    this.stopper = make("button", { type: "button", text: "Stop", hidden: true, on: { click: () => this.#running?.abort() } });
    this.answer = make("div", { class: "answer", "aria-live": "polite" }, make("p", { class: "faint", text: "The answer comes here." }));
    this.facts = make("p", { class: "facts faint", role: "status" });
    this.actions = make("div", { class: "actions" });
    this.behind = make("section", { class: "behind", "aria-label": "The attention behind the answer", hidden: true });
    this.code = { curl: code("This request for curl"), python: code("This request in Python") };
    this.element = this.#drawn();
    this.#changed();
  }

  #input(field) {
    const given = { name: field.name, id: `${this.task}-${field.name}`, autocomplete: "off" };
    const input =
      field.kind === "text"
        ? make("textarea", { ...given, rows: field.rows, spellcheck: "false" })
        : make("input", { ...given, type: "number", min: field.min, max: field.max, step: field.step, placeholder: field.hint ?? "default" });
    input.value = field.value;
    return input;
  }

  #drawn() {
    const labelled = (field) =>
      make("div", { class: field.kind === "text" ? "field" : "field small" }, make("label", { for: field.input.id, text: field.label }), field.input);
    const texts = this.fields.filter((field) => field.kind === "text").map(labelled);
    const numbers = this.fields.filter((field) => field.kind !== "text").map(labelled);
    const buttons = [this.button, this.stopper];
    if (this.task === "chat") buttons.push(make("button", { type: "button", class: "plain", text: "Begin anew", on: { click: () => this.#anew() } }));
    const form = make(
      "form",
      { novalidate: true, "aria-label": this.about.says, on: { submit: (event) => (event.preventDefault(), this.send()), input: () => this.#changed() } },
      make("p", { class: "says", text: this.about.says }),
      make("div", { class: "field" }, make("label", {}, "Model ", this.chooser), this.model),
      ...texts,
      ...(numbers.length ? [make("div", { class: "numbers" }, ...numbers)] : []),
      make("div", { class: "buttons" }, ...buttons, make("span", { class: "faint hint" }, make("kbd", { text: "Ctrl" }), "+", make("kbd", { text: "Enter" }))),
      make(
        "details",
        { class: "ascode" },
        make("summary", { text: "This request as code" }),
        make("h3", { text: "curl" }),
        this.code.curl.whole,
        make("h3", { text: "Python" }),
        this.code.python.whole,
        make("p", { class: "faint", text: "Where the server wants a key: -H 'Authorization: Bearer KEY', or api_key." }),
      ),
    );
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.send();
    });
    const right = make("section", { class: "right", "aria-label": "Answer" }, this.answer, this.facts, this.actions);
    const id = `panel-${this.task}`;
    return make("div", { class: "panel", role: "tabpanel", id, "aria-labelledby": `tab-${this.task}` }, form, right, this.behind);
  }

  get #chosen() {
    return this.models.find(({ name }) => name === this.chooser.value);
  }

  /** What would be sent now; a number that is none is a fault. */
  #body() {
    const given = { model: this.chooser.value };
    for (const { name, label, kind, input } of this.fields) {
      if (kind === "text") given[name] = input.value;
      else if (!input.validity.valid) throw new Fault(`${label}: ${input.validationMessage}`, name);
      else if (input.value !== "") given[name] = Number(input.value);
    }
    return this.about.body ? this.about.body(given, this) : given;
  }

  #changed() {
    const { architecture, parameters, max_len } = this.#chosen;
    const reads = max_len === null ? "" : `, reads ${max_len.toLocaleString("en")} tokens at once`;
    this.model.textContent = `${architecture}, ${counted(parameters, "parameter")}${reads}`;
    for (const { input } of this.fields) input.removeAttribute("aria-invalid");
    try {
      const body = this.#body();
      this.code.curl.set(curl("POST", this.task, body));
      this.code.python.set(python(this.task, body));
    } catch {
      // what is wrong is told when it is sent
    }
  }

  async send() {
    if (this.#running) return;
    const running = (this.#running = new AbortController());
    this.#busy(true);
    this.actions.replaceChildren();
    this.behind.replaceChildren();
    this.behind.hidden = true;
    this.facts.textContent = "";
    const began = performance.now();
    const model = this.#chosen;
    try {
      const body = this.#body();
      const answer = this.about.streams ? await this.#written(body, running.signal) : await ask(this.task, body, running.signal);
      if (!this.about.streams) this.answer.replaceChildren(...this.about.show(answer, body));
      this.about.done?.(body, answer, this);
      const took = performance.now() - began;
      const facts = this.about.streams ? told(answer, took) : (this.about.facts?.(answer) ?? []);
      this.facts.textContent = [model.name, ...facts, seconds(took)].join(" · ");
      this.#offer(body, answer, model);
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#running = null;
      this.#busy(false);
      this.#changed();
    }
  }

  /** A text as it is written; whoever stops it keeps what there is. */
  async #written(body, signal) {
    const place = make("span", { class: "growing" });
    const before = [...this.answer.childNodes];
    const answer = { text: "", tokens: null, reason: "stopped", seed: null, forgotten: 0 };
    this.answer.replaceChildren(...this.about.begin(body, place));
    try {
      for await (const { text, ...more } of events(this.task, body, signal)) {
        answer.text += text;
        place.append(text);
        Object.assign(answer, more);
      }
    } catch (error) {
      if (error.name !== "AbortError") {
        if (!answer.text) this.answer.replaceChildren(...before);
        throw error;
      }
    } finally {
      place.classList.remove("growing");
    }
    return answer;
  }

  #failed(error) {
    this.answer.querySelectorAll(".fault").forEach((old) => old.remove());
    if (error.name === "AbortError") return void (this.facts.textContent = "stopped");
    if (this.about.streams) this.answer.append(fault(error)); // what was written before is kept
    else this.answer.replaceChildren(fault(error));
    const first = String(error.param ?? "").split(".")[0];
    const field = this.fields.find(({ name }) => name === first || (name === "turn" && first === "turns"));
    setTimeout(() => field?.input.setAttribute("aria-invalid", "true"));
  }

  #busy(is) {
    this.button.disabled = is;
    this.stopper.hidden = !is;
    this.answer.setAttribute("aria-busy", String(is));
  }

  /** The turns of a dialogue; one that was answered with nothing is left out of what is sent next. */
  keep(turns, said) {
    const field = this.fields[0].input;
    if (said.trim()) {
      this.turns = [...turns, said];
      field.value = "";
    } else {
      this.answer.append(make("p", { class: "faint", text: "It said nothing; this turn is left out of the next." }));
    }
    this.answer.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  #anew() {
    this.#running?.abort();
    this.turns = [];
    this.answer.replaceChildren();
    this.actions.replaceChildren();
    this.facts.textContent = "";
    this.behind.hidden = true;
    this.#changed();
    this.fields[0].input.focus();
  }

  /** The button that shows the attention behind this answer. */
  #offer(body, answer, model) {
    const button = make("button", { type: "button", text: "Show the attention behind it" });
    const texts = this.about.choices?.(body) ?? [];
    const choice = make("select", {}, ...texts.map((text, i) => make("option", { value: i, text: `${i + 1} ${text.slice(0, 40)}` })));
    button.addEventListener("click", async () => {
      button.disabled = true;
      this.actions.querySelector(".fault")?.remove();
      try {
        const seen = await ask("attention", { model: model.name, ...this.about.look(body, answer, Number(choice.value), model) });
        this.#show(seen);
      } catch (error) {
        this.actions.append(fault(error));
      } finally {
        button.disabled = false;
      }
    });
    this.actions.replaceChildren(button, ...(texts.length > 1 ? [make("label", { class: "faint" }, "of ", choice)] : []));
  }

  #show({ page, layers }) {
    if (!/^\/see\/[\w-]+\/$/.test(page)) throw new Fault("this is no page of ours");
    const beside = page.slice(1);
    const heads = layers.reduce((sum, layer) => sum + layer.heads, 0);
    this.behind.replaceChildren(
      make("h2", { text: "The attention behind it" }),
      make("p", { class: "faint", text: `${counted(layers.length, "layer")}, ${counted(heads, "head")}` }),
      make("a", { href: beside, target: "_blank", rel: "noopener", text: "Open it alone" }),
      make("button", { type: "button", class: "plain", text: "Close", on: { click: () => (this.behind.hidden = true) } }),
      make("iframe", { src: beside, title: "The attention of each layer and head" }),
    );
    this.behind.hidden = false;
    this.behind.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }
}

/** What is told of a text that was written. */
function told({ tokens, reason, seed, forgotten }, took) {
  const ends = { stop: "ended by itself", length: "ended at its limit", stopped: "stopped" };
  const facts = [ends[reason] ?? reason];
  if (tokens !== null) facts.unshift(`${counted(tokens, "token")}, ${Math.round((1000 * tokens) / took)} a second`);
  if (seed !== null) facts.push(`seed ${seed}`);
  if (forgotten) facts.push(`${counted(forgotten, "turn")} too long ago to be read`);
  return facts;
}

function begin(models) {
  const tabs = document.getElementById("tabs");
  const main = document.getElementById("main");
  const panels = new Map();
  for (const task of Object.keys(TASKS)) {
    const able = models.filter((model) => model.tasks.includes(task));
    // the models that are made for a task come before those that can do it besides
    able.sort((a, b) => a.tasks.indexOf(task) - b.tasks.indexOf(task));
    if (able.length) panels.set(task, new Panel(task, able));
  }
  const show = (task) => {
    for (const tab of tabs.children) {
      const is = tab.dataset.task === task;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
      if (is) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    for (const [name, { element }] of panels) element.hidden = name !== task;
    history.replaceState(null, "", `#${task}`);
  };
  for (const [task, { element, about }] of panels) {
    const text = about.name ?? task[0].toUpperCase() + task.slice(1);
    const given = { type: "button", role: "tab", id: `tab-${task}`, "data-task": task, "aria-controls": element.id, text };
    tabs.append(make("button", { ...given, on: { click: () => show(task) } }));
    main.append(element);
  }
  roving(tabs, (tab) => show(tab.dataset.task));
  const named = () => location.hash.slice(1);
  addEventListener("hashchange", () => panels.has(named()) && show(named()));
  show(panels.has(named()) ? named() : panels.keys().next().value);
  main.removeAttribute("aria-busy");
}

try {
  begin((await get("models")).models);
} catch (error) {
  document.getElementById("main").replaceChildren(fault(error));
}
