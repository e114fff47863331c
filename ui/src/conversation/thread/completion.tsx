import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { SuggestionList, type Suggestions, useSuggestions } from "@/kit/suggestions";
import type { Thread } from "./feed";

type Command = Schemas["ThreadCommand"];

/** What can be written after a slash, while the name of it is being written. */
export function useCompletion(thread: Thread | undefined, text: string, setText: (text: string) => void) {
  const typed = /^\/([\w:.-]*)$/.exec(text)?.[1];
  const [closed, setClosed] = useState<string>();
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
  return useSuggestions({
    found,
    choose: (c) => setText(`/${c.name} `),
    close: () => setClosed(text),
    typed: found.length === 1 && found[0]!.name === typed,
  });
}

/** The list above the field. */
export function CompletionList({ list }: { list: Suggestions<Command> }) {
  return (
    <SuggestionList
      list={list}
      label={t`Commands`}
      keyOf={(c) => c.name}
      className="absolute inset-x-0 bottom-full z-20 mb-1 max-h-64 shadow-float"
      row="flex min-h-7 items-baseline gap-3 px-2.5 py-1"
    >
      {(c) => (
        <>
          <span className="shrink-0 font-mono text-code">
            /{c.name} <span className="text-fg3">{c.argument_hint}</span>
          </span>
          <span className="min-w-0 truncate text-meta text-fg2">{c.description}</span>
        </>
      )}
    </SuggestionList>
  );
}
