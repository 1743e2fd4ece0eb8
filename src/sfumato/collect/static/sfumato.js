// @ts-check
/**
 * Sfumato in the browser: blurs one person's answers on their own device; only the blurred report
 * leaves it.
 *
 *     const survey = await Survey.open("https://collector.example/health-2027");
 *     const { bytes } = await survey.answer({ smoker: "yes" });  // drawn once, written down
 *     await survey.send();
 *
 * Or in a page: <sfumato-survey campaign="https://collector.example/health-2027">.
 *
 * @typedef {import("./program.js").Column} Column
 * @typedef {{id: string, values: any[], body: string, at: number,
 *   state: "drawn" | "sending" | "sent" | "withdrawn"}} Report
 * @typedef {{server: string, campaign: string, round: number, hash: string, spent: number,
 *   question?: number, report?: Report}} Entry  a round of a campaign in this browser's ledger
 * @typedef {{atMost?: number, public?: string[] | null, budget?: number}} Limits  what the page
 *   allows, whatever a campaign asks: the largest gamma, the columns that may be sent as they are
 *   (null where the person is shown them, as the form does), the epsilon for one server
 */
import { Draws, Program, SfumatoError, above, rounded, stated } from "./program.js";

export { Draws, Program, SfumatoError };

const DAY = 86_400_000;
const PATIENCE = 14 * DAY;

/** Names by which machines call themselves. */
const LOCAL =
  /^(.+\.)?localhost$|^localhost(\.localdomain|[46](\.localdomain[46])?)$|^ip6-(localhost|loopback)$/;

/** A server by one name, however it is spelt: by http or https, with or without the usual port, by
 * any name by which a machine calls itself. @param {string} origin */
export function account(origin) {
  const { hostname, port } = new URL(origin);
  const host = ipv4(hostname.replace(/\.+$/, ""));
  const own = LOCAL.test(host) || /^127(\.\d+){3}$|^0\.0\.0\.[01]$/.test(host);
  return `${own ? "127.0.0.1" : host}:${["80", "443"].includes(port) ? "" : port}`;
}

/** The IPv4 address that one of IPv6 holds: as it was once written, mapped, or behind NAT64; any
 * other host as it is. @param {string} host */
function ipv4(host) {
  const found = /^\[(?:::ffff:(\w+):|(?:64:ff9b)?::(?:(\w+):)?)(\w*)\]$/.exec(host);
  if (!found) return host;
  const halves = [found[1] ?? found[2], found[3]].map((half) => parseInt(half || "0", 16));
  return halves.flatMap((half) => [half >> 8, half & 255]).join(".");
}

/**
 * Change this browser's ledger in one transaction: all that `work` writes is on disk when this is
 * done, or nothing is. `work` sees what was spent on this server and must not wait for anything.
 * @template T
 * @param {string} server
 * @param {(entries: Entry[], put: (entry: Entry) => void) => T} work
 * @returns {Promise<T>}
 */
function ledger(server, work) {
  /** @returns {Promise<any>} */
  const change = () =>
    new Promise((resolve, reject) => {
      const asked = indexedDB.open("sfumato", 1);
      asked.onupgradeneeded = () =>
        asked.result.createObjectStore("ledger", { keyPath: ["server", "campaign", "round"] });
      asked.onerror = () => reject(unsupported("storage"));
      asked.onsuccess = () => {
        const base = asked.result;
        const transaction = base.transaction("ledger", "readwrite", { durability: "strict" });
        const store = transaction.objectStore("ledger");
        /** @type {any} */
        let result;
        /** @type {any} */
        let failure;
        const found = store.getAll();
        found.onsuccess = () => {
          try {
            const its = found.result.filter((entry) => account(entry.server) === server);
            result = work(its, (entry) => store.put(entry));
          } catch (error) {
            failure = error;
            transaction.abort();
          }
        };
        transaction.oncomplete = () => (base.close(), resolve(result));
        transaction.onabort = () => (base.close(), reject(failure ?? unsupported("storage")));
      };
    });
  // A lock keeps other tabs waiting; where there is none, the transaction alone does.
  /** @type {any} */
  const { locks } = navigator;
  return locks ? locks.request(`sfumato ${server}`, change) : change();
}

/** @param {"crypto" | "storage"} what */
function unsupported(what) {
  return new SfumatoError("support", `no ${what} in this browser; or use sfumato send`, { what });
}

/** @param {any} text such as "19/1" @returns {[bigint, bigint]} */
function promised(text) {
  const [, n, d] = /^(\d{1,128})\/(\d{1,128})$/.exec(text) ?? [];
  if (!n || !BigInt(d)) throw new SfumatoError("promise", "the campaign states no promise");
  return [BigInt(n), BigInt(d)];
}

