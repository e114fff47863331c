import type { Terminal } from "@xterm/xterm";

/**
 * Programs query a terminal (device attributes, cursor position, colours) and wait for a reply. The server sends
 * it from its own screen, so there is exactly one reply, with no viewer or with many. So this terminal swallows all queries.
 */
export function swallowQuestions(term: Terminal): void {
  const parser = term.parser;
  const swallow = () => true;
  const csi = [
    { final: "c" },
    { prefix: ">", final: "c" },
    { prefix: "=", final: "c" },
    { final: "n" },
    { prefix: "?", final: "n" },
    { prefix: ">", final: "q" },
    { prefix: "?", final: "u" },
    { intermediates: "$", final: "p" },
    { prefix: "?", intermediates: "$", final: "p" },
    { final: "t" },
    { final: "x" },
  ];
  for (const id of csi) parser.registerCsiHandler(id, swallow);
  parser.registerDcsHandler({ intermediates: "$", final: "q" }, swallow);
  parser.registerDcsHandler({ intermediates: "+", final: "q" }, swallow);
  // Colours are asked for and set by the same sequence: only the question is held back.
  for (const osc of [4, 10, 11, 12]) parser.registerOscHandler(osc, (payload) => payload.includes("?"));
}
