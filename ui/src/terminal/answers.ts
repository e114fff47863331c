import type { Terminal } from "@xterm/xterm";

/**
 * Programs ask a terminal questions (what are you, where is the cursor, which colours) and wait for an answer. The server gives
 * it, from its own screen: it is there when nobody watches, and answers once when many do. So every question is swallowed here.
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
