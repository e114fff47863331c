import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { BASE, type Session } from "@/api/client";
import { Button } from "@/kit/button";
import { Menu, MenuItem, MenuLabel } from "@/kit/menu";

const FORMATS = [
  { format: "asciicast", label: "Asciicast", about: t`with timing and sizes, for asciinema` },
  { format: "text", label: t`Plain text`, about: t`the lines as shown` },
  { format: "raw", label: t`Raw bytes`, about: t`with every escape sequence` },
] as const;

/** Saves what a session printed as a file. */
export function ExportMenu({ session }: { session: Session }) {
  return (
    <Menu
      trigger={
        <Button>
          <Trans>Export</Trans>
        </Button>
      }
    >
      <MenuLabel>
        <Trans>Download the terminal output</Trans>
      </MenuLabel>
      {FORMATS.map((f) => (
        <MenuItem
          key={f.format}
          onSelect={() => save(`${BASE}/sessions/${encodeURIComponent(session.id)}/export?format=${f.format}`)}
          hint={f.about}
        >
          {f.label}
        </MenuItem>
      ))}
    </Menu>
  );
}

/** Saves a conversation as a file; part of a menu. */
export default function SaveConversation({ session }: { session: Session }) {
  const as = (format: string) => () =>
    save(`${BASE}/sessions/${encodeURIComponent(session.id)}/export?format=${format}`);
  return (
    <>
      <MenuLabel>
        <Trans>Download the conversation</Trans>
      </MenuLabel>
      <MenuItem onSelect={as("markdown")}>Markdown</MenuItem>
      <MenuItem onSelect={as("html")} hint={t`one page that needs nothing else`}>
        HTML
      </MenuItem>
      <MenuItem onSelect={as("json")}>JSON</MenuItem>
    </>
  );
}

/** Lets the browser download an address of ours. */
function save(href: string): void {
  const a = document.createElement("a");
  a.href = href;
  a.download = "";
  a.click();
}
