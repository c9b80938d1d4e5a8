import { defineConfig } from "vitest/config";

// One script and one style sheet with fixed names, into the Python package: pages and notebooks carry them whole.
export default defineConfig({
  build: {
    outDir: "../src/clearhead/viz/asset",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    lib: { entry: "src/main.ts", formats: ["es"], fileName: () => "viewer.js", cssFileName: "viewer" },
  },
  test: { environment: "jsdom", include: ["test/**/*.test.ts"] },
});
