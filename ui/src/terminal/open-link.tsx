import { visible } from "@/format/text";
import { confirm } from "@/state/confirm";
import { toast } from "@/state/toasts";
import { judgeLink } from "./untrusted";

/** Opens a link a program printed, by the rules for such links. */
export function openLink(target: string, shown: string): void {
  const verdict = judgeLink(target, shown);
  if (verdict.open === "no") {
    toast({ kind: "bad", title: "This link is not opened", text: "Only web and mail addresses are." });
    return;
  }
  if (verdict.open === "yes") {
    window.open(verdict.url, "_blank", "noopener,noreferrer");
    return;
  }
  void confirm({
    title: verdict.why === "local" ? "Open a local address?" : "Open this link?",
    body: (
      <>
        <p>
          {verdict.why === "local"
            ? "It points to the machine your browser runs on, which need not be the one the workspace runs on."
            : "Its text does not say where it leads. It leads to:"}
        </p>
        <p className="mt-2 rounded-sm bg-bg2 px-2 py-1 font-mono text-[12px] break-all text-fg">
          {visible(verdict.url)}
        </p>
      </>
    ),
    action: "Open",
  }).then((yes) => {
    if (yes) window.open(verdict.url, "_blank", "noopener,noreferrer");
  });
}
