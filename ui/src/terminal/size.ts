/** The least the server takes as a wish, and the smallest letters a person can still read. */
export const MIN_COLS = 20;
export const MIN_ROWS = 5;
export const MIN_FONT = 8;

export interface Box {
  width: number;
  height: number;
}

/**
 * The letter size at which somebody else's columns and rows fit this box: never larger than one's own, never below 8 px, where
 * the view pans instead. `cell` is the size of a cell at `font`.
 */
export function fontFor(box: Box, cols: number, rows: number, cell: Box, font: number): number {
  const scale = Math.min(1, (box.width - 14) / (cols * cell.width), box.height / (rows * cell.height));
  return Math.max(MIN_FONT, Math.floor(font * scale * 2) / 2);
}
