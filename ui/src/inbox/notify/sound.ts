import type { Kind } from "./rules";

/** Two short tones each, distinguished by direction: rising for a question, falling for a failure, level for waiting; a single tone for finished. */
const TONES: Record<Kind, readonly number[]> = {
  question: [659, 880],
  failed: [494, 370],
  stuck: [523, 523],
  limited: [523],
  budget: [587, 440],
  review: [784, 784],
  finished: [784],
};

const LENGTH = 0.16; // s
let context: AudioContext | undefined;

/** Plays the sound of a kind. Browsers allow it only after somebody has used the page; before that it stays silent. */
export async function play(kind: Kind, volume: number): Promise<boolean> {
  if (volume <= 0 || typeof AudioContext === "undefined") return false;
  try {
    context ??= new AudioContext();
    if (context.state === "suspended") await context.resume();
    const { currentTime } = context;
    for (const [i, pitch] of TONES[kind].entries()) tone(context, pitch, currentTime + i * LENGTH * 0.8, volume);
    return true;
  } catch {
    return false;
  }
}

function tone(ctx: AudioContext, pitch: number, at: number, volume: number): void {
  const source = new OscillatorNode(ctx, { type: "sine", frequency: pitch });
  const gain = new GainNode(ctx, { gain: 0 });
  // Fade in and out: an abrupt tone clicks.
  gain.gain.setValueAtTime(0, at);
  gain.gain.linearRampToValueAtTime(volume * 0.25, at + 0.015);
  gain.gain.exponentialRampToValueAtTime(0.0001, at + LENGTH);
  source.connect(gain).connect(ctx.destination);
  source.start(at);
  source.stop(at + LENGTH + 0.02);
}
