import { t } from "@lingui/core/macro";
import { actions, GROUP_NAMES } from "@/keys/registry";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Kbd } from "@/kit/kbd";
import { look } from "@/state/look";
import { useStore } from "@/state/store";

// Not for translation: codes of groups.
const GROUPS = ["General", "Go to", "Questions", "Workspace", "Terminal", "Review"] as const;

/** Lists all keyboard shortcuts from the registry. */
export default function HelpSheet({ onClose }: { onClose: () => void }) {
  const { singleKeys } = useStore(look);
  return (
    <Dialog
      open
      onClose={onClose}
      title={t`Keyboard shortcuts`}
      wide
      about={
        singleKeys
          ? t`Single keys work unless a text field or terminal has focus. In a terminal, every key except the shortcuts with modifiers below goes to the program.`
          : t`Single keys are turned off in Settings, Appearance. Shortcuts with modifiers still work.`
      }
    >
      <DialogBody focusable className="grid content-start gap-x-8 gap-y-4 md:grid-cols-2">
        {GROUPS.map((group) => (
          <section key={group} aria-label={GROUP_NAMES[group]}>
            <h3 className="mb-1 font-semibold">{GROUP_NAMES[group]}</h3>
            <dl>
              {actions
                .filter((a) => a.group === group)
                .map((a) => (
                  <div key={a.id} className="flex items-baseline justify-between gap-3 py-0.5">
                    <dt className="text-fg2">{a.label}</dt>
                    <dd className="shrink-0">
                      {(a.shown ? [a.shown] : a.keys).map((k) => (
                        <Kbd key={k} keys={k} spoken className="pointer-coarse:inline" />
                      ))}
                    </dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </DialogBody>
    </Dialog>
  );
}
