import { defineConfig } from "vite";

// The page of an image: one script and one style sheet, next to the viewer's.
export default defineConfig({
  build: {
    outDir: "../src/clearhead/viz/asset",
    emptyOutDir: false,
    target: "es2022",
    cssCodeSplit: false,
    lib: { entry: "src/images.ts", formats: ["es"], fileName: () => "images.js", cssFileName: "images" },
  },
});
