import { SearchAddon } from "@xterm/addon-search";
import type { Terminal } from "@xterm/xterm";

interface Options {
  regex: boolean;
  caseSensitive: boolean;
  /** Goes to the match before, not the next. */
  back?: boolean;
  /** The text is still being typed: a match that still fits stays. */
  incremental?: boolean;
}

const DECORATIONS = {
  matchBackground: "#8a5a00",
  matchOverviewRuler: "#f5b73d",
  activeMatchBackground: "#1d4ed8",
  activeMatchColorOverviewRuler: "#6ea8fe",
};

/** Finds text in what a terminal holds. */
export class Finder {
  private readonly addon = new SearchAddon({ highlightLimit: 2000 });

  constructor(private readonly term: Terminal) {
    term.loadAddon(this.addon);
  }

  /** Goes to a match and marks all; reports whether there is one. */
  find(text: string, { back, ...options }: Options): boolean {
    if (!text) {
      this.addon.clearDecorations();
      return false;
    }
    const o = { ...options, decorations: DECORATIONS };
    try {
      return back ? this.addon.findPrevious(text, o) : this.addon.findNext(text, o);
    } catch {
      return false; // an unfinished regular expression
    }
  }

  /** Calls back with the match that is shown, from 0, and how many there are. The returned function ends that. */
  onFound(found: (index: number, count: number) => void): () => void {
    const d = this.addon.onDidChangeResults((r) => found(r.resultIndex, r.resultCount));
    return () => d.dispose();
  }

  /** Takes the marks away. */
  end(): void {
    this.addon.clearDecorations();
    this.term.clearSelection();
  }
}
