/** The API reference, built from /openapi.json: parameters and responses of each route, and a form to try it. */

import type { Body, ModelInfo } from "./client";
import { address, curl, get, send } from "./client";
import { byId, codeBlock, errorMessage, formatTime, make } from "./elements";

const MAX_SHOWN_CHARACTERS = 20_000; // of a response
const REQUIRED_TASK: Record<string, string> = { "/v1/embeddings": "embed", "/v1/completions": "generate", "/v1/chat/completions": "chat" };
const GROUPS: Record<string, [name: string, description: string]> = {
  tasks: ["Tasks", "Each takes one text or a list of texts."],
  attention: ["Attention", "Attention weights of a model."],
  server: ["Server", "Health, metrics and models."],
  openai: ["OpenAI", "The same models for clients of OpenAI's API."],
};

/** The part of OpenAPI that FastAPI writes. */
interface Schema {
  $ref?: string;
  type?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  items?: Schema;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema;
  required?: string[];
  description?: string;
  default?: unknown;
  examples?: Body[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minItems?: number;
  maxItems?: number;
  minLength?: number;
  maxLength?: number;
}

interface Operation {
  tags?: string[];
  summary?: string;
  description?: string;
  parameters?: { name: string; schema: Schema; required: boolean; description?: string }[];
  requestBody?: { content?: Record<string, { schema: Schema }> };
  responses?: Record<string, { description: string; content?: Record<string, { schema?: Schema }> }>;
}

interface OpenApi {
  info: { description: string; version: string };
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, Schema> };
}

interface NamedField {
  name: string;
  field: Schema;
  isRequired: boolean;
}

class Schemas {
  constructor(readonly all: Record<string, Schema>) {}

  /** Follows a reference. */
  resolve(schema: Schema | undefined): Schema {
    return schema?.$ref ? (this.all[refName(schema.$ref)] ?? {}) : (schema ?? {});
  }

  /** The type in words, with its bounds; `null` is shown for responses only, since a request may leave the field out. */
  type(schema: Schema, isResponse = false): string {
    if (schema.$ref) return refName(schema.$ref);
    const options = schema.anyOf ?? schema.oneOf;
    if (options) {
      const types = [...new Set(options.map((option) => this.type(option)))];
      return types.filter((type) => isResponse || type !== "null").join(" or ");
    }
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.type === "array") return `list${range(schema.minItems, schema.maxItems)} of ${schema.items ? this.type(schema.items) : "any"}`;
    if (schema.type === "object") return schema.additionalProperties?.type ? `object of ${this.type(schema.additionalProperties)}` : "object";
    if (schema.type === "string") return `string${range(schema.minLength, schema.maxLength, "characters")}`;
    const low = schema.minimum ?? (schema.exclusiveMinimum === undefined ? undefined : `over ${schema.exclusiveMinimum}`);
    return `${schema.type ?? "any"}${range(low, schema.maximum ?? schema.exclusiveMaximum)}`;
  }

  /** The fields of an object, each followed by the fields inside it. */
  fields(schema: Schema | undefined, prefix = "", seen: string[] = []): NamedField[] {
    const { properties = {}, required = [] } = this.resolve(schema);
    return Object.entries(properties).flatMap(([name, field]) => {
      const own = { name: prefix + name, field, isRequired: required.includes(name) };
      const isList = field.type === "array";
      const inner = isList ? field.items : ((field.anyOf ?? [field]).find((option) => option.$ref) ?? field);
      if (!inner?.$ref || seen.includes(inner.$ref)) return [own];
      return [own, ...this.fields(inner, `${prefix}${name}${isList ? "[]." : "."}`, [...seen, inner.$ref])];
    });
  }
}

function refName(ref: string): string {
  return ref.split("/").pop() ?? ref;
}

function range(low: number | string | undefined, high: number | undefined, noun = ""): string {
  const format = (x: number | string) => (typeof x === "string" ? x : x >= 2 ** 53 ? "2⁶³ − 1" : x.toLocaleString("en"));
  const unit = noun && ` ${noun}`;
  if (low === undefined && high === undefined) return "";
  if (high === undefined) return ` (at least ${format(low!)}${unit})`;
  if (low === undefined) return ` (at most ${format(high)}${unit})`;
  return ` (${format(low)} to ${format(high)}${unit})`;
}

