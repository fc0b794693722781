// A Leadsman worker in plain Node 18: leases, heartbeats, checkpoints, drain. docs/protocol.md says why each line is there.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const env = process.env;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const jitter = (ms) => ms * (0.9 + Math.random() * 0.2);

class Refused extends Error {} // the broker's answer to this very request: repeating it cannot help
export class Worker {
  constructor(handlers) {
    this.handlers = handlers;
    this.capabilities = (env.LEADSMAN_CAPABILITIES ?? "").split(",").map((one) => one.trim()).filter(Boolean);
    this.slots = Number(env.LEADSMAN_SLOTS ?? 1);
    this.base = `${env.LEADSMAN_BROKER_URL ?? "http://127.0.0.1:8080"}/v1/namespaces/${env.LEADSMAN_NAMESPACE ?? "default"}`;
    this.identity = { pod_uid: env.LEADSMAN_POD_UID ?? randomUUID(), incarnation: randomUUID(), pool: env.LEADSMAN_POOL };
    this.held = new Map(); // token -> what runs under it
    this.heartbeatMs = 10_000;
    this.state = "connecting";
    this.draining = this.urgent = false;
    const missing = this.capabilities.filter((name) => !handlers[name]);
    if (missing.length || !this.capabilities.length)
      throw new Error(`no handler for ${missing.join(", ") || "anything"}; check LEADSMAN_CAPABILITIES`);
  }

  wake() { this.urgent = true; this.nudge?.(); } // the next heartbeat goes out now, or after the one that is out

  async call(path, body, timeoutMs = 10_000, aborting = new AbortController()) {
    const headers = { "content-type": "application/json" };
    if (env.LEADSMAN_TOKEN_FILE) headers.authorization = `Bearer ${readFileSync(env.LEADSMAN_TOKEN_FILE, "utf8").trim()}`;
    const timer = setTimeout(() => aborting.abort(), timeoutMs);
    const reply = await fetch(this.base + path, { method: "POST", headers, body: JSON.stringify(body), signal: aborting.signal })
      .finally(() => clearTimeout(timer));
    if (reply.ok) return reply.json();
    const text = `${path}: ${reply.status} ${await reply.text()}`;
    throw reply.status >= 500 || reply.status === 429 || reply.status === 408 ? new Error(text) : new Refused(text);
  }

  async repeat(path, body) { // a broker that is away comes back; only a refusal is final
    for (let wait = 100; ; wait = Math.min(wait * 2, 5_000))
      try { return await this.call(path, body); } catch (error) {
        if (error instanceof Refused) return console.error(error.message);
        await sleep(wait * (0.5 + Math.random() / 2));
      }
  }

  async run() {
    const stop = () => { this.draining = true; this.wake(); setTimeout(() => this.parked?.abort(), 300); };
    ["SIGTERM", "SIGINT"].forEach((signal) => process.on(signal, stop));
    if (env.LEADSMAN_HEALTH_PORT)
      createServer((request, reply) => {
        const ready = !this.draining && ["active", "cordoned"].includes(this.state);
        reply.writeHead(request.url === "/livez" || ready ? 200 : 503).end();
      }).listen(Number(env.LEADSMAN_HEALTH_PORT));
    const beating = this.beat();
    await this.lease();
    while (this.held.size) await this.anyEnd();
    this.ended = true;
    await (this.wake(), beating);
    process.exit();
  }

  anyEnd() { return Promise.race([...this.held.values()].map((one) => one.done)); }

  async lease() {
    let attempt = randomUUID(); // the same when a call is repeated: a lost reply loses nothing
    while (!this.draining) {
      const free = this.slots - this.held.size;
      if (!free) { await this.anyEnd(); continue; }
      const wait = this.state === "active" || this.state === "connecting" ? 25 : 0;
      try {
        const reply = await this.call("/leases", {
          worker: this.identity, capabilities: this.capabilities, slots: this.slots, free_slots: free,
          attempt_id: attempt, held: [...this.held.keys()], wait_seconds: wait }, (wait + 10) * 1_000, (this.parked = new AbortController()));
        attempt = randomUUID();
        this.heard(reply.worker);
        for (const lease of reply.leases) if (!this.held.has(lease.token)) this.begin(lease);
        if (!reply.leases.length && !wait) await sleep(jitter(1_000)); // fenced or cordoned: ask now and then
      } catch (error) {
        if (error instanceof Refused) throw error;
        if (!this.draining) await sleep(jitter(1_000));
      }
    }
  }

  begin(lease) {
    const one = { lease, aborting: new AbortController(), progress: 0, waiting: [], told: null };
    this.heartbeatMs = lease.heartbeat_seconds * 1_000;
    this.held.set(lease.token, one);
    one.done = this.attempt(one).finally(() => this.held.delete(lease.token));
    this.wake();
  }

  async attempt(one) {
    const { token, task } = one.lease;
    const context = {
      task, resume: task.checkpoint ?? null, signal: one.aborting.signal,
      progress: () => { one.progress += 1; },
      checkpoint: (state) => new Promise((saved) => { one.state = { state }; one.waiting.push(saved); this.wake(); }),
    };
    let verdict;
    try {
      const handler = this.handlers[task.capability][task.name];
      if (!handler) throw new Error(`no handler ${task.name} for ${task.capability}`);
      verdict = ["ack", { token, result: (await handler(context)) ?? null }];
    } catch (error) {
      if (one.told === "lease_lost") return; // the task is somebody else's: nobody is told anything
      const state = one.state ? { checkpoint: one.state.state } : {};
      verdict = one.told && error.name === "AbortError"
        ? ["release", { token, reason: one.told, ...state }]
        : ["nack", { token, error: { type: error.name.slice(0, 200), message: String(error.message).slice(0, 4_000) }, retry: !error.dead, ...state }];
    }
    const [kind, item] = verdict;
    one.settling = true;
    await this.repeat(`/leases/${kind}`, { [`${kind}s`]: [item] });
  }

  async beat() { // one call renews everything; it also carries checkpoints, at once
    while (!this.ended) {
      this.urgent = false;
      const sent = [...this.held.values()].filter((one) => one.told !== "lease_lost");
      const carried = sent.map((one) => [one, one.waiting.splice(0)]);
      const leases = carried.map(([one, waiting]) => ({ token: one.lease.token,
        ...(one.progress ? { progress_seq: one.progress } : {}), ...(waiting.length ? { checkpoint: one.state.state } : {}) }));
      try {
        const me = { worker: this.identity, capabilities: this.capabilities, slots: this.slots, draining: this.draining };
        const reply = await this.call("/leases/heartbeat", { ...me, leases }, Math.max(500, this.heartbeatMs / 2));
        this.heard(reply.worker);
        reply.leases.forEach((result, index) => {
          const [one, waiting] = carried[index];
          if (result.status !== "ok" && !one.settling) { one.told = result.status; one.aborting.abort(); }
          if (result.status !== "lease_lost") waiting.forEach((saved) => saved());
        });
      } catch (error) { // the broker is away: that is no lost lease
        carried.forEach(([one, waiting]) => one.waiting.unshift(...waiting));
        if (error instanceof Refused) console.error(error.message);
        await sleep(200);
        continue;
      }
      if (!this.urgent) await Promise.race([sleep(jitter(this.heartbeatMs)), new Promise((nudge) => { this.nudge = nudge; })]);
    }
  }

  heard(state) {
    this.state = state;
    if (state === "drain" && !this.draining) process.emit("SIGTERM");
  }
}
