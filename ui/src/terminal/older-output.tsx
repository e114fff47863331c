import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useMemo, useRef } from "react";
import { api, data } from "@/api/client";
import { count } from "@/format/text";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { Failure, Skeleton } from "@/kit/states";
import { isTerminalDark } from "@/state/look";
import { type Run, readSgr } from "./sgr";
import { DARK, LIGHT } from "./theme";

const ROW = 18;
const PAGE = 1000;
/** Older lines are fetched when so few rows are left above. */
const NEAR = 40;

/** Everything that scrolled off a session's screen, however long ago, read page by page from the server. */
export default function OlderOutput({ sessionId, onClose }: { sessionId: string; onClose: () => void }) {
  const pages = useInfiniteQuery({
    queryKey: ["session", sessionId, "scrollback"],
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/sessions/{id}/scrollback", {
          params: { path: { id: sessionId }, query: { limit: PAGE, style: "sgr", before: pageParam } },
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const lines = useMemo(() => (pages.data?.pages ?? []).toReversed().flatMap((p) => p.items), [pages.data]);
  return (
    <Dialog
      open
      onClose={onClose}
      wide
      title={t`Older output`}
      about={t`Lines that scrolled off the screen, oldest first. The current screen is in the terminal.`}
    >
      {pages.isPending ? (
        <Skeleton label={t`Loading the output`} />
      ) : pages.isError && lines.length === 0 ? (
        <Failure
          className="m-4"
          what={t`The output could not be loaded.`}
          error={pages.error}
          retry={() => void pages.refetch()}
        />
      ) : lines.length === 0 && !pages.hasNextPage ? (
        <p className="px-5 pt-2 pb-6 text-fg2">
          <Trans>No output has scrolled off the screen yet.</Trans>
        </p>
      ) : (
        <Lines
          lines={lines}
          more={pages.hasNextPage}
          busy={pages.isFetchingNextPage}
          failed={pages.isFetchNextPageError}
          older={() => void pages.fetchNextPage()}
        />
      )}
    </Dialog>
  );
}

interface LinesProps {
  lines: string[];
  more: boolean;
  busy: boolean;
  failed: boolean;
  older: () => void;
}

function Lines({ lines, more, busy, failed, older }: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const had = useRef(0);
  const list = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 20,
  });
  const theme = isTerminalDark() ? DARK : LIGHT;
  const first = list.getVirtualItems()[0]?.index ?? Number.POSITIVE_INFINITY;

  // It begins at the end, and what one reads stays where it is when older lines come in above it.
  useLayoutEffect(() => {
    const el = box.current;
    if (!el || lines.length === had.current) return;
    if (had.current === 0) el.scrollTop = el.scrollHeight;
    else el.scrollTop += (lines.length - had.current) * ROW;
    had.current = lines.length;
  }, [lines.length]);

  useLayoutEffect(() => {
    if (had.current > 0 && first < NEAR && more && !busy && !failed) older();
  }, [first, more, busy, failed, older]);

  return (
    <>
      <p role="status" className="px-5 pt-1 text-meta text-fg3">
        <Trans>
          {count(lines.length)} lines{more ? t`, more above` : t`: everything since the beginning`}
        </Trans>
        {busy && t`, loading`}
        {failed && (
          <Button className="ml-2" onClick={older}>
            <Trans>Try again</Trans>
          </Button>
        )}
      </p>
      <section
        ref={box}
        aria-label={t`Older output`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        data-first
        className="mt-2 min-h-0 flex-1 overflow-auto bg-(--term-bg) px-4 py-2 font-mono text-code md:min-h-[50vh]"
      >
        <div className="relative" style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((v) => (
            <div
              key={v.key}
              className="absolute left-0 whitespace-pre"
              style={{ top: v.start, height: ROW, lineHeight: `${ROW}px`, color: theme.foreground }}
            >
              {readSgr(lines[v.index] ?? "", theme).map((r, i) => (
                <span key={i} style={styleOf(r)}>
                  {r.text}
                </span>
              ))}
            </div>
          ))}
        </div>
      </section>
    </>
  );
}

function styleOf(r: Run): React.CSSProperties {
  return {
    color: r.color,
    backgroundColor: r.background,
    fontWeight: r.bold ? 700 : undefined,
    opacity: r.dim ? 0.75 : undefined,
    fontStyle: r.italic ? "italic" : undefined,
    textDecoration: [r.underline && "underline", r.strike && "line-through"].filter(Boolean).join(" ") || undefined,
  };
}
