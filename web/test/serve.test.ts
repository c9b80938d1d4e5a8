import { expect, test } from "vitest";

import { curl, python } from "../src/serve/client";
import { make, plural } from "../src/serve/elements";
import { classification, spans } from "../src/serve/results";
import { answerCard, marked, place } from "../src/serve/search";

test("text is never parsed as HTML", () => {
  const element = make("p", { text: "<b>x</b>", title: '"' });
  expect(element.children.length).toBe(0);
  expect(element.textContent).toBe("<b>x</b>");
});

test("a request as curl quotes its body for the shell", () => {
  expect(curl("POST", "classify", { text: "it's" })).toContain(`-d '{"text":"it'\\''s"}'`);
  expect(curl("GET", "models", null)).not.toContain("-d");
});

test("a request in Python uses OpenAI's client where it can", () => {
  const code = python("chat", { model: "m", turns: ["a", "b", "c"], max_new_tokens: 5, stream: true });
  expect(code).toContain("client.chat.completions.create(");
  expect(code).toContain("max_tokens=5");
  expect(code).toContain('{"role": "assistant", "content": "b"}');
  expect(code).toContain("stream=True");
  expect(python("qa", { question: "a", context: "b" })).toContain('json={"question": "a", "context": "b"}');
});

test("scores are sorted and the predicted label is marked", () => {
  const [result, table] = classification({ answer: "b", scores: { a: 0.2, b: 0.8 } });
  expect(result.textContent).toBe("b");
  expect([...table.querySelectorAll("th")].map((th) => th.textContent)).toEqual(["b", "a"]);
  expect(table.querySelector("tr.best th")?.textContent).toBe("b");
});

test("spans count code points", () => {
  const best = { text: "x", start: 1, end: 2, score: 0, probability: 0.9 };
  const [, context] = spans({ best, spans: [best], no_answer_probability: 0.1 }, "🙂x!");
  expect(context.querySelector("mark")?.textContent).toBe("x");
});

test("plural", () => {
  expect([plural(1, "token"), plural(2000, "token")]).toEqual(["1 token", "2,000 tokens"]);
});

test("single line breaks of a file become spaces, and blank lines stay", () => {
  const text = marked("one\ntwo\n\nthree\n", 0, [4, 7], null).map((node) => node.textContent);
  expect(text).toEqual(["one ", "two", "\n\nthree "]);
});

test("an answer is marked inside its sentence, by code points", () => {
  const nodes = marked("🙂 One. It is x! End.", 100, [113, 114], [107, 115]);
  const box = make("p", {}, ...nodes);
  expect(box.textContent).toBe("🙂 One. It is x! End.");
  expect(box.querySelector("mark")?.textContent).toBe("x");
  expect([...box.querySelectorAll(".sentence")].map((e) => e.textContent).join("|")).toBe("It is |!");
});

test("text of documents is never parsed as HTML", () => {
  const passage = { text: "<b>x</b>", source: "<i>", start: 0, end: 8, heading: "<u>", page: 2, text_rank: 1, vector_rank: null };
  const found = { ...passage, probability: 0.5, sentence: [0, 8] as [number, number], passage };
  const asked = { question: "q", answer: found, probability: 0.5, candidates: [found], passages: [] };
  const card = answerCard(asked, true);
  expect(card.querySelector("b, i[class], u")).toBe(null);
  expect(card.querySelector(".answer")?.textContent).toBe("<b>x</b>");
  expect(place(passage, () => {}).textContent).toBe("<i>page 2<u>");
  const none = answerCard({ ...asked, answer: null }, false);
  expect(none.textContent).toContain("probably do not say");
});