function fieldTable(caption: string, schemas: Schemas, fields: NamedField[], isResponse = false): HTMLElement {
  const rows = fields.map(({ name, field, isRequired }) => {
    const cell = [make("span", { class: "type", text: schemas.type(field, isResponse) })];
    const value = field.default;
    if (isRequired && !isResponse) cell.push(make("span", { class: "required", text: "required" }));
    else if (value !== undefined && value !== null && !isResponse) {
      cell.push(make("span", { class: "faint" }, "default ", make("code", { text: JSON.stringify(value) })));
    }
    if (field.description) cell.push(make("p", {}, ...markup(field.description)));
    return make("tr", {}, make("th", { scope: "row" }, make("code", { text: name })), make("td", {}, ...cell));
  });
  return make("table", { class: "fields" }, make("caption", { class: "visually-hidden", text: caption }), make("tbody", {}, ...rows));
}

/** Text with `code` in it. */
function markup(text: string): (Node | string)[] {
  return text.split("`").map((part, i) => (i % 2 ? make("code", { text: part }) : part));
}

function routeElement(method: string, path: string, operation: Operation, schemas: Schemas, models: ModelInfo[]): HTMLElement {
  const id = `${method}${path.replaceAll(/\W+/g, "-")}`;
  const verb = method.toUpperCase();
  const content: HTMLElement[] = [];
  const bodySchema = operation.requestBody?.content?.["application/json"]?.schema;
  const parameters = (operation.parameters ?? []).map(({ name, schema, required, description }) => ({
    name,
    field: { ...schema, description },
    isRequired: required,
  }));
  const fields = [...parameters, ...(bodySchema ? schemas.fields(bodySchema) : [])];
  if (fields.length) content.push(make("h3", { text: "Parameters" }), fieldTable(`Parameters of ${path}`, schemas, fields));
  content.push(...responses(operation, path, schemas));
  const body = method === "post" ? example(path, schemas.resolve(bodySchema), models) : null;
  content.push(make("h3", { text: "Try it" }), tryForm(verb, path, id, parameters, body, models));
  const link = make("a", { href: `#${id}`, class: "faint", text: "#", "aria-label": `Link to ${verb} ${path}` });
  const summary = make(
    "summary",
    {},
    make("span", { class: `verb ${method}`, text: verb }),
    make("code", { text: path }),
    make("span", { class: "summary-text" }, ...markup(operation.description ?? operation.summary ?? "")),
    link,
  );
  return make("details", { class: "route", id }, summary, make("div", { class: "body" }, ...content));
}

/** Successful responses field by field, errors in a line each. */
function responses(operation: Operation, path: string, schemas: Schemas): HTMLElement[] {
  const shown: HTMLElement[] = [make("h3", { text: "Response" })];
  const all = Object.entries(operation.responses ?? {});
  for (const [status, { content = {}, description }] of all.filter(([status]) => Number(status) < 400)) {
    for (const [mediaType, { schema }] of Object.entries(content)) {
      const about = schemas.resolve(schema).description ?? (description === "Successful Response" ? "" : description);
      const text = about ? make("span", { class: "faint" }, " ", ...markup(about)) : "";
      shown.push(make("p", {}, make("code", { text: status }), ` ${mediaType}`, text));
      const fields = schemas.fields(schema);
      if (fields.length) shown.push(fieldTable(`Response of ${path}`, schemas, fields, true));
    }
  }
  const errors = all
    .filter(([status]) => Number(status) >= 400)
    .map(([status, { description }]) => make("li", {}, make("code", { text: status }), ` ${description}`));
  if (errors.length) shown.push(make("details", { class: "errors" }, make("summary", { text: "Errors" }), make("ul", {}, ...errors)));
  return shown;
}

/** The example of a request; if it names a model that is not served, one that is. */
function example(path: string, schema: Schema, models: ModelInfo[]): Body {
  const body = schema.examples?.[0] ?? {};
  if (!body.model || models.some(({ name }) => name === body.model)) return body;
  const able = models.find(({ tasks }) => tasks.includes(REQUIRED_TASK[path]));
  return able ? { ...body, model: able.name } : body;
}

