import { t } from "@lingui/core/macro";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type RefObject, type SyntheticEvent, useState } from "react";
import { api, data } from "@/api/client";
import { fits } from "@/files/fuzzy";
import { visible } from "@/format/text";
import { SuggestionList, type Suggestions, useSuggestions } from "@/kit/suggestions";
import { mentionAt } from "./derive";
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
  const list = useSuggestions({
    // Until the answer is there, of the earlier list only what still fits can be chosen.
    found: open ? (items ?? []).filter((path) => fits(written.path.toLowerCase(), path.toLowerCase())) : [],
    choose: (path) => {
      if (!written) return;
      const before = `${text.slice(0, written.start)}@${path} `;
      setText(before + text.slice(cursor).replace(/^ /, ""));
      requestAnimationFrame(() => {
        box.current?.focus();
        box.current?.setSelectionRange(before.length, before.length);
      });
    },
    close: () => setClosed(written?.start),
  });
  return {
    list,
    onSelect: (e: SyntheticEvent<HTMLTextAreaElement>) => setCursor(e.currentTarget.selectionStart),
  };
}

/** The list below the field. */
export function MentionList({ list }: { list: Suggestions<string> }) {
  return (
    <SuggestionList
      list={list}
      label={t`Files of the branch`}
      keyOf={(path) => path}
      className="-mt-1.5 max-h-44 shrink-0 border border-hairline"
      row="min-h-6 truncate px-3 py-0.5 font-mono text-code pointer-coarse:py-2.5"
    >
      {visible}
    </SuggestionList>
  );
}
