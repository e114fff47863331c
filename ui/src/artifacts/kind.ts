/** How an artifact can be shown. */
export type Kind = "markdown" | "csv" | "text" | "image" | "video" | "audio" | "pdf" | "page" | "recording" | "none";

/** The largest text that is shown; of a larger one its beginning is. */
export const TEXT_MOST = 256 * 1024;

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"];
const TEXTS = ["application/json", "application/jsonl", "application/xml", "application/yaml", "application/toml"];

/** How a content of this MIME type is shown. */
export function kindOf(mime: string): Kind {
  const type = mime.split(";")[0]?.trim().toLowerCase() ?? "";
  if (type === "text/markdown") return "markdown";
  if (type === "text/csv" || type === "text/tab-separated-values") return "csv";
  if (type === "text/html") return "page";
  if (type === "application/vnd.parawork.browser-recording") return "recording";
  if (type === "application/pdf") return "pdf";
  if (IMAGES.includes(type)) return "image";
  if (type.startsWith("video/")) return "video";
  if (type.startsWith("audio/")) return "audio";
  if (type.startsWith("text/") || TEXTS.includes(type) || type.endsWith("+json")) return "text";
  return "none";
}

/** The rows of a table with quoted fields (RFC 4180), at most so many. */
export function readTable(text: string, separator: string, most: number): { rows: string[][]; more: boolean } {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let quoted = false;
  const end = () => {
    row.push(field);
    field = "";
  };
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') field += c;
      else if (text[i + 1] === '"') {
        field += '"';
        i++;
      } else quoted = false;
    } else if (c === '"' && field === "") quoted = true;
    else if (c === separator) end();
    else if (c === "\n") {
      end();
      rows.push(row);
      row = [];
      if (rows.length === most) return { rows, more: i + 1 < text.length };
    } else if (c !== "\r") field += c;
  }
  if (field !== "" || row.length > 0) {
    end();
    rows.push(row);
  }
  return { rows, more: false };
}
