import { defineConfig } from "vite";

// The server's pages: one script for each page and one that they share, all with fixed names, next to the static files.
export default defineConfig({
  publicDir: "src/serve/public",
  build: {
    outDir: "../src/clearhead/serve/asset",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    lib: { entry: { page: "src/serve/page.ts", docs: "src/serve/docs.ts", search: "src/serve/search.ts" }, formats: ["es"] },
    rollupOptions: { output: { entryFileNames: "[name].js", chunkFileNames: "shared.js" } },
  },
});
