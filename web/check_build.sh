#!/usr/bin/env bash
# Checks the sources of page and viewer, builds them, and compares with what is committed, byte for byte.
set -euo pipefail
cd "$(dirname "$0")"
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
[ -d node_modules/oxlint ] || npm ci --silent
npm run --silent check
npx vite build --logLevel error --outDir "$built/viewer" --emptyOutDir
npx vite build --logLevel error --outDir "$built/draw" --mode page
package=../src/hodgeformer
{ diff -r "$built/viewer" $package/web/viewer/static && diff "$built/draw/page.html" $package/draw/page.html; } || {
  echo "What is committed is not what the sources give; run 'npm run build' in web/ and commit the result." >&2
  exit 1
}