/** JSON in the one way in which it is signed (RFC 8785). @param {any} value @returns {string} */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const parts = Object.keys(value).sort();
  return `{${parts.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)}}`;
}

/** @param {string} text @returns {Promise<string>} in hexadecimal */
export async function sha256(text) {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(hash)].map((octet) => octet.toString(16).padStart(2, "0")).join("");
}

/** The code of an answer in its column.
 * @param {any} attribute @param {Column} column @param {any} value */
export function code(attribute, column, value) {
  const { type, values, edges, min, max, step } = attribute;
  if (type === "items") return [...value].map((item) => values.indexOf(item));
  if (type === "category") return values.indexOf(value);
  if (typeof value !== "number" || !(value >= (min ?? edges[0]) && value <= (max ?? edges.at(-1))))
    return -1;
  if (type === "bins")
    return edges.slice(1, -1).filter((/** @type {number} */ edge) => value >= edge).length;
  // Halves go to the even neighbour, as in the library.
  const place = (value - min) / (step ?? (max - min) / (column.size - 1));
  const near = Math.round(place);
  return Math.min(near - Number(near - place === 0.5 && near % 2 === 1), column.size - 1);
}

/** Whether an attribute is of a kind that is known, and of as many values as its column; a number
 * without a step may have one of two grids.
 * @param {any} attribute @param {Column} column */
function fits({ type, values, edges, min, max, step }, column) {
  const sizes = values
    ? [new Set(values).size]
    : edges
      ? [edges.length - 1]
      : step
        ? [Math.floor((max - min) / step + 1e-9) + 1]
        : [max - min + 1, 65_537];
  const kinds = values ? ["category", "items"] : [edges ? "bins" : "numeric"];
  return (
    kinds.includes(type) && sizes.includes(column.size) && column.basket === (type === "items")
  );
}

/** A campaign as this browser takes part in it. */
export class Survey {
  /**
   * Fetches a campaign, checks its program against its promise, and deals the question where one is
   * dealt: it is written down before anything is asked, and no reload deals another.
   * @param {string | URL} url of the form or of /v1/campaigns/name
   * @param {Limits & {campaign?: any}} [known] the page's limits, and the campaign itself where the
   *   page carries it
   */
  static async open(url, { campaign, ...limits } = {}) {
    if (!globalThis.crypto?.subtle) throw unsupported("crypto");
    if (!globalThis.indexedDB) throw unsupported("storage");
    const address = new URL(url, globalThis.location?.href);
    address.search = address.hash = "";
    if (!address.pathname.includes("/v1/campaigns/"))
      address.pathname = address.pathname.replace(/([^/]*)\/?$/, "v1/campaigns/$1");
    const found = campaign ?? (await (await ask(address)).json());
    const survey = new Survey(address, found, limits);
    const { domain, program, round, hash } = found;
    if ((await sha256(canonical({ domain, program, round }))) !== hash)
      throw new SfumatoError("program", "the campaign is not the one that its hash names");
    survey.entry = await survey.change((entry, _, put) => {
      if (survey.program.deal && entry.question === undefined)
        put({ ...entry, question: survey.program.question(new Draws()) });
    });
    return survey;
  }

  /** @param {URL} address @param {any} campaign @param {Limits} [limits] */
  constructor(address, campaign, limits = {}) {
    this.address = address;
    this.campaign = campaign;
    this.program = new Program(campaign.program);
    /** @type {any[]} */
    this.attributes = campaign.domain.attribute;
    const { inputs } = this.program;
    const { name, hash, round } = campaign; // by which the ledger knows it
    const known = typeof name === "string" && typeof hash === "string";
    if (!known || !Number.isSafeInteger(round) || round < 1)
      throw new SfumatoError("program", "the campaign has no name, hash or round");
    const names = this.attributes.map((attribute) => attribute.name);
    if (
      inputs.length !== new Set(names).size ||
      !this.attributes.every(
        (attribute, i) => typeof names[i] === "string" && inputs[i] && fits(attribute, inputs[i]),
      )
    )
      throw new SfumatoError("program", "the campaign's program does not fit its questions");
    const sizes = [campaign.promise?.sizes ?? []].flat();
    /** @type {[number, string][]} what the campaign says is sent as it is */
    const said = this.attributes.flatMap(({ name, public: open }, i) =>
      open ? [[i, "value"]] : sizes.includes(name) ? [[i, "size"]] : [],
    );
    /** What a report gives away at most, computed here; infinite where not all is said. */
    this.gamma = this.program.gammaBeside(said);
    const { gamma } = this;
    if (above(gamma, promised(campaign.promise?.gamma)))
      throw new SfumatoError("promise", "this campaign would give away more than it promises");
    /** What that amounts to, as it is read. */
    this.stated = stated(gamma);
    /** What one report costs, computed here: the logarithm of gamma. */
    this.epsilon = this.stated.cost;
    const { atMost = 20, public: named = [], budget = 6 } = limits;
    if (!(atMost >= 1) || !(budget > 0))
      throw new SfumatoError("limits", "at-most and budget are numbers, from 1 on and above 0");
    const units = atMost < 2 ** 53 ? 1e6 : 1; // beyond every number is whole
    if (atMost < Infinity && above(gamma, [BigInt(Math.floor(atMost * units)), BigInt(units)]))
      throw new SfumatoError("limit", "this campaign would give away more than the page allows", {
        gamma: this.stated.gamma,
        limit: atMost,
      });
    const unnamed = this.sentAsIs.filter((name) => named && !named.includes(name));
    if (unnamed.length)
      throw new SfumatoError("public", "the page does not allow that to be sent as it is", {
        names: unnamed.map((name) => name || '""').join(", "),
      });
    const { epsilon } = campaign.budget ?? { epsilon: budget };
    if (!(typeof epsilon === "number" && epsilon >= 0))
      throw new SfumatoError("program", "the campaign's budget is no number from 0 on");
    /** What one browser may spend on this server: a campaign can lower it, and not raise it. */
    this.budget = Math.min(epsilon, budget);
    /** @type {Entry} what the ledger holds of this round */
    this.entry = {
      server: address.origin,
      campaign: campaign.name,
      round: campaign.round,
      hash: campaign.hash,
      spent: 0,
    };
  }

