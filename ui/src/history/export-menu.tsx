import { BASE, type Session } from "@/api/client";
import { Button } from "@/kit/button";
import { Menu, MenuItem, MenuLabel } from "@/kit/menu";

const FORMATS = [
  { format: "asciicast", label: "Asciicast", about: "with timing and sizes, for asciinema" },
  { format: "text", label: "Plain text", about: "the lines as shown" },
  { format: "raw", label: "Raw bytes", about: "with every escape sequence" },
] as const;

/** Saves what a session printed as a file. */
export function ExportMenu({ session }: { session: Session }) {
  return (
    <Menu trigger={<Button>Export</Button>}>
      <MenuLabel>Download the terminal output</MenuLabel>
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

/** Lets the browser download an address of ours. */
function save(href: string): void {
  const a = document.createElement("a");
  a.href = href;
  a.download = "";
  a.click();
}
