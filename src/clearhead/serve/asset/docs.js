/** The API reference, drawn from /openapi.json: what each route takes and gives, and a box to try it in. */

import { address, curl, get, send } from "./ask.js";
import { code, fault, make, seconds } from "./dom.js";

const LONGEST = 20_000; // characters of an answer that are shown
const NEEDS = { "/v1/embeddings": "embed", "/v1/completions": "generate", "/v1/chat/completions": "chat" };
const GROUPS = {
  tasks: ["Tasks", "One text or a list of them."],
  attention: ["Attention", "Where a model looks."],
  server: ["Server", "How it is, and what it serves."],
  openai: ["OpenAI", "The same models for clients of OpenAI's API."],
};

/** A schema as FastAPI writes it: references are looked up, "or null" is taken apart. */
class Schemas {
  constructor(all) {
    this.all = all;
  }

  of(schema) {
    return schema?.$ref ? (this.all[schema.$ref.split("/").pop()] ?? {}) : (schema ?? {});
  }

  name(schema) {
    return schema?.$ref?.split("/").pop();
  }

  /** In words: what it is, and its bounds. */
  type(schema, isGiven = false) {
    if (schema.$ref) return this.name(schema);
    const some = schema.anyOf ?? schema.oneOf;
    if (some) return [...new Set(some.map((one) => this.type(one)))].filter((one) => isGiven || one !== "null").join(" or ");
    if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(", ");
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.type === "array") return `list${among(schema.minItems, schema.maxItems)} of ${schema.items ? this.type(schema.items) : "anything"}`;
    if (schema.type === "object") return schema.additionalProperties?.type ? `object of ${this.type(schema.additionalProperties)}` : "object";
    if (schema.type === "string") return `string${among(schema.minLength, schema.maxLength, "characters")}`;
    const low = schema.minimum ?? (schema.exclusiveMinimum === undefined ? undefined : `over ${schema.exclusiveMinimum}`);
    return `${schema.type ?? "anything"}${among(low, schema.maximum ?? schema.exclusiveMaximum)}`;
  }

  /** Its fields, those of what is inside it after its own. */
  fields(schema, before = "", met = []) {
    const { properties = {}, required = [] } = this.of(schema);
    return Object.entries(properties).flatMap(([name, field]) => {
      const own = { name: before + name, field, isRequired: required.includes(name) };
      const [inner, mark] = field.type === "array" ? [field.items, "[]."] : [(field.anyOf ?? [field]).find((one) => one.$ref) ?? field, "."];
      const deeper = inner?.$ref && !met.includes(inner.$ref) ? this.fields(inner, before + name + mark, [...met, inner.$ref]) : [];
      return [own, ...deeper];
    });
  }
}

function among(low, high, what = "") {
  const number = (x) => (typeof x === "number" ? (x >= 2 ** 53 ? "2⁶³ − 1" : x.toLocaleString("en")) : x);
  const unit = what && ` ${what}`;
  if (low === undefined && high === undefined) return "";
  if (high === undefined) return ` (at least ${number(low)}${unit})`;
  if (low === undefined) return ` (at most ${number(high)}${unit})`;
  return ` (${number(low)} to ${number(high)}${unit})`;
}

/** What is taken may be left out, which is said by no word; what is given may be null, which is said. */
function table(caption, schemas, fields, isGiven = false) {
  const rows = fields.map(({ name, field, isRequired }) => {
    const told = [make("span", { class: "type", text: schemas.type(field, isGiven) })];
    const value = field.default;
    if (isRequired && !isGiven) told.push(make("span", { class: "due", text: "required" }));
    else if (value !== undefined && value !== null && !isGiven) told.push(make("span", { class: "faint" }, "default ", make("code", { text: JSON.stringify(value) })));
    if (field.description) told.push(make("p", {}, ...prose(field.description)));
    return make("tr", {}, make("th", { scope: "row" }, make("code", { text: name })), make("td", {}, ...told));
  });
  return make("table", { class: "fields" }, make("caption", { class: "unseen", text: caption }), make("tbody", {}, ...rows));
}

/** Text with `code` in it. */
function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? make("code", { text: part }) : part));
}

function route(method, path, about, schemas, models) {
  const id = `${method}${path.replaceAll(/\W+/g, "-")}`;
  const POST = method === "post";
  const verb = method.toUpperCase();
  const shown = [];
  const taken = about.requestBody?.content?.["application/json"]?.schema;
  const given = (about.parameters ?? []).map(({ name, schema, required, description }) => ({ name, field: { ...schema, description }, isRequired: required }));
  const fields = [...given, ...(taken ? schemas.fields(taken) : [])];
  if (fields.length) shown.push(make("h3", { text: "Takes" }), table(`What ${path} takes`, schemas, fields));
  shown.push(...answers(about, path, schemas));
  shown.push(make("h3", { text: "Try" }), tried(verb, path, id, given, POST ? example(path, schemas.of(taken), models) : null, models));
  const link = make("a", { href: `#${id}`, class: "faint", text: "#", "aria-label": `Address of ${verb} ${path}` });
  const summary = make("summary", {}, make("span", { class: `verb ${method}`, text: verb }), make("code", { text: path }), make("span", { class: "what" }, ...prose(about.description ?? about.summary ?? "")), link);
  return make("details", { class: "route", id }, summary, make("div", { class: "inside" }, ...shown));
}

