import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension, type Range, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { t } from "@lingui/core/macro";
import { type Ref, useEffect, useImperativeHandle, useRef } from "react";
import { highlightText } from "@/highlight/highlight";
import { languageOf } from "@/highlight/language";
import type { Tokens } from "@/highlight/segments";
import type { PlaceIn } from "./file";
import { type Diagnostic, found, goTo, type Location, languageServer, offsetIn, savedNow } from "./language";

export interface CodeHandle {
  /** Puts another text in; the change can be undone. */
  set: (text: string) => void;
  /** The text is that of the file now. */
  saved: () => void;
  focus: () => void;
  /** The lines of the selection, or that of the cursor, from 1. */
  chosen: () => { line: number; end_line: number } | undefined;
}

const colours = StateEffect.define<DecorationSet>();
const coloured = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(at, tr) {
    let next = at.map(tr.changes);
    for (const e of tr.effects) if (e.is(colours)) next = e.value;
    return next;
  },
  provide: (f) => EditorView.decorations.from(f),
});

function decorate(state: EditorState, lines: readonly Tokens[]): DecorationSet {
  const out: Range<Decoration>[] = [];
  for (let n = 1; n <= Math.min(lines.length, state.doc.lines); n++) {
    const line = state.doc.line(n);
    let at = line.from;
    for (const [length, cls] of lines[n - 1]!) {
      const end = Math.min(at + length, line.to);
      if (cls && end > at) out.push(Decoration.mark({ class: cls }).range(at, end));
      at = end;
    }
  }
  return Decoration.set(out);
}

const linked = StateEffect.define<PlaceIn>();
/** The lines that a link leads to, for the moment that their style lasts. */
const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(at, tr) {
    const to = tr.effects.find((e) => e.is(linked))?.value;
    if (!to) return at.map(tr.changes);
    const out: Range<Decoration>[] = [];
    for (let n = to.line; n <= Math.min(to.end_line, tr.state.doc.lines); n++)
      out.push(Decoration.line({ class: "cm-linked mark-once" }).range(tr.state.doc.line(n).from));
    return Decoration.set(out);
  },
  provide: (f) => EditorView.decorations.from(f),
});

const look = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--bg0)", color: "var(--fg)", fontSize: "12.5px" },
  // What is typed is what is seen: != stays two characters.
  ".cm-scroller": { fontFamily: "var(--font-mono, monospace)", lineHeight: "1.55", fontVariantLigatures: "none" },
  ".cm-gutters": { backgroundColor: "var(--bg0)", color: "var(--fg3)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--bg2) 60%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--fg)" },
  // The gutter has a background of its own, which would hide an outline of the editor.
  "&.cm-focused": { outline: "none" },
  "&.cm-focused::after": {
    content: '""',
    position: "absolute",
    inset: "0",
    zIndex: "300",
    border: "1px solid var(--accent)",
    pointerEvents: "none",
  },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--bg3) !important" },
  ".cm-panels": { backgroundColor: "var(--bg1)", color: "var(--fg)" },
});

/** The text of a file, to be changed. */
export default function Code({
  ref,
  path,
  start,
  readOnly,
  server,
  diagnostics,
  at,
  onChange,
  onSave,
  onOpen,
}: {
  ref: Ref<CodeHandle>;
  path: string;
  /** The workspace whose language server is asked about the file; undefined: none is. */
  server?: string;
  /** What it finds wrong in the saved file. */
  diagnostics: readonly Diagnostic[];
  /** Where the cursor is at first. */
  at?: PlaceIn;
  /** The initial text; later texts are set through the handle. */
  start: string;
  readOnly: boolean;
  onChange: (text: string) => void;
  onSave: () => void;
  /** Opens another file, where a symbol is defined. */
  onOpen: (to: Location) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const acts = useRef({ onChange, onSave, onOpen });
  useEffect(() => {
    acts.current = { onChange, onSave, onOpen };
  });
  const first = useRef(start);
  const begin = useRef(at);
  useEffect(() => {
    let timer = 0;
    const language = languageOf(path);
    const paint = (v: EditorView) => {
      const { doc } = v.state;
      if (language)
        void highlightText(language, doc.toString()).then((lines) => {
          if (view.current === v && v.state.doc.eq(doc)) v.dispatch({ effects: colours.of(decorate(v.state, lines)) });
        });
    };
    const crlf = /\r\n/.test(first.current) && !/(^|[^\r])\n/.test(first.current);
    const extensions: Extension[] = [
      lineNumbers(),
      highlightSpecialChars(),
      history(),
      drawSelection(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      search({ top: true }),
      // Preserve line endings; if they are mixed, the minority are kept as characters.
      EditorState.lineSeparator.of(crlf ? "\r\n" : "\n"),
      EditorState.readOnly.of(readOnly),
      // Reachable by keyboard also where it can only be read.
      EditorView.contentAttributes.of({ "aria-label": t`Text of ${path}`, tabindex: "0" }),
      coloured,
      marked,
      look,
      server ? languageServer(server, path, (to) => acts.current.onOpen(to)) : [],
      keymap.of([
        {
          key: "Mod-s",
          run: () => {
            acts.current.onSave();
            return true;
          },
          preventDefault: true,
        },
        ...searchKeymap,
        ...historyKeymap,
        ...defaultKeymap,
        indentWithTab, // Escape, then Tab leaves the editor
      ]),
      EditorView.updateListener.of((u) => {
        if (!u.docChanged) return;
        acts.current.onChange(u.state.sliceDoc());
        window.clearTimeout(timer);
        timer = window.setTimeout(() => paint(u.view), 150);
      }),
    ];
    const v = new EditorView({
      state: EditorState.create({ doc: first.current, extensions }),
      parent: host.current ?? undefined,
    });
    view.current = v;
    paint(v);
    v.focus();
    if (begin.current) {
      goTo(v, offsetIn(v.state.doc, begin.current.line, begin.current.character));
      v.dispatch({ effects: linked.of(begin.current) });
    }
    return () => {
      window.clearTimeout(timer);
      view.current = undefined;
      v.destroy();
    };
  }, [path, readOnly, server]);
  useEffect(() => {
    if (server) view.current?.dispatch({ effects: found.of(diagnostics) });
  }, [server, diagnostics]);
  useImperativeHandle(ref, () => ({
    set: (text) => {
      const v = view.current;
      if (v) v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: v.state.toText(text) } });
    },
    saved: () => view.current?.dispatch({ effects: savedNow.of(null) }),
    focus: () => view.current?.focus(),
    chosen: () => {
      const state = view.current?.state;
      if (!state) return undefined;
      const { from, to, empty } = state.selection.main;
      const line = state.doc.lineAt(from).number;
      const last = state.doc.lineAt(to);
      // A selection that ends before the first letter of a line ends with the line above.
      const end_line = !empty && last.from === to ? last.number - 1 : last.number;
      return { line, end_line: Math.max(line, end_line) };
    },
  }));
  return <div ref={host} className="min-h-0 flex-1 overflow-hidden" />;
}
