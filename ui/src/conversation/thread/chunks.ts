/**
 * Cuts Markdown that grows into chunks that stay as they are, and the rest. Each chunk is whole blocks, which can be drawn by themselves;
 * of a text that is written piece by piece only the rest is read again.
 */
export class Chunks {
  private text = "";
  private done: string[] = [];
  private from = 0; // where the rest begins
  private at = 0; // the beginning of the first line that was not read
  private fence = ""; // the marks of the block of code that is open
  private blank = false; // the last line that was read is empty

  /** Chunks have at least so many characters. */
  constructor(private readonly least = 1) {}

  /** The chunks of a text: those that stay, and the rest as the last one. */
  of(text: string): readonly string[] {
    if (!text.startsWith(this.text)) {
      this.done = [];
      this.from = this.at = 0;
      this.fence = "";
      this.blank = false;
    }
    this.text = text;
    for (let end = text.indexOf("\n", this.at); end >= 0; end = text.indexOf("\n", this.at)) {
      this.read(text.slice(this.at, end));
      this.at = end + 1;
    }
    const rest = text.slice(this.from);
    return rest.trim() === "" ? this.done : [...this.done, rest];
  }

  private read(line: string): void {
    if (this.fence) {
      if (closes(line, this.fence)) this.fence = "";
      this.blank = false;
      return;
    }
    if (line.trim() === "") {
      this.blank = true;
      return;
    }
    // What is indented, and another item, goes on with the list before it.
    if (this.blank && !/^(\s|[-*+]\s|\d{1,9}[.)]\s|>)/.test(line)) {
      const chunk = this.text.slice(this.from, this.at);
      if (chunk.length >= this.least && chunk.trim() !== "") {
        this.done = [...this.done, chunk];
        this.from = this.at;
      }
    }
    this.blank = false;
    this.fence = /^ {0,3}(`{3,}|~{3,})[^`]*$/.exec(line)?.[1] ?? "";
  }
}

const closes = (line: string, fence: string): boolean => {
  const t = line.trim();
  return t.length >= fence.length && t === fence[0]!.repeat(t.length) && !/^ {4}/.test(line);
};
