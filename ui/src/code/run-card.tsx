import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { CodeBlock } from "@/highlight/code";
import { Failure, Skeleton } from "@/kit/states";
import { RunBody } from "./run";

/** What an agent's call of run_code did, from the record of the run: figures and tables are in no transcript. */
export default function RunCard({ id, code, language }: { id: string; code: string; language: string }) {
  const run = useQuery({
    queryKey: ["code", id],
    queryFn: () => data(api.GET("/code/{id}", { params: { path: { id } } })),
    staleTime: Number.POSITIVE_INFINITY, // it has ended
  });
  if (run.data) return <RunBody run={run.data} canRun={false} />;
  return (
    <>
      <CodeBlock language={language} text={code} />
      {run.isPending ? (
        <Skeleton rows={2} label={t`Loading what came of it`} />
      ) : (
        <Failure
          what={t`The record of this run could not be loaded.`}
          error={run.error}
          retry={() => void run.refetch()}
        />
      )}
    </>
  );
}
