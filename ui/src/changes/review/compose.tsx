import { t } from "@lingui/core/macro";
import { useStore } from "@/state/store";
import { Box } from "./box";
import { useComments } from "./data";
import { aboutOf } from "./places";
import { end, type, writingIn } from "./writing";

/** The form for a new comment below its lines. */
export function Compose({ workspace, at, onDone }: { workspace: string; at: string; onDone: () => void }) {
  const w = useStore(writingIn(workspace)).find((x) => x.key === at);
  const { add } = useComments(workspace);
  if (!w) return null;
  const label = t`Comment on ${aboutOf(w)}`;
  const done = () => {
    end(workspace, w.key);
    onDone();
  };
  return (
    <section
      aria-label={label}
      className="mx-2 my-1.5 max-w-3xl rounded-md border border-control bg-bg1 px-3 py-2 font-sans text-body leading-5 whitespace-normal"
    >
      <Box
        autoFocus
        label={label}
        text={w.text}
        onText={(text) => type(workspace, w.key, text)}
        action={t`Add to the review`}
        busy={add.isPending}
        error={add.error}
        onCancel={done}
        onDone={() =>
          add.mutate(
            {
              path: w.path,
              side: w.side,
              line: w.line,
              end_line: w.end_line,
              revision: w.revision || undefined,
              body: w.text,
            },
            { onSuccess: done },
          )
        }
      >
        <p className="text-meta text-fg3">{w.line === 0 ? t`On the whole file` : t`On ${aboutOf(w)}`}</p>
      </Box>
    </section>
  );
}
