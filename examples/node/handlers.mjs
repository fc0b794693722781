// node handlers.mjs, with LEADSMAN_CAPABILITIES=words
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "./leadsman.mjs";

const words = {
  // Counts the words of each text, and goes on where an earlier attempt was.
  async default({ task, resume, checkpoint, progress, signal }) {
    const state = resume ?? { next: 0, words: 0 };
    for (; state.next < task.payload.texts.length; state.next += 1) {
      progress();
      await sleep(task.payload.pause_ms ?? 0, undefined, { signal });
      state.words += task.payload.texts[state.next].split(/\s+/).filter(Boolean).length;
      await checkpoint({ ...state, next: state.next + 1 });
      console.log(`${task.id}: ${state.next + 1} of ${task.payload.texts.length}`);
    }
    return { words: state.words, resumed: resume !== null };
  },
  async hopeless() {
    throw Object.assign(new RangeError("no text"), { dead: true });
  },
};

await new Worker({ words }).run();
