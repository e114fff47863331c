import { t } from "@lingui/core/macro";
import { api, data } from "@/api/client";
import { visible } from "@/format/text";
import { openPreview } from "@/sandboxes/preview";
import { openPort } from "@/sandboxes/remote";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";
import { judgeLink, type LinkVerdict } from "./untrusted";

/** Opens a link a program in a workspace printed, by the rules for such links. */
export function openLink(target: string, shown: string, workspaceId = ""): void {
  const verdict = judgeLink(target, shown);
  if (verdict.open === "no") {
    toast({ kind: "bad", title: t`The link was not opened`, text: t`Only web and email links can be opened.` });
    return;
  }
  if (verdict.open === "yes") {
    window.open(verdict.url, "_blank", "noopener,noreferrer");
    return;
  }
  if (verdict.why === "local") {
    void offerPreview(workspaceId, verdict.url).then((offered) => offered || ask(verdict));
    return;
  }
  ask(verdict);
}

/** A link to the machine itself means the workspace's own, where that port can be seen. Reports whether it was offered. */
async function offerPreview(workspaceId: string, url: string): Promise<boolean> {
  if (!workspaceId) return false;
  const target = new URL(url);
  const port = Number(target.port || (target.protocol === "https:" ? 443 : 80));
  const ports = await data(api.GET("/workspaces/{id}/ports", { params: { path: { id: workspaceId } } })).catch(
    () => undefined,
  );
  if (!ports?.enabled || !ports.items.some((p) => p.port === port)) return false;
  const yes = await confirm({
    title: t`Open port ${port} of the workspace?`,
    body: t`The preview shows the program listening there, at its own address.`,
    action: t`Open preview`,
  });
  if (yes)
    await openPreview(() => openPort(workspaceId, port)).catch((e) =>
      toastError(t`The preview could not be opened`, e),
    );
  return true;
}

function ask(verdict: Extract<LinkVerdict, { open: "ask" }>): void {
  void confirm({
    title: verdict.why === "local" ? t`Open a local address?` : t`Open this link?`,
    body: (
      <>
        <p>
          {verdict.why === "local"
            ? t`It points to the computer your browser runs on, which may not be the one the workspace runs on.`
            : t`The link text differs from its target. The link leads to:`}
        </p>
        <p className="mt-2 rounded-sm bg-bg2 px-2 py-1 font-mono text-code break-all text-fg">{visible(verdict.url)}</p>
      </>
    ),
    action: t`Open`,
  }).then((yes) => {
    if (yes) window.open(verdict.url, "_blank", "noopener,noreferrer");
  });
}
