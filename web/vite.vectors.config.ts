import { defineConfig } from "vite";

// The pages of sentence vectors: one script and one style sheet, next to the viewer's.
export default defineConfig({
  build: {
    outDir: "../src/clearhead/viz/asset",
    emptyOutDir: false,
    target: "es2022",
    cssCodeSplit: false,
    lib: { entry: "src/vectors.ts", formats: ["es"], fileName: () => "vectors.js", cssFileName: "vectors" },
  },
});