  /** The columns of which something is sent as it is, by their names. @returns {string[]} */
  get sentAsIs() {
    return this.program.sentAsIs.map(([place]) => this.attributes[place].name);
  }

  /** The columns that this person is asked, by their places. */
  get asked() {
    return this.program.asked(this.entry.question);
  }

  /** The question dealt, of how many; undefined where everyone is asked everything. */
  get question() {
    const { deal } = this.program;
    return (
      deal && { number: /** @type {number} */ (this.entry.question), of: deal.questions.length }
    );
  }

  /** The report that was drawn in this round, if any. */
  get report() {
    return this.entry.report;
  }

  /**
   * Change this round's entry in the ledger.
   * @param {(entry: Entry, spent: number, put: (entry: Entry) => void) => void} work
   */
  change(work) {
    const { name, round, hash } = this.campaign;
    const server = this.address.origin;
    return ledger(account(server), (entries, put) => {
      const known = entries.find((entry) => entry.campaign === name && entry.round === round);
      const spent = entries.reduce((total, entry) => total + entry.spent, 0);
      let entry = known ?? { server, campaign: name, round, hash, spent: 0 };
      // Another version of the campaign asks other questions: what was drawn for it cannot be sent.
      if (entry.hash !== hash)
        entry = { server: entry.server, campaign: name, round, hash, spent: entry.spent };
      work(entry, spent, (changed) => put((entry = changed)));
      return entry;
    });
  }

  /** What is left of the budget that one browser may spend on this server. */
  async left() {
    let left = Infinity;
    await this.change((_, spent) => (left = this.budget - spent));
    return left;
  }

  /** Refuse an answer that costs more than is left. @param {number} left */
  checkBudget(left) {
    if (this.epsilon > left + 1e-12)
      throw new SfumatoError("budget", "this server's budget is spent", this.costs(left));
  }

  /** What an answer costs, rounded up, and what is left of the budget, rounded down.
   * @param {number} left */
  costs(left) {
    const [rest, budget] = [left > 1e-12 ? left : 0, this.budget].map((e) => rounded(e, true));
    return { cost: this.stated.epsilon, left: rest, budget };
  }

  /**
   * Blurs an answer, once: the budget is checked, the report drawn and written down together, and
   * a second call repeats the first report for nothing.
   * @param {Record<string, any>} answers by column: labels, numbers, lists of items
   */
  async answer(answers) {
    const record = this.attributes.map((attribute, i) =>
      this.asked.includes(i)
        ? code(attribute, this.program.inputs[i], answers[attribute.name])
        : null,
    );
    // Asked for and not waited for: a person may leave the browser's question open for good.
    navigator.storage?.persist?.().catch(() => {});
    this.entry = await this.change((entry, spent, put) => {
      if (entry.report) return;
      this.checkBudget(this.budget - spent);
      const values = this.program.randomise(record, new Draws(), entry.question);
      const id = identity();
      const report = { id, values, body: this.body(id, values), at: Date.now() };
      put({ ...entry, spent: entry.spent + this.epsilon, report: { ...report, state: "drawn" } });
    });
    // How often such a report is true may depend on the answer, so it is told and not written down.
    const share = this.program.share(record, this.entry.question);
    const { values, body } = /** @type {Report} */ (this.entry.report);
    return { values, bytes: new TextEncoder().encode(body), share };
  }

