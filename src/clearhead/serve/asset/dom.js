/** DOM: elements made in one line. Text is set as text, always. */

/** `text` is its text and `on` its listeners; anything else is an attribute, whose name is always our own. */
export function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Between 0 and 1, for the style sheet to draw. */
export function shared(element, share) {
  element.style.setProperty("--share", String(Math.min(1, Math.max(0, share))));
  return element;
}

/** One of these is in the tab order; the arrows go from one to the next. */
export function roving(parent, pick = () => {}) {
  const all = () => [...parent.querySelectorAll("button")];
  all().forEach((each, i) => (each.tabIndex = i ? -1 : 0));
  parent.addEventListener("keydown", (event) => {
    const found = all();
    const at = found.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: found.length - 1 }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = found[(to + found.length) % found.length];
    found.forEach((each) => (each.tabIndex = each === next ? 0 : -1));
    next.focus();
    pick(next);
  });
}

/** What went wrong, where it went wrong. */
export function fault(error) {
  return make("p", { class: "fault", role: "alert", text: error instanceof Error ? error.message : String(error) });
}

/** A piece of code with a button that copies it. */
export function code(label) {
  const pre = make("pre", { tabindex: 0, "aria-label": label });
  const button = make("button", { type: "button", class: "plain copy", text: "Copy", "aria-label": `Copy: ${label}` });
  button.addEventListener("click", async () => {
    button.textContent = (await copied(pre)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  const whole = make("div", { class: "code" }, pre, button);
  return { whole, set: (text) => (pre.textContent = text) };
}

/** A browser lends its clipboard to https and to this machine; elsewhere the text is selected for the user. */
async function copied(pre) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(pre);
    pre.focus();
    return false;
  }
}

export function seconds(milliseconds) {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

export function counted(count, what) {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}
