/** Entry point of the page of an image: the attention between its patches. */

import "./images.css";
import type { ImageData } from "./images/data";
import { drawImage } from "./images/view";

const root = document.getElementById("clearhead");
const embedded = document.getElementById("scene");
if (root && embedded?.textContent) {
  root.className = "clearhead-images";
  drawImage(root, JSON.parse(embedded.textContent) as ImageData);
}