/** What comes back when all is well, field by field; what may come otherwise, in a line each. */
function answers(about, path, schemas) {
  const shown = [make("h3", { text: "Gives" })];
  const all = Object.entries(about.responses ?? {});
  for (const [status, { content = {}, description }] of all.filter(([status]) => status < 400)) {
    for (const [kind, { schema }] of Object.entries(content)) {
      const says = schemas.of(schema).description ?? (description === "Successful Response" ? "" : description);
      shown.push(make("p", {}, make("code", { text: status }), ` ${kind}`, says ? make("span", { class: "faint", text: ` ${says}` }) : ""));
      const fields = schemas.fields(schema);
      if (fields.length) shown.push(table(`What ${path} gives`, schemas, fields, true));
    }
  }
  const bad = all.filter(([status]) => status >= 400).map(([status, { description }]) => make("li", {}, make("code", { text: status }), ` ${description}`));
  if (bad.length) shown.push(make("details", { class: "faults" }, make("summary", { text: "Faults" }), make("ul", {}, ...bad)));
  return shown;
}

/** The example of a body; where it names a model that is not here, one that is. */
function example(path, schema, models) {
  const found = schema.examples?.[0] ?? {};
  if (!found.model || models.some(({ name }) => name === found.model)) return found;
  const able = models.find(({ tasks }) => tasks.includes(NEEDS[path]));
  return able ? { ...found, model: able.name } : found;
}

function tried(verb, path, id, parameters, body, models) {
  const inputs = parameters.map(({ name }) => {
    const input = make("input", { id: `${id}-${name}`, autocomplete: "off" });
    input.value = models[0]?.name ?? "";
    return { name, input };
  });
  const text = make("textarea", { id: `${id}-body`, rows: 6, spellcheck: "false", autocomplete: "off" });
  if (body) text.value = JSON.stringify(body, null, 2);
  text.rows = Math.min(14, text.value.split("\n").length + 1);
  const command = code(`${verb} ${path} for curl`);
  const facts = make("p", { class: "faint facts", role: "status" });
  const answer = make("pre", { class: "answer", tabindex: 0, hidden: true, "aria-label": `Answer of ${path}` });
  const button = make("button", { type: "submit", class: "send", text: "Send" });
  const filled = () => inputs.reduce((at, { name, input }) => at.replace(`{${name}}`, encodeURIComponent(input.value)), path);
  const written = () => {
    try {
      command.set(curl(verb, filled(), body && JSON.parse(text.value)));
    } catch {
      command.set("The body is no JSON yet.");
    }
  };
  const submit = async () => {
    if (button.disabled) return;
    button.disabled = true;
    const began = performance.now();
    form.querySelector(".fault")?.remove();
    answer.hidden = true;
    facts.textContent = "";
    try {
      const response = await send(filled(), text.value, undefined, verb);
      answer.textContent = pretty(await response.text());
      answer.hidden = false;
      facts.textContent = `${response.status} · ${seconds(performance.now() - began)}`;
    } catch (error) {
      form.append(fault(error));
    } finally {
      button.disabled = false;
    }
  };
  const form = make(
    "form",
    {
      class: "try", novalidate: true, "aria-label": `Try ${verb} ${path}`,
      on: {
        submit: (event) => (event.preventDefault(), submit()),
        input: written,
        keydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && (event.preventDefault(), submit()),
      },
    },
    ...inputs.map(({ name, input }) => make("div", { class: "field" }, make("label", { for: input.id, text: name }), input)),
    ...(body ? [make("div", { class: "field" }, make("label", { for: text.id, text: "Body" }), text)] : []),
    command.whole,
    make("div", { class: "buttons" }, button, facts),
    answer,
  );
  written();
  return form;
}

/** JSON set out to be read, a list of numbers or words on one line; anything else as it is. */
function pretty(text) {
  let shown = text;
  try {
    const lists = [];
    const kept = JSON.stringify(
      JSON.parse(text),
      (_, value) => {
        if (!Array.isArray(value) || !value.length || !value.every((one) => typeof one === "number" || typeof one === "string")) return value;
        return `\u0000${lists.push(`[${value.map((one) => JSON.stringify(one)).join(", ")}]`) - 1}\u0000`;
      },
      2,
    );
    shown = kept.replaceAll(/"\\u0000(\d+)\\u0000"/g, (_, i) => lists[i]);
  } catch {
    // no JSON
  }
  return shown.length > LONGEST ? `${shown.slice(0, LONGEST)}\n… and ${(shown.length - LONGEST).toLocaleString("en")} characters more` : shown;
}

function opened() {
  const found = document.getElementById(location.hash.slice(1));
  if (!found?.matches("details.route")) return;
  found.open = true;
  found.scrollIntoView();
}

const main = document.getElementById("docs");
try {
  const [api, { models }] = await Promise.all([get("openapi.json"), get("models")]);
  const schemas = new Schemas(api.components?.schemas ?? {});
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const tag = about.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(route(method, path, about, schemas, models));
    }
  }
  main.append(
    make("p", {}, `${api.info.description} `, make("span", { class: "faint", text: `Version ${api.info.version}; the whole as ` }), make("a", { href: address("openapi.json"), text: "OpenAPI" }), "."),
    make("p", { class: "faint", text: "Where the server wants a key, send it as Authorization: Bearer KEY." }),
  );
  for (const [tag, routes] of groups) {
    const [name, says] = GROUPS[tag] ?? [tag, ""];
    main.append(make("section", { "aria-label": tag }, make("h2", { text: name }), make("p", { class: "faint", text: says }), ...routes));
  }
  main.removeAttribute("aria-busy");
  addEventListener("hashchange", opened);
  opened();
} catch (error) {
  main.replaceChildren(fault(error));
}
