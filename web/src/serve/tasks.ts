/** The tasks: the fields of each, how its request is built, and how its result is shown. */

import type { Answers, Body, Caption, Classification, Embeddings, Generation, ModelInfo, QaAnswer, Tags, Translation } from "./client";
import { make, plural } from "./elements";
import { caption as captionResult, classification, similarity, spans, tagged, translation } from "./results";

export interface TextField {
  kind: "text";
  name: string;
  label: string;
  value: string;
  rows: number;
}

export interface NumberField {
  kind: "number";
  name: string;
  label: string;
  value: string;
  min: number;
  max: number;
  step: number | "any";
  placeholder?: string;
}

/** An image file: its value is the file in base64. */
export interface ImageField {
  kind: "image";
  name: string;
  label: string;
}

export type Field = TextField | NumberField | ImageField;

/** The text or texts whose attention is shown. */
export interface AttentionInput {
  text: string;
  second?: string;
}

interface TaskBase<R> {
  name: string; // of the tab
  title: string;
  route?: string; // where it is not the task's name
  fields: Field[];
  /** Builds the request from the values of the fields; by default they are the request. */
  body?(values: Body, turns: string[]): Body;
  /** What the attention is shown of; without it, none is. */
  attention?(body: Body, result: R, choice: number, model: ModelInfo): AttentionInput;
}

/** A task with one response. */
export interface PlainTask<R> extends TaskBase<R> {
  streams: false;
  show(result: R, body: Body): HTMLElement[];
  stats?(result: R): string[];
  /** The texts to choose from for the attention. */
  choices?(body: Body): string[];
}

/** A task whose response is streamed. */
export interface StreamTask extends TaskBase<Generation> {
  streams: true;
  /** The elements around the generated text. */
  begin(body: Body, output: HTMLElement): HTMLElement[];
}

export type Task = PlainTask<any> | StreamTask; // each task has its own result type

const text = (name: string, label: string, value: string, rows = 3): TextField => ({ kind: "text", name, label, value, rows });
const SAMPLING: NumberField[] = [
  { kind: "number", name: "max_new_tokens", label: "Max new tokens", value: "60", min: 1, max: 4096, step: 1 },
  { kind: "number", name: "temperature", label: "Temperature", value: "0.8", min: 0, max: 2, step: "any" },
  { kind: "number", name: "top_p", label: "Top p", value: "0.95", min: 0, max: 1, step: "any" },
  { kind: "number", name: "seed", label: "Seed", value: "", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, placeholder: "random" },
];

const classify: PlainTask<Answers<Classification>> = {
  name: "Classify",
  title: "Text classification",
  fields: [text("text", "Text", "A film that warms the heart and never once insults the mind.")],
  streams: false,
  show: ({ answers }) => classification(answers[0]),
  attention: (body) => ({ text: String(body.text) }),
};

const classifyImage: PlainTask<Answers<Classification>> = {
  name: "Image",
  title: "Image classification",
  route: "classify",
  fields: [{ kind: "image", name: "image", label: "Image" }],
  streams: false,
  show: ({ answers }) => classification(answers[0]),
};

const caption: PlainTask<Answers<Caption>> = {
  name: "Caption",
  title: "Captions of images",
  fields: [
    { kind: "image", name: "image", label: "Image" },
    { kind: "number", name: "beam", label: "Beam size", value: "5", min: 1, max: 16, step: 1 },
    { kind: "number", name: "nbest", label: "Number of captions", value: "3", min: 1, max: 16, step: 1 },
  ],
  streams: false,
  show: ({ answers }) => captionResult(answers[0]),
};

const pair: PlainTask<Answers<Classification>> = {
  name: "Pair",
  title: "Text-pair classification or similarity",
  fields: [
    text("text", "First text", "A man plays the guitar on a small stage."),
    text("second", "Second text", "A person is making music."),
  ],
  streams: false,
  show: ({ answers }) => classification(answers[0]),
  attention: (body) => ({ text: String(body.text), second: String(body.second) }),
};

const tag: PlainTask<Answers<Tags>> = {
  name: "Tag",
  title: "Token classification and named entities",
  fields: [text("text", "Text", "Ada Lovelace met Charles Babbage in London in June 1833.")],
  streams: false,
  show: ({ answers }) => tagged(answers[0]),
  stats: ({ answers }) => [plural(answers[0].words.length, "word"), `${answers[0].entities.length} named entities`],
  attention: (body) => ({ text: String(body.text) }),
};

