import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";
import { api, BASE, data, type Schemas } from "@/api/client";
import { CodeBlock } from "@/highlight/code";
import { Button } from "@/kit/button";
import { FormError, Output } from "@/kit/states";
import { ending, parts } from "./results";

type Run = Schemas["CodeRun"];

/** The code of a run, and what came of it. */
export function RunBody({ run: r, canRun }: { run: Run; canRun: boolean }) {
  const interrupt = useMutation({
    mutationFn: () => data(api.POST("/code/{id}/interrupt", { params: { path: { id: r.id } } })),
  });
  return (
    <>
      <CodeBlock language={r.language} text={r.code} />
      {r.outputs.map((o, i) => (
        <Shown key={i} output={o} />
      ))}
      {r.error && (
        <Output text={r.error.traceback || `${r.error.name}: ${r.error.value}`} className="mt-2 text-danger" />
      )}
      {r.state === "running" ? (
        <div className="mt-2 flex items-center gap-3">
          <span className="text-fg3">
            <Trans>Running</Trans>
          </span>
          {canRun && (
            <Button busy={interrupt.isPending && t`Interrupting`} onClick={() => interrupt.mutate()}>
              <Trans>Interrupt</Trans>
            </Button>
          )}
        </div>
      ) : (
        ending(r) && <p className="mt-2 text-fg3">{ending(r)}</p>
      )}
      {interrupt.isError && <FormError error={interrupt.error} />}
      {r.truncated && (
        <p className="mt-1 text-meta text-fg3">
          <Trans>Something was left out, because there was too much.</Trans>
        </p>
      )}
    </>
  );
}

/** One output. Pages that code made get no origin and no scripts. */
function Shown({ output: o }: { output: Schemas["CodeOutput"] }) {
  const p = parts(o);
  return (
    <div className="mt-2">
      {p.text !== undefined && <Output text={p.text} className={o.type === "stderr" ? "text-warning" : undefined} />}
      {p.image && (
        <img src={p.image} alt={t`Made by the code`} className="max-h-[70vh] max-w-full rounded-sm bg-white" />
      )}
      {p.page && (
        <iframe srcDoc={p.page} sandbox="" title={t`Made by the code`} className="h-48 w-full resize-y bg-white" />
      )}
      {p.artifacts.map(([mime, id]) => (
        <p key={mime}>
          <a className="underline" href={`${BASE}/artifacts/${encodeURIComponent(id)}/content`}>
            <Trans>Download {mime}</Trans>
          </a>{" "}
          <span className="text-fg3">
            <Trans>kept as an artifact</Trans>
          </span>
        </p>
      ))}
    </div>
  );
}
