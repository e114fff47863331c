/** The highlight.js language of a file by its name, or undefined for plain text. */
export function languageOf(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  if (name === "dockerfile" || name.startsWith("dockerfile.")) return "dockerfile";
  if (name === "makefile" || name === "gnumakefile") return "makefile";
  return BY_EXTENSION[name.slice(name.lastIndexOf(".") + 1)];
}

const BY_EXTENSION: Record<string, string> = {
  sh: "bash", bash: "bash", zsh: "bash",
  c: "cpp", h: "cpp", cc: "cpp", cpp: "cpp", cxx: "cpp", hpp: "cpp",
  cs: "csharp",
  css: "css", scss: "css", less: "css",
  go: "go",
  toml: "ini", ini: "ini", cfg: "ini", conf: "ini",
  java: "java", kt: "kotlin", kts: "kotlin",
  js: "javascript", mjs: "javascript", cjs: "javascript", jsx: "javascript",
  json: "json", jsonc: "json",
  mk: "makefile",
  md: "markdown", mdx: "markdown",
  php: "php",
  py: "python", pyi: "python",
  rb: "ruby",
  rs: "rust",
  sql: "sql",
  swift: "swift",
  ts: "typescript", mts: "typescript", cts: "typescript", tsx: "typescript",
  html: "xml", xml: "xml", svg: "xml", vue: "xml", svelte: "xml",
  yaml: "yaml", yml: "yaml",
};