const qa: PlainTask<Answers<QaAnswer>> = {
  name: "QA",
  title: "Extractive question answering",
  fields: [
    text("question", "Question", "Where did Ada Lovelace meet Charles Babbage?", 2),
    text(
      "context",
      "Context",
      "Ada Lovelace was seventeen when she met Charles Babbage at a party in London in June 1833. He showed her " +
        "a part of his Difference Engine, and she understood at once what it was for. Ten years later she wrote " +
        "the notes on his Analytical Engine for which she is remembered.",
      7,
    ),
    { kind: "number", name: "nbest", label: "Number of answers", value: "3", min: 1, max: 20, step: 1 },
  ],
  streams: false,
  show: ({ answers }, body) => spans(answers[0], String(body.context)),
  attention: (body) => ({ text: String(body.question), second: String(body.context) }),
};

const translate: PlainTask<Answers<Translation>> = {
  name: "Translate",
  title: "Translation",
  fields: [
    text("text", "Text", "A dog runs across the wet grass with a stick in its mouth."),
    { kind: "number", name: "beam", label: "Beam size", value: "", min: 1, max: 16, step: 1 },
    { kind: "number", name: "nbest", label: "Number of translations", value: "3", min: 1, max: 16, step: 1 },
  ],
  body: (values) => ({ ...values, align: true }),
  streams: false,
  show: ({ answers }) => translation(answers[0]),
  stats: ({ answers }) => [plural(answers[0].source.length, "source token"), plural(answers[0].tokens.length, "target token")],
  attention: (body, { answers }) => ({ text: String(body.text), second: answers[0].text }),
};

const embed: PlainTask<Embeddings> = {
  name: "Embed",
  title: "Embeddings: cosine similarity of texts",
  fields: [
    text(
      "text",
      "Texts, one per line",
      [
        "A man is playing a guitar.",
        "A person makes music on a stage.",
        "The orchestra rehearses tonight.",
        "How do I cook rice?",
        "What is the best way to boil rice?",
        "The stock market fell on Monday.",
      ].join("\n"),
      6,
    ),
  ],
  body: (values) => ({ ...values, text: String(values.text).split("\n").filter((line) => line.trim()) }),
  streams: false,
  show: (result, body) => similarity(body.text as string[], result),
  stats: ({ vectors, tokens }) => [
    plural(tokens.reduce((a, b) => a + b, 0), "token"),
    `${vectors.length} × ${vectors[0].length} dimensions`,
  ],
  choices: (body) => body.text as string[],
  attention: (body, _, choice) => ({ text: (body.text as string[])[choice] }),
};

const generate: StreamTask = {
  name: "Generate",
  title: "Text generation",
  fields: [text("prompt", "Prompt", "The old man looked at the sea and"), ...SAMPLING],
  body: (values) => ({ ...values, stream: true }),
  streams: true,
  begin: (body, output) => [make("p", { class: "generated" }, make("span", { class: "faint", text: String(body.prompt) }), output)],
  attention: (body, result) => ({ text: String(body.prompt) + result.text }),
};

const chat: StreamTask = {
  name: "Chat",
  title: "Chat",
  fields: [text("turn", "Message", "Hello, how are you today?", 2), ...SAMPLING],
  body: ({ turn, model, ...rest }, turns) => ({ model, turns: [...turns, turn], ...rest, stream: true }),
  streams: true,
  begin: (body, output) => {
    const turns = body.turns as string[];
    return [...turns.map((turn, i) => bubble((turns.length - i) % 2 === 1, turn)), bubble(false, output)];
  },
  // without the special tokens between turns; an encoder-decoder reads the turns in its encoder
  attention: (body, result, _, model) => {
    const turns = body.turns as string[];
    if (model.tasks.includes("generate")) return { text: [...turns, result.text].join("\n") };
    return { text: turns.join("\n"), second: result.text };
  },
};

function bubble(isUser: boolean, content: string | HTMLElement): HTMLElement {
  const speaker = make("b", { class: "visually-hidden", text: isUser ? "You: " : "Model: " });
  return make("p", { class: isUser ? "bubble user" : "bubble" }, speaker, content);
}

export const TASKS: Record<string, Task> = { classify, pair, tag, qa, translate, embed, generate, chat, classify_image: classifyImage, caption };
