import { t } from "@lingui/core/macro";
import { type ClipboardEvent, type DragEvent, useCallback, useRef, useState } from "react";
import { bytes, visible } from "@/format/text";
import { IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { toast, toastError } from "@/state/toasts";
import { type Attached, attached, refusal } from "./attachments";

/** The files of the prompt that is being written. */
export function useAttachments(takes: boolean) {
  const [list, set] = useState<readonly Attached[]>([]);
  const add = useCallback(
    async (files: FileList) => {
      const chosen = [...files];
      const why = refusal(list, chosen);
      if (why) {
        toast({ kind: "bad", title: t`Not attached`, text: why });
        return;
      }
      try {
        const read = await Promise.all(chosen.map(attached));
        set((now) => [...now, ...read]);
      } catch (error) {
        toastError(t`Not attached`, error);
      }
    },
    [list],
  );
  return { list, set, add, takes };
}

export type Attachments = ReturnType<typeof useAttachments>;

/** What a form or a field does with files that are dropped on it or pasted. */
export const takesFiles = (files: Attachments) => ({
  onDragOver: (e: DragEvent) => files.takes && e.dataTransfer.types.includes("Files") && e.preventDefault(),
  onDrop: (e: DragEvent) => {
    if (!files.takes || e.dataTransfer.files.length === 0) return;
    e.preventDefault();
    void files.add(e.dataTransfer.files);
  },
  onPaste: (e: ClipboardEvent) => {
    if (!files.takes || e.clipboardData.files.length === 0) return;
    e.preventDefault();
    void files.add(e.clipboardData.files);
  },
});

/** The files of a prompt in a form, below its field. */
export function AttachField({ files }: { files: Attachments }) {
  return (
    <div className="-mt-2 flex items-center gap-2 text-meta text-fg2" {...takesFiles(files)}>
      <AttachButton onFiles={files.add} />
      {files.list.length === 0 ? t`Images and files` : <AttachedList files={files} />}
    </div>
  );
}

export function AttachButton({ onFiles }: { onFiles: (files: FileList) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton label={t`Attach images and files`} onClick={() => input.current?.click()}>
        <Icon name="plus" />
      </IconButton>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(e) => {
          if (e.target.files?.length) onFiles(e.target.files);
          e.target.value = ""; // the same file can be chosen again
        }}
      />
    </>
  );
}

export function AttachedList({ files: { list, set } }: { files: Attachments }) {
  if (list.length === 0) return null;
  const onRemove = (at: number) => set((now) => now.filter((_, i) => i !== at));
  return (
    <ul aria-label={t`Attached`} className="flex flex-wrap gap-1.5 px-2 pt-2">
      {list.map((a, i) => (
        <li
          key={`${a.name} ${i}`}
          className="flex items-center gap-1.5 rounded-sm border border-hairline bg-bg2 pl-1.5 text-meta"
        >
          {a.url && <img src={a.url} alt="" className="h-8 w-8 rounded-sm object-cover" />}
          <span className="max-w-48 truncate">{visible(a.name)}</span>
          <span className="text-fg3">{bytes(a.size)}</span>
          <IconButton label={t`Remove ${visible(a.name)}`} onClick={() => onRemove(i)}>
            <Icon name="close" size={12} />
          </IconButton>
        </li>
      ))}
    </ul>
  );
}
