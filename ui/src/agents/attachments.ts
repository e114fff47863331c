import { t } from "@lingui/core/macro";
export interface Attached {
  name: string;
  /** In base64. */
  data: string;
  size: number;
  /** Where the browser shows a picture from; "" for other files. */
  url: string;
}

/** As the server bounds them. */
const MOST = 10;
const LARGEST = 10 << 20;
const ALTOGETHER = 20 << 20;

/** Why files cannot be attached to those that are; "" when they can. */
export function refusal(had: readonly Pick<Attached, "size">[], files: readonly Pick<File, "name" | "size">[]): string {
  if (had.length + files.length > MOST) return t`A prompt takes at most ${MOST} files.`;
  const large = files.find((f) => f.size > LARGEST);
  if (large) return t`${large.name} is larger than ${LARGEST >> 20} MiB.`;
  const empty = files.find((f) => f.size === 0);
  if (empty) return t`${empty.name} is empty.`;
  const sum = [...had, ...files].reduce((n, f) => n + f.size, 0);
  return sum > ALTOGETHER ? t`A prompt takes at most ${ALTOGETHER >> 20} MiB of files.` : "";
}

/** Reads a file for a prompt. */
export function attached(file: File): Promise<Attached> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error);
    reader.onload = () => {
      const url = reader.result as string; // data:TYPE;base64,DATA
      const picture = /^data:image\/(?:png|jpeg|gif|webp)[;,]/.test(url);
      resolve({
        name: file.name || "file",
        data: url.slice(url.indexOf(",") + 1),
        size: file.size,
        url: picture ? url : "",
      });
    };
    reader.readAsDataURL(file);
  });
}
