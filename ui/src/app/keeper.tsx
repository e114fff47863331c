import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { workspacesQuery } from "@/api/queries";
import { keepKnown } from "@/state/known";

const MOST = 100; // workspaces
const PAUSE = 3_000; // ms

/** Has the browser keep the page's files, and the names of workspaces, for when it is opened without a connection. */
export default function Keeper({ team }: { team: string }) {
  const { data } = useQuery({ ...workspacesQuery(team), enabled: false });
  useEffect(() => {
    if (isSecureContext && import.meta.env.PROD) void navigator.serviceWorker?.register("/sw.js").catch(() => {});
  }, []);
  useEffect(() => {
    if (!data) return;
    const items = data.slice(0, MOST).map((w) => ({ key: w.key, name: w.name, project: w.project_name }));
    const timer = setTimeout(() => void keepKnown({ team, at: Date.now(), items }), PAUSE);
    return () => clearTimeout(timer);
  }, [team, data]);
  return null;
}
