/** Entry point of the pages of sentence vectors: a map of queries and documents, or the explanation of a score. */

import "./vectors.css";
import { drawExplanation, type ExplanationData } from "./vectors/explanation";
import { drawMap, type MapData } from "./vectors/map";

const root = document.getElementById("clearhead");
const embedded = document.getElementById("scene");
if (root && embedded?.textContent) {
  const data = JSON.parse(embedded.textContent) as MapData | ExplanationData;
  root.className = "clearhead-vectors";
  if (data.kind === "map") drawMap(root, data);
  else drawExplanation(root, data);
}
