/** Modifier keys as the protocol has them. */
export const modifiers = (e: { altKey: boolean; ctrlKey: boolean; metaKey: boolean; shiftKey: boolean }): number =>
  (e.altKey ? 1 : 0) | (e.ctrlKey ? 2 : 0) | (e.metaKey ? 4 : 0) | (e.shiftKey ? 8 : 0);

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Where a point of the screen is in the page, as parts of its width and height. The picture keeps its form inside its box. */
export function within(box: Box, picture: { width: number; height: number }, x: number, y: number) {
  const scale = Math.min(box.width / picture.width, box.height / picture.height) || 1;
  const [w, h] = [picture.width * scale, picture.height * scale];
  const part = (v: number) => Math.min(1, Math.max(0, v));
  return { x: part((x - box.left - (box.width - w) / 2) / w), y: part((y - box.top - (box.height - h) / 2) / h) };
}

/** The name of a mouse button. */
export const buttonName = (n: number): string => ["left", "middle", "right", "back", "forward"][n] ?? "none";

/** Whether a key writes a character, which the field for text delivers, also when it is composed. */
export const writes = (e: { key: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean }): boolean =>
  e.key.length === 1 && !e.ctrlKey && !e.metaKey && !e.altKey;
