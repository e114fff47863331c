/** Values at which lines are drawn, from 0 to at least `most`, in steps people read easily: 1, 2 or 5 times a power of ten. */
export function ticks(most: number, about = 4): number[] {
  if (most <= 0) return [0];
  const rough = most / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? 10 * power;
  const list: number[] = [];
  for (let i = 0; ; i++) {
    const at = Math.round(i * step);
    if (list.at(-1) !== at) list.push(at);
    if (at >= most) return list;
  }
}

/** The places of labels below `count` bars: as many as find room, evenly apart, the first among them. */
export function labelled(count: number, width: number, room = 56): number[] {
  const step = Math.max(1, Math.ceil((count * room) / Math.max(width, 1)));
  return Array.from({ length: Math.ceil(count / step) }, (_, i) => i * step);
}

/** The bar under a point of the chart. */
export const barAt = (x: number, width: number, count: number): number =>
  Math.min(count - 1, Math.max(0, Math.floor((x / Math.max(width, 1)) * count)));