function tryForm(verb: string, path: string, id: string, parameters: NamedField[], body: Body | null, models: ModelInfo[]): HTMLElement {
  const inputs = parameters.map(({ name }) => {
    const input = make("input", { id: `${id}-${name}`, autocomplete: "off" });
    input.value = models[0]?.name ?? "";
    return { name, input };
  });
  const text = make("textarea", { id: `${id}-body`, rows: 6, spellcheck: "false", autocomplete: "off" });
  if (body) text.value = JSON.stringify(body, null, 2);
  text.rows = Math.min(14, text.value.split("\n").length + 1);
  const command = codeBlock(`${verb} ${path} with curl`);
  const stats = make("p", { class: "faint stats", role: "status" });
  const answer = make("pre", { class: "answer", tabindex: 0, hidden: true, "aria-label": `Response of ${path}` });
  const button = make("button", { type: "submit", class: "send", text: "Send" });
  const filledPath = () => inputs.reduce((at, { name, input }) => at.replace(`{${name}}`, encodeURIComponent(input.value)), path);
  const update = () => {
    try {
      command.set(curl(verb, filledPath(), body && JSON.parse(text.value)));
    } catch {
      command.set("The body is not valid JSON.");
    }
  };
  const submit = async () => {
    if (button.disabled) return;
    button.disabled = true;
    const start = performance.now();
    form.querySelector(".error")?.remove();
    answer.hidden = true;
    stats.textContent = "";
    try {
      const response = await send(filledPath(), text.value, undefined, verb);
      answer.textContent = pretty(await response.text());
      answer.hidden = false;
      stats.textContent = `${response.status} · ${formatTime(performance.now() - start)}`;
    } catch (error) {
      form.append(errorMessage(error));
    } finally {
      button.disabled = false;
    }
  };
  const form = make(
    "form",
    {
      class: "try",
      novalidate: true,
      "aria-label": `Try ${verb} ${path}`,
      on: {
        submit: (event) => (event.preventDefault(), void submit()),
        input: update,
        keydown: (event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.preventDefault(), void submit();
        },
      },
    },
    ...inputs.map(({ name, input }) => make("div", { class: "field" }, make("label", { for: input.id, text: name }), input)),
    ...(body ? [make("div", { class: "field" }, make("label", { for: text.id, text: "Body" }), text)] : []),
    command.element,
    make("div", { class: "buttons" }, button, stats),
    answer,
  );
  update();
  return form;
}

/** Indents JSON, with lists of numbers or strings on one line; other text stays as it is. */
function pretty(text: string): string {
  let shown = text;
  try {
    const lists: string[] = [];
    const isFlat = (value: unknown): value is unknown[] =>
      Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "number" || typeof item === "string");
    const indented = JSON.stringify(
      JSON.parse(text),
      (_, value: unknown) => {
        if (!isFlat(value)) return value;
        return `\u0000${lists.push(`[${value.map((item) => JSON.stringify(item)).join(", ")}]`) - 1}\u0000`;
      },
      2,
    );
    shown = indented.replaceAll(/"\\u0000(\d+)\\u0000"/g, (_, i: string) => lists[Number(i)]);
  } catch {
    // not JSON
  }
  if (shown.length <= MAX_SHOWN_CHARACTERS) return shown;
  return `${shown.slice(0, MAX_SHOWN_CHARACTERS)}\n… and ${(shown.length - MAX_SHOWN_CHARACTERS).toLocaleString("en")} more characters`;
}

function openLinked(): void {
  const linked = document.getElementById(location.hash.slice(1));
  if (!(linked instanceof HTMLDetailsElement) || !linked.matches(".route")) return;
  linked.open = true;
  linked.scrollIntoView();
}

function start(api: OpenApi, models: ModelInfo[], main: HTMLElement): void {
  const schemas = new Schemas(api.components?.schemas ?? {});
  const groups = new Map<string, HTMLElement[]>();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      const group = groups.get(tag) ?? [];
      groups.set(tag, [...group, routeElement(method, path, operation, schemas, models)]);
    }
  }
  const version = make("span", { class: "faint", text: `Version ${api.info.version}; machine-readable as ` });
  main.append(
    make("p", {}, `${api.info.description} `, version, make("a", { href: address("openapi.json"), text: "OpenAPI" }), "."),
    make("p", { class: "faint", text: "If the server requires a key, send the header Authorization: Bearer KEY." }),
  );
  for (const [tag, routes] of groups) {
    const [name, description] = GROUPS[tag] ?? [tag, ""];
    main.append(make("section", { "aria-label": tag }, make("h2", { text: name }), make("p", { class: "faint", text: description }), ...routes));
  }
  main.removeAttribute("aria-busy");
  addEventListener("hashchange", openLinked);
  openLinked();
}

const main = byId("docs");
try {
  const [api, { models }] = await Promise.all([get<OpenApi>("openapi.json"), get<{ models: ModelInfo[] }>("models")]);
  start(api, models, main);
} catch (error) {
  main.replaceChildren(errorMessage(error));
}
