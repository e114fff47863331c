import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useCallback, useEffect, useRef } from "react";
import { inboxQuery } from "@/inbox/inbox";
import { noticesQuery, silences } from "@/inbox/notices/api";
import { useMe, useTeam } from "@/state/team";
import { dismiss, toast } from "@/state/toasts";
import { useWorkspaceByKey } from "@/state/use-workspace";
import { News, type Note } from "./decide";
import { followRules, loadRules, rules } from "./rules";
import { play } from "./sound";
import { closeSystem, showSystem } from "./system";
import { lookAt, lookedAt, speak } from "./tabs";

/** Notifies about new inbox items by this browser's rules. Renders nothing. */
export default function Notifier() {
  const me = useMe();
  const team = useTeam();
  const { key } = useParams({ strict: false });
  const go = useGo(team.slug);
  const news = useRef(new News());
  const speaks = useRef(false);
  const toasted = useRef(new Map<string, number>());
  const list = useQuery(inboxQuery(team.slug)).data;
  const mutes = useQuery(noticesQuery()).data?.mutes;
  const muted = useRef(mutes);
  muted.current = mutes;

  useEffect(() => loadRules(me.user.id), [me.user.id]);
  useEffect(followRules, []);
  useEffect(
    () =>
      speak(me.user.id, (is) => {
        speaks.current = is;
      }),
    [me.user.id],
  );

  useEffect(() => {
    if (!list) return;
    const now = Date.now();
    const fresh = news.current
      .take(list, now)
      .filter((i) => !muted.current?.some((m) => m.workspace_id === i.workspace_id && silences(m, i.kind, now)));
    const waits = (tag: string) => list.some((i) => tag === "inbox" || i.workspace_id === tag);
    closeSystem(waits);
    for (const [tag, id] of toasted.current) {
      if (waits(tag)) continue;
      dismiss(id);
      toasted.current.delete(tag);
    }
    if (fresh.length === 0) return;
    const r = rules.get();
    void lookedAt()
      .catch(() => new Set<string>())
      .then((looked) => {
        for (const note of news.current.notes(fresh, r, (w) => looked.has(w) || watchedHere(w), now)) {
          tell(note, { team: team.slug, speaks: speaks.current, volume: r.volume, go, toasted: toasted.current });
        }
      });
  }, [list, go, team.slug]);

  return key ? <Looking team={team.slug} workspace={key} /> : null;
}

let here = "";
const watchedHere = (workspace: string): boolean => here === workspace && document.hasFocus();

/** Tracks the workspace this tab shows. */
function Looking({ team, workspace }: { team: string; workspace: string }) {
  const id = useWorkspaceByKey(team, workspace).workspace?.id;
  useEffect(() => {
    if (!id) return;
    here = id;
    const stop = lookAt(id);
    return () => {
      here = "";
      stop();
    };
  }, [id]);
  return null;
}

interface Means {
  /** This tab is the one of its browser that makes sounds and system notifications. */
  speaks: boolean;
  volume: number;
  team: string;
  go: (note: Note) => void;
  toasted: Map<string, number>;
}

function tell(note: Note, { team, speaks, volume, go, toasted }: Means): void {
  if (speaks && note.sound) void play(note.sound, volume);
  if (note.show === "off") return;
  if (note.show === "system" && speaks && showSystem(note, pathTo(team, note), () => go(note))) return;
  // Toasts are for the tab in front; a blocked system notification becomes a toast.
  const told = note.show === "system" && !speaks;
  if (told || document.visibilityState !== "visible") return;
  const before = toasted.get(note.tag);
  if (before !== undefined) dismiss(before);
  const id = toast({
    title: note.title,
    text: note.body,
    lasts: 10_000,
    actions: [
      {
        label: t`Open`,
        run: () => {
          dismiss(id);
          go(note);
        },
      },
    ],
  });
  toasted.set(note.tag, id);
}

function pathTo(team: string, { item }: Note): string {
  const part = encodeURIComponent;
  if (!item) return `/${part(team)}/inbox`;
  return `/${part(team)}/w/${part(item.workspace_key)}${item.session_id ? `?session=${part(item.session_id)}` : ""}`;
}

function useGo(team: string): (note: Note) => void {
  const navigate = useNavigate();
  return useCallback(
    ({ item }) =>
      void (item
        ? navigate({
            to: "/$team/w/$key",
            params: { team, key: item.workspace_key },
            search: item.session_id ? { session: item.session_id } : {},
          })
        : navigate({ to: "/$team/inbox", params: { team } })),
    [navigate, team],
  );
}