  /** The body that is sent, padded so that its length tells nothing.
   * @param {string} id @param {any[]} values */
  body(id, values) {
    const write = (/** @type {any[]} */ list) =>
      JSON.stringify({ campaign: this.campaign.hash, reports: [{ id, values: list }] });
    return write(values).padEnd(write([]).length - 2 + this.program.longest);
  }

  /**
   * Sends the report: always the same bytes, again and again for two weeks while the server cannot
   * be reached. What is not yet sent is taken up by the next page that opens this campaign.
   * @param {{waiting?: (seconds: number) => void, signal?: AbortSignal}} [options]
   */
  async send({ waiting, signal } = {}) {
    const { report } = this.entry;
    if (!report) throw new SfumatoError("answer", "there is no report to send");
    if (report.state === "drawn") await this.mark("sending");
    for (let pause = 1; ; pause = Math.min(2 * pause, 7200)) {
      try {
        const reply = await (await ask(this.address, "reports", report.body)).json();
        const [refused] = reply.refused ?? [];
        if (refused)
          throw new SfumatoError(
            refused.kind === "withdrawn" ? "withdrawn" : "refused",
            `the server refused the report: ${refused.kind}`,
          );
        return await this.mark("sent");
      } catch (error) {
        const { wait } = /** @type {any} */ (error).facts ?? {};
        if (wait === undefined || signal?.aborted || Date.now() - report.at > PATIENCE) throw error;
        const seconds = Math.max(wait, pause) * (1 + Math.random() / 2);
        waiting?.(seconds);
        await new Promise((resolve) => {
          setTimeout(resolve, seconds * 1000);
          signal?.addEventListener("abort", resolve);
        });
      }
    }
  }

  /** What its holder needs to ask after the report, or to withdraw it. */
  async receipt() {
    const { report, hash } = this.entry;
    if (!report) return undefined;
    return { campaign: this.address.href, hash, id: report.id, sha256: await sha256(report.body) };
  }

  /** Whether the server holds the report: "stored", "withdrawn" or "unknown". */
  async status(id = this.entry.report?.id) {
    const reply = await (await ask(this.address, "receipts", JSON.stringify({ ids: [id] }))).json();
    return ["stored", "withdrawn"].find((state) => reply[state]?.includes(id)) ?? "unknown";
  }

  /** Takes the report back: it is deleted, and stays so. What it cost stays spent. */
  async withdraw(id = this.entry.report?.id) {
    await ask(this.address, "withdrawals", JSON.stringify({ id }));
    if (id === this.entry.report?.id) await this.mark("withdrawn");
  }

  /** Deletes the report from this device. What was spent, and the question dealt, are kept: another
   * answer would cost again, and would be to the same question. */
  async forget() {
    this.entry = await this.change((entry, _, put) => {
      const { report, ...rest } = entry;
      put(rest);
    });
  }

  /** @param {Report["state"]} state */
  async mark(state) {
    this.entry = await this.change((entry, _, put) => {
      if (entry.report) put({ ...entry, report: { ...entry.report, state } });
    });
  }
}

/** 128 random bits as 22 letters. */
function identity() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes)).replace(
    /[+/=]/g,
    (c) => ({ "+": "-", "/": "_" })[c] ?? "",
  );
}

/** Ask the server; an error that may pass says how long to wait.
 * @param {URL} address @param {string} [end] @param {string} [body] */
async function ask(address, end, body) {
  const url = end ? `${address.href}/${end}` : address.href;
  /** @type {RequestInit} */
  const options = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store" };
  if (body)
    Object.assign(options, {
      method: "POST",
      body,
      headers: { "Content-Type": "application/json" },
    });
  const reply = await fetch(url, options).catch(() => {
    throw new SfumatoError("network", "the server cannot be reached", { wait: 0 });
  });
  if (reply.ok) return reply;
  const { error } = await reply.json().catch(() => ({}));
  const kinds = /** @type {Record<number, string>} */ ({
    404: "unknown",
    409: "changed",
    410: "closed",
  });
  const passing = reply.status === 429 || reply.status >= 500;
  const wait = Math.min(Number(reply.headers.get("Retry-After")) || 0, 7200);
  throw new SfumatoError(
    kinds[reply.status] ?? (passing ? "busy" : "refused"),
    error?.message ?? `the server answered ${reply.status}`,
    { status: reply.status, ...(passing ? { wait } : {}) },
  );
}

if (globalThis.customElements && !customElements.get("sfumato-survey"))
  customElements.define(
    "sfumato-survey",
    /** The form as an element; `campaign` is its address, by default that of the page, and
     * `at-most`, `public` and `budget` are the limits that the page sets it. */
    class extends HTMLElement {
      async connectedCallback() {
        const { show } = await import("./form.js");
        show(this);
      }
    },
  );
