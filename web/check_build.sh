#!/usr/bin/env bash
# Builds the page from its sources and compares it with the committed one, byte for byte.
set -euo pipefail
cd "$(dirname "$0")"
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
[ -d node_modules ] || npm ci --silent
npx tsc --noEmit
npx vite build --logLevel error --outDir "$built" --emptyOutDir
diff -r "$built" ../src/hodgeformer/viewer/static || {
  echo "The committed page is not what its sources give; run 'npm run build' in web/ and commit the result." >&2
  exit 1
}
