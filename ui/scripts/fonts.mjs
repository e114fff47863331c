// Makes src/styles/*-basic.woff2 of the fonts' own files. Run by hand when a font changes: npm i --no-save subset-font@2.9.0 && node scripts/fonts.mjs
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import subset from "subset-font";

const ui = join(dirname(fileURLToPath(import.meta.url)), "..");

// As unicode-range in app.css has them.
const basic = `${Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)).join("")}\u00a0±·×–—‘’“”•…↑↓−`;

const fonts = [
  ["inter", "inter", {}], // with figures of one width
  ["jetbrains-mono", "mono", { noLayoutClosure: true }], // without ligatures
];
for (const [name, short, options] of fonts) {
  const font = readFileSync(
    join(ui, `node_modules/@fontsource-variable/${name}/files/${name}-latin-wght-normal.woff2`),
  );
  const small = await subset(font, basic, {
    targetFormat: "woff2",
    variationAxes: { wght: { min: 400, max: 700 } },
    ...options,
  });
  writeFileSync(join(ui, `src/styles/${short}-basic.woff2`), small);
  console.log(`${short}-basic.woff2: ${small.length} bytes of ${font.length}`);
}
