import { defineConfig, type Plugin } from "vite";

/** Puts script and style into the page, which then is one file that needs no other. */
function inOneFile(): Plugin {
  return {
    name: "in-one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = bundle["page.html"];
      if (page?.type !== "asset") throw new Error("page.html is not among the outputs");
      for (const [name, part] of Object.entries(bundle)) {
        if (part === page) continue;
        const [tag, text] =
          part.type === "chunk"
            ? [/<script type="module"[^>]* src=[^>]*><\/script>/, `<script type="module">${part.code.trim()}</script>`]
            : [/<link rel="stylesheet"[^>]*>/, `<style>${String(part.source).trim()}</style>`];
        page.source = String(page.source).replace(tag, () => text);
        delete bundle[name];
      }
    },
  };
}

// Fixed file names and no time stamps: the same sources give the same bundle, byte for byte.
export default defineConfig(({ mode }) => ({
  base: "./",
  publicDir: mode === "page" ? false : "public",
  plugins: mode === "page" ? [inOneFile()] : [],
  build: {
    // `--mode page` builds the page without a server that Python fills; without it, the viewer.
    outDir: mode === "page" ? "../src/hodgeformer/draw" : "../src/hodgeformer/web/viewer/static",
    emptyOutDir: mode !== "page",
    target: "es2022",
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1500,
    rollupOptions: {
      input: mode === "page" ? "page.html" : "index.html",
      output: {
        entryFileNames: "assets/viewer.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/viewer[extname]",
      },
    },
  },
  // `npm run dev` beside a running `hodgeformer view --port 8765`.
  server: { proxy: { "/api": { target: "http://127.0.0.1:8765", changeOrigin: true } } },
}));
