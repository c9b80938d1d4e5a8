function _s(t) {
  const e = JSON.parse(t);
  if (e.version !== 1) throw new Error(`a scene of version ${String(e.version)}: this page reads version 1`);
  for (const n of e.sequences)
    for (const s of n.maps)
      if (!n.axes[s.queries] || !n.axes[s.keys])
        throw new Error(`${s.name} names an axis that is not there`);
  return e;
}
const Ms = 2 ** 24 - 1;
function En(t) {
  const e = atob(t), n = new Uint8Array(e.length);
  for (let s = 0; s < e.length; s++) n[s] = e.charCodeAt(s);
  return n;
}
async function An(t) {
  const e = new Response(t).body;
  return new Uint8Array(await new Response(e.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}
function ks(t) {
  const e = t.length / 3;
  if (!Number.isInteger(e)) throw new Error(`${t.length} bytes are not three planes`);
  const n = new Float32Array(e);
  for (let s = 0; s < e; s++) n[s] = (t[s] * 65536 + t[e + s] * 256 + t[2 * e + s]) / Ms;
  return n;
}
async function $s(t) {
  return ks(await An(En(t)));
}
async function Ye(t) {
  const e = await An(En(t));
  return new Float32Array(e.buffer, e.byteOffset, e.byteLength / 4);
}
function H(t, e = 4) {
  return Number.isFinite(t) ? t.toFixed(e).replace("-", "−") : t === -1 / 0 ? "−∞" : String(t);
}
const nt = 256;
class Es {
  constructor(e) {
    this.scene = e;
  }
  live = !1;
  weightsKept = /* @__PURE__ */ new Map();
  stepsKept = /* @__PURE__ */ new Map();
  async weights(e) {
    const { T: n, S: s, map: i } = this.shape(e);
    return (await this.kept(this.weightsKept, e, () => $s(i.weights ?? ""))).subarray(e.head * n * s, (e.head + 1) * n * s);
  }
  async norms(e) {
    const { S: n, map: s } = this.shape(e);
    return s.norms ? (await Ye(s.norms)).subarray(e.head * n, (e.head + 1) * n) : null;
  }
  async step(e, n) {
    const { T: s, S: i, map: r } = this.shape(e), { steps: o, dims: a, scale: c } = r;
    if (!o || !a || c == null) return null;
    const [h, l] = a, f = await this.kept(this.stepsKept, e, () => Ye(o)), p = r.heads, d = f.subarray((e.head * s + n) * h, (e.head * s + n + 1) * h), w = f.subarray(p * s * h + e.head * i * h, p * s * h + (e.head + 1) * i * h), _ = f.subarray(p * (s + i) * h + e.head * i * l, p * (s + i) * h + (e.head + 1) * i * l), M = (await this.weights(e)).subarray(n * i, (n + 1) * i);
    return qn(d, w, _, c, M);
  }
  tile() {
    return Promise.reject(new Error("this page holds whole maps only"));
  }
  without() {
    return Promise.reject(new Error("heads are switched off in the live page: clearhead see --live"));
  }
  shape(e) {
    const n = this.scene.sequences[e.sequence], s = n.maps[e.map];
    return { map: s, T: n.axes[s.queries].words.length, S: n.axes[s.keys].words.length };
  }
  kept(e, n, s) {
    const i = `${n.sequence} ${n.map}`;
    let r = e.get(i);
    return r || e.set(i, r = s()), r;
  }
}
function qn(t, e, n, s, i) {
  const r = t.length, o = i.length, a = n.length / o, c = new Float32Array(o), h = new Float64Array(a);
  for (let f = 0; f < o; f++) {
    let p = 0;
    for (let d = 0; d < r; d++) p += t[d] * e[f * r + d];
    c[f] = p;
    for (let d = 0; d < a; d++) h[d] += i[f] * n[f * a + d];
  }
  const l = As(c, s, i);
  return {
    query: t,
    scores: c,
    scaled: c.map((f) => f * s),
    allowed: l,
    weights: i,
    values: n,
    output: Float32Array.from(h)
  };
}
function As(t, e, n) {
  let s = -1 / 0;
  return n.forEach((i, r) => {
    i > 0 && (s = Math.max(s, t[r] * e));
  }), Array.from(n, (i, r) => i > 0 || t[r] * e - s < -15);
}
class qs {
  constructor(e, n, s = 64) {
    this.scene = e, this.base = n, this.most = s;
  }
  live = !0;
  kept = /* @__PURE__ */ new Map();
  weights(e) {
    return this.floats(`weights?${this.query(e)}`);
  }
  async norms(e) {
    const n = await this.floats(`norms?${this.query(e)}`);
    return n.length ? n : null;
  }
  async step(e, n) {
    const s = this.scene.sequences[e.sequence], i = s.maps[e.map];
    if (!i.dims || i.scale == null) return null;
    const [r, o] = i.dims, a = s.axes[i.keys].words.length, c = await this.floats(`step?${this.query(e)}&query=${n}`), h = c.subarray(0, r), l = c.subarray(r, r + a * r), f = c.subarray(r + a * r, r + a * (r + o));
    return qn(h, l, f, i.scale, c.subarray(r + a * (r + o)));
  }
  async tile(e) {
    const n = `${this.query(e)}&level=${e.level}&row=${e.row}&column=${e.column}&pool=${e.pool}`, s = await this.floats(`tile?${n}`);
    return { rows: s[0], columns: s[1], values: s.subarray(2) };
  }
  async without(e, n) {
    const s = await fetch(`${this.base}without`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ sequence: e, heads: n })
    });
    if (!s.ok) throw new Error(await s.text());
    return await s.json();
  }
  query(e) {
    const n = this.scene.sequences[e.sequence].maps[e.map];
    return `sequence=${e.sequence}&map=${encodeURIComponent(n.name)}&head=${e.head}`;
  }
  floats(e) {
    let n = this.kept.get(e);
    return n || (n = this.fetched(e), this.kept.set(e, n), this.kept.size > this.most && this.kept.delete(this.kept.keys().next().value)), n;
  }
  async fetched(e) {
    const n = await fetch(this.base + e);
    if (!n.ok)
      throw this.kept.delete(e), new Error(await n.text());
    return new Float32Array(await n.arrayBuffer());
  }
}
const ve = ["lines", "matrix", "model", "steps"];
class Ss {
  constructor(e, n = {}) {
    this.scene = e, this.now = this.mended({
      sequence: 0,
      map: 0,
      head: 0,
      view: "lines",
      merge: !1,
      hide: !1,
      moved: !1,
      query: null,
      beside: null,
      ...n
    });
  }
  listeners = [];
  now;
  onChange(e) {
    this.listeners.push(e);
  }
  set(e) {
    const n = this.now, s = e.sequence !== void 0 && e.sequence !== n.sequence, i = e.merge !== void 0 || e.hide !== void 0, r = e.query !== void 0 ? e.query : s || i ? null : n.query;
    this.now = this.mended({ ...n, ...e, query: r });
    for (const o of this.listeners) o(this.now, n);
  }
  map(e = this.now) {
    return this.scene.sequences[e.sequence].maps[e.map];
  }
  axes(e = this.now) {
    const { axes: n } = this.scene.sequences[e.sequence], s = this.map(e);
    return { queries: n[s.queries], keys: n[s.keys] };
  }
  /** Numbers that are there: a map, head or sequence out of range becomes the nearest. */
  mended(e) {
    const n = this.placed(e);
    return { ...e, ...n, beside: e.beside && this.placed(e.beside) };
  }
  placed(e) {
    const n = ae(e.sequence, this.scene.sequences.length), s = this.scene.sequences[n].maps, i = ae(e.map, s.length);
    return { sequence: n, map: i, head: ae(e.head, s[i].heads) };
  }
}
function ae(t, e) {
  return Math.max(0, Math.min(e - 1, t));
}
function Ns(t) {
  const e = [t.view, t.sequence, t.map, t.head], n = [t.merge && "words", t.hide && "plain", t.moved && "moved"].filter(Boolean), s = t.query === null ? [] : [`at${t.query}`];
  return "#" + [...e, ...n, ...s].join(".");
}
function Ts(t) {
  const [e, n, s, i, ...r] = t.replace(/^#/, "").split(".");
  if (!ve.includes(e)) return {};
  const o = r.find((a) => /^at\d+$/.test(a));
  return {
    view: e,
    sequence: Number(n) || 0,
    map: Number(s) || 0,
    head: Number(i) || 0,
    merge: r.includes("words"),
    hide: r.includes("plain"),
    moved: r.includes("moved"),
    query: o ? Number(o.slice(2)) : null
  };
}
function g(t, e = {}, ...n) {
  const s = document.createElement(t);
  return e.class && (s.className = e.class), e.text !== void 0 && (s.textContent = e.text), e.label && s.setAttribute("aria-label", e.label), e.title && (s.title = e.title), s.append(...n), s;
}
function rt(t, e, n, s) {
  const i = g("select");
  return e.forEach((r, o) => {
    const a = g("option", { text: r });
    a.value = String(o), i.append(a);
  }), i.value = String(n), i.addEventListener("change", () => s(Number(i.value))), g("label", { class: "chooser" }, g("span", { text: t }), i);
}
function dt(t, e, n, s) {
  const i = g("button", { class: "toggle", text: t, title: n });
  return i.type = "button", i.setAttribute("aria-pressed", String(e)), i.addEventListener("click", () => s(i.getAttribute("aria-pressed") !== "true")), i;
}
function Sn(t, e, n) {
  const s = Math.min(window.devicePixelRatio || 1, 2);
  t.width = Math.max(1, Math.round(e * s)), t.height = Math.max(1, Math.round(n * s)), t.style.width = `${e}px`, t.style.height = `${n}px`;
  const i = t.getContext("2d");
  return i.setTransform(s, 0, 0, s, 0, 0), i;
}
function Nn(t) {
  let e = !1;
  return () => {
    e || (e = !0, requestAnimationFrame(() => {
      e = !1, t();
    }));
  };
}
let Tn = null;
function Cs(t) {
  Tn = t;
}
function $t(t) {
  return getComputedStyle(Tn ?? document.documentElement).getPropertyValue(t).trim();
}
function Cn(t) {
  for (var e = t.length / 6 | 0, n = new Array(e), s = 0; s < e; ) n[s] = "#" + t.slice(s * 6, ++s * 6);
  return n;
}
function _t(t, e, n) {
  t.prototype = e.prototype = n, n.constructor = t;
}
function zt(t, e) {
  var n = Object.create(t.prototype);
  for (var s in e) n[s] = e[s];
  return n;
}
function it() {
}
var ut = 0.7, yt = 1 / ut, mt = "\\s*([+-]?\\d+)\\s*", St = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*", Y = "\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*", zs = /^#([0-9a-f]{3,8})$/, Is = new RegExp(`^rgb\\(${mt},${mt},${mt}\\)$`), Ls = new RegExp(`^rgb\\(${Y},${Y},${Y}\\)$`), Rs = new RegExp(`^rgba\\(${mt},${mt},${mt},${St}\\)$`), Ps = new RegExp(`^rgba\\(${Y},${Y},${Y},${St}\\)$`), Os = new RegExp(`^hsl\\(${St},${Y},${Y}\\)$`), Ds = new RegExp(`^hsla\\(${St},${Y},${Y},${St}\\)$`), Ke = {
  aliceblue: 15792383,
  antiquewhite: 16444375,
  aqua: 65535,
  aquamarine: 8388564,
  azure: 15794175,
  beige: 16119260,
  bisque: 16770244,
  black: 0,
  blanchedalmond: 16772045,
  blue: 255,
  blueviolet: 9055202,
  brown: 10824234,
  burlywood: 14596231,
  cadetblue: 6266528,
  chartreuse: 8388352,
  chocolate: 13789470,
  coral: 16744272,
  cornflowerblue: 6591981,
  cornsilk: 16775388,
  crimson: 14423100,
  cyan: 65535,
  darkblue: 139,
  darkcyan: 35723,
  darkgoldenrod: 12092939,
  darkgray: 11119017,
  darkgreen: 25600,
  darkgrey: 11119017,
  darkkhaki: 12433259,
  darkmagenta: 9109643,
  darkolivegreen: 5597999,
  darkorange: 16747520,
  darkorchid: 10040012,
  darkred: 9109504,
  darksalmon: 15308410,
  darkseagreen: 9419919,
  darkslateblue: 4734347,
  darkslategray: 3100495,
  darkslategrey: 3100495,
  darkturquoise: 52945,
  darkviolet: 9699539,
  deeppink: 16716947,
  deepskyblue: 49151,
  dimgray: 6908265,
  dimgrey: 6908265,
  dodgerblue: 2003199,
  firebrick: 11674146,
  floralwhite: 16775920,
  forestgreen: 2263842,
  fuchsia: 16711935,
  gainsboro: 14474460,
  ghostwhite: 16316671,
  gold: 16766720,
  goldenrod: 14329120,
  gray: 8421504,
  green: 32768,
  greenyellow: 11403055,
  grey: 8421504,
  honeydew: 15794160,
  hotpink: 16738740,
  indianred: 13458524,
  indigo: 4915330,
  ivory: 16777200,
  khaki: 15787660,
  lavender: 15132410,
  lavenderblush: 16773365,
  lawngreen: 8190976,
  lemonchiffon: 16775885,
  lightblue: 11393254,
  lightcoral: 15761536,
  lightcyan: 14745599,
  lightgoldenrodyellow: 16448210,
  lightgray: 13882323,
  lightgreen: 9498256,
  lightgrey: 13882323,
  lightpink: 16758465,
  lightsalmon: 16752762,
  lightseagreen: 2142890,
  lightskyblue: 8900346,
  lightslategray: 7833753,
  lightslategrey: 7833753,
  lightsteelblue: 11584734,
  lightyellow: 16777184,
  lime: 65280,
  limegreen: 3329330,
  linen: 16445670,
  magenta: 16711935,
  maroon: 8388608,
  mediumaquamarine: 6737322,
  mediumblue: 205,
  mediumorchid: 12211667,
  mediumpurple: 9662683,
  mediumseagreen: 3978097,
  mediumslateblue: 8087790,
  mediumspringgreen: 64154,
  mediumturquoise: 4772300,
  mediumvioletred: 13047173,
  midnightblue: 1644912,
  mintcream: 16121850,
  mistyrose: 16770273,
  moccasin: 16770229,
  navajowhite: 16768685,
  navy: 128,
  oldlace: 16643558,
  olive: 8421376,
  olivedrab: 7048739,
  orange: 16753920,
  orangered: 16729344,
  orchid: 14315734,
  palegoldenrod: 15657130,
  palegreen: 10025880,
  paleturquoise: 11529966,
  palevioletred: 14381203,
  papayawhip: 16773077,
  peachpuff: 16767673,
  peru: 13468991,
  pink: 16761035,
  plum: 14524637,
  powderblue: 11591910,
  purple: 8388736,
  rebeccapurple: 6697881,
  red: 16711680,
  rosybrown: 12357519,
  royalblue: 4286945,
  saddlebrown: 9127187,
  salmon: 16416882,
  sandybrown: 16032864,
  seagreen: 3050327,
  seashell: 16774638,
  sienna: 10506797,
  silver: 12632256,
  skyblue: 8900331,
  slateblue: 6970061,
  slategray: 7372944,
  slategrey: 7372944,
  snow: 16775930,
  springgreen: 65407,
  steelblue: 4620980,
  tan: 13808780,
  teal: 32896,
  thistle: 14204888,
  tomato: 16737095,
  turquoise: 4251856,
  violet: 15631086,
  wheat: 16113331,
  white: 16777215,
  whitesmoke: 16119285,
  yellow: 16776960,
  yellowgreen: 10145074
};
_t(it, Nt, {
  copy(t) {
    return Object.assign(new this.constructor(), this, t);
  },
  displayable() {
    return this.rgb().displayable();
  },
  hex: Ue,
  // Deprecated! Use color.formatHex.
  formatHex: Ue,
  formatHex8: Fs,
  formatHsl: Hs,
  formatRgb: Ge,
  toString: Ge
});
function Ue() {
  return this.rgb().formatHex();
}
function Fs() {
  return this.rgb().formatHex8();
}
function Hs() {
  return zn(this).formatHsl();
}
function Ge() {
  return this.rgb().formatRgb();
}
function Nt(t) {
  var e, n;
  return t = (t + "").trim().toLowerCase(), (e = zs.exec(t)) ? (n = e[1].length, e = parseInt(e[1], 16), n === 6 ? We(e) : n === 3 ? new C(e >> 8 & 15 | e >> 4 & 240, e >> 4 & 15 | e & 240, (e & 15) << 4 | e & 15, 1) : n === 8 ? Ot(e >> 24 & 255, e >> 16 & 255, e >> 8 & 255, (e & 255) / 255) : n === 4 ? Ot(e >> 12 & 15 | e >> 8 & 240, e >> 8 & 15 | e >> 4 & 240, e >> 4 & 15 | e & 240, ((e & 15) << 4 | e & 15) / 255) : null) : (e = Is.exec(t)) ? new C(e[1], e[2], e[3], 1) : (e = Ls.exec(t)) ? new C(e[1] * 255 / 100, e[2] * 255 / 100, e[3] * 255 / 100, 1) : (e = Rs.exec(t)) ? Ot(e[1], e[2], e[3], e[4]) : (e = Ps.exec(t)) ? Ot(e[1] * 255 / 100, e[2] * 255 / 100, e[3] * 255 / 100, e[4]) : (e = Os.exec(t)) ? Qe(e[1], e[2] / 100, e[3] / 100, 1) : (e = Ds.exec(t)) ? Qe(e[1], e[2] / 100, e[3] / 100, e[4]) : Ke.hasOwnProperty(t) ? We(Ke[t]) : t === "transparent" ? new C(NaN, NaN, NaN, 0) : null;
}
function We(t) {
  return new C(t >> 16 & 255, t >> 8 & 255, t & 255, 1);
}
function Ot(t, e, n, s) {
  return s <= 0 && (t = e = n = NaN), new C(t, e, n, s);
}
function Ne(t) {
  return t instanceof it || (t = Nt(t)), t ? (t = t.rgb(), new C(t.r, t.g, t.b, t.opacity)) : new C();
}
function Gt(t, e, n, s) {
  return arguments.length === 1 ? Ne(t) : new C(t, e, n, s ?? 1);
}
function C(t, e, n, s) {
  this.r = +t, this.g = +e, this.b = +n, this.opacity = +s;
}
_t(C, Gt, zt(it, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new C(this.r * t, this.g * t, this.b * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ut : Math.pow(ut, t), new C(this.r * t, this.g * t, this.b * t, this.opacity);
  },
  rgb() {
    return this;
  },
  clamp() {
    return new C(lt(this.r), lt(this.g), lt(this.b), Wt(this.opacity));
  },
  displayable() {
    return -0.5 <= this.r && this.r < 255.5 && -0.5 <= this.g && this.g < 255.5 && -0.5 <= this.b && this.b < 255.5 && 0 <= this.opacity && this.opacity <= 1;
  },
  hex: Ze,
  // Deprecated! Use color.formatHex.
  formatHex: Ze,
  formatHex8: Bs,
  formatRgb: Je,
  toString: Je
}));
function Ze() {
  return `#${ct(this.r)}${ct(this.g)}${ct(this.b)}`;
}
function Bs() {
  return `#${ct(this.r)}${ct(this.g)}${ct(this.b)}${ct((isNaN(this.opacity) ? 1 : this.opacity) * 255)}`;
}
function Je() {
  const t = Wt(this.opacity);
  return `${t === 1 ? "rgb(" : "rgba("}${lt(this.r)}, ${lt(this.g)}, ${lt(this.b)}${t === 1 ? ")" : `, ${t})`}`;
}
function Wt(t) {
  return isNaN(t) ? 1 : Math.max(0, Math.min(1, t));
}
function lt(t) {
  return Math.max(0, Math.min(255, Math.round(t) || 0));
}
function ct(t) {
  return t = lt(t), (t < 16 ? "0" : "") + t.toString(16);
}
function Qe(t, e, n, s) {
  return s <= 0 ? t = e = n = NaN : n <= 0 || n >= 1 ? t = e = NaN : e <= 0 && (t = NaN), new D(t, e, n, s);
}
function zn(t) {
  if (t instanceof D) return new D(t.h, t.s, t.l, t.opacity);
  if (t instanceof it || (t = Nt(t)), !t) return new D();
  if (t instanceof D) return t;
  t = t.rgb();
  var e = t.r / 255, n = t.g / 255, s = t.b / 255, i = Math.min(e, n, s), r = Math.max(e, n, s), o = NaN, a = r - i, c = (r + i) / 2;
  return a ? (e === r ? o = (n - s) / a + (n < s) * 6 : n === r ? o = (s - e) / a + 2 : o = (e - n) / a + 4, a /= c < 0.5 ? r + i : 2 - r - i, o *= 60) : a = c > 0 && c < 1 ? 0 : o, new D(o, a, c, t.opacity);
}
function Vs(t, e, n, s) {
  return arguments.length === 1 ? zn(t) : new D(t, e, n, s ?? 1);
}
function D(t, e, n, s) {
  this.h = +t, this.s = +e, this.l = +n, this.opacity = +s;
}
_t(D, Vs, zt(it, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new D(this.h, this.s, this.l * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ut : Math.pow(ut, t), new D(this.h, this.s, this.l * t, this.opacity);
  },
  rgb() {
    var t = this.h % 360 + (this.h < 0) * 360, e = isNaN(t) || isNaN(this.s) ? 0 : this.s, n = this.l, s = n + (n < 0.5 ? n : 1 - n) * e, i = 2 * n - s;
    return new C(
      ce(t >= 240 ? t - 240 : t + 120, i, s),
      ce(t, i, s),
      ce(t < 120 ? t + 240 : t - 120, i, s),
      this.opacity
    );
  },
  clamp() {
    return new D(je(this.h), Dt(this.s), Dt(this.l), Wt(this.opacity));
  },
  displayable() {
    return (0 <= this.s && this.s <= 1 || isNaN(this.s)) && 0 <= this.l && this.l <= 1 && 0 <= this.opacity && this.opacity <= 1;
  },
  formatHsl() {
    const t = Wt(this.opacity);
    return `${t === 1 ? "hsl(" : "hsla("}${je(this.h)}, ${Dt(this.s) * 100}%, ${Dt(this.l) * 100}%${t === 1 ? ")" : `, ${t})`}`;
  }
}));
function je(t) {
  return t = (t || 0) % 360, t < 0 ? t + 360 : t;
}
function Dt(t) {
  return Math.max(0, Math.min(1, t || 0));
}
function ce(t, e, n) {
  return (t < 60 ? e + (n - e) * t / 60 : t < 180 ? n : t < 240 ? e + (n - e) * (240 - t) / 60 : e) * 255;
}
const In = Math.PI / 180, Ln = 180 / Math.PI, Zt = 18, Rn = 0.96422, Pn = 1, On = 0.82521, Dn = 4 / 29, gt = 6 / 29, Fn = 3 * gt * gt, Xs = gt * gt * gt;
function Hn(t) {
  if (t instanceof K) return new K(t.l, t.a, t.b, t.opacity);
  if (t instanceof Q) return Bn(t);
  t instanceof C || (t = Ne(t));
  var e = fe(t.r), n = fe(t.g), s = fe(t.b), i = le((0.2225045 * e + 0.7168786 * n + 0.0606169 * s) / Pn), r, o;
  return e === n && n === s ? r = o = i : (r = le((0.4360747 * e + 0.3850649 * n + 0.1430804 * s) / Rn), o = le((0.0139322 * e + 0.0971045 * n + 0.7141733 * s) / On)), new K(116 * i - 16, 500 * (r - i), 200 * (i - o), t.opacity);
}
function Ys(t, e, n, s) {
  return arguments.length === 1 ? Hn(t) : new K(t, e, n, s ?? 1);
}
function K(t, e, n, s) {
  this.l = +t, this.a = +e, this.b = +n, this.opacity = +s;
}
_t(K, Ys, zt(it, {
  brighter(t) {
    return new K(this.l + Zt * (t ?? 1), this.a, this.b, this.opacity);
  },
  darker(t) {
    return new K(this.l - Zt * (t ?? 1), this.a, this.b, this.opacity);
  },
  rgb() {
    var t = (this.l + 16) / 116, e = isNaN(this.a) ? t : t + this.a / 500, n = isNaN(this.b) ? t : t - this.b / 200;
    return e = Rn * he(e), t = Pn * he(t), n = On * he(n), new C(
      ue(3.1338561 * e - 1.6168667 * t - 0.4906146 * n),
      ue(-0.9787684 * e + 1.9161415 * t + 0.033454 * n),
      ue(0.0719453 * e - 0.2289914 * t + 1.4052427 * n),
      this.opacity
    );
  }
}));
function le(t) {
  return t > Xs ? Math.pow(t, 1 / 3) : t / Fn + Dn;
}
function he(t) {
  return t > gt ? t * t * t : Fn * (t - Dn);
}
function ue(t) {
  return 255 * (t <= 31308e-7 ? 12.92 * t : 1.055 * Math.pow(t, 1 / 2.4) - 0.055);
}
function fe(t) {
  return (t /= 255) <= 0.04045 ? t / 12.92 : Math.pow((t + 0.055) / 1.055, 2.4);
}
function Ks(t) {
  if (t instanceof Q) return new Q(t.h, t.c, t.l, t.opacity);
  if (t instanceof K || (t = Hn(t)), t.a === 0 && t.b === 0) return new Q(NaN, 0 < t.l && t.l < 100 ? 0 : NaN, t.l, t.opacity);
  var e = Math.atan2(t.b, t.a) * Ln;
  return new Q(e < 0 ? e + 360 : e, Math.sqrt(t.a * t.a + t.b * t.b), t.l, t.opacity);
}
function Us(t, e, n, s) {
  return arguments.length === 1 ? Ks(t) : new Q(t, e, n, s ?? 1);
}
function Q(t, e, n, s) {
  this.h = +t, this.c = +e, this.l = +n, this.opacity = +s;
}
function Bn(t) {
  if (isNaN(t.h)) return new K(t.l, 0, 0, t.opacity);
  var e = t.h * In;
  return new K(t.l, Math.cos(e) * t.c, Math.sin(e) * t.c, t.opacity);
}
_t(Q, Us, zt(it, {
  brighter(t) {
    return new Q(this.h, this.c, this.l + Zt * (t ?? 1), this.opacity);
  },
  darker(t) {
    return new Q(this.h, this.c, this.l - Zt * (t ?? 1), this.opacity);
  },
  rgb() {
    return Bn(this).rgb();
  }
}));
var Vn = -0.14861, Te = 1.78277, Ce = -0.29227, ne = -0.90649, Tt = 1.97294, tn = Tt * ne, en = Tt * Te, nn = Te * Ce - ne * Vn;
function Gs(t) {
  if (t instanceof ht) return new ht(t.h, t.s, t.l, t.opacity);
  t instanceof C || (t = Ne(t));
  var e = t.r / 255, n = t.g / 255, s = t.b / 255, i = (nn * s + tn * e - en * n) / (nn + tn - en), r = s - i, o = (Tt * (n - i) - Ce * r) / ne, a = Math.sqrt(o * o + r * r) / (Tt * i * (1 - i)), c = a ? Math.atan2(o, r) * Ln - 120 : NaN;
  return new ht(c < 0 ? c + 360 : c, a, i, t.opacity);
}
function xe(t, e, n, s) {
  return arguments.length === 1 ? Gs(t) : new ht(t, e, n, s ?? 1);
}
function ht(t, e, n, s) {
  this.h = +t, this.s = +e, this.l = +n, this.opacity = +s;
}
_t(ht, xe, zt(it, {
  brighter(t) {
    return t = t == null ? yt : Math.pow(yt, t), new ht(this.h, this.s, this.l * t, this.opacity);
  },
  darker(t) {
    return t = t == null ? ut : Math.pow(ut, t), new ht(this.h, this.s, this.l * t, this.opacity);
  },
  rgb() {
    var t = isNaN(this.h) ? 0 : (this.h + 120) * In, e = +this.l, n = isNaN(this.s) ? 0 : this.s * e * (1 - e), s = Math.cos(t), i = Math.sin(t);
    return new C(
      255 * (e + n * (Vn * s + Te * i)),
      255 * (e + n * (Ce * s + ne * i)),
      255 * (e + n * (Tt * s)),
      this.opacity
    );
  }
}));
function Ws(t, e, n, s, i) {
  var r = t * t, o = r * t;
  return ((1 - 3 * t + 3 * r - o) * e + (4 - 6 * r + 3 * o) * n + (1 + 3 * t + 3 * r - 3 * o) * s + o * i) / 6;
}
function Zs(t) {
  var e = t.length - 1;
  return function(n) {
    var s = n <= 0 ? n = 0 : n >= 1 ? (n = 1, e - 1) : Math.floor(n * e), i = t[s], r = t[s + 1], o = s > 0 ? t[s - 1] : 2 * i - r, a = s < e - 1 ? t[s + 2] : 2 * r - i;
    return Ws((n - s / e) * e, o, i, r, a);
  };
}
var ze = (t) => () => t;
function Xn(t, e) {
  return function(n) {
    return t + n * e;
  };
}
function Js(t, e, n) {
  return t = Math.pow(t, n), e = Math.pow(e, n) - t, n = 1 / n, function(s) {
    return Math.pow(t + s * e, n);
  };
}
function Qs(t, e) {
  var n = e - t;
  return n ? Xn(t, n > 180 || n < -180 ? n - 360 * Math.round(n / 360) : n) : ze(isNaN(t) ? e : t);
}
function js(t) {
  return (t = +t) == 1 ? wt : function(e, n) {
    return n - e ? Js(e, n, t) : ze(isNaN(e) ? n : e);
  };
}
function wt(t, e) {
  var n = e - t;
  return n ? Xn(t, n) : ze(isNaN(t) ? e : t);
}
var sn = (function t(e) {
  var n = js(e);
  function s(i, r) {
    var o = n((i = Gt(i)).r, (r = Gt(r)).r), a = n(i.g, r.g), c = n(i.b, r.b), h = wt(i.opacity, r.opacity);
    return function(l) {
      return i.r = o(l), i.g = a(l), i.b = c(l), i.opacity = h(l), i + "";
    };
  }
  return s.gamma = t, s;
})(1);
function ti(t) {
  return function(e) {
    var n = e.length, s = new Array(n), i = new Array(n), r = new Array(n), o, a;
    for (o = 0; o < n; ++o)
      a = Gt(e[o]), s[o] = a.r || 0, i[o] = a.g || 0, r[o] = a.b || 0;
    return s = t(s), i = t(i), r = t(r), a.opacity = 1, function(c) {
      return a.r = s(c), a.g = i(c), a.b = r(c), a + "";
    };
  };
}
var ei = ti(Zs);
function st(t, e) {
  return t = +t, e = +e, function(n) {
    return t * (1 - n) + e * n;
  };
}
var be = /[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g, de = new RegExp(be.source, "g");
function ni(t) {
  return function() {
    return t;
  };
}
function si(t) {
  return function(e) {
    return t(e) + "";
  };
}
function ii(t, e) {
  var n = be.lastIndex = de.lastIndex = 0, s, i, r, o = -1, a = [], c = [];
  for (t = t + "", e = e + ""; (s = be.exec(t)) && (i = de.exec(e)); )
    (r = i.index) > n && (r = e.slice(n, r), a[o] ? a[o] += r : a[++o] = r), (s = s[0]) === (i = i[0]) ? a[o] ? a[o] += i : a[++o] = i : (a[++o] = null, c.push({ i: o, x: st(s, i) })), n = de.lastIndex;
  return n < e.length && (r = e.slice(n), a[o] ? a[o] += r : a[++o] = r), a.length < 2 ? c[0] ? si(c[0].x) : ni(e) : (e = c.length, function(h) {
    for (var l = 0, f; l < e; ++l) a[(f = c[l]).i] = f.x(h);
    return a.join("");
  });
}
var rn = 180 / Math.PI, _e = {
  translateX: 0,
  translateY: 0,
  rotate: 0,
  skewX: 0,
  scaleX: 1,
  scaleY: 1
};
function Yn(t, e, n, s, i, r) {
  var o, a, c;
  return (o = Math.sqrt(t * t + e * e)) && (t /= o, e /= o), (c = t * n + e * s) && (n -= t * c, s -= e * c), (a = Math.sqrt(n * n + s * s)) && (n /= a, s /= a, c /= a), t * s < e * n && (t = -t, e = -e, c = -c, o = -o), {
    translateX: i,
    translateY: r,
    rotate: Math.atan2(e, t) * rn,
    skewX: Math.atan(c) * rn,
    scaleX: o,
    scaleY: a
  };
}
var Ft;
function ri(t) {
  const e = new (typeof DOMMatrix == "function" ? DOMMatrix : WebKitCSSMatrix)(t + "");
  return e.isIdentity ? _e : Yn(e.a, e.b, e.c, e.d, e.e, e.f);
}
function oi(t) {
  return t == null || (Ft || (Ft = document.createElementNS("http://www.w3.org/2000/svg", "g")), Ft.setAttribute("transform", t), !(t = Ft.transform.baseVal.consolidate())) ? _e : (t = t.matrix, Yn(t.a, t.b, t.c, t.d, t.e, t.f));
}
function Kn(t, e, n, s) {
  function i(h) {
    return h.length ? h.pop() + " " : "";
  }
  function r(h, l, f, p, d, w) {
    if (h !== f || l !== p) {
      var _ = d.push("translate(", null, e, null, n);
      w.push({ i: _ - 4, x: st(h, f) }, { i: _ - 2, x: st(l, p) });
    } else (f || p) && d.push("translate(" + f + e + p + n);
  }
  function o(h, l, f, p) {
    h !== l ? (h - l > 180 ? l += 360 : l - h > 180 && (h += 360), p.push({ i: f.push(i(f) + "rotate(", null, s) - 2, x: st(h, l) })) : l && f.push(i(f) + "rotate(" + l + s);
  }
  function a(h, l, f, p) {
    h !== l ? p.push({ i: f.push(i(f) + "skewX(", null, s) - 2, x: st(h, l) }) : l && f.push(i(f) + "skewX(" + l + s);
  }
  function c(h, l, f, p, d, w) {
    if (h !== f || l !== p) {
      var _ = d.push(i(d) + "scale(", null, ",", null, ")");
      w.push({ i: _ - 4, x: st(h, f) }, { i: _ - 2, x: st(l, p) });
    } else (f !== 1 || p !== 1) && d.push(i(d) + "scale(" + f + "," + p + ")");
  }
  return function(h, l) {
    var f = [], p = [];
    return h = t(h), l = t(l), r(h.translateX, h.translateY, l.translateX, l.translateY, f, p), o(h.rotate, l.rotate, f, p), a(h.skewX, l.skewX, f, p), c(h.scaleX, h.scaleY, l.scaleX, l.scaleY, f, p), h = l = null, function(d) {
      for (var w = -1, _ = p.length, M; ++w < _; ) f[(M = p[w]).i] = M.x(d);
      return f.join("");
    };
  };
}
var ai = Kn(ri, "px, ", "px)", "deg)"), ci = Kn(oi, ", ", ")", ")"), li = 1e-12;
function on(t) {
  return ((t = Math.exp(t)) + 1 / t) / 2;
}
function hi(t) {
  return ((t = Math.exp(t)) - 1 / t) / 2;
}
function ui(t) {
  return ((t = Math.exp(2 * t)) - 1) / (t + 1);
}
var fi = (function t(e, n, s) {
  function i(r, o) {
    var a = r[0], c = r[1], h = r[2], l = o[0], f = o[1], p = o[2], d = l - a, w = f - c, _ = d * d + w * w, M, y;
    if (_ < li)
      y = Math.log(p / h) / e, M = function(et) {
        return [
          a + et * d,
          c + et * w,
          h * Math.exp(e * et * y)
        ];
      };
    else {
      var S = Math.sqrt(_), T = (p * p - h * h + s * _) / (2 * h * n * S), k = (p * p - h * h - s * _) / (2 * p * n * S), A = Math.log(Math.sqrt(T * T + 1) - T), I = Math.log(Math.sqrt(k * k + 1) - k);
      y = (I - A) / e, M = function(et) {
        var Lt = et * y, Rt = on(A), Pt = h / (n * S) * (Rt * ui(e * Lt + A) - hi(A));
        return [
          a + Pt * d,
          c + Pt * w,
          h * Rt / on(e * Lt + A)
        ];
      };
    }
    return M.duration = Math.abs(y) * 1e3 * e / Math.SQRT2, M;
  }
  return i.rho = function(r) {
    var o = Math.max(1e-3, +r), a = o * o, c = a * a;
    return t(o, a, c);
  }, i;
})(Math.SQRT2, 2, 4);
function Un(t) {
  return (function e(n) {
    n = +n;
    function s(i, r) {
      var o = t((i = xe(i)).h, (r = xe(r)).h), a = wt(i.s, r.s), c = wt(i.l, r.l), h = wt(i.opacity, r.opacity);
      return function(l) {
        return i.h = o(l), i.s = a(l), i.l = c(Math.pow(l, n)), i.opacity = h(l), i + "";
      };
    }
    return s.gamma = e, s;
  })(1);
}
Un(Qs);
Un(wt);
const Gn = (t) => ei(t[t.length - 1]);
var di = new Array(3).concat(
  "998ec3f7f7f7f1a340",
  "5e3c99b2abd2fdb863e66101",
  "5e3c99b2abd2f7f7f7fdb863e66101",
  "542788998ec3d8daebfee0b6f1a340b35806",
  "542788998ec3d8daebf7f7f7fee0b6f1a340b35806",
  "5427888073acb2abd2d8daebfee0b6fdb863e08214b35806",
  "5427888073acb2abd2d8daebf7f7f7fee0b6fdb863e08214b35806",
  "2d004b5427888073acb2abd2d8daebfee0b6fdb863e08214b358067f3b08",
  "2d004b5427888073acb2abd2d8daebf7f7f7fee0b6fdb863e08214b358067f3b08"
).map(Cn);
const pi = Gn(di);
var mi = new Array(3).concat(
  "deebf79ecae13182bd",
  "eff3ffbdd7e76baed62171b5",
  "eff3ffbdd7e76baed63182bd08519c",
  "eff3ffc6dbef9ecae16baed63182bd08519c",
  "eff3ffc6dbef9ecae16baed64292c62171b5084594",
  "f7fbffdeebf7c6dbef9ecae16baed64292c62171b5084594",
  "f7fbffdeebf7c6dbef9ecae16baed64292c62171b508519c08306b"
).map(Cn);
const gi = Gn(mi);
function wi(t) {
  return t = Math.max(0, Math.min(1, t)), "rgb(" + Math.max(0, Math.min(255, Math.round(-4.54 - t * (35.34 - t * (2381.73 - t * (6402.7 - t * (7024.72 - t * 2710.57))))))) + ", " + Math.max(0, Math.min(255, Math.round(32.49 + t * (170.73 + t * (52.82 - t * (131.46 - t * (176.58 - t * 67.37))))))) + ", " + Math.max(0, Math.min(255, Math.round(81.24 + t * (442.36 - t * (2482.43 - t * (6167.24 - t * (6614.94 - t * 2475.67))))))) + ")";
}
function Wn() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
const an = /* @__PURE__ */ new Map();
function Zn(t, e = !1) {
  const n = `${t} ${e}`;
  let s = an.get(n);
  if (!s) {
    s = new Uint8ClampedArray(1024);
    const i = e ? (r) => pi(1 - r) : t ? wi : gi;
    for (let r = 0; r < 256; r++) {
      const o = /rgb\((\d+), (\d+), (\d+)\)/.exec(yi(i(r / 255))) ?? ["", "0", "0", "0"];
      s.set([Number(o[1]), Number(o[2]), Number(o[3]), 255], 4 * r);
    }
    e || s.set(t ? [13, 21, 34, 255] : [250, 251, 253, 255], 0), an.set(n, s);
  }
  return s;
}
function yi(t) {
  if (!t.startsWith("#")) return t;
  const e = parseInt(t.slice(1), 16);
  return `rgb(${e >> 16}, ${e >> 8 & 255}, ${e & 255})`;
}
function vi(t, e) {
  return e > 0 ? Math.round(255 * Math.sqrt(Math.max(0, Math.min(1, t / e)))) : 0;
}
function Ie(t, e, n, s, i = !1) {
  const r = new ImageData(n, e), o = Zn(Wn(), i);
  for (let a = 0; a < e * n; a++) {
    const c = i ? Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, t[a] / (s || 1)))) : vi(t[a], s);
    r.data.set(o.subarray(4 * c, 4 * c + 4), 4 * a);
  }
  return r;
}
const pt = { query: "#d55e00", key: "#0072b2" };
class xi {
  constructor(e, n = !1) {
    this.grid = e, this.both = n, this.rows = e.rows.names.length, this.columns = e.columns.names.length, this.peak = e.peak;
  }
  rows;
  columns;
  peak;
  picture = null;
  name(e) {
    return this.grid.rows.names[e];
  }
  columnName(e) {
    return this.grid.columns.names[e];
  }
  value(e, n) {
    return this.grid.values[e * this.columns + n];
  }
  draw(e, n) {
    !this.rows || !this.columns || (this.picture || (this.picture = new OffscreenCanvas(this.columns, this.rows), this.picture.getContext("2d").putImageData(Ie(this.grid.values, this.rows, this.columns, this.peak, this.both), 0, 0)), e.imageSmoothingEnabled = n.cell < 1, e.drawImage(
      this.picture,
      -n.x * n.cell,
      -n.y * n.cell,
      this.columns * n.cell,
      this.rows * n.cell
    ));
  }
}
const cn = 160, bi = 4;
class _i {
  constructor(e, n, s, i, r) {
    this.source = e, this.where = n, this.names = s, this.pool = i, this.changed = r, this.top = Math.max(0, Math.ceil(Math.log2(Math.max(this.rows, this.columns) / (2 * nt))));
  }
  peak = 1e-9;
  top;
  // the level of the overview: one tile or four
  held = /* @__PURE__ */ new Map();
  queue = [];
  pending = 0;
  clock = 0;
  get rows() {
    return this.names.rows.length;
  }
  get columns() {
    return this.names.columns.length;
  }
  name(e) {
    return this.names.rows[e];
  }
  columnName(e) {
    return this.names.columns[e];
  }
  value(e, n) {
    const s = this.held.get(this.key(0, Math.floor(e / nt), Math.floor(n / nt)))?.tile;
    return s ? s.values[e % nt * s.columns + n % nt] : null;
  }
  /** The level whose cells are about a pixel or larger. */
  level(e) {
    return Math.max(0, Math.min(this.top, Math.floor(-Math.log2(Math.max(e, 1e-9)))));
  }
  draw(e, n) {
    this.clock++;
    const s = this.level(n.cell);
    this.queue.length = 0;
    for (let i = this.top; i >= s; i--)
      i !== this.top && i !== s || this.drawLevel(e, n, i);
    this.next();
  }
  drawLevel(e, n, s) {
    const i = nt * 2 ** s, r = (l, f, p) => [
      Math.max(0, Math.floor(l / i)),
      Math.min(Math.ceil(p / i) - 1, Math.floor((l + f) / i))
    ], [o, a] = r(n.y, n.rows, this.rows), [c, h] = r(n.x, n.columns, this.columns);
    for (let l = o; l <= a; l++)
      for (let f = c; f <= h; f++) {
        const p = this.key(s, l, f), d = this.held.get(p);
        if (!d) {
          this.queue.push(p);
          continue;
        }
        if (d.used = this.clock, !d.tile) continue;
        d.picture ??= this.painted(d.tile);
        const w = 2 ** s * n.cell;
        e.imageSmoothingEnabled = w < 1, e.drawImage(
          d.picture,
          (f * i - n.x) * n.cell,
          (l * i - n.y) * n.cell,
          d.tile.columns * w,
          d.tile.rows * w
        );
      }
  }
  painted(e) {
    const n = new OffscreenCanvas(e.columns, e.rows);
    return n.getContext("2d").putImageData(Ie(e.values, e.rows, e.columns, this.peak), 0, 0), n;
  }
  key(e, n, s) {
    return `${e} ${n} ${s}`;
  }
  next() {
    for (; this.pending < bi && this.queue.length; ) {
      const e = this.queue.shift(), [n, s, i] = e.split(" ").map(Number);
      this.held.set(e, { tile: null, picture: null, used: this.clock }), this.pending++, this.source.tile({ ...this.where, level: n, row: s, column: i, pool: this.pool }).then((r) => this.arrived(e, n, r)).catch(() => this.held.delete(e)).finally(() => {
        this.pending--, this.next();
      });
    }
  }
  arrived(e, n, s) {
    if (this.held.set(e, { tile: s, picture: null, used: this.clock }), n === this.top || this.pool === "max") {
      let i = 0;
      for (const r of s.values) r > i && (i = r);
      if (n === this.top && i > this.peak) {
        this.peak = i;
        for (const r of this.held.values()) r.picture = null;
      }
    }
    if (this.held.size > cn) {
      const i = [...this.held].filter(([r]) => !r.startsWith(`${this.top} `)).sort((r, o) => r[1].used - o[1].used);
      for (const [r] of i.slice(0, this.held.size - cn)) this.held.delete(r);
    }
    this.changed();
  }
}
const ot = 22, X = 260, ln = 0.02;
class Mi {
  constructor(e, n, s) {
    this.grid = e, this.held = n, this.options = s, this.canvas.setAttribute("role", "img"), this.canvas.setAttribute("aria-label", `${s.label}: lines from each word to the words it attends to`), this.left.setAttribute("role", "listbox"), this.left.setAttribute("aria-label", "attends from"), this.from = e.rows.names.map((i, r) => this.word(i, r)), this.to = e.columns.names.map((i) => g("div", { class: "word", text: R(i) })), this.left.append(...this.from), this.right.append(...this.to), this.element.append(this.left, this.canvas, this.right), this.element.addEventListener("pointerleave", () => this.hover(null)), this.element.addEventListener("scroll", this.redraw);
  }
  element = g("div", { class: "lines" });
  canvas = g("canvas");
  left = g("div", { class: "column from" });
  right = g("div", { class: "column to" });
  from = [];
  to = [];
  hovered = null;
  redraw = Nn(() => this.draw());
  /** Draw; to be called when the element has its size. */
  show() {
    this.mark(), this.draw();
  }
  word(e, n) {
    const s = g("button", { class: "word", text: R(e) });
    return s.type = "button", s.setAttribute("role", "option"), s.tabIndex = n === (this.held ?? 0) ? 0 : -1, s.addEventListener("pointerenter", () => this.hover(n)), s.addEventListener("focus", () => this.hover(n)), s.addEventListener("click", () => {
      this.held = this.held === n ? null : n, this.options.hold(this.held), this.mark(), this.redraw();
    }), s.addEventListener("keydown", (i) => {
      const r = i.key === "ArrowDown" ? 1 : i.key === "ArrowUp" ? -1 : 0;
      if (!r || i.altKey) return;
      i.preventDefault(), i.stopPropagation();
      const o = this.from[n + r];
      o && (s.tabIndex = -1, o.tabIndex = 0, o.focus());
    }), s;
  }
  hover(e) {
    this.hovered !== e && (this.hovered = e, this.mark(), this.redraw());
  }
  get active() {
    return this.hovered ?? this.held;
  }
  mark() {
    const { active: e, grid: n } = this, s = n.columns.names.length;
    this.from.forEach((i, r) => {
      i.classList.toggle("active", r === e), i.setAttribute("aria-selected", String(r === this.held));
    }), this.to.forEach((i, r) => {
      const o = e === null ? 0 : n.values[e * s + r], a = n.peak ? o / n.peak : 0;
      i.style.setProperty("--share", e === null ? "0" : a.toFixed(3)), e === null ? (delete i.dataset.weight, delete i.dataset.shown) : (i.dataset.weight = o.toFixed(7), i.dataset.shown = o >= 0.01 ? H(o, 2) : "");
    }), e !== null && this.options.say(Jn(n, e));
  }
  draw() {
    const { grid: e, element: n, active: s } = this, i = n.scrollTop, r = Math.min(n.clientHeight || 600, Math.max(e.rows.names.length, e.columns.names.length) * ot), o = Sn(this.canvas, X, r);
    o.clearRect(0, 0, X, r);
    const a = e.columns.names.length, c = s === null ? ln * e.peak : 2e-3 * e.peak, h = s ?? 0, l = s === null ? e.rows.names.length : s + 1, f = $t("--line");
    for (let p = h; p < l; p++) {
      const d = (p + 0.5) * ot - i;
      for (let w = 0; w < a; w++) {
        const _ = e.values[p * a + w];
        if (_ <= c) continue;
        const M = (w + 0.5) * ot - i;
        if (Math.max(d, M) < 0 || Math.min(d, M) > r) continue;
        const y = _ / e.peak;
        o.globalAlpha = Math.min(1, s === null ? 0.75 * y : 0.15 + 0.85 * y), o.lineWidth = 0.5 + 3.5 * y, o.strokeStyle = s === null ? f : pt.query, o.beginPath(), o.moveTo(0, d), o.bezierCurveTo(X * 0.45, d, X * 0.55, M, X, M), o.stroke();
      }
    }
    o.globalAlpha = 1;
  }
  /** The lines as an SVG, all that would be drawn. */
  svg() {
    const { grid: e, active: n } = this, s = e.columns.names.length, i = 150, r = Math.max(e.rows.names.length, s) * ot, o = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${2 * i + X}" height="${r}" font-family="sans-serif" font-size="13">`
    ];
    e.rows.names.forEach((c, h) => {
      if (!(n !== null && h !== n))
        for (let l = 0; l < s; l++) {
          const f = e.peak ? e.values[h * s + l] / e.peak : 0;
          if (f <= ln) continue;
          const [p, d] = [(h + 0.5) * ot, (l + 0.5) * ot], w = `M${i} ${p}C${i + X * 0.45} ${p} ${i + X * 0.55} ${d} ${i + X} ${d}`;
          o.push(
            `<path d="${w}" fill="none" stroke="${pt.key}" stroke-width="${(0.5 + 3.5 * f).toFixed(2)}" opacity="${f.toFixed(3)}"/>`
          );
        }
    });
    const a = (c, h, l, f) => `<text x="${h}" y="${(l + 0.5) * ot + 4}" text-anchor="${f}">${Me(R(c))}</text>`;
    return e.rows.names.forEach((c, h) => o.push(a(c, i - 8, h, "end"))), e.columns.names.forEach((c, h) => o.push(a(c, i + X + 8, h, "start"))), o.join(`
`) + `
</svg>
`;
  }
}
function Jn(t, e, n = 4) {
  const s = t.columns.names.length, r = Array.from({ length: s }, (o, a) => a).sort((o, a) => t.values[e * s + a] - t.values[e * s + o]).slice(0, n).map((o) => `${R(t.columns.names[o])} ${H(t.values[e * s + o], 6)}`);
  return `${R(t.rows.names[e])} → ${r.join(", ")}`;
}
function R(t) {
  return t.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣") || "∅";
}
function Me(t) {
  return t.replace(/[<>&"']/g, (e) => `&#${e.charCodeAt(0)};`).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
}
var ke = "http://www.w3.org/1999/xhtml";
const hn = {
  svg: "http://www.w3.org/2000/svg",
  xhtml: ke,
  xlink: "http://www.w3.org/1999/xlink",
  xml: "http://www.w3.org/XML/1998/namespace",
  xmlns: "http://www.w3.org/2000/xmlns/"
};
function se(t) {
  var e = t += "", n = e.indexOf(":");
  return n >= 0 && (e = t.slice(0, n)) !== "xmlns" && (t = t.slice(n + 1)), hn.hasOwnProperty(e) ? { space: hn[e], local: t } : t;
}
function ki(t) {
  return function() {
    var e = this.ownerDocument, n = this.namespaceURI;
    return n === ke && e.documentElement.namespaceURI === ke ? e.createElement(t) : e.createElementNS(n, t);
  };
}
function $i(t) {
  return function() {
    return this.ownerDocument.createElementNS(t.space, t.local);
  };
}
function Qn(t) {
  var e = se(t);
  return (e.local ? $i : ki)(e);
}
function Ei() {
}
function Le(t) {
  return t == null ? Ei : function() {
    return this.querySelector(t);
  };
}
function Ai(t) {
  typeof t != "function" && (t = Le(t));
  for (var e = this._groups, n = e.length, s = new Array(n), i = 0; i < n; ++i)
    for (var r = e[i], o = r.length, a = s[i] = new Array(o), c, h, l = 0; l < o; ++l)
      (c = r[l]) && (h = t.call(c, c.__data__, l, r)) && ("__data__" in c && (h.__data__ = c.__data__), a[l] = h);
  return new L(s, this._parents);
}
function qi(t) {
  return t == null ? [] : Array.isArray(t) ? t : Array.from(t);
}
function Si() {
  return [];
}
function jn(t) {
  return t == null ? Si : function() {
    return this.querySelectorAll(t);
  };
}
function Ni(t) {
  return function() {
    return qi(t.apply(this, arguments));
  };
}
function Ti(t) {
  typeof t == "function" ? t = Ni(t) : t = jn(t);
  for (var e = this._groups, n = e.length, s = [], i = [], r = 0; r < n; ++r)
    for (var o = e[r], a = o.length, c, h = 0; h < a; ++h)
      (c = o[h]) && (s.push(t.call(c, c.__data__, h, o)), i.push(c));
  return new L(s, i);
}
function ts(t) {
  return function() {
    return this.matches(t);
  };
}
function es(t) {
  return function(e) {
    return e.matches(t);
  };
}
var Ci = Array.prototype.find;
function zi(t) {
  return function() {
    return Ci.call(this.children, t);
  };
}
function Ii() {
  return this.firstElementChild;
}
function Li(t) {
  return this.select(t == null ? Ii : zi(typeof t == "function" ? t : es(t)));
}
var Ri = Array.prototype.filter;
function Pi() {
  return Array.from(this.children);
}
function Oi(t) {
  return function() {
    return Ri.call(this.children, t);
  };
}
function Di(t) {
  return this.selectAll(t == null ? Pi : Oi(typeof t == "function" ? t : es(t)));
}
function Fi(t) {
  typeof t != "function" && (t = ts(t));
  for (var e = this._groups, n = e.length, s = new Array(n), i = 0; i < n; ++i)
    for (var r = e[i], o = r.length, a = s[i] = [], c, h = 0; h < o; ++h)
      (c = r[h]) && t.call(c, c.__data__, h, r) && a.push(c);
  return new L(s, this._parents);
}
function ns(t) {
  return new Array(t.length);
}
function Hi() {
  return new L(this._enter || this._groups.map(ns), this._parents);
}
function Jt(t, e) {
  this.ownerDocument = t.ownerDocument, this.namespaceURI = t.namespaceURI, this._next = null, this._parent = t, this.__data__ = e;
}
Jt.prototype = {
  constructor: Jt,
  appendChild: function(t) {
    return this._parent.insertBefore(t, this._next);
  },
  insertBefore: function(t, e) {
    return this._parent.insertBefore(t, e);
  },
  querySelector: function(t) {
    return this._parent.querySelector(t);
  },
  querySelectorAll: function(t) {
    return this._parent.querySelectorAll(t);
  }
};
function Bi(t) {
  return function() {
    return t;
  };
}
function Vi(t, e, n, s, i, r) {
  for (var o = 0, a, c = e.length, h = r.length; o < h; ++o)
    (a = e[o]) ? (a.__data__ = r[o], s[o] = a) : n[o] = new Jt(t, r[o]);
  for (; o < c; ++o)
    (a = e[o]) && (i[o] = a);
}
function Xi(t, e, n, s, i, r, o) {
  var a, c, h = /* @__PURE__ */ new Map(), l = e.length, f = r.length, p = new Array(l), d;
  for (a = 0; a < l; ++a)
    (c = e[a]) && (p[a] = d = o.call(c, c.__data__, a, e) + "", h.has(d) ? i[a] = c : h.set(d, c));
  for (a = 0; a < f; ++a)
    d = o.call(t, r[a], a, r) + "", (c = h.get(d)) ? (s[a] = c, c.__data__ = r[a], h.delete(d)) : n[a] = new Jt(t, r[a]);
  for (a = 0; a < l; ++a)
    (c = e[a]) && h.get(p[a]) === c && (i[a] = c);
}
function Yi(t) {
  return t.__data__;
}
function Ki(t, e) {
  if (!arguments.length) return Array.from(this, Yi);
  var n = e ? Xi : Vi, s = this._parents, i = this._groups;
  typeof t != "function" && (t = Bi(t));
  for (var r = i.length, o = new Array(r), a = new Array(r), c = new Array(r), h = 0; h < r; ++h) {
    var l = s[h], f = i[h], p = f.length, d = Ui(t.call(l, l && l.__data__, h, s)), w = d.length, _ = a[h] = new Array(w), M = o[h] = new Array(w), y = c[h] = new Array(p);
    n(l, f, _, M, y, d, e);
    for (var S = 0, T = 0, k, A; S < w; ++S)
      if (k = _[S]) {
        for (S >= T && (T = S + 1); !(A = M[T]) && ++T < w; ) ;
        k._next = A || null;
      }
  }
  return o = new L(o, s), o._enter = a, o._exit = c, o;
}
function Ui(t) {
  return typeof t == "object" && "length" in t ? t : Array.from(t);
}
function Gi() {
  return new L(this._exit || this._groups.map(ns), this._parents);
}
function Wi(t, e, n) {
  var s = this.enter(), i = this, r = this.exit();
  return typeof t == "function" ? (s = t(s), s && (s = s.selection())) : s = s.append(t + ""), e != null && (i = e(i), i && (i = i.selection())), n == null ? r.remove() : n(r), s && i ? s.merge(i).order() : i;
}
function Zi(t) {
  for (var e = t.selection ? t.selection() : t, n = this._groups, s = e._groups, i = n.length, r = s.length, o = Math.min(i, r), a = new Array(i), c = 0; c < o; ++c)
    for (var h = n[c], l = s[c], f = h.length, p = a[c] = new Array(f), d, w = 0; w < f; ++w)
      (d = h[w] || l[w]) && (p[w] = d);
  for (; c < i; ++c)
    a[c] = n[c];
  return new L(a, this._parents);
}
function Ji() {
  for (var t = this._groups, e = -1, n = t.length; ++e < n; )
    for (var s = t[e], i = s.length - 1, r = s[i], o; --i >= 0; )
      (o = s[i]) && (r && o.compareDocumentPosition(r) ^ 4 && r.parentNode.insertBefore(o, r), r = o);
  return this;
}
function Qi(t) {
  t || (t = ji);
  function e(f, p) {
    return f && p ? t(f.__data__, p.__data__) : !f - !p;
  }
  for (var n = this._groups, s = n.length, i = new Array(s), r = 0; r < s; ++r) {
    for (var o = n[r], a = o.length, c = i[r] = new Array(a), h, l = 0; l < a; ++l)
      (h = o[l]) && (c[l] = h);
    c.sort(e);
  }
  return new L(i, this._parents).order();
}
function ji(t, e) {
  return t < e ? -1 : t > e ? 1 : t >= e ? 0 : NaN;
}
function tr() {
  var t = arguments[0];
  return arguments[0] = this, t.apply(null, arguments), this;
}
function er() {
  return Array.from(this);
}
function nr() {
  for (var t = this._groups, e = 0, n = t.length; e < n; ++e)
    for (var s = t[e], i = 0, r = s.length; i < r; ++i) {
      var o = s[i];
      if (o) return o;
    }
  return null;
}
function sr() {
  let t = 0;
  for (const e of this) ++t;
  return t;
}
function ir() {
  return !this.node();
}
function rr(t) {
  for (var e = this._groups, n = 0, s = e.length; n < s; ++n)
    for (var i = e[n], r = 0, o = i.length, a; r < o; ++r)
      (a = i[r]) && t.call(a, a.__data__, r, i);
  return this;
}
function or(t) {
  return function() {
    this.removeAttribute(t);
  };
}
function ar(t) {
  return function() {
    this.removeAttributeNS(t.space, t.local);
  };
}
function cr(t, e) {
  return function() {
    this.setAttribute(t, e);
  };
}
function lr(t, e) {
  return function() {
    this.setAttributeNS(t.space, t.local, e);
  };
}
function hr(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? this.removeAttribute(t) : this.setAttribute(t, n);
  };
}
function ur(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? this.removeAttributeNS(t.space, t.local) : this.setAttributeNS(t.space, t.local, n);
  };
}
function fr(t, e) {
  var n = se(t);
  if (arguments.length < 2) {
    var s = this.node();
    return n.local ? s.getAttributeNS(n.space, n.local) : s.getAttribute(n);
  }
  return this.each((e == null ? n.local ? ar : or : typeof e == "function" ? n.local ? ur : hr : n.local ? lr : cr)(n, e));
}
function ss(t) {
  return t.ownerDocument && t.ownerDocument.defaultView || t.document && t || t.defaultView;
}
function dr(t) {
  return function() {
    this.style.removeProperty(t);
  };
}
function pr(t, e, n) {
  return function() {
    this.style.setProperty(t, e, n);
  };
}
function mr(t, e, n) {
  return function() {
    var s = e.apply(this, arguments);
    s == null ? this.style.removeProperty(t) : this.style.setProperty(t, s, n);
  };
}
function gr(t, e, n) {
  return arguments.length > 1 ? this.each((e == null ? dr : typeof e == "function" ? mr : pr)(t, e, n ?? "")) : vt(this.node(), t);
}
function vt(t, e) {
  return t.style.getPropertyValue(e) || ss(t).getComputedStyle(t, null).getPropertyValue(e);
}
function wr(t) {
  return function() {
    delete this[t];
  };
}
function yr(t, e) {
  return function() {
    this[t] = e;
  };
}
function vr(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    n == null ? delete this[t] : this[t] = n;
  };
}
function xr(t, e) {
  return arguments.length > 1 ? this.each((e == null ? wr : typeof e == "function" ? vr : yr)(t, e)) : this.node()[t];
}
function is(t) {
  return t.trim().split(/^|\s+/);
}
function Re(t) {
  return t.classList || new rs(t);
}
function rs(t) {
  this._node = t, this._names = is(t.getAttribute("class") || "");
}
rs.prototype = {
  add: function(t) {
    var e = this._names.indexOf(t);
    e < 0 && (this._names.push(t), this._node.setAttribute("class", this._names.join(" ")));
  },
  remove: function(t) {
    var e = this._names.indexOf(t);
    e >= 0 && (this._names.splice(e, 1), this._node.setAttribute("class", this._names.join(" ")));
  },
  contains: function(t) {
    return this._names.indexOf(t) >= 0;
  }
};
function os(t, e) {
  for (var n = Re(t), s = -1, i = e.length; ++s < i; ) n.add(e[s]);
}
function as(t, e) {
  for (var n = Re(t), s = -1, i = e.length; ++s < i; ) n.remove(e[s]);
}
function br(t) {
  return function() {
    os(this, t);
  };
}
function _r(t) {
  return function() {
    as(this, t);
  };
}
function Mr(t, e) {
  return function() {
    (e.apply(this, arguments) ? os : as)(this, t);
  };
}
function kr(t, e) {
  var n = is(t + "");
  if (arguments.length < 2) {
    for (var s = Re(this.node()), i = -1, r = n.length; ++i < r; ) if (!s.contains(n[i])) return !1;
    return !0;
  }
  return this.each((typeof e == "function" ? Mr : e ? br : _r)(n, e));
}
function $r() {
  this.textContent = "";
}
function Er(t) {
  return function() {
    this.textContent = t;
  };
}
function Ar(t) {
  return function() {
    var e = t.apply(this, arguments);
    this.textContent = e ?? "";
  };
}
function qr(t) {
  return arguments.length ? this.each(t == null ? $r : (typeof t == "function" ? Ar : Er)(t)) : this.node().textContent;
}
function Sr() {
  this.innerHTML = "";
}
function Nr(t) {
  return function() {
    this.innerHTML = t;
  };
}
function Tr(t) {
  return function() {
    var e = t.apply(this, arguments);
    this.innerHTML = e ?? "";
  };
}
function Cr(t) {
  return arguments.length ? this.each(t == null ? Sr : (typeof t == "function" ? Tr : Nr)(t)) : this.node().innerHTML;
}
function zr() {
  this.nextSibling && this.parentNode.appendChild(this);
}
function Ir() {
  return this.each(zr);
}
function Lr() {
  this.previousSibling && this.parentNode.insertBefore(this, this.parentNode.firstChild);
}
function Rr() {
  return this.each(Lr);
}
function Pr(t) {
  var e = typeof t == "function" ? t : Qn(t);
  return this.select(function() {
    return this.appendChild(e.apply(this, arguments));
  });
}
function Or() {
  return null;
}
function Dr(t, e) {
  var n = typeof t == "function" ? t : Qn(t), s = e == null ? Or : typeof e == "function" ? e : Le(e);
  return this.select(function() {
    return this.insertBefore(n.apply(this, arguments), s.apply(this, arguments) || null);
  });
}
function Fr() {
  var t = this.parentNode;
  t && t.removeChild(this);
}
function Hr() {
  return this.each(Fr);
}
function Br() {
  var t = this.cloneNode(!1), e = this.parentNode;
  return e ? e.insertBefore(t, this.nextSibling) : t;
}
function Vr() {
  var t = this.cloneNode(!0), e = this.parentNode;
  return e ? e.insertBefore(t, this.nextSibling) : t;
}
function Xr(t) {
  return this.select(t ? Vr : Br);
}
function Yr(t) {
  return arguments.length ? this.property("__data__", t) : this.node().__data__;
}
function Kr(t) {
  return function(e) {
    t.call(this, e, this.__data__);
  };
}
function Ur(t) {
  return t.trim().split(/^|\s+/).map(function(e) {
    var n = "", s = e.indexOf(".");
    return s >= 0 && (n = e.slice(s + 1), e = e.slice(0, s)), { type: e, name: n };
  });
}
function Gr(t) {
  return function() {
    var e = this.__on;
    if (e) {
      for (var n = 0, s = -1, i = e.length, r; n < i; ++n)
        r = e[n], (!t.type || r.type === t.type) && r.name === t.name ? this.removeEventListener(r.type, r.listener, r.options) : e[++s] = r;
      ++s ? e.length = s : delete this.__on;
    }
  };
}
function Wr(t, e, n) {
  return function() {
    var s = this.__on, i, r = Kr(e);
    if (s) {
      for (var o = 0, a = s.length; o < a; ++o)
        if ((i = s[o]).type === t.type && i.name === t.name) {
          this.removeEventListener(i.type, i.listener, i.options), this.addEventListener(i.type, i.listener = r, i.options = n), i.value = e;
          return;
        }
    }
    this.addEventListener(t.type, r, n), i = { type: t.type, name: t.name, value: e, listener: r, options: n }, s ? s.push(i) : this.__on = [i];
  };
}
function Zr(t, e, n) {
  var s = Ur(t + ""), i, r = s.length, o;
  if (arguments.length < 2) {
    var a = this.node().__on;
    if (a) {
      for (var c = 0, h = a.length, l; c < h; ++c)
        for (i = 0, l = a[c]; i < r; ++i)
          if ((o = s[i]).type === l.type && o.name === l.name)
            return l.value;
    }
    return;
  }
  for (a = e ? Wr : Gr, i = 0; i < r; ++i) this.each(a(s[i], e, n));
  return this;
}
function cs(t, e, n) {
  var s = ss(t), i = s.CustomEvent;
  typeof i == "function" ? i = new i(e, n) : (i = s.document.createEvent("Event"), n ? (i.initEvent(e, n.bubbles, n.cancelable), i.detail = n.detail) : i.initEvent(e, !1, !1)), t.dispatchEvent(i);
}
function Jr(t, e) {
  return function() {
    return cs(this, t, e);
  };
}
function Qr(t, e) {
  return function() {
    return cs(this, t, e.apply(this, arguments));
  };
}
function jr(t, e) {
  return this.each((typeof e == "function" ? Qr : Jr)(t, e));
}
function* to() {
  for (var t = this._groups, e = 0, n = t.length; e < n; ++e)
    for (var s = t[e], i = 0, r = s.length, o; i < r; ++i)
      (o = s[i]) && (yield o);
}
var ls = [null];
function L(t, e) {
  this._groups = t, this._parents = e;
}
function It() {
  return new L([[document.documentElement]], ls);
}
function eo() {
  return this;
}
L.prototype = It.prototype = {
  constructor: L,
  select: Ai,
  selectAll: Ti,
  selectChild: Li,
  selectChildren: Di,
  filter: Fi,
  data: Ki,
  enter: Hi,
  exit: Gi,
  join: Wi,
  merge: Zi,
  selection: eo,
  order: Ji,
  sort: Qi,
  call: tr,
  nodes: er,
  node: nr,
  size: sr,
  empty: ir,
  each: rr,
  attr: fr,
  style: gr,
  property: xr,
  classed: kr,
  text: qr,
  html: Cr,
  raise: Ir,
  lower: Rr,
  append: Pr,
  insert: Dr,
  remove: Hr,
  clone: Xr,
  datum: Yr,
  on: Zr,
  dispatch: jr,
  [Symbol.iterator]: to
};
function F(t) {
  return typeof t == "string" ? new L([[document.querySelector(t)]], [document.documentElement]) : new L([[t]], ls);
}
function no(t) {
  let e;
  for (; e = t.sourceEvent; ) t = e;
  return t;
}
function at(t, e) {
  if (t = no(t), e === void 0 && (e = t.currentTarget), e) {
    var n = e.ownerSVGElement || e;
    if (n.createSVGPoint) {
      var s = n.createSVGPoint();
      return s.x = t.clientX, s.y = t.clientY, s = s.matrixTransform(e.getScreenCTM().inverse()), [s.x, s.y];
    }
    if (e.getBoundingClientRect) {
      var i = e.getBoundingClientRect();
      return [t.clientX - i.left - e.clientLeft, t.clientY - i.top - e.clientTop];
    }
  }
  return [t.pageX, t.pageY];
}
var so = { value: () => {
} };
function Pe() {
  for (var t = 0, e = arguments.length, n = {}, s; t < e; ++t) {
    if (!(s = arguments[t] + "") || s in n || /[\s.]/.test(s)) throw new Error("illegal type: " + s);
    n[s] = [];
  }
  return new Vt(n);
}
function Vt(t) {
  this._ = t;
}
function io(t, e) {
  return t.trim().split(/^|\s+/).map(function(n) {
    var s = "", i = n.indexOf(".");
    if (i >= 0 && (s = n.slice(i + 1), n = n.slice(0, i)), n && !e.hasOwnProperty(n)) throw new Error("unknown type: " + n);
    return { type: n, name: s };
  });
}
Vt.prototype = Pe.prototype = {
  constructor: Vt,
  on: function(t, e) {
    var n = this._, s = io(t + "", n), i, r = -1, o = s.length;
    if (arguments.length < 2) {
      for (; ++r < o; ) if ((i = (t = s[r]).type) && (i = ro(n[i], t.name))) return i;
      return;
    }
    if (e != null && typeof e != "function") throw new Error("invalid callback: " + e);
    for (; ++r < o; )
      if (i = (t = s[r]).type) n[i] = un(n[i], t.name, e);
      else if (e == null) for (i in n) n[i] = un(n[i], t.name, null);
    return this;
  },
  copy: function() {
    var t = {}, e = this._;
    for (var n in e) t[n] = e[n].slice();
    return new Vt(t);
  },
  call: function(t, e) {
    if ((i = arguments.length - 2) > 0) for (var n = new Array(i), s = 0, i, r; s < i; ++s) n[s] = arguments[s + 2];
    if (!this._.hasOwnProperty(t)) throw new Error("unknown type: " + t);
    for (r = this._[t], s = 0, i = r.length; s < i; ++s) r[s].value.apply(e, n);
  },
  apply: function(t, e, n) {
    if (!this._.hasOwnProperty(t)) throw new Error("unknown type: " + t);
    for (var s = this._[t], i = 0, r = s.length; i < r; ++i) s[i].value.apply(e, n);
  }
};
function ro(t, e) {
  for (var n = 0, s = t.length, i; n < s; ++n)
    if ((i = t[n]).name === e)
      return i.value;
}
function un(t, e, n) {
  for (var s = 0, i = t.length; s < i; ++s)
    if (t[s].name === e) {
      t[s] = so, t = t.slice(0, s).concat(t.slice(s + 1));
      break;
    }
  return n != null && t.push({ name: e, value: n }), t;
}
const $e = { capture: !0, passive: !1 };
function Ee(t) {
  t.preventDefault(), t.stopImmediatePropagation();
}
function oo(t) {
  var e = t.document.documentElement, n = F(t).on("dragstart.drag", Ee, $e);
  "onselectstart" in e ? n.on("selectstart.drag", Ee, $e) : (e.__noselect = e.style.MozUserSelect, e.style.MozUserSelect = "none");
}
function ao(t, e) {
  var n = t.document.documentElement, s = F(t).on("dragstart.drag", null);
  e && (s.on("click.drag", Ee, $e), setTimeout(function() {
    s.on("click.drag", null);
  }, 0)), "onselectstart" in n ? s.on("selectstart.drag", null) : (n.style.MozUserSelect = n.__noselect, delete n.__noselect);
}
var xt = 0, Et = 0, Mt = 0, hs = 1e3, Qt, At, jt = 0, ft = 0, ie = 0, Ct = typeof performance == "object" && performance.now ? performance : Date, us = typeof window == "object" && window.requestAnimationFrame ? window.requestAnimationFrame.bind(window) : function(t) {
  setTimeout(t, 17);
};
function Oe() {
  return ft || (us(co), ft = Ct.now() + ie);
}
function co() {
  ft = 0;
}
function te() {
  this._call = this._time = this._next = null;
}
te.prototype = fs.prototype = {
  constructor: te,
  restart: function(t, e, n) {
    if (typeof t != "function") throw new TypeError("callback is not a function");
    n = (n == null ? Oe() : +n) + (e == null ? 0 : +e), !this._next && At !== this && (At ? At._next = this : Qt = this, At = this), this._call = t, this._time = n, Ae();
  },
  stop: function() {
    this._call && (this._call = null, this._time = 1 / 0, Ae());
  }
};
function fs(t, e, n) {
  var s = new te();
  return s.restart(t, e, n), s;
}
function lo() {
  Oe(), ++xt;
  for (var t = Qt, e; t; )
    (e = ft - t._time) >= 0 && t._call.call(void 0, e), t = t._next;
  --xt;
}
function fn() {
  ft = (jt = Ct.now()) + ie, xt = Et = 0;
  try {
    lo();
  } finally {
    xt = 0, uo(), ft = 0;
  }
}
function ho() {
  var t = Ct.now(), e = t - jt;
  e > hs && (ie -= e, jt = t);
}
function uo() {
  for (var t, e = Qt, n, s = 1 / 0; e; )
    e._call ? (s > e._time && (s = e._time), t = e, e = e._next) : (n = e._next, e._next = null, e = t ? t._next = n : Qt = n);
  At = t, Ae(s);
}
function Ae(t) {
  if (!xt) {
    Et && (Et = clearTimeout(Et));
    var e = t - ft;
    e > 24 ? (t < 1 / 0 && (Et = setTimeout(fn, Math.ceil(t - Ct.now() - ie) + 1)), Mt && (Mt = clearInterval(Mt))) : (Mt || (jt = Ct.now(), Mt = setInterval(ho, hs)), xt = 1, us(fn));
  }
}
function dn(t, e, n) {
  var s = new te();
  return e = e == null ? 0 : +e, s.restart((i) => {
    s.stop(), t(i + e);
  }, e, n), s;
}
function fo(t) {
  return ((t *= 2) <= 1 ? t * t * t : (t -= 2) * t * t + 2) / 2;
}
var De = 3;
(function t(e) {
  e = +e;
  function n(s) {
    return Math.pow(s, e);
  }
  return n.exponent = t, n;
})(De);
(function t(e) {
  e = +e;
  function n(s) {
    return 1 - Math.pow(1 - s, e);
  }
  return n.exponent = t, n;
})(De);
(function t(e) {
  e = +e;
  function n(s) {
    return ((s *= 2) <= 1 ? Math.pow(s, e) : 2 - Math.pow(2 - s, e)) / 2;
  }
  return n.exponent = t, n;
})(De);
function ee(t) {
  return (Math.pow(2, -10 * t) - 9765625e-10) * 1.0009775171065494;
}
var Fe = 1.70158;
(function t(e) {
  e = +e;
  function n(s) {
    return (s = +s) * s * (e * (s - 1) + s);
  }
  return n.overshoot = t, n;
})(Fe);
(function t(e) {
  e = +e;
  function n(s) {
    return --s * s * ((s + 1) * e + s) + 1;
  }
  return n.overshoot = t, n;
})(Fe);
(function t(e) {
  e = +e;
  function n(s) {
    return ((s *= 2) < 1 ? s * s * ((e + 1) * s - e) : (s -= 2) * s * ((e + 1) * s + e) + 2) / 2;
  }
  return n.overshoot = t, n;
})(Fe);
var bt = 2 * Math.PI, He = 1, Be = 0.3;
(function t(e, n) {
  var s = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function i(r) {
    return e * ee(- --r) * Math.sin((s - r) / n);
  }
  return i.amplitude = function(r) {
    return t(r, n * bt);
  }, i.period = function(r) {
    return t(e, r);
  }, i;
})(He, Be);
(function t(e, n) {
  var s = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function i(r) {
    return 1 - e * ee(r = +r) * Math.sin((r + s) / n);
  }
  return i.amplitude = function(r) {
    return t(r, n * bt);
  }, i.period = function(r) {
    return t(e, r);
  }, i;
})(He, Be);
(function t(e, n) {
  var s = Math.asin(1 / (e = Math.max(1, e))) * (n /= bt);
  function i(r) {
    return ((r = r * 2 - 1) < 0 ? e * ee(-r) * Math.sin((s - r) / n) : 2 - e * ee(r) * Math.sin((s + r) / n)) / 2;
  }
  return i.amplitude = function(r) {
    return t(r, n * bt);
  }, i.period = function(r) {
    return t(e, r);
  }, i;
})(He, Be);
var po = Pe("start", "end", "cancel", "interrupt"), mo = [], ds = 0, pn = 1, qe = 2, Xt = 3, mn = 4, Se = 5, Yt = 6;
function re(t, e, n, s, i, r) {
  var o = t.__transition;
  if (!o) t.__transition = {};
  else if (n in o) return;
  go(t, n, {
    name: e,
    index: s,
    // For context during callback.
    group: i,
    // For context during callback.
    on: po,
    tween: mo,
    time: r.time,
    delay: r.delay,
    duration: r.duration,
    ease: r.ease,
    timer: null,
    state: ds
  });
}
function Ve(t, e) {
  var n = B(t, e);
  if (n.state > ds) throw new Error("too late; already scheduled");
  return n;
}
function U(t, e) {
  var n = B(t, e);
  if (n.state > Xt) throw new Error("too late; already running");
  return n;
}
function B(t, e) {
  var n = t.__transition;
  if (!n || !(n = n[e])) throw new Error("transition not found");
  return n;
}
function go(t, e, n) {
  var s = t.__transition, i;
  s[e] = n, n.timer = fs(r, 0, n.time);
  function r(h) {
    n.state = pn, n.timer.restart(o, n.delay, n.time), n.delay <= h && o(h - n.delay);
  }
  function o(h) {
    var l, f, p, d;
    if (n.state !== pn) return c();
    for (l in s)
      if (d = s[l], d.name === n.name) {
        if (d.state === Xt) return dn(o);
        d.state === mn ? (d.state = Yt, d.timer.stop(), d.on.call("interrupt", t, t.__data__, d.index, d.group), delete s[l]) : +l < e && (d.state = Yt, d.timer.stop(), d.on.call("cancel", t, t.__data__, d.index, d.group), delete s[l]);
      }
    if (dn(function() {
      n.state === Xt && (n.state = mn, n.timer.restart(a, n.delay, n.time), a(h));
    }), n.state = qe, n.on.call("start", t, t.__data__, n.index, n.group), n.state === qe) {
      for (n.state = Xt, i = new Array(p = n.tween.length), l = 0, f = -1; l < p; ++l)
        (d = n.tween[l].value.call(t, t.__data__, n.index, n.group)) && (i[++f] = d);
      i.length = f + 1;
    }
  }
  function a(h) {
    for (var l = h < n.duration ? n.ease.call(null, h / n.duration) : (n.timer.restart(c), n.state = Se, 1), f = -1, p = i.length; ++f < p; )
      i[f].call(t, l);
    n.state === Se && (n.on.call("end", t, t.__data__, n.index, n.group), c());
  }
  function c() {
    n.state = Yt, n.timer.stop(), delete s[e];
    for (var h in s) return;
    delete t.__transition;
  }
}
function Kt(t, e) {
  var n = t.__transition, s, i, r = !0, o;
  if (n) {
    e = e == null ? null : e + "";
    for (o in n) {
      if ((s = n[o]).name !== e) {
        r = !1;
        continue;
      }
      i = s.state > qe && s.state < Se, s.state = Yt, s.timer.stop(), s.on.call(i ? "interrupt" : "cancel", t, t.__data__, s.index, s.group), delete n[o];
    }
    r && delete t.__transition;
  }
}
function wo(t) {
  return this.each(function() {
    Kt(this, t);
  });
}
function yo(t, e) {
  var n, s;
  return function() {
    var i = U(this, t), r = i.tween;
    if (r !== n) {
      s = n = r;
      for (var o = 0, a = s.length; o < a; ++o)
        if (s[o].name === e) {
          s = s.slice(), s.splice(o, 1);
          break;
        }
    }
    i.tween = s;
  };
}
function vo(t, e, n) {
  var s, i;
  if (typeof n != "function") throw new Error();
  return function() {
    var r = U(this, t), o = r.tween;
    if (o !== s) {
      i = (s = o).slice();
      for (var a = { name: e, value: n }, c = 0, h = i.length; c < h; ++c)
        if (i[c].name === e) {
          i[c] = a;
          break;
        }
      c === h && i.push(a);
    }
    r.tween = i;
  };
}
function xo(t, e) {
  var n = this._id;
  if (t += "", arguments.length < 2) {
    for (var s = B(this.node(), n).tween, i = 0, r = s.length, o; i < r; ++i)
      if ((o = s[i]).name === t)
        return o.value;
    return null;
  }
  return this.each((e == null ? yo : vo)(n, t, e));
}
function Xe(t, e, n) {
  var s = t._id;
  return t.each(function() {
    var i = U(this, s);
    (i.value || (i.value = {}))[e] = n.apply(this, arguments);
  }), function(i) {
    return B(i, s).value[e];
  };
}
function ps(t, e) {
  var n;
  return (typeof e == "number" ? st : e instanceof Nt ? sn : (n = Nt(e)) ? (e = n, sn) : ii)(t, e);
}
function bo(t) {
  return function() {
    this.removeAttribute(t);
  };
}
function _o(t) {
  return function() {
    this.removeAttributeNS(t.space, t.local);
  };
}
function Mo(t, e, n) {
  var s, i = n + "", r;
  return function() {
    var o = this.getAttribute(t);
    return o === i ? null : o === s ? r : r = e(s = o, n);
  };
}
function ko(t, e, n) {
  var s, i = n + "", r;
  return function() {
    var o = this.getAttributeNS(t.space, t.local);
    return o === i ? null : o === s ? r : r = e(s = o, n);
  };
}
function $o(t, e, n) {
  var s, i, r;
  return function() {
    var o, a = n(this), c;
    return a == null ? void this.removeAttribute(t) : (o = this.getAttribute(t), c = a + "", o === c ? null : o === s && c === i ? r : (i = c, r = e(s = o, a)));
  };
}
function Eo(t, e, n) {
  var s, i, r;
  return function() {
    var o, a = n(this), c;
    return a == null ? void this.removeAttributeNS(t.space, t.local) : (o = this.getAttributeNS(t.space, t.local), c = a + "", o === c ? null : o === s && c === i ? r : (i = c, r = e(s = o, a)));
  };
}
function Ao(t, e) {
  var n = se(t), s = n === "transform" ? ci : ps;
  return this.attrTween(t, typeof e == "function" ? (n.local ? Eo : $o)(n, s, Xe(this, "attr." + t, e)) : e == null ? (n.local ? _o : bo)(n) : (n.local ? ko : Mo)(n, s, e));
}
function qo(t, e) {
  return function(n) {
    this.setAttribute(t, e.call(this, n));
  };
}
function So(t, e) {
  return function(n) {
    this.setAttributeNS(t.space, t.local, e.call(this, n));
  };
}
function No(t, e) {
  var n, s;
  function i() {
    var r = e.apply(this, arguments);
    return r !== s && (n = (s = r) && So(t, r)), n;
  }
  return i._value = e, i;
}
function To(t, e) {
  var n, s;
  function i() {
    var r = e.apply(this, arguments);
    return r !== s && (n = (s = r) && qo(t, r)), n;
  }
  return i._value = e, i;
}
function Co(t, e) {
  var n = "attr." + t;
  if (arguments.length < 2) return (n = this.tween(n)) && n._value;
  if (e == null) return this.tween(n, null);
  if (typeof e != "function") throw new Error();
  var s = se(t);
  return this.tween(n, (s.local ? No : To)(s, e));
}
function zo(t, e) {
  return function() {
    Ve(this, t).delay = +e.apply(this, arguments);
  };
}
function Io(t, e) {
  return e = +e, function() {
    Ve(this, t).delay = e;
  };
}
function Lo(t) {
  var e = this._id;
  return arguments.length ? this.each((typeof t == "function" ? zo : Io)(e, t)) : B(this.node(), e).delay;
}
function Ro(t, e) {
  return function() {
    U(this, t).duration = +e.apply(this, arguments);
  };
}
function Po(t, e) {
  return e = +e, function() {
    U(this, t).duration = e;
  };
}
function Oo(t) {
  var e = this._id;
  return arguments.length ? this.each((typeof t == "function" ? Ro : Po)(e, t)) : B(this.node(), e).duration;
}
function Do(t, e) {
  if (typeof e != "function") throw new Error();
  return function() {
    U(this, t).ease = e;
  };
}
function Fo(t) {
  var e = this._id;
  return arguments.length ? this.each(Do(e, t)) : B(this.node(), e).ease;
}
function Ho(t, e) {
  return function() {
    var n = e.apply(this, arguments);
    if (typeof n != "function") throw new Error();
    U(this, t).ease = n;
  };
}
function Bo(t) {
  if (typeof t != "function") throw new Error();
  return this.each(Ho(this._id, t));
}
function Vo(t) {
  typeof t != "function" && (t = ts(t));
  for (var e = this._groups, n = e.length, s = new Array(n), i = 0; i < n; ++i)
    for (var r = e[i], o = r.length, a = s[i] = [], c, h = 0; h < o; ++h)
      (c = r[h]) && t.call(c, c.__data__, h, r) && a.push(c);
  return new tt(s, this._parents, this._name, this._id);
}
function Xo(t) {
  if (t._id !== this._id) throw new Error();
  for (var e = this._groups, n = t._groups, s = e.length, i = n.length, r = Math.min(s, i), o = new Array(s), a = 0; a < r; ++a)
    for (var c = e[a], h = n[a], l = c.length, f = o[a] = new Array(l), p, d = 0; d < l; ++d)
      (p = c[d] || h[d]) && (f[d] = p);
  for (; a < s; ++a)
    o[a] = e[a];
  return new tt(o, this._parents, this._name, this._id);
}
function Yo(t) {
  return (t + "").trim().split(/^|\s+/).every(function(e) {
    var n = e.indexOf(".");
    return n >= 0 && (e = e.slice(0, n)), !e || e === "start";
  });
}
function Ko(t, e, n) {
  var s, i, r = Yo(e) ? Ve : U;
  return function() {
    var o = r(this, t), a = o.on;
    a !== s && (i = (s = a).copy()).on(e, n), o.on = i;
  };
}
function Uo(t, e) {
  var n = this._id;
  return arguments.length < 2 ? B(this.node(), n).on.on(t) : this.each(Ko(n, t, e));
}
function Go(t) {
  return function() {
    var e = this.parentNode;
    for (var n in this.__transition) if (+n !== t) return;
    e && e.removeChild(this);
  };
}
function Wo() {
  return this.on("end.remove", Go(this._id));
}
function Zo(t) {
  var e = this._name, n = this._id;
  typeof t != "function" && (t = Le(t));
  for (var s = this._groups, i = s.length, r = new Array(i), o = 0; o < i; ++o)
    for (var a = s[o], c = a.length, h = r[o] = new Array(c), l, f, p = 0; p < c; ++p)
      (l = a[p]) && (f = t.call(l, l.__data__, p, a)) && ("__data__" in l && (f.__data__ = l.__data__), h[p] = f, re(h[p], e, n, p, h, B(l, n)));
  return new tt(r, this._parents, e, n);
}
function Jo(t) {
  var e = this._name, n = this._id;
  typeof t != "function" && (t = jn(t));
  for (var s = this._groups, i = s.length, r = [], o = [], a = 0; a < i; ++a)
    for (var c = s[a], h = c.length, l, f = 0; f < h; ++f)
      if (l = c[f]) {
        for (var p = t.call(l, l.__data__, f, c), d, w = B(l, n), _ = 0, M = p.length; _ < M; ++_)
          (d = p[_]) && re(d, e, n, _, p, w);
        r.push(p), o.push(l);
      }
  return new tt(r, o, e, n);
}
var Qo = It.prototype.constructor;
function jo() {
  return new Qo(this._groups, this._parents);
}
function ta(t, e) {
  var n, s, i;
  return function() {
    var r = vt(this, t), o = (this.style.removeProperty(t), vt(this, t));
    return r === o ? null : r === n && o === s ? i : i = e(n = r, s = o);
  };
}
function ms(t) {
  return function() {
    this.style.removeProperty(t);
  };
}
function ea(t, e, n) {
  var s, i = n + "", r;
  return function() {
    var o = vt(this, t);
    return o === i ? null : o === s ? r : r = e(s = o, n);
  };
}
function na(t, e, n) {
  var s, i, r;
  return function() {
    var o = vt(this, t), a = n(this), c = a + "";
    return a == null && (c = a = (this.style.removeProperty(t), vt(this, t))), o === c ? null : o === s && c === i ? r : (i = c, r = e(s = o, a));
  };
}
function sa(t, e) {
  var n, s, i, r = "style." + e, o = "end." + r, a;
  return function() {
    var c = U(this, t), h = c.on, l = c.value[r] == null ? a || (a = ms(e)) : void 0;
    (h !== n || i !== l) && (s = (n = h).copy()).on(o, i = l), c.on = s;
  };
}
function ia(t, e, n) {
  var s = (t += "") == "transform" ? ai : ps;
  return e == null ? this.styleTween(t, ta(t, s)).on("end.style." + t, ms(t)) : typeof e == "function" ? this.styleTween(t, na(t, s, Xe(this, "style." + t, e))).each(sa(this._id, t)) : this.styleTween(t, ea(t, s, e), n).on("end.style." + t, null);
}
function ra(t, e, n) {
  return function(s) {
    this.style.setProperty(t, e.call(this, s), n);
  };
}
function oa(t, e, n) {
  var s, i;
  function r() {
    var o = e.apply(this, arguments);
    return o !== i && (s = (i = o) && ra(t, o, n)), s;
  }
  return r._value = e, r;
}
function aa(t, e, n) {
  var s = "style." + (t += "");
  if (arguments.length < 2) return (s = this.tween(s)) && s._value;
  if (e == null) return this.tween(s, null);
  if (typeof e != "function") throw new Error();
  return this.tween(s, oa(t, e, n ?? ""));
}
function ca(t) {
  return function() {
    this.textContent = t;
  };
}
function la(t) {
  return function() {
    var e = t(this);
    this.textContent = e ?? "";
  };
}
function ha(t) {
  return this.tween("text", typeof t == "function" ? la(Xe(this, "text", t)) : ca(t == null ? "" : t + ""));
}
function ua(t) {
  return function(e) {
    this.textContent = t.call(this, e);
  };
}
function fa(t) {
  var e, n;
  function s() {
    var i = t.apply(this, arguments);
    return i !== n && (e = (n = i) && ua(i)), e;
  }
  return s._value = t, s;
}
function da(t) {
  var e = "text";
  if (arguments.length < 1) return (e = this.tween(e)) && e._value;
  if (t == null) return this.tween(e, null);
  if (typeof t != "function") throw new Error();
  return this.tween(e, fa(t));
}
function pa() {
  for (var t = this._name, e = this._id, n = gs(), s = this._groups, i = s.length, r = 0; r < i; ++r)
    for (var o = s[r], a = o.length, c, h = 0; h < a; ++h)
      if (c = o[h]) {
        var l = B(c, e);
        re(c, t, n, h, o, {
          time: l.time + l.delay + l.duration,
          delay: 0,
          duration: l.duration,
          ease: l.ease
        });
      }
  return new tt(s, this._parents, t, n);
}
function ma() {
  var t, e, n = this, s = n._id, i = n.size();
  return new Promise(function(r, o) {
    var a = { value: o }, c = { value: function() {
      --i === 0 && r();
    } };
    n.each(function() {
      var h = U(this, s), l = h.on;
      l !== t && (e = (t = l).copy(), e._.cancel.push(a), e._.interrupt.push(a), e._.end.push(c)), h.on = e;
    }), i === 0 && r();
  });
}
var ga = 0;
function tt(t, e, n, s) {
  this._groups = t, this._parents = e, this._name = n, this._id = s;
}
function gs() {
  return ++ga;
}
var Z = It.prototype;
tt.prototype = {
  constructor: tt,
  select: Zo,
  selectAll: Jo,
  selectChild: Z.selectChild,
  selectChildren: Z.selectChildren,
  filter: Vo,
  merge: Xo,
  selection: jo,
  transition: pa,
  call: Z.call,
  nodes: Z.nodes,
  node: Z.node,
  size: Z.size,
  empty: Z.empty,
  each: Z.each,
  on: Uo,
  attr: Ao,
  attrTween: Co,
  style: ia,
  styleTween: aa,
  text: ha,
  textTween: da,
  remove: Wo,
  tween: xo,
  delay: Lo,
  duration: Oo,
  ease: Fo,
  easeVarying: Bo,
  end: ma,
  [Symbol.iterator]: Z[Symbol.iterator]
};
var wa = {
  time: null,
  // Set on use.
  delay: 0,
  duration: 250,
  ease: fo
};
function ya(t, e) {
  for (var n; !(n = t.__transition) || !(n = n[e]); )
    if (!(t = t.parentNode))
      throw new Error(`transition ${e} not found`);
  return n;
}
function va(t) {
  var e, n;
  t instanceof tt ? (e = t._id, t = t._name) : (e = gs(), (n = wa).time = Oe(), t = t == null ? null : t + "");
  for (var s = this._groups, i = s.length, r = 0; r < i; ++r)
    for (var o = s[r], a = o.length, c, h = 0; h < a; ++h)
      (c = o[h]) && re(c, t, e, h, o, n || ya(c, e));
  return new tt(s, this._parents, t, e);
}
It.prototype.interrupt = wo;
It.prototype.transition = va;
const Ht = (t) => () => t;
function xa(t, {
  sourceEvent: e,
  target: n,
  transform: s,
  dispatch: i
}) {
  Object.defineProperties(this, {
    type: { value: t, enumerable: !0, configurable: !0 },
    sourceEvent: { value: e, enumerable: !0, configurable: !0 },
    target: { value: n, enumerable: !0, configurable: !0 },
    transform: { value: s, enumerable: !0, configurable: !0 },
    _: { value: i }
  });
}
function j(t, e, n) {
  this.k = t, this.x = e, this.y = n;
}
j.prototype = {
  constructor: j,
  scale: function(t) {
    return t === 1 ? this : new j(this.k * t, this.x, this.y);
  },
  translate: function(t, e) {
    return t === 0 & e === 0 ? this : new j(this.k, this.x + this.k * t, this.y + this.k * e);
  },
  apply: function(t) {
    return [t[0] * this.k + this.x, t[1] * this.k + this.y];
  },
  applyX: function(t) {
    return t * this.k + this.x;
  },
  applyY: function(t) {
    return t * this.k + this.y;
  },
  invert: function(t) {
    return [(t[0] - this.x) / this.k, (t[1] - this.y) / this.k];
  },
  invertX: function(t) {
    return (t - this.x) / this.k;
  },
  invertY: function(t) {
    return (t - this.y) / this.k;
  },
  rescaleX: function(t) {
    return t.copy().domain(t.range().map(this.invertX, this).map(t.invert, t));
  },
  rescaleY: function(t) {
    return t.copy().domain(t.range().map(this.invertY, this).map(t.invert, t));
  },
  toString: function() {
    return "translate(" + this.x + "," + this.y + ") scale(" + this.k + ")";
  }
};
var qt = new j(1, 0, 0);
j.prototype;
function pe(t) {
  t.stopImmediatePropagation();
}
function kt(t) {
  t.preventDefault(), t.stopImmediatePropagation();
}
function ba(t) {
  return (!t.ctrlKey || t.type === "wheel") && !t.button;
}
function _a() {
  var t = this;
  return t instanceof SVGElement ? (t = t.ownerSVGElement || t, t.hasAttribute("viewBox") ? (t = t.viewBox.baseVal, [[t.x, t.y], [t.x + t.width, t.y + t.height]]) : [[0, 0], [t.width.baseVal.value, t.height.baseVal.value]]) : [[0, 0], [t.clientWidth, t.clientHeight]];
}
function gn() {
  return this.__zoom || qt;
}
function Ma(t) {
  return -t.deltaY * (t.deltaMode === 1 ? 0.05 : t.deltaMode ? 1 : 2e-3) * (t.ctrlKey ? 10 : 1);
}
function ka() {
  return navigator.maxTouchPoints || "ontouchstart" in this;
}
function $a(t, e, n) {
  var s = t.invertX(e[0][0]) - n[0][0], i = t.invertX(e[1][0]) - n[1][0], r = t.invertY(e[0][1]) - n[0][1], o = t.invertY(e[1][1]) - n[1][1];
  return t.translate(
    i > s ? (s + i) / 2 : Math.min(0, s) || Math.max(0, i),
    o > r ? (r + o) / 2 : Math.min(0, r) || Math.max(0, o)
  );
}
function Ea() {
  var t = ba, e = _a, n = $a, s = Ma, i = ka, r = [0, 1 / 0], o = [[-1 / 0, -1 / 0], [1 / 0, 1 / 0]], a = 250, c = fi, h = Pe("start", "zoom", "end"), l, f, p, d = 500, w = 150, _ = 0, M = 10;
  function y(u) {
    u.property("__zoom", gn).on("wheel.zoom", Lt, { passive: !1 }).on("mousedown.zoom", Rt).on("dblclick.zoom", Pt).filter(i).on("touchstart.zoom", vs).on("touchmove.zoom", xs).on("touchend.zoom touchcancel.zoom", bs).style("-webkit-tap-highlight-color", "rgba(0,0,0,0)");
  }
  y.transform = function(u, v, m, x) {
    var b = u.selection ? u.selection() : u;
    b.property("__zoom", gn), u !== b ? A(u, v, m, x) : b.interrupt().each(function() {
      I(this, arguments).event(x).start().zoom(null, typeof v == "function" ? v.apply(this, arguments) : v).end();
    });
  }, y.scaleBy = function(u, v, m, x) {
    y.scaleTo(u, function() {
      var b = this.__zoom.k, $ = typeof v == "function" ? v.apply(this, arguments) : v;
      return b * $;
    }, m, x);
  }, y.scaleTo = function(u, v, m, x) {
    y.transform(u, function() {
      var b = e.apply(this, arguments), $ = this.__zoom, E = m == null ? k(b) : typeof m == "function" ? m.apply(this, arguments) : m, q = $.invert(E), N = typeof v == "function" ? v.apply(this, arguments) : v;
      return n(T(S($, N), E, q), b, o);
    }, m, x);
  }, y.translateBy = function(u, v, m, x) {
    y.transform(u, function() {
      return n(this.__zoom.translate(
        typeof v == "function" ? v.apply(this, arguments) : v,
        typeof m == "function" ? m.apply(this, arguments) : m
      ), e.apply(this, arguments), o);
    }, null, x);
  }, y.translateTo = function(u, v, m, x, b) {
    y.transform(u, function() {
      var $ = e.apply(this, arguments), E = this.__zoom, q = x == null ? k($) : typeof x == "function" ? x.apply(this, arguments) : x;
      return n(qt.translate(q[0], q[1]).scale(E.k).translate(
        typeof v == "function" ? -v.apply(this, arguments) : -v,
        typeof m == "function" ? -m.apply(this, arguments) : -m
      ), $, o);
    }, x, b);
  };
  function S(u, v) {
    return v = Math.max(r[0], Math.min(r[1], v)), v === u.k ? u : new j(v, u.x, u.y);
  }
  function T(u, v, m) {
    var x = v[0] - m[0] * u.k, b = v[1] - m[1] * u.k;
    return x === u.x && b === u.y ? u : new j(u.k, x, b);
  }
  function k(u) {
    return [(+u[0][0] + +u[1][0]) / 2, (+u[0][1] + +u[1][1]) / 2];
  }
  function A(u, v, m, x) {
    u.on("start.zoom", function() {
      I(this, arguments).event(x).start();
    }).on("interrupt.zoom end.zoom", function() {
      I(this, arguments).event(x).end();
    }).tween("zoom", function() {
      var b = this, $ = arguments, E = I(b, $).event(x), q = e.apply(b, $), N = m == null ? k(q) : typeof m == "function" ? m.apply(b, $) : m, V = Math.max(q[1][0] - q[0][0], q[1][1] - q[0][1]), z = b.__zoom, P = typeof v == "function" ? v.apply(b, $) : v, G = c(z.invert(N).concat(V / z.k), P.invert(N).concat(V / P.k));
      return function(O) {
        if (O === 1) O = P;
        else {
          var W = G(O), oe = V / W[2];
          O = new j(oe, N[0] - W[0] * oe, N[1] - W[1] * oe);
        }
        E.zoom(null, O);
      };
    });
  }
  function I(u, v, m) {
    return !m && u.__zooming || new et(u, v);
  }
  function et(u, v) {
    this.that = u, this.args = v, this.active = 0, this.sourceEvent = null, this.extent = e.apply(u, v), this.taps = 0;
  }
  et.prototype = {
    event: function(u) {
      return u && (this.sourceEvent = u), this;
    },
    start: function() {
      return ++this.active === 1 && (this.that.__zooming = this, this.emit("start")), this;
    },
    zoom: function(u, v) {
      return this.mouse && u !== "mouse" && (this.mouse[1] = v.invert(this.mouse[0])), this.touch0 && u !== "touch" && (this.touch0[1] = v.invert(this.touch0[0])), this.touch1 && u !== "touch" && (this.touch1[1] = v.invert(this.touch1[0])), this.that.__zoom = v, this.emit("zoom"), this;
    },
    end: function() {
      return --this.active === 0 && (delete this.that.__zooming, this.emit("end")), this;
    },
    emit: function(u) {
      var v = F(this.that).datum();
      h.call(
        u,
        this.that,
        new xa(u, {
          sourceEvent: this.sourceEvent,
          target: y,
          transform: this.that.__zoom,
          dispatch: h
        }),
        v
      );
    }
  };
  function Lt(u, ...v) {
    if (!t.apply(this, arguments)) return;
    var m = I(this, v).event(u), x = this.__zoom, b = Math.max(r[0], Math.min(r[1], x.k * Math.pow(2, s.apply(this, arguments)))), $ = at(u);
    if (m.wheel)
      (m.mouse[0][0] !== $[0] || m.mouse[0][1] !== $[1]) && (m.mouse[1] = x.invert(m.mouse[0] = $)), clearTimeout(m.wheel);
    else {
      if (x.k === b) return;
      m.mouse = [$, x.invert($)], Kt(this), m.start();
    }
    kt(u), m.wheel = setTimeout(E, w), m.zoom("mouse", n(T(S(x, b), m.mouse[0], m.mouse[1]), m.extent, o));
    function E() {
      m.wheel = null, m.end();
    }
  }
  function Rt(u, ...v) {
    if (p || !t.apply(this, arguments)) return;
    var m = u.currentTarget, x = I(this, v, !0).event(u), b = F(u.view).on("mousemove.zoom", N, !0).on("mouseup.zoom", V, !0), $ = at(u, m), E = u.clientX, q = u.clientY;
    oo(u.view), pe(u), x.mouse = [$, this.__zoom.invert($)], Kt(this), x.start();
    function N(z) {
      if (kt(z), !x.moved) {
        var P = z.clientX - E, G = z.clientY - q;
        x.moved = P * P + G * G > _;
      }
      x.event(z).zoom("mouse", n(T(x.that.__zoom, x.mouse[0] = at(z, m), x.mouse[1]), x.extent, o));
    }
    function V(z) {
      b.on("mousemove.zoom mouseup.zoom", null), ao(z.view, x.moved), kt(z), x.event(z).end();
    }
  }
  function Pt(u, ...v) {
    if (t.apply(this, arguments)) {
      var m = this.__zoom, x = at(u.changedTouches ? u.changedTouches[0] : u, this), b = m.invert(x), $ = m.k * (u.shiftKey ? 0.5 : 2), E = n(T(S(m, $), x, b), e.apply(this, v), o);
      kt(u), a > 0 ? F(this).transition().duration(a).call(A, E, x, u) : F(this).call(y.transform, E, x, u);
    }
  }
  function vs(u, ...v) {
    if (t.apply(this, arguments)) {
      var m = u.touches, x = m.length, b = I(this, v, u.changedTouches.length === x).event(u), $, E, q, N;
      for (pe(u), E = 0; E < x; ++E)
        q = m[E], N = at(q, this), N = [N, this.__zoom.invert(N), q.identifier], b.touch0 ? !b.touch1 && b.touch0[2] !== N[2] && (b.touch1 = N, b.taps = 0) : (b.touch0 = N, $ = !0, b.taps = 1 + !!l);
      l && (l = clearTimeout(l)), $ && (b.taps < 2 && (f = N[0], l = setTimeout(function() {
        l = null;
      }, d)), Kt(this), b.start());
    }
  }
  function xs(u, ...v) {
    if (this.__zooming) {
      var m = I(this, v).event(u), x = u.changedTouches, b = x.length, $, E, q, N;
      for (kt(u), $ = 0; $ < b; ++$)
        E = x[$], q = at(E, this), m.touch0 && m.touch0[2] === E.identifier ? m.touch0[0] = q : m.touch1 && m.touch1[2] === E.identifier && (m.touch1[0] = q);
      if (E = m.that.__zoom, m.touch1) {
        var V = m.touch0[0], z = m.touch0[1], P = m.touch1[0], G = m.touch1[1], O = (O = P[0] - V[0]) * O + (O = P[1] - V[1]) * O, W = (W = G[0] - z[0]) * W + (W = G[1] - z[1]) * W;
        E = S(E, Math.sqrt(O / W)), q = [(V[0] + P[0]) / 2, (V[1] + P[1]) / 2], N = [(z[0] + G[0]) / 2, (z[1] + G[1]) / 2];
      } else if (m.touch0) q = m.touch0[0], N = m.touch0[1];
      else return;
      m.zoom("touch", n(T(E, q, N), m.extent, o));
    }
  }
  function bs(u, ...v) {
    if (this.__zooming) {
      var m = I(this, v).event(u), x = u.changedTouches, b = x.length, $, E;
      for (pe(u), p && clearTimeout(p), p = setTimeout(function() {
        p = null;
      }, d), $ = 0; $ < b; ++$)
        E = x[$], m.touch0 && m.touch0[2] === E.identifier ? delete m.touch0 : m.touch1 && m.touch1[2] === E.identifier && delete m.touch1;
      if (m.touch1 && !m.touch0 && (m.touch0 = m.touch1, delete m.touch1), m.touch0) m.touch0[1] = this.__zoom.invert(m.touch0[0]);
      else if (m.end(), m.taps === 2 && (E = at(E, this), Math.hypot(f[0] - E[0], f[1] - E[1]) < M)) {
        var q = F(this).on("dblclick.zoom");
        q && q.apply(this, arguments);
      }
    }
  }
  return y.wheelDelta = function(u) {
    return arguments.length ? (s = typeof u == "function" ? u : Ht(+u), y) : s;
  }, y.filter = function(u) {
    return arguments.length ? (t = typeof u == "function" ? u : Ht(!!u), y) : t;
  }, y.touchable = function(u) {
    return arguments.length ? (i = typeof u == "function" ? u : Ht(!!u), y) : i;
  }, y.extent = function(u) {
    return arguments.length ? (e = typeof u == "function" ? u : Ht([[+u[0][0], +u[0][1]], [+u[1][0], +u[1][1]]]), y) : e;
  }, y.scaleExtent = function(u) {
    return arguments.length ? (r[0] = +u[0], r[1] = +u[1], y) : [r[0], r[1]];
  }, y.translateExtent = function(u) {
    return arguments.length ? (o[0][0] = +u[0][0], o[1][0] = +u[1][0], o[0][1] = +u[0][1], o[1][1] = +u[1][1], y) : [[o[0][0], o[0][1]], [o[1][0], o[1][1]]];
  }, y.constrain = function(u) {
    return arguments.length ? (n = u, y) : n;
  }, y.duration = function(u) {
    return arguments.length ? (a = +u, y) : a;
  }, y.interpolate = function(u) {
    return arguments.length ? (c = u, y) : c;
  }, y.on = function() {
    var u = h.on.apply(h, arguments);
    return u === h ? y : u;
  }, y.clickDistance = function(u) {
    return arguments.length ? (_ = (u = +u) * u, y) : Math.sqrt(_);
  }, y.tapDistance = function(u) {
    return arguments.length ? (M = +u, y) : M;
  }, y;
}
const me = 110, wn = 11, yn = 40;
class Aa {
  constructor(e, n, s) {
    this.field = e, this.held = n, this.options = s, this.canvas.tabIndex = 0, this.canvas.setAttribute("role", "img"), this.canvas.setAttribute(
      "aria-label",
      `${s.label}: ${e.rows} by ${e.columns} attention weights. Arrow keys move, plus and minus zoom.`
    ), this.element.append(this.canvas), this.zoom = Ea().on("zoom", (i) => {
      this.transform = i.transform, this.redraw();
    }), this.canvas.addEventListener("pointermove", (i) => this.point(i)), this.canvas.addEventListener("pointerleave", () => this.move(null)), this.canvas.addEventListener("click", () => {
      this.at && this.options.hold(this.held = this.held === this.at[0] ? null : this.at[0]), this.redraw();
    }), this.canvas.addEventListener("keydown", (i) => this.key(i)), this.canvas.addEventListener("dblclick", (i) => i.stopPropagation());
  }
  element = g("div", { class: "matrix" });
  canvas = g("canvas");
  transform = qt;
  zoom;
  base = 1;
  // pixels a cell when the whole map is in sight
  width = 600;
  height = 600;
  margin = { left: me, top: 96 };
  at = null;
  redraw = Nn(() => this.draw());
  /** Fit into the element and draw. */
  show() {
    const e = this.element.getBoundingClientRect();
    this.width = Math.max(240, e.width), this.height = Math.max(240, e.height);
    const { field: n } = this, s = [this.width - me - 12, this.height - this.margin.top - 12];
    this.base = Math.min(s[0] / n.columns, s[1] / n.rows, 34), this.margin.left = Math.max(me, (this.width - n.columns * this.base) / 2);
    const i = Math.max(1, yn / this.base);
    this.zoom.extent([[0, 0], [this.width, this.height]]).scaleExtent([1, i]).translateExtent([[0, 0], [this.width, this.height]]), F(this.canvas).call(this.zoom).on("dblclick.zoom", null), this.draw();
  }
  /** Something new has come: draw again. */
  redrawn() {
    this.tell(), this.draw(), this.canvas.dataset.drawn = "true";
  }
  /** Pixels a cell now. */
  get cell() {
    return this.base * this.transform.k;
  }
  /** Bring a cell into the middle at a size at which it can be read. */
  goTo(e, n, s = 24) {
    const i = Math.max(1, s / this.base), r = this.width / 2 - i * (this.margin.left + (n + 0.5) * this.base), o = this.height / 2 - i * (this.margin.top + (e + 0.5) * this.base);
    this.at = [e, n], F(this.canvas).call((a) => this.zoom.transform(a, qt.translate(r, o).scale(i))), this.tell();
  }
  place() {
    return {
      x: this.transform.applyX(this.margin.left),
      y: this.transform.applyY(this.margin.top)
    };
  }
  point(e) {
    const n = this.canvas.getBoundingClientRect(), { x: s, y: i } = this.place(), [r, o] = [e.clientX - n.left, e.clientY - n.top], [a, c] = [Math.floor((o - i) / this.cell), Math.floor((r - s) / this.cell)], h = a >= 0 && c >= 0 && a < this.field.rows && c < this.field.columns;
    this.move(h && r > this.margin.left && o > this.margin.top ? [a, c] : null);
  }
  move(e) {
    e?.[0] === this.at?.[0] && e?.[1] === this.at?.[1] || (this.at = e, this.tell(), this.redraw());
  }
  tell() {
    if (!this.at) return;
    const [e, n] = this.at, s = this.field.value(e, n), i = `${R(this.field.name(e))} → ${R(this.field.columnName(n))}`, r = this.field.rows > 64 ? ` (${e}, ${n})` : "";
    this.options.say(`${i}${r}: ${s === null ? "zoom in to read it" : H(s, 7)}`);
  }
  key(e) {
    const s = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1]
    }[e.key];
    if (s && !e.altKey) {
      const [i, r] = this.at ?? [0, -1 + (s[1] === 0 ? 1 : 0)], o = e.shiftKey ? 10 : 1, a = [
        Math.max(0, Math.min(this.field.rows - 1, i + o * s[0])),
        Math.max(0, Math.min(this.field.columns - 1, r + o * s[1]))
      ];
      this.cell >= wn && this.transform.k > 1 ? this.goTo(...a, this.cell) : this.move(a);
    } else if (e.key === "+" || e.key === "=") this.scale(1.6);
    else if (e.key === "-") this.scale(1 / 1.6);
    else if (e.key === "0") F(this.canvas).call((i) => this.zoom.transform(i, qt));
    else if (e.key === "Enter" && this.at) this.options.hold(this.held = this.at[0]);
    else return;
    e.preventDefault(), e.stopPropagation(), this.redraw();
  }
  scale(e) {
    if (e > 1 && this.at) {
      this.goTo(...this.at, Math.min(yn, this.cell * e));
      return;
    }
    F(this.canvas).call((n) => this.zoom.scaleBy(n, e));
  }
  draw() {
    const e = Sn(this.canvas, this.width, this.height), { field: n, margin: s, cell: i } = this, { x: r, y: o } = this.place(), [a, c, h] = [$t("--ink"), $t("--faint"), $t("--ground")];
    e.fillStyle = h, e.fillRect(0, 0, this.width, this.height), e.save(), e.beginPath(), e.rect(s.left, s.top, this.width - s.left, this.height - s.top), e.clip(), e.translate(r, o);
    const l = {
      x: Math.max(0, (s.left - r) / i),
      y: Math.max(0, (s.top - o) / i),
      columns: (this.width - s.left) / i,
      rows: (this.height - s.top) / i,
      cell: i
    };
    e.translate(l.x * i, l.y * i), n.draw(e, l), e.translate(-l.x * i, -l.y * i), e.strokeStyle = c, e.lineWidth = 1, e.strokeRect(0, 0, n.columns * i, n.rows * i);
    const f = (p, d) => {
      e.strokeStyle = d, e.strokeRect(0, p * i, n.columns * i, Math.max(1, i));
    };
    this.held !== null && this.held < n.rows && f(this.held, pt.query), this.at && (e.globalAlpha = 0.5, f(this.at[0], c), e.strokeRect(this.at[1] * i, 0, Math.max(1, i), n.rows * i), e.globalAlpha = 1, e.lineWidth = 2, e.strokeStyle = pt.query, e.strokeRect(this.at[1] * i, this.at[0] * i, Math.max(2, i), Math.max(2, i))), e.restore(), this.names(e, r, o, a, c);
  }
  names(e, n, s, i, r) {
    const { field: o, margin: a, cell: c } = this;
    e.font = `${Math.max(9, Math.min(13, c * 0.72))}px ${$t("--font")}`, e.textBaseline = "middle";
    const h = c >= wn, l = h ? 1 : qa(60 / c), f = (d, w) => h ? ge(R(d)) : w.toLocaleString("en"), p = (d, w) => Math.max(0, Math.ceil((d - w) / c / l) * l);
    e.textAlign = "right";
    for (let d = p(a.top, s + c / 2); d < o.rows; d += l) {
      const w = s + (d + 0.5) * c;
      if (w > this.height) break;
      const _ = this.at?.[0] === d || this.held === d;
      e.fillStyle = _ ? pt.query : h ? i : r, e.fillText(f(o.name(d), d), a.left - 6, w);
    }
    e.textAlign = "left";
    for (let d = p(a.left, n + c / 2); d < o.columns; d += l) {
      const w = n + (d + 0.5) * c;
      if (w > this.width) break;
      e.fillStyle = this.at?.[1] === d ? pt.query : h ? i : r, e.save(), e.translate(w, a.top - 6), e.rotate(-Math.PI / 2.6), e.fillText(f(o.columnName(d), d), 0, 0), e.restore();
    }
  }
  /** The whole map as an SVG of rectangles, where it is small enough to be one. */
  svg() {
    const { field: e, margin: n } = this;
    if (e.rows * e.columns > 4e4) throw new Error("more than 40,000 cells: export PNG or CSV instead");
    const s = 18, i = [n.left + e.columns * s + 12, n.top + e.rows * s + 12], r = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${i[0]}" height="${i[1]}" font-family="sans-serif" font-size="12">`
    ];
    for (let o = 0; o < e.rows; o++) {
      r.push(
        `<text x="${n.left - 6}" y="${n.top + (o + 0.5) * s + 4}" text-anchor="end">${Me(ge(R(e.name(o))))}</text>`
      );
      for (let a = 0; a < e.columns; a++) {
        const c = e.value(o, a) ?? 0, h = e.peak ? Math.sqrt(Math.max(0, c / e.peak)) : 0;
        r.push(
          `<rect x="${n.left + a * s}" y="${n.top + o * s}" width="${s - 0.5}" height="${s - 0.5}" fill="#08519c" fill-opacity="${h.toFixed(3)}"/>`
        );
      }
    }
    for (let o = 0; o < e.columns; o++) {
      const a = `${n.left + (o + 0.6) * s} ${n.top - 6}`;
      r.push(`<text transform="translate(${a}) rotate(-60)">${Me(ge(R(e.columnName(o))))}</text>`);
    }
    return r.join(`
`) + `
</svg>
`;
  }
  png() {
    return new Promise(
      (e, n) => this.canvas.toBlob((s) => s ? e(s) : n(new Error("the picture is too large")))
    );
  }
}
function ge(t) {
  return t.length <= 14 ? t : t.slice(0, 13) + "…";
}
function qa(t) {
  const e = 10 ** Math.floor(Math.log10(Math.max(1, t)));
  return [1, 2, 5, 10].map((n) => n * e).find((n) => n >= t) ?? 10 * e;
}
function vn(t, e) {
  const n = [], s = [];
  return t.words.forEach((i, r) => {
    if (e.hide && t.special[r]) return;
    e.merge && t.joined[r] && s.length > 0 && s[s.length - 1].includes(r - 1) ? (n[n.length - 1] += i, s[s.length - 1].push(r)) : (n.push(i), s.push([r]));
  }), { names: n, members: s, picture: t.picture };
}
function ws(t, e, n, s, i = null) {
  const r = n.words.length, o = vn(e, s), a = vn(n, s), c = a.members.length, h = new Float32Array(o.members.length * c);
  let l = 0;
  return o.members.forEach((f, p) => {
    let d = 0;
    a.members.forEach((w, _) => {
      let M = 0;
      for (const y of f) for (const S of w) M += t[y * r + S];
      M /= f.length, d += M, h[p * c + _] = M;
    }), a.members.forEach((w, _) => {
      let M = h[p * c + _];
      s.hide && d > 0 && (M /= d), i && (M *= w.reduce((y, S) => y + i[S], 0) / w.length), h[p * c + _] = M, M > l && (l = M);
    });
  }), { values: h, rows: o, columns: a, peak: l };
}
function Sa(t, e, n) {
  const s = n.words.length;
  let i = 0, r = 0;
  for (let o = 0; o < e.words.length; o++)
    if (!e.special[o]) {
      r++;
      for (let a = 0; a < s; a++) n.special[a] && (i += t[o * s + a]);
    }
  return r ? i / r : 0;
}
const we = 64;
class Na {
  constructor(e, n, s, i) {
    this.state = e, this.source = n, this.off = s, this.open = i, this.element.setAttribute("role", "grid"), this.element.setAttribute("aria-label", "all layers and heads");
  }
  element = g("div", { class: "model" });
  stopped = !1;
  show() {
    this.fill();
  }
  stop() {
    this.stopped = !0;
  }
  async fill() {
    const { sequence: e } = this.state.now, { maps: n } = this.state.scene.sequences[e], s = [];
    n.forEach((i, r) => {
      const o = g("div", { class: "layer" });
      o.setAttribute("role", "row"), o.append(g("span", { class: "name", text: i.name }));
      for (let a = 0; a < i.heads; a++) {
        const c = g("button", { class: "thumb" });
        c.type = "button", c.setAttribute("role", "gridcell");
        const h = [`${i.name}, head ${a}`];
        i.entropy && h.push(`entropy ${H(i.entropy[a], 2)}`), i.distance && h.push(`looks ${H(i.distance[a], 1)} tokens far`), c.title = h.join(" · "), c.setAttribute("aria-label", h.join(", "));
        const l = this.state.now;
        l.map === r && l.head === a && c.setAttribute("aria-current", "true"), c.classList.toggle("off", this.off.get(i.name)?.has(a) ?? !1);
        const f = g("canvas");
        f.width = f.height = we, c.append(f, g("span", { class: "number", text: String(a) })), c.addEventListener("click", () => this.open({ sequence: e, map: r, head: a })), c.addEventListener("keydown", (p) => Ta(p, c)), o.append(c), s.push(() => this.thumb(f, { sequence: e, map: r, head: a }));
      }
      this.element.append(o);
    });
    for (const i of s) {
      if (this.stopped) return;
      await i().catch(() => {
      });
    }
  }
  async thumb(e, n) {
    const s = this.state.axes(n);
    let [i, r] = [s.queries.words.length, s.keys.words.length], o;
    if (this.source.live && Math.max(i, r) > nt) {
      const f = Math.ceil(Math.log2(Math.max(i, r) / nt));
      ({ rows: i, columns: r, values: o } = await this.source.tile({ ...n, level: f, row: 0, column: 0, pool: "max" }));
    } else {
      const { merge: f, hide: p } = this.state.now, d = ws(await this.source.weights(n), s.queries, s.keys, { merge: f, hide: p });
      [i, r, o] = [d.rows.names.length, d.columns.names.length, d.values];
    }
    if (!i || !r) return;
    const a = new OffscreenCanvas(r, i);
    a.getContext("2d").putImageData(Ie(o, i, r, 1), 0, 0);
    const h = e.getContext("2d"), l = Math.min(we / r, we / i);
    h.imageSmoothingEnabled = l < 1, h.drawImage(a, 0, 0, r * l, i * l);
  }
}
function Ta(t, e) {
  const n = e.parentElement, s = [...n.children].indexOf(e), r = {
    ArrowLeft: e.previousElementSibling,
    ArrowRight: e.nextElementSibling,
    ArrowUp: n.previousElementSibling?.children[s],
    ArrowDown: n.nextElementSibling?.children[s]
  }[t.key];
  r instanceof HTMLButtonElement && (t.preventDefault(), t.stopPropagation(), r.focus());
}
function Ca(t) {
  const e = t.columns.names.length, n = [["", ...t.columns.names].map(xn).join(",")];
  return t.rows.names.forEach((s, i) => {
    const r = Array.from(t.values.subarray(i * e, (i + 1) * e), (o) => o.toPrecision(9));
    n.push([xn(s), ...r].join(","));
  }), n.join(`\r
`) + `\r
`;
}
function xn(t) {
  const e = /^[=+\-@\t\r]/.test(t) ? `'${t}` : t;
  return /[",\r\n]/.test(e) ? `"${e.replace(/"/g, '""')}"` : e;
}
function ye(t, e, n = "text/plain") {
  const s = typeof t == "string" ? new Blob([t], { type: n }) : t, i = g("a");
  i.href = URL.createObjectURL(s), i.download = e, i.click(), setTimeout(() => URL.revokeObjectURL(i.href), 1e4);
}
async function za(t) {
  const e = new Image();
  e.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(t)}`, await e.decode();
  const n = g("canvas");
  n.width = 2 * e.width, n.height = 2 * e.height;
  const s = n.getContext("2d");
  return s.fillStyle = "#ffffff", s.fillRect(0, 0, n.width, n.height), s.drawImage(e, 0, 0, n.width, n.height), new Promise(
    (i, r) => n.toBlob((o) => o ? i(o) : r(new Error("the picture is too large")))
  );
}
const Bt = 400;
function Ia(t, e, n, s, i, r) {
  const o = t.query.length, a = R(i.words[s]), c = g("p", { class: "intro" });
  c.append(
    g("b", { text: a }),
    ` asks, in ${e.name}, head ${n}. Its query q has ${o} numbers; each word has a key k and a value v.`
  );
  const h = g("table", { class: "steps" }), l = g("tr"), f = e.scale ? Math.round(1 / e.scale ** 2) : o;
  for (const [k, A] of [
    ["word", "who could be attended to"],
    ["q·k", "the product of query and key: how well they match"],
    [Math.abs(f - o) < 1e-3 || f > 1 ? `÷ √${f}` : "× scale", "divided by the root of the width, so that its size does not grow with it"],
    ["mask", "may it be seen at all?"],
    ["softmax", "exponentials, divided by their sum: the weights, which add up to 1"],
    ["weight × v", "what each word gives: its value, times its weight"]
  ])
    l.append(g("th", { text: k, title: A }));
  h.append(g("thead", {}, l));
  const p = g("tbody"), d = t.weights.length, w = t.values.length / d, _ = Array.from({ length: d }, (k, A) => A), M = d <= Bt ? _ : _.sort((k, A) => t.weights[A] - t.weights[k]).slice(0, Bt);
  let y = 0;
  for (let k = 0; k < d; k++)
    for (let A = 0; A < w; A++) y = Math.max(y, Math.abs(t.weights[k] * t.values[k * w + A]));
  for (let k = 0; k < w; k++) y = Math.max(y, Math.abs(t.output[k]));
  for (const k of M) {
    const A = g("tr");
    A.append(
      g("th", { text: R(r.words[k]) }),
      Ut(t.scores[k]),
      Ut(t.scaled[k]),
      g("td", { class: "mask", text: t.allowed[k] ? "" : "−∞" }),
      La(t.weights[k]),
      g("td", {}, bn(w, (I) => t.weights[k] * t.values[k * w + I], y))
    ), p.append(A);
  }
  h.append(p);
  const S = g("tr");
  S.append(
    g("th", { text: "sum" }),
    g("td"),
    g("td"),
    g("td"),
    Ut(t.weights.reduce((k, A) => k + A, 0)),
    g("td", {}, bn(w, (k) => t.output[k], y))
  ), h.append(g("tfoot", {}, S));
  const T = g("div", { class: "stepview" }, c, h);
  return d > Bt && T.append(g("p", { class: "note", text: `The ${Bt} largest of ${d.toLocaleString("en")} weights.` })), T.append(
    g("p", {
      class: "note",
      text: "The last line is what this head hands on for the word. Violet is below 0, orange above."
    })
  ), T;
}
function Ut(t) {
  const e = g("td", { class: "number", text: H(t, 3), title: String(t) });
  return e.dataset.value = t.toPrecision(9), e;
}
function La(t) {
  const e = Ut(t);
  return e.textContent = H(t, 4), e.classList.add("weight"), e.style.setProperty("--share", t.toFixed(4)), e;
}
function bn(t, e, n) {
  const s = g("canvas", { class: "strip" });
  s.width = t, s.height = 1, s.setAttribute("role", "img"), s.setAttribute("aria-label", `${t} numbers from ${H(Math.min(..._n(t, e)), 3)} to ${H(Math.max(..._n(t, e)), 3)}`);
  const i = s.getContext("2d");
  if (!i) return s;
  const r = new ImageData(t, 1), o = Zn(Wn(), !0);
  for (let a = 0; a < t; a++) {
    const c = Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, e(a) / (n || 1))));
    r.data.set(o.subarray(4 * c, 4 * c + 4), 4 * a);
  }
  return i.putImageData(r, 0, 0), s;
}
function _n(t, e) {
  return Array.from({ length: t }, (n, s) => e(s));
}
const Ra = 1024, Mn = { lines: "Lines", matrix: "Matrix", model: "Model", steps: "Steps" }, Pa = [
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
  ["Esc", "let the word go"]
];
class Oa {
  constructor(e, n, s, i = {}) {
    this.scene = n, this.source = s, this.state = new Ss(n, i), e.classList.add("clearhead"), Cs(e), this.told.setAttribute("aria-live", "polite"), this.notes.setAttribute("role", "note"), this.stage.setAttribute("tabindex", "-1");
    const r = g("p", {
      class: "caution",
      text: "Weights tell where a head reads. They do not tell why the model answers as it does: a head that looks hard may not matter."
    });
    e.append(this.head, this.answer, this.stage, g("footer", {}, this.told, this.notes, r, this.files())), this.state.onChange((a, c) => {
      (!Object.keys(a).every((l) => l === "query" || a[l] === c[l]) || a.view === "steps") && this.render();
    }), (e.id ? document : e).addEventListener("keydown", (a) => this.key(a)), new ResizeObserver(() => this.shown.forEach((a) => (a.matrix?.show(), a.lines?.show()))).observe(this.stage), matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void this.render()), this.render();
  }
  state;
  head = g("header");
  stage = g("main");
  told = g("output", { class: "told" });
  notes = g("p", { class: "notes" });
  answer = g("div", { class: "answer" });
  off = /* @__PURE__ */ new Map();
  shown = [];
  turn = 0;
  pool = "max";
  async render() {
    const e = ++this.turn;
    this.controls(), this.drawAnswer();
    const { now: n } = this.state;
    this.shown.forEach((r) => r.model?.stop()), this.shown = [], this.stage.setAttribute("aria-busy", "true");
    const s = [], i = n.beside && n.view !== "model" ? [n, n.beside] : [n];
    try {
      for (const r of i) s.push(await this.panel(r, i.length > 1));
    } catch (r) {
      s.push(g("p", { class: "fault", text: r instanceof Error ? r.message : String(r) }));
    }
    e === this.turn && (this.stage.replaceChildren(...s), this.stage.classList.toggle("two", s.length > 1), this.stage.removeAttribute("aria-busy"), this.shown.forEach((r) => (r.lines?.show(), r.matrix?.show(), r.model?.show())), this.note());
  }
  async panel(e, n) {
    const { now: s } = this.state, r = `${this.state.map(e).name}, head ${e.head}`, o = g("section", { class: "panel", label: r });
    n && o.append(this.besideTitle(e, r));
    const a = {
      say: (c) => this.told.textContent = c,
      hold: (c) => this.state.set({ query: c }),
      label: r
    };
    if (s.view === "model") {
      const c = new Na(this.state, this.source, this.off, (h) => this.state.set({ ...h, view: "matrix" }));
      this.shown.push({ grid: null, model: c }), o.append(c.element);
    } else if (s.view === "steps")
      o.append(await this.steps(e));
    else if (s.view === "lines") {
      const c = await this.grid(e), h = new Mi(c, s.query, a);
      this.shown.push({ grid: c, lines: h }), o.append(h.element);
    } else {
      const { grid: c, field: h } = await this.field(e), l = new Aa(h, s.query, a);
      this.shown.push({ grid: c, matrix: l }), o.append(l.element);
    }
    return o;
  }
  isLarge(e) {
    const n = this.state.axes(e);
    return this.source.live && Math.max(n.queries.words.length, n.keys.words.length) > Ra;
  }
  async grid(e) {
    if (this.isLarge(e)) throw new Error("lines are for up to 1,024 tokens: the matrix shows all of them (press 2)");
    const { merge: n, hide: s, moved: i } = this.state.now, r = this.state.axes(e), [o, a] = await Promise.all([
      this.source.weights(e),
      i ? this.source.norms(e) : Promise.resolve(null)
    ]);
    return ws(o, r.queries, r.keys, { merge: n, hide: s }, a);
  }
  async field(e) {
    if (!this.isLarge(e)) {
      const r = await this.grid(e);
      return { grid: r, field: new xi(r) };
    }
    const n = this.state.axes(e), s = { rows: n.queries.words, columns: n.keys.words }, i = this.shown.length;
    return { grid: null, field: new _i(this.source, e, s, this.pool, () => this.shown[i]?.matrix?.redrawn()) };
  }
  async steps(e) {
    const { now: n } = this.state, s = this.state.axes(e), i = Math.min(n.query ?? Da(s.queries.special), s.queries.words.length - 1), r = rt("word", s.queries.words.map((a, c) => `${c} ${a}`), i, (a) => this.state.set({ query: a })), o = await this.source.step(e, i);
    if (!o) {
      const a = this.source.live ? "This attention is not a product of queries and keys alone: its steps cannot be told this way." : "This page carries the steps of some layers only: choose one of those, or open the live page.";
      return g("div", { class: "stepview" }, r, g("p", { class: "fault", text: a }));
    }
    return g("div", {}, r, Ia(o, this.state.map(e), e.head, i, s.queries, s.keys));
  }
  controls() {
    const { now: e } = this.state, n = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.keep : void 0, s = this.scene.sequences[e.sequence], i = g("h1", { text: this.scene.title || "clearhead" }), r = g("span", { class: "modelname", text: this.scene.model }), o = g("div", { class: "tabs" });
    o.setAttribute("role", "tablist"), ve.forEach((l, f) => {
      const p = g("button", { text: Mn[l], title: `${Mn[l]} (${f + 1})` });
      p.type = "button", p.setAttribute("role", "tab"), p.setAttribute("aria-selected", String(e.view === l)), p.dataset.keep = l, p.addEventListener("click", () => this.state.set({ view: l })), o.append(p);
    });
    const a = g("div", { class: "bar" });
    if (this.scene.sequences.length > 1 && a.append(J("sequence", rt("input", this.scene.sequences.map((l) => l.label), e.sequence, (l) => this.state.set({ sequence: l })))), a.append(
      J("layer", rt("layer", s.maps.map((l) => l.name), e.map, (l) => this.state.set({ map: l }))),
      J("head", rt("head", kn(s.maps[e.map].heads), e.head, (l) => this.state.set({ head: l }))),
      J("merge", dt("words", e.merge, "Pieces of a word as one: attention to it is their sum, from it their mean (w)", (l) => this.state.set({ merge: l }))),
      J("hide", dt("plain", e.hide, "Hide special tokens; what is left is made to add up to 1 again (p)", (l) => this.state.set({ hide: l }))),
      J("moved", dt("× moved", e.moved, "Each weight times the norm of what it moves, ‖value · W_O‖ (v)", (l) => this.state.set({ moved: l }))),
      J("beside", dt("compare", e.beside !== null, "A second head or input beside it (c)", (l) => this.compare(l)))
    ), this.isLarge(e) && a.append(J("pool", dt("mean", this.pool === "mean", "Cells show the mean of their weights, not the largest", (l) => {
      this.pool = l ? "mean" : "max", this.render();
    }))), this.source.live) {
      const l = this.off.get(s.maps[e.map].name)?.has(e.head) ?? !1;
      a.append(J("off", dt("head off", l, "Switch this head off and see what the model answers (o)", (f) => void this.switch(f))));
    }
    const c = g("details", { class: "help" }, g("summary", { text: "?", label: "keys" })), h = g("dl");
    for (const [l, f] of Pa) h.append(g("dt", { text: l }), g("dd", { text: f }));
    c.append(h), this.head.replaceChildren(g("div", { class: "title" }, i, r, c), o, a), n && this.head.querySelector(`[data-keep="${CSS.escape(n)}"]`)?.focus();
  }
  besideTitle(e, n) {
    if (e !== this.state.now.beside) return g("h2", { text: n });
    const { maps: s } = this.scene.sequences[e.sequence], i = (o) => this.state.set({ beside: { ...e, ...o } }), r = g("h2", { class: "bar" });
    return this.scene.sequences.length > 1 && r.append(rt("input", this.scene.sequences.map((o) => o.label), e.sequence, (o) => i({ sequence: o }))), r.append(
      rt("layer", s.map((o) => o.name), e.map, (o) => i({ map: o })),
      rt("head", kn(s[e.map].heads), e.head, (o) => i({ head: o }))
    ), r;
  }
  compare(e) {
    const { now: n } = this.state, s = this.scene.sequences.length > 1 ? { ...n, sequence: (n.sequence + 1) % this.scene.sequences.length } : null, i = { sequence: n.sequence, map: n.map, head: (n.head + 1) % this.state.map().heads };
    this.state.set({ beside: e ? s ? { sequence: s.sequence, map: n.map, head: n.head } : i : null });
  }
  async switch(e) {
    const { now: n } = this.state, { name: s } = this.state.map(), i = this.off.get(s) ?? /* @__PURE__ */ new Set();
    if (e ? i.add(n.head) : i.delete(n.head), i.size ? this.off.set(s, i) : this.off.delete(s), this.controls(), !this.off.size) {
      this.drawAnswer();
      return;
    }
    const r = Object.fromEntries([...this.off].map(([o, a]) => [o, [...a].sort((c, h) => c - h)]));
    this.answer.setAttribute("aria-busy", "true");
    try {
      this.drawAnswer(await this.source.without(n.sequence, r));
    } catch (o) {
      this.told.textContent = o instanceof Error ? o.message : String(o);
    }
    this.answer.removeAttribute("aria-busy");
  }
  drawAnswer(e) {
    const n = this.scene.sequences[this.state.now.sequence].answer;
    if (this.answer.replaceChildren(), !n) return;
    const s = (i, r, o) => {
      const a = g("div", { class: `said ${o}` }, g("span", { class: "label", text: i }), g("span", { class: "text", text: r.text }));
      if (r.score !== null) {
        const c = g("span", { class: "score", text: `${r.what} ${H(r.score, 4)}` });
        c.dataset.value = String(r.score), a.append(c);
      }
      this.answer.append(a);
    };
    if (s("answer", n, "whole"), e) {
      const i = [...this.off].map(([r, o]) => `${r}: ${[...o].join(", ")}`).join("; ");
      s(`without ${i}`, e, "changed");
    }
  }
  note() {
    const { now: e } = this.state, n = [];
    if (e.merge && n.push("Pieces are merged: to a word the sum of its pieces, from a word their mean."), e.moved && n.push("Weights are scaled by the norm of the value they move; they no longer add up to 1."), this.notes.textContent = n.join(" "), e.hide && e.view !== "model" && e.view !== "steps" && !this.isLarge(e)) {
      const i = this.state.axes();
      this.source.weights(e).then((r) => {
        const o = Sa(r, i.queries, i.keys);
        this.notes.textContent = `${n.join(" ")} Special tokens are hidden: ${H(100 * o, 1)} % of the attention went to them, and the rest is scaled up to 1.`.trim();
      });
    }
    const s = this.shown[0]?.grid;
    s && e.query !== null && e.query < s.rows.names.length && (this.told.textContent = Jn(s, e.query));
  }
  files() {
    const e = g("div", { class: "files" }), n = (s, i) => {
      const r = g("button", { text: s, title: `Save what is shown as ${s}` });
      r.type = "button", r.addEventListener("click", () => {
        Promise.resolve().then(i).catch((o) => this.told.textContent = o.message);
      }), e.append(r);
    };
    return n("SVG", () => ye(this.svg(), `${this.fileName()}.svg`, "image/svg+xml")), n("PNG", async () => {
      const s = this.shown[0]?.matrix;
      ye(s ? await s.png() : await za(this.svg()), `${this.fileName()}.png`);
    }), n("CSV", async () => {
      const s = this.shown[0]?.grid ?? await this.grid(this.state.now);
      ye(Ca(s), `${this.fileName()}.csv`, "text/csv");
    }), e;
  }
  svg() {
    const e = this.shown[0], n = e?.lines?.svg() ?? e?.matrix?.svg();
    if (!n) throw new Error("lines and matrix can be saved as pictures: open one of them");
    return n;
  }
  fileName() {
    const { now: e } = this.state;
    return `${this.state.map().name}-head-${e.head}`;
  }
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLSelectElement || e.target instanceof HTMLInputElement) return;
    const { now: n } = this.state, s = this.scene.sequences[n.sequence].maps.length, i = {
      "[": () => this.state.set({ head: n.head - 1 }),
      "]": () => this.state.set({ head: n.head + 1 }),
      "{": () => this.state.set({ map: Math.max(0, n.map - 1) }),
      "}": () => this.state.set({ map: Math.min(s - 1, n.map + 1) }),
      w: () => this.state.set({ merge: !n.merge }),
      p: () => this.state.set({ hide: !n.hide }),
      v: () => this.state.set({ moved: !n.moved }),
      c: () => this.compare(n.beside === null),
      o: () => this.source.live && void this.switch(!(this.off.get(this.state.map().name)?.has(n.head) ?? !1)),
      Escape: () => (this.state.set({ query: null }), void this.render())
    };
    ve.forEach((o, a) => i[String(a + 1)] = () => this.state.set({ view: o }));
    const r = i[e.key];
    r && (e.preventDefault(), r());
  }
}
function kn(t) {
  return Array.from({ length: t }, (e, n) => String(n));
}
function Da(t) {
  const e = t.indexOf(!1);
  return e < 0 ? 0 : e;
}
function J(t, e) {
  return (e.querySelector("select") ?? e).dataset.keep = t, e;
}
function ys(t, e, n) {
  const s = _s(e), i = n === null ? new Es(s) : new qs(s, n);
  return new Oa(t, s, i, Ts(location.hash));
}
async function Fa(t) {
  const e = document.getElementById("scene"), n = t.dataset.live ?? null;
  try {
    const s = e?.textContent ?? await (await fetch(`${n}scene`)).text();
    ys(t, s, n).state.onChange((r) => history.replaceState(null, "", Ns(r)));
  } catch (s) {
    t.textContent = s instanceof Error ? s.message : String(s);
  }
}
const $n = document.getElementById("clearhead");
$n && Fa($n);
const Ha = {
  render({ model: t, el: e }) {
    const n = document.createElement("div");
    e.append(n), n.classList.add("cell"), ys(n, t.get("scene"), null);
  }
};
export {
  Ha as default
};
