import { useMemo } from "react";
import { encode } from "uqr";

/** A QR code. It is dark on white in both themes: cameras want it so. */
export function QrCode({ text, label, size = 184 }: { text: string; label: string; size?: number }) {
  const { path, side } = useMemo(() => qrPath(text), [text]);
  return (
    <svg
      role="img"
      aria-label={label}
      width={size}
      height={size}
      viewBox={`0 0 ${side} ${side}`}
      shapeRendering="crispEdges"
      className="shrink-0 rounded-md"
    >
      <rect width={side} height={side} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}

/** The dark squares as one path, with the quiet edge of four squares the standard (ISO/IEC 18004) wants. */
export function qrPath(text: string): { path: string; side: number } {
  const { data, size } = encode(text, { ecc: "M", border: 4 });
  let path = "";
  data.forEach((row, y) => {
    for (let x = 0; x < row.length; ) {
      if (!row[x]) {
        x++;
        continue;
      }
      let end = x;
      while (row[end]) end++;
      path += `M${x} ${y}h${end - x}v1H${x}z`;
      x = end;
    }
  });
  return { path, side: size };
}
