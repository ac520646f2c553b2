import { defineConfig } from "vite";

// Fixed file names and no time stamps: the same sources give the same bundle, byte for byte.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/hodgeformer/viewer/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1500,
    rollupOptions: {
      output: {
        entryFileNames: "assets/viewer.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/viewer[extname]",
      },
    },
  },
  // `npm run dev` beside a running `hodgeformer view --port 8765`.
  server: { proxy: { "/api": { target: "http://127.0.0.1:8765", changeOrigin: true } } },
});
