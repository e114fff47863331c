import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";

export default function AboutSettings() {
  const health = useQuery({ queryKey: ["health"], queryFn: () => data(api.GET("/health")) });
  const link = "text-accent underline";
  return (
    <div className="flex flex-col gap-2 text-fg2">
      <p>
        <Trans>
          Parawork <span className="font-mono text-code">{health.data?.version ?? "…"}</span>, MIT licence.
        </Trans>
      </p>
      <p>
        <a href="/api/docs" target="_blank" rel="noreferrer" className={link}>
          <Trans>API documentation</Trans>
        </a>
      </p>
      <p>
        <a href="/THIRD_PARTY_LICENSES.txt" target="_blank" rel="noreferrer" className={link}>
          <Trans>Licences of the web app's dependencies</Trans>
        </a>
      </p>
    </div>
  );
}
