import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Suspense, useEffect, useState } from "react";
import { api, data } from "@/api/client";
import { ApiError } from "@/api/problem";
import { Confirmer } from "@/kit/confirmer";
import { PlainPage } from "@/kit/pages";
import { lazy } from "@/kit/part";
import { Failure, Skeleton } from "@/kit/states";
import { Toaster } from "@/kit/toaster";
import { useTitle } from "@/state/use-title";

const Watched = lazy(() => import("./watch-terminal"));
const route = getRouteApi("/watch");

/** One session's terminal for whoever has a link to it, without a login. */
export function WatchScreen() {
  const { link } = route.useSearch();
  const navigate = route.useNavigate();
  const [token, setToken] = useState(() => location.hash.slice(1));
  const opened = useQuery({
    queryKey: ["watch", token, token ? "" : link],
    queryFn: () => data(api.POST("/watch", { body: token ? { token } : { link_id: link ?? "" } })),
    enabled: token !== "" || link !== undefined,
    retry: (n, e) => n < 3 && e instanceof ApiError && (e.status === 0 || e.status === 503),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  useTitle(opened.data ? t`Watching ${opened.data.workspace.name}` : t`Watch a session`);

  // The secret leaves the address at once: it stays in no tab, no history and no bookmark. A reload goes on with the cookie.
  useEffect(() => {
    const take = () => {
      const found = location.hash.slice(1);
      if (!found) return;
      setToken(found);
      void navigate({ hash: "", search: {}, replace: true });
    };
    take();
    addEventListener("hashchange", take);
    return () => removeEventListener("hashchange", take);
  }, [navigate]);
  const id = opened.data?.link_id;
  useEffect(() => {
    if (id && id !== link && !location.hash) void navigate({ search: { link: id }, replace: true });
  }, [id, link, navigate]);

  const over = opened.error instanceof ApiError && opened.error.status === 410;
  return (
    <>
      {opened.data && !opened.isError ? (
        <Suspense fallback={<Skeleton label={t`Opening the session`} />}>
          <Watched key={opened.data.link_id} watched={opened.data} onEnded={opened.refetch} />
        </Suspense>
      ) : over || (!token && !link) ? (
        <PlainPage title={over ? t`This link has expired` : t`Invalid link`}>
          <p className="text-fg2">
            {over
              ? t`The link expired or was revoked, or the session was deleted. Ask the sender for a new link.`
              : t`Open the complete address you were sent, including the part after the #.`}
          </p>
        </PlainPage>
      ) : opened.isError ? (
        <PlainPage title={t`Watch a session`}>
          <Failure
            what={t`The session could not be opened.`}
            error={opened.error}
            retry={() => void opened.refetch()}
          />
        </PlainPage>
      ) : (
        <main className="p-6">
          <Skeleton label={t`Opening the session`} />
        </main>
      )}
      <Confirmer />
      <Toaster />
    </>
  );
}
