import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { cx } from "@/kit/cx";
import type { Thread } from "./feed";

type Command = Schemas["ThreadCommand"];

/** What can be written after a slash, while the name of it is being written. */
export function useCompletion(thread: Thread | undefined, text: string, setText: (text: string) => void) {
  const typed = /^\/([\w:.-]*)$/.exec(text)?.[1];
  const [closed, setClosed] = useState<string>();
  const [at, setAt] = useState(0);
  const id = useId();
  const open = typed !== undefined && closed !== text;
  const { data: all } = useQuery({
    queryKey: ["thread-commands", thread?.id],
    queryFn: async () =>
      (await data(api.GET("/threads/{id}/commands", { params: { path: { id: thread!.id } } }))).items,
    enabled: open && thread !== undefined,
    staleTime: 30_000,
    retry: false,
  });
  const found = open ? (all ?? []).filter((c) => c.name.startsWith(typed) && c.name !== "help").slice(0, 50) : [];
  const active = Math.min(at, found.length - 1);
  const choose = (c: Command) => {
    setText(`/${c.name} `);
    setAt(0);
  };
  return {
    id,
    found,
    active,
    choose,
    /** Whether the key was for the list. */
    onKey: (e: KeyboardEvent): boolean => {
      if (found.length === 0) return false;
      const exact = found.length === 1 && found[0]!.name === typed;
      if (e.key === "ArrowDown") setAt((active + 1) % found.length);
      else if (e.key === "ArrowUp") setAt((active + found.length - 1) % found.length);
      else if (e.key === "Tab" || (e.key === "Enter" && !e.shiftKey && !exact)) choose(found[active]!);
      else if (e.key === "Escape") setClosed(text);
      else return false;
      e.preventDefault();
      e.stopPropagation();
      return true;
    },
  };
}

/** The list above the field. */
export function CompletionList({ id, found, active, choose }: Omit<ReturnType<typeof useCompletion>, "onKey">) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: "nearest" });
  }, [active]);
  if (found.length === 0) return null;
  return (
    <div
      ref={list}
      id={id}
      role="listbox"
      aria-label="Commands"
      className="absolute inset-x-0 bottom-full z-20 mb-1 max-h-64 overflow-y-auto rounded-md bg-bg1 py-1 shadow-float"
    >
      {found.map((c, i) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and handles the keys
        <div
          key={c.name}
          id={`${id}-${i}`}
          role="option"
          tabIndex={-1}
          aria-selected={i === active}
          onMouseDown={(e) => e.preventDefault()}
          onClick={() => choose(c)}
          className={cx(
            "flex min-h-7 cursor-pointer items-baseline gap-3 px-2.5 py-1 pointer-coarse:min-h-11",
            i === active && "bg-bg3",
          )}
        >
          <span className="shrink-0 font-mono text-[12px]">
            /{c.name} <span className="text-fg3">{c.argument_hint}</span>
          </span>
          <span className="min-w-0 truncate text-meta text-fg2">{c.description}</span>
        </div>
      ))}
    </div>
  );
}
