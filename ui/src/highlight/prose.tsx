import { t } from "@lingui/core/macro";
import { memo, type ReactNode, useContext } from "react";
import { visible } from "@/format/text";
import { LinkOpener } from "@/state/links";
import { CodeBlock } from "./code";
import { type Block, type Inline, languageNamed, parseMarkdown } from "./markdown";

interface Props {
  text: string;
  /** More of it comes: its code is coloured when it is complete. */
  growing?: boolean;
}

/** What an agent wrote, with its Markdown drawn. Nothing of it becomes HTML. */
export const Prose = memo(function Prose({ text, growing = false }: Props) {
  return <div className="prose-agent">{blocks(parseMarkdown(text), growing)}</div>;
});

function blocks(list: readonly Block[], growing: boolean): ReactNode {
  return list.map((b, i) => <One key={i} block={b} growing={growing} />);
}

function One({ block: b, growing }: { block: Block; growing: boolean }) {
  switch (b.kind) {
    case "heading":
      // The page has headings of its own: these are not among them.
      return (
        <p
          role="heading"
          aria-level={Math.min(b.level + 3, 6)}
          className={b.level <= 2 ? "text-title font-semibold" : "font-semibold"}
        >
          {inline(b.parts)}
        </p>
      );
    case "paragraph":
      return <p>{inline(b.parts)}</p>;
    case "code":
      return <CodeBlock language={growing ? "" : languageNamed(b.language)} text={b.text} />;
    case "quote":
      return <blockquote className="border-l-2 border-control pl-3 text-fg2">{blocks(b.blocks, growing)}</blockquote>;
    case "rule":
      return <hr className="border-hairline" />;
    case "list": {
      const items = b.items.map((item, i) => (
        <li key={i}>
          {item.done !== undefined && <span className="text-fg2">{item.done ? t`[done] ` : t`[open] `}</span>}
          {blocks(item.blocks, growing)}
        </li>
      ));
      return b.ordered ? (
        <ol start={b.start} className="list-decimal pl-6">
          {items}
        </ol>
      ) : (
        <ul className="list-disc pl-5">{items}</ul>
      );
    }
    case "table":
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        <div className="max-w-full overflow-x-auto" tabIndex={0} role="region" aria-label={t`Table`}>
          <table className="border-collapse">
            <thead>
              <tr>
                {b.head.map((c, i) => (
                  <th key={i} className="border border-hairline px-2 py-1 text-left font-semibold">
                    {inline(c)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {b.rows.map((row, i) => (
                <tr key={i}>
                  {row.map((c, k) => (
                    <td key={k} className="border border-hairline px-2 py-1 align-top">
                      {inline(c)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
  }
}

function inline(parts: readonly Inline[]): ReactNode {
  return parts.map((p, i) => {
    switch (p.kind) {
      case "text":
        return p.text;
      case "break":
        return <br key={i} />;
      case "code":
        return (
          <code key={i} className="rounded-sm bg-bg3 px-1 font-mono text-code break-words">
            {p.text}
          </code>
        );
      case "strong":
        return <strong key={i}>{inline(p.parts)}</strong>;
      case "em":
        return <em key={i}>{inline(p.parts)}</em>;
      case "del":
        return <del key={i}>{inline(p.parts)}</del>;
      case "link":
        return <SafeLink key={i} href={p.href} text={p.text} />;
    }
    return null;
  });
}

/** A link an agent wrote: opened by the rules for what terminals print, and never by the browser alone. */
function SafeLink({ href, text }: { href: string; text: string }) {
  const open = useContext(LinkOpener);
  if (!open || !/^(https?:\/\/|mailto:)/i.test(href)) return <span title={visible(href)}>{text}</span>;
  return (
    <button
      type="button"
      title={visible(href)}
      onClick={() => open(href, text)}
      className="text-left break-words text-accent underline underline-offset-2"
    >
      {text}
    </button>
  );
}
