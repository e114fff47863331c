import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type RefObject, type SyntheticEvent, useId, useState } from "react";
import { api, data } from "@/api/client";
import { visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { fits, mentionAt } from "./derive";
import { useSettled } from "./use-settled";

/** Files of the base branch to name in a prompt, while one is being written after an @. */
export function useMention(
  project: string,
  branch: string,
  box: RefObject<HTMLTextAreaElement | null>,
  text: string,
  setText: (text: string) => void,
) {
  const [cursor, setCursor] = useState(0);
  const [closed, setClosed] = useState<number>(); // where the @ is whose list was closed
  const [at, setAt] = useState(0);
  const id = useId();
  const written = mentionAt(text, cursor);
  const open = written !== undefined && written.start !== closed;
  const query = useSettled(open ? written.path : "", 120);
  const { data: items } = useQuery({
    queryKey: ["project", project, "paths", branch, query],
    queryFn: async () =>
      (
        await data(
          api.GET("/projects/{id}/paths", {
            params: { path: { id: project }, query: { q: query, limit: 30, ...(branch ? { branch } : {}) } },
          }),
        )
      ).items,
    enabled: open,
    placeholderData: keepPreviousData,
    staleTime: 30_000,
    retry: false,
  });
  // Until the answer is there, of the earlier list only what still fits can be chosen.
  const found = open ? (items ?? []).filter((path) => fits(path, written.path)) : [];
  const active = Math.min(at, found.length - 1);
  const choose = (path: string) => {
    if (!written) return;
    const before = `${text.slice(0, written.start)}@${path} `;
    setText(before + text.slice(cursor).replace(/^ /, ""));
    setAt(0);
    requestAnimationFrame(() => {
      box.current?.focus();
      box.current?.setSelectionRange(before.length, before.length);
    });
  };
  return {
    id,
    found,
    active,
    choose,
    onSelect: (e: SyntheticEvent<HTMLTextAreaElement>) => setCursor(e.currentTarget.selectionStart),
    /** Whether the key was for the list. */
    onKey: (e: KeyboardEvent): boolean => {
      if (found.length === 0) return false;
      if (e.key === "ArrowDown") setAt((active + 1) % found.length);
      else if (e.key === "ArrowUp") setAt((active + found.length - 1) % found.length);
      else if (e.key === "Tab" || (e.key === "Enter" && !e.shiftKey && !e.ctrlKey && !e.metaKey))
        choose(found[active]!);
      else if (e.key === "Escape") setClosed(written?.start);
      else return false;
      e.preventDefault();
      e.stopPropagation();
      return true;
    },
  };
}

type List = Pick<ReturnType<typeof useMention>, "id" | "found" | "active" | "choose">;

/** The list below the field. */
export function MentionList({ id, found, active, choose }: List) {
  if (found.length === 0) return null;
  return (
    <div
      id={id}
      role="listbox"
      aria-label="Files of the branch"
      tabIndex={-1}
      className="-mt-1.5 max-h-44 shrink-0 overflow-y-auto rounded-md border border-hairline bg-bg1 py-1"
    >
      {found.map((path, i) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and handles the keys
        <div
          key={path}
          id={`${id}-${i}`}
          ref={i === active ? (el) => el?.scrollIntoView({ block: "nearest" }) : undefined}
          role="option"
          tabIndex={-1}
          aria-selected={i === active}
          onMouseDown={(e) => e.preventDefault()}
          onClick={() => choose(path)}
          className={cx(
            "min-h-6 cursor-pointer truncate px-3 py-0.5 font-mono text-[12px] pointer-coarse:min-h-11 pointer-coarse:py-2.5",
            i === active && "bg-bg3",
          )}
        >
          {visible(path)}
        </div>
      ))}
    </div>
  );
}
