import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { Suspense, useEffect, useState } from "react";
import { workspacesQuery } from "@/api/queries";
import { useAction } from "@/keys/keyboard";
import { onFirstInput } from "@/kit/first-input";
import { lazy } from "@/kit/part";
import { isDark, setLook } from "@/state/look";
import { useTeam } from "@/state/team";

const loadPalette = () => import("./palette");
const Palette = lazy(loadPalette);
const QuickOpen = lazy(() => import("@/files/quick-open"));
const HelpSheet = lazy(() => import("./help-sheet"));

/** The actions that work everywhere, the palette and the help sheet. */
export function GlobalActions() {
  const team = useTeam();
  const navigate = useNavigate();
  const { key } = useParams({ strict: false });
  const [open, setOpen] = useState<"palette" | "help" | "files" | "">("");
  const list = useQuery(workspacesQuery(team.slug));
  const params = { team: team.slug };

  // Loaded in advance: otherwise keys typed while it loads would trigger other actions.
  useEffect(() => onFirstInput(() => void loadPalette().catch(() => {})), []);

  const here = key ? list.data?.find((w) => w.key === key) : undefined;
  useAction("palette", () => setOpen("palette"));
  // Without a workspace the key finds what there is otherwise: the browser would print the page.
  useAction("files.quick", () => setOpen(here ? "files" : "palette"));
  useAction(
    "files.find",
    () =>
      here &&
      void navigate({
        to: "/$team/w/$key/edit",
        params: { ...params, key: here.key },
        search: (s: { path?: string }) => ({ path: s.path, find: true as const }),
      }),
    Boolean(here),
  );
  useAction("palette.terminal", () => setOpen("palette"));
  useAction("help", () => setOpen("help"));
  useAction("theme", () => setLook({ theme: isDark() ? "light" : "dark" }));
  useAction("go.inbox", () => void navigate({ to: "/$team/inbox", params }));
  useAction("go.workspaces", () => void navigate({ to: "/$team/w", params }));
  useAction("go.tasks", () => void navigate({ to: "/$team/tasks", params }));
  useAction("go.runs", () => void navigate({ to: "/$team/runs", params }));
  useAction("go.projects", () => void navigate({ to: "/$team/p", params }));
  useAction("go.machines", () => void navigate({ to: "/$team/machines", params }));
  useAction("go.sandboxes", () => void navigate({ to: "/$team/sandboxes", params }));
  useAction("go.automations", () => void navigate({ to: "/$team/automations", params }));
  useAction("go.jobs", () => void navigate({ to: "/$team/jobs", params }));
  useAction("go.skills", () => void navigate({ to: "/$team/skills", params }));
  useAction("go.usage", () => void navigate({ to: "/$team/usage", params }), team.can("costs.view"));
  useAction(
    "go.settings",
    () => void navigate({ to: "/$team/settings/{-$section}", params: { ...params, section: undefined } }),
  );
  useAction(
    "workspace.new",
    () => void navigate({ to: ".", search: (s) => ({ ...s, new: "1" }) }),
    team.can("workspace.create"),
  );
  useAction(
    "project.new",
    () => void navigate({ to: "/$team/p", params, search: { add: "url" } }),
    team.can("project.manage"),
  );
  useAction(
    "machine.connect",
    () => void navigate({ to: "/$team/machines", params, search: { connect: true } }),
    team.can("workspace.create"),
  );

  return (
    <Suspense>
      {open === "palette" && <Palette onClose={() => setOpen("")} />}
      {open === "files" && here && <QuickOpen workspace={here} onClose={() => setOpen("")} />}
      {open === "help" && <HelpSheet onClose={() => setOpen("")} />}
    </Suspense>
  );
}
