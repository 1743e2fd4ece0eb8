// @ts-check
/**
 * The form of a campaign: asks, blurs, shows the very bytes that will leave the device and what
 * they promise, and sends them when told to. It builds every node by itself: no text of the
 * server's is ever taken for markup.
 *
 * @typedef {Record<string, string>} Words
 */
import { SfumatoError, Survey, canonical, sha256 } from "./sfumato.js";
import { KINDS, bucket, product, runs, split } from "./steps.js";

const LANGUAGES = ["en", "de", "fr", "es"];
const MANY = 12; // choices beyond which a list is easier than buttons
const SHOWN = 6; // answers named of a group that shares one report

/** The form in an element. @param {HTMLElement} element */
export async function show(element) {
  const language = chosen(element);
  const form = new Form(element, language, await words(language));
  await form.start();
}

/** The page's language, or the browser's, if the form speaks it. @param {HTMLElement} element */
function chosen(element) {
  const asked = new URLSearchParams(location.search).get("lang");
  const any = element.hasAttribute("any-language");
  const stated = any ? null : element.closest("[lang]")?.getAttribute("lang");
  const wanted = [asked, stated, ...navigator.languages].map((tag) => tag?.slice(0, 2) ?? "");
  return wanted.find((tag) => LANGUAGES.includes(tag)) ?? "en";
}

/** What the page allows, read once; without `public` each column that is sent as it is is shown to
 * be so, beside its question. @param {HTMLElement} element */
function limits(element) {
  const [atMost, named, budget] = ["at-most", "public", "budget"].map(
    (name) => element.getAttribute(name) ?? undefined,
  );
  return {
    atMost: atMost === undefined ? undefined : Number(atMost),
    public: named?.split(",").map((name) => name.trim()).filter(Boolean) ?? null,
    budget: budget === undefined ? undefined : Number(budget),
  };
}

/** The interface's strings, which a single-file form carries with it.
 * @param {string} language @returns {Promise<Words>} */
async function words(language) {
  const carried = carriedJson("sfumato-strings");
  if (carried) return carried[language];
  return (await fetch(new URL(`strings/${language}.json`, import.meta.url))).json();
}

/** @param {string} id */
function carriedJson(id) {
  const text = document.getElementById(id)?.textContent;
  return text ? JSON.parse(text) : undefined;
}

/** Whether answers are taken now, by the server's word or, in a form that is one file, by its days.
 * @param {any} campaign */
function isOpen({ open, opens, closes }) {
  const today = new Date().toISOString().slice(0, 10);
  return open ?? !((opens && today < opens) || (closes && today > closes));
}

/** What is served around a campaign, by its hashes. @param {URL} address */
async function published(address) {
  const reply = await fetch(new URL("../manifest", address), {
    credentials: "omit",
    referrerPolicy: "no-referrer",
  });
  return reply.ok ? reply.json() : Promise.reject(reply.status);
}

/** The digest of a campaign and the files around it, as `sfumato campaign verify` computes it: the
 * first 100 bits of a SHA-256 in letters without i, l, o and u.
 * @param {Survey} survey */
async function manifestDigest({ campaign: { open, ...campaign }, address }) {
  const files = carriedJson("sfumato-manifest") ?? (await published(address));
  const hex = await sha256(canonical({ ...files, campaign }));
  const letters = BigInt(`0x${hex.slice(0, 25)}`).toString(32).padStart(20, "0");
  const plain = letters.replace(/[i-v]/g, (letter) => "jkmnpqrstvwxyz"[parseInt(letter, 32) - 18]);
  return plain.replace(/.{4}(?=.)/g, "$&-");
}

/** Answers that a step tells apart: every cell of a table, else every value or item on its own.
 * @param {import("./program.js").Program} program @param {import("./steps.js").Step} step */
function samples(program, step) {
  const blank = step.columns.map((place) => (program.inputs[place].basket ? [] : 0));
  const others =
    step.step === "table"
      ? step.weights.map((/** @type {any} */ _, /** @type {number} */ cell) => split(step, cell))
      : step.columns.flatMap((place, i) =>
          (step.starts?.[i] ?? [...Array(program.inputs[place].size).keys()]).map((code) =>
            blank.map((old, j) => (j !== i ? old : program.inputs[place].basket ? [code] : code)),
          ),
        );
  return [blank, ...others];
}

/** An element with attributes, listeners and children. @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | null | undefined)} children */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** One campaign, from the first look to the receipt. */
class Form {
  /** @param {HTMLElement} element @param {string} language @param {Words} strings */
  constructor(element, language, strings) {
    this.element = element;
    this.language = language;
    this.strings = strings;
    this.limits = limits(element);
    this.level = Number(element.getAttribute("level") ?? 2);
    this.status = make("p", { role: "status", class: "status" });
    this.body = make("div", {});
    /** @type {Survey} */
    this.survey = /** @type {any} */ (undefined);
    /** @type {Promise<string>} of the campaign and the files around it */
    this.digest = Promise.resolve("");
    /** @type {number | undefined} how often what was drawn is true; known until the page ends */
    this.share = undefined;
  }

  // --- words and figures

  /** A string of the interface, with its blanks filled in. @param {string} key
   * @param {Record<string, any>} [facts] */
  say(key, facts = {}) {
    return this.strings[key].replace(/\{(\w+)\}/g, (_, name) => String(facts[name]));
  }

  /** A text of the campaign in the page's language, or the nearest. @param {any} texts */
  tell(texts) {
    if (typeof texts !== "object" || !texts) return texts ?? "";
    return texts[this.language] ?? texts.en ?? Object.values(texts)[0] ?? "";
  }

  /** The language of that text where it is not the page's, for those who have it read to them.
   * @param {any} texts */
  tongue(texts) {
    const spoken = typeof texts === "object" && texts ? Object.keys(texts) : [];
    const near = spoken.includes("en") ? "en" : spoken[0];
    return spoken.includes(this.language) ? undefined : near;
  }

  /** @param {number} number @param {number} [digits] @param {"decimal" | "percent"} [style] */
  number(number, digits = 2, style = "decimal") {
    const format = { maximumSignificantDigits: digits, style };
    return new Intl.NumberFormat(this.language, format).format(number);
  }

  /** @param {number} share */
  percent(share) {
    const format = new Intl.NumberFormat(this.language, { style: "percent" });
    const least = share > 0 && share < 0.01;
    return least ? this.say("less_than", { share: format.format(0.01) }) : format.format(share);
  }

  /** @param {number} step */
  heading(step) {
    return `h${Math.min(this.level + step, 6)}`;
  }

  // --- the path

  async start() {
    this.element.setAttribute("lang", this.language);
    this.element.replaceChildren(this.status, this.body);
    this.say_status("loading");
    try {
      const address = this.element.getAttribute("campaign") ?? location.pathname;
      const campaign = carriedJson("sfumato-campaign");
      this.survey = await Survey.open(address, { campaign, ...this.limits });
      // At once, and not when someone wants to see it: the server need not know who has doubts.
      this.digest = manifestDigest(this.survey).catch(() => "–");
      this.status.textContent = "";
      if (this.level === 1) {
        document.title = this.tell(this.survey.campaign.title);
        document.documentElement.lang = this.language;
      }
      this.next();
    } catch (error) {
      this.fail(error);
    }
  }

  /** What stands before the person now. */
  next(focus = false) {
    const { report, campaign } = this.survey;
    if (report?.state === "sent" || report?.state === "withdrawn") this.showReceipt(focus);
    else if (!isOpen(campaign) && !report) this.fail(new SfumatoError("closed", ""));
    else if (report) this.showReport(focus);
    else this.showQuestions(focus).catch((error) => this.fail(error));
    if (report?.state === "sending") this.send();
  }

  /** @param {string} key @param {Record<string, any>} [facts] */
  say_status(key, facts) {
    this.status.textContent = this.say(key, facts);
  }

  /** Show a part of the path, its heading first. @param {boolean} focus @param {any} title
   * @param {...(Node | string | null | undefined)} children */
  view(focus, title, ...children) {
    const lang = this.tongue(title);
    const heading = make(this.heading(0), { tabindex: -1, dir: "auto", lang }, this.tell(title));
    this.body.replaceChildren(heading, ...children.filter((child) => child instanceof Node));
    if (focus) heading.focus();
  }

  /** @param {any} error */
  fail(error) {
    const { kind = "fault", message, facts = {} } = error ?? {};
    const key = kind === "support" ? `error_support_${facts.what}` : `error_${kind}`;
    const known = key in this.strings;
    this.status.textContent = "";
    this.view(
      true,
      this.say("error_title"),
      known ? this.line(key, this.shown(facts)) : this.line("error_fault"),
      known || !message ? null : make("p", {}, make("code", {}, message)),
      ["support", "program"].includes(kind) ? this.commandLine() : null,
      ["network", "busy", "changed", "fault"].includes(kind)
        ? this.button("again", () => this.start(), true)
        : null,
      this.survey ? this.withReceipt() : null,
    );
    if (kind === "fault" || !kind) throw error;
  }

  /** @param {Record<string, any>} facts */
  shown(facts) {
    const words = (/** @type {any} */ fact) =>
      typeof fact === "number" ? this.number(fact, 4) : fact;
    return Object.fromEntries(Object.entries(facts).map(([name, fact]) => [name, words(fact)]));
  }

  commandLine() {
    const address = new URL(
      this.element.getAttribute("campaign") ?? location.pathname,
      location.href,
    );
    return make(
      "div",
      {},
      this.line("command_line"),
      make(
        "pre",
        { tabindex: 0 },
        `sfumato send ${address.origin}${address.pathname} answers.csv`,
      ),
    );
  }

  /** A paragraph of the interface's words. @param {string} key @param {Record<string, any>} [facts]
   * @param {string} [kind] its class */
  line(key, facts, kind) {
    return make("p", { class: kind }, this.say(key, facts));
  }

  /** @param {string} key
   * @param {...(Node | null)} children */
  fold(key, ...children) {
    return make("details", {}, make("summary", {}, this.say(key)), ...children);
  }

  /** @param {string} key @param {(event: Event) => any} action @param {boolean} [first] */
  button(key, action, first = false) {
    return make(
      "button",
      { type: "button", class: first ? "first" : false, click: action },
      this.say(key),
    );
  }

  // --- asking

  /** @param {boolean} focus */
  async showQuestions(focus) {
    const { campaign, question, asked } = this.survey;
    const left = await this.survey.left();
    this.survey.checkBudget(left); // before anyone answers in vain
    const summary = make("div", { class: "errors", role: "alert", tabindex: -1, hidden: true });
    const fields = asked.map((place) => new Field(this, place));
    const form = make(
      "form",
      {
        novalidate: true,
        autocomplete: "off", // a reload must not bring back what was typed
        submit: (/** @type {Event} */ event) => this.answer(event, fields, summary),
      },
      summary,
      question && this.line("dealt", { of: question.of }, "dealt"),
      ...fields.map((field) => field.node),
      make("button", { class: "first" }, this.say("blur")),
      this.line("blur_note", {}, "note"),
    );
    const { purpose, consent, contact } = campaign.text ?? {};
    this.view(
      focus,
      campaign.title,
      ...[purpose, consent].map((text) =>
        text ? make("p", { dir: "auto", lang: this.tongue(text) }, this.tell(text)) : null,
      ),
      this.promise(this.usualShare(), left),
      form,
      this.doubts(),
      this.withReceipt(),
      contact ? make("p", { dir: "auto" }, `${this.say("contact")} ${this.tell(contact)}`) : null,
    );
  }

  /** @param {Event} event @param {Field[]} fields @param {HTMLElement} summary */
  async answer(event, fields, summary) {
    event.preventDefault();
    const wrong = fields.filter((field) => !field.check());
    summary.hidden = !wrong.length;
    if (wrong.length) {
      const links = wrong.map((field) =>
        make(
          "li",
          {},
          make(
            "a",
            {
              href: `#${field.id}`,
              dir: "auto",
              click: (/** @type {Event} */ e) => field.focus(e),
            },
            field.title,
          ),
        ),
      );
      summary.replaceChildren(
        make(this.heading(1), {}, this.say("errors", { count: wrong.length })),
        make("ul", {}, ...links),
      );
      summary.focus();
      return;
    }
    try {
      const answers = Object.fromEntries(
        fields.map((field) => [field.attribute.name, field.value]),
      );
      this.share = (await this.survey.answer(answers)).share;
      this.next(true);
    } catch (error) {
      this.fail(error);
    }
  }

  // --- what is promised

  usualShare() {
    const { program, entry } = this.survey;
    const shares = program.actions(entry.question).map((step) => {
      const { share } = KINDS[step.step];
      if (share.length < 2 || (step.step === "retain" && !step.weights)) return share(step, [0]);
      const [first, ...others] = samples(program, step).map((values) => share(step, values));
      return others.every((other) => Math.abs(other - first) < 1e-12) ? first : NaN;
    });
    const all = product(shares);
    return Number.isNaN(all) ? undefined : all;
  }

  /** Whether what is sent names one answer, so that it may equal the true one. */
  get single() {
    const { program, entry } = this.survey;
    return program
      .actions(entry.question)
      .every((step) => KINDS[step.step].outputs(step).every(({ shows }) => shows !== "set"));
  }

  /** The names of what is asked and of which the value, or the size, is sent as it is.
   * @param {string} what */
  sent(what) {
    const { program, asked, attributes } = this.survey;
    const places = program.sentAsIs.filter(([i, sent]) => sent === what && asked.includes(i));
    return places.map(([i]) => this.title(attributes[i])).join(", ");
  }

  /** @param {number | undefined} share @param {number} [left] of the budget, before an answer */
  promise(share, left) {
    const { gamma, epsilon, posterior } = this.survey.stated;
    const names = this.sent("value");
    return make(
      "section",
      { class: "promise" },
      make(this.heading(1), {}, this.say("promise_title")),
      share === undefined ? null : this.crowd(share),
      share === undefined
        ? this.line("promise_blurred")
        : this.line(this.single ? "promise_share" : "promise_fits", {
            share: this.percent(share),
          }),
      this.line("promise_posterior", {
        prior: this.percent(0.05),
        posterior: this.number(posterior / 100, 6, "percent"),
      }),
      names ? make("p", { class: "told", dir: "auto" }, this.say("promise_open", { names })) : null,
      this.sent("size") ? this.line("promise_size", {}, "told") : null,
      this.fold(
        "numbers",
        this.line("promise_gamma", {
          gamma: this.number(gamma, 6),
          epsilon: this.number(epsilon, 4),
        }),
        left === undefined
          ? null
          : this.line("promise_budget", this.shown(this.survey.costs(left))),
      ),
    );
  }

  /** A hundred people. @param {number} share */
  crowd(share) {
    const filled = Math.round(100 * share);
    const people = Array.from({ length: 100 }, (_, i) =>
      make("i", { class: i < filled ? "true" : false }),
    );
    return make(
      "figure",
      {},
      make("div", { class: "crowd", "aria-hidden": "true" }, ...people),
      make("figcaption", {}, this.say("crowd", { count: this.number(filled, 3) })),
    );
  }

  doubts() {
    const digest = make("code", { class: "digest", dir: "ltr" }, "…");
    this.digest.then((found) => (digest.textContent = found));
    return this.fold(
      "doubts_title",
      this.line("doubts_page"),
      make("p", {}, digest),
      this.line("doubts_digest"),
      this.line("doubts_storage"),
      this.commandLine(),
    );
  }

  // --- what is sent

  /** @param {boolean} focus */
  showReport(focus) {
    const { report } = this.survey;
    if (!report) return;
    const body = report.body.trimEnd();
    const blanks = report.body.length - body.length;
    this.sendButton = this.button("send", () => this.send(), true);
    this.view(
      focus,
      this.say("report_title"),
      this.line("report_drawn"),
      this.inWords(report.values),
      make(
        "details",
        { open: true },
        make("summary", {}, this.say("bytes")),
        make("pre", { tabindex: 0, dir: "ltr", class: "bytes" }, body),
        blanks ? this.line("bytes_blanks", { blanks }, "note") : null,
        this.line("bytes_id", {}, "note"),
      ),
      this.promise(this.share ?? this.usualShare()),
      make("div", { class: "buttons" }, this.sendButton, this.forgetButton("discard")),
    );
  }

  /** The report as words, column by column. @param {any[]} values */
  inWords(values) {
    const { program, entry } = this.survey;
    const rows = program.actions(entry.question).flatMap((step) =>
      this.meaning(
        step,
        step.reports.map((i) => values[i]),
      ),
    );
    return make(
      "dl",
      { class: "words" },
      ...rows.flatMap(([name, text]) => [
        make("dt", { dir: "auto" }, name),
        make("dd", { dir: "auto" }, text),
      ]),
    );
  }

  /** What a step's part of the report says: names of columns, and of their values.
   * @param {import("./steps.js").Step} step @param {any[]} reported @returns {string[][]} */
  meaning(step, reported) {
    const columns = step.columns.map((place) => this.survey.attributes[place]);
    const names = columns.map((attribute) => this.title(attribute));
    if (["public", "diagonal", "diagonal64", "spread", "retain", "table"].includes(step.step))
      return names.map((name, i) => [name, this.label(columns[i], reported[i]) ?? ""]);
    const all = names.join(" × ");
    const items = step.items ? columns[0] : undefined;
    if (items && (step.step === "flip" || step.step === "cut"))
      return [[all, this.label(items, reported[0]) ?? ""]];
    if (step.step === "flip" || step.step === "cut")
      return columns.map((attribute, i) => {
        const start = step.sizes.slice(0, i).reduce((x, y) => x + y, 0);
        const codes = reported[0]
          .map((/** @type {number} */ item) => item - start)
          .filter((/** @type {number} */ code) => code >= 0 && code < step.sizes[i]);
        const labels = codes.map((/** @type {number} */ code) => this.label(attribute, code));
        return [names[i], labels.join(", ") || this.say("nothing")];
      });
    if (items && step.step === "symbol")
      return [[all, this.symbol(step, items, reported[0])]];
    if (step.answers) {
      const told = new Set([reported[0]].flat());
      const inside = { ...step, sizes: runs(step) };
      const cells = [...Array(product(inside.sizes)).keys()].filter((cell) => {
        const answer = step.map ? step.map[cell] : cell;
        return step.own ? step.own[answer].includes(reported[0]) : told.has(answer);
      });
      const words = cells.map((cell) =>
        split(inside, cell).map((run, i) => {
          const starts = step.starts?.[i] ?? [...Array(step.sizes[i]).keys()];
          const ends = [starts[run], (starts[run + 1] ?? step.sizes[i]) - 1];
          const [low, high] = ends.map((code) => this.label(columns[i], code));
          return low === high ? low : this.say("range_closed", { low, high });
        }),
      );
      if (words.length === 1) return names.map((name, i) => [name, words[0][i] ?? ""]);
      return [[all, this.oneOf(words.map((labels) => labels.join(" + ")))]];
    }
    if (step.step === "window") return [[all, this.near(step, columns[0], reported[0])]];
    if (step.step === "collide") {
      const [seed, place] = reported;
      const sets = step.candidates ?? [...Array(step.items).keys()].map((item) => [item]);
      const every = [...Array(sets.length + (step.tiers?.length ?? 0)).keys()];
      const held = every.filter((i) => bucket(step, seed, i) === place);
      const words = held.map((i) => this.symbol({ ...step, candidates: sets }, columns[0], i));
      return [[all, this.oneOf(words)]];
    }
    return [[all, reported.join(", ")]];
  }

  /** What a symbol for a whole basket stands for: an itemset, how much the basket holds, or nothing.
   * @param {import("./steps.js").Step} step @param {any} attribute @param {number} code */
  symbol({ candidates, tiers = [] }, attribute, code) {
    const tier = code - candidates.length;
    if (tier < 0 || tier >= tiers.length) return this.label(attribute, candidates[code] ?? []) ?? "";
    const [low, next] = [tiers[tier], tiers[tier + 1]];
    return next ? this.say("holds", { low, high: next - 1 }) : this.say("holds_more", { low });
  }

  /** The values that a number sent within a window of them may stand for.
   * @param {import("./steps.js").Step} step @param {any} attribute @param {number} reported */
  near({ values, length, round, zero = 0 }, attribute, reported) {
    if (zero && reported === values + length - 1) return this.label(attribute, 0);
    // A number between two of the grid may have been rounded to either.
    const codes = (round ?? values + zero) - zero;
    const width = values > 1 ? (codes - 1) / (values - 1) : 1;
    const [first, last] = [reported - length + 1, Math.min(reported, values - 1)];
    const low = this.label(attribute, zero + Math.max(0, Math.floor((first - 1) * width) + 1));
    const top = Math.min(codes, Math.ceil((last + 1) * width)) - 1;
    const high = this.label(attribute, zero + top);
    return low === high ? `${low}` : this.say("between", { low, high });
  }

  /** @param {string[]} words */
  oneOf(words) {
    const shown = words.slice(0, SHOWN);
    if (words.length > SHOWN) shown.push(this.say("more", { count: words.length - SHOWN }));
    return shown.length ? this.say("one_of", { list: shown.join("; ") }) : this.say("nothing");
  }

  async send() {
    this.sendButton?.setAttribute("disabled", "");
    this.say_status("sending");
    try {
      await this.survey.send({
        waiting: (seconds) => this.say_status("waiting", { seconds: this.number(seconds) }),
      });
      this.status.textContent = "";
      this.showReceipt(true);
    } catch (error) {
      this.fail(error);
    }
  }

  // --- what was sent

  /** @param {boolean} focus */
  async showReceipt(focus) {
    const receipt = await this.survey.receipt();
    const report = this.survey.report;
    if (!receipt || !report) return;
    const withdrawn = report.state === "withdrawn";
    const text = JSON.stringify(receipt, null, 1);
    this.view(
      focus,
      this.say(withdrawn ? "withdrawn_title" : "sent_title"),
      this.line(withdrawn ? "withdrawn" : "sent"),
      make(
        "dl",
        { class: "receipt" },
        ...["id", "sha256", "hash"].flatMap((name) => [
          make("dt", {}, this.say(`receipt_${name}`)),
          make("dd", {}, make("code", {}, /** @type {any} */ (receipt)[name])),
        ]),
      ),
      make(
        "div",
        { class: "buttons" },
        make(
          "a",
          {
            class: "button",
            download: `sfumato-${this.survey.campaign.name}.json`,
            href: URL.createObjectURL(new Blob([text], { type: "application/json" })),
          },
          this.say("receipt_save"),
        ),
        withdrawn ? null : this.button("stored", () => this.ask(receipt.id)),
        withdrawn
          ? null
          : this.button("withdraw", (event) =>
              this.confirm(event, "withdraw_sure", () => this.withdraw(receipt.id)),
            ),
        this.forgetButton("forget"),
      ),
    );
  }

  /** @param {string} id */
  async ask(id) {
    try {
      this.say_status(`status_${await this.survey.status(id)}`);
    } catch (error) {
      this.say_status(`error_${/** @type {any} */ (error).kind}`);
    }
  }

  /** @param {string} id */
  async withdraw(id) {
    try {
      await this.survey.withdraw(id);
      this.status.textContent = this.survey.report?.id === id ? "" : this.say("withdrawn");
      this.next(true);
    } catch (error) {
      this.fail(error);
    }
  }

  /** @param {"forget" | "discard"} key */
  forgetButton(key) {
    return this.button(key, (event) =>
      this.confirm(event, `${key}_sure`, async () => {
        await this.survey.forget();
        this.share = undefined;
        this.say_status("forgotten");
        this.next(true);
      }),
    );
  }

  /** Ask once more before what cannot be undone. @param {Event} event @param {string} key
   * @param {() => any} action */
  confirm(event, key, action) {
    const button = /** @type {HTMLElement} */ (event.target);
    this.body.querySelector(".confirm")?.remove();
    const close = () => (panel.remove(), button.focus());
    const text = make("p", { id: "sfumato-sure", tabindex: -1 }, this.say(key));
    const panel = make(
      "div",
      { class: "confirm", role: "group", "aria-labelledby": "sfumato-sure" },
      text,
      make("div", { class: "buttons" }, this.button("yes", action, true), this.button("no", close)),
    );
    panel.addEventListener("keydown", (press) => press.key === "Escape" && close());
    button.closest(".buttons")?.after(panel);
    text.focus();
  }

  withReceipt() {
    const input = make("input", {
      id: "sfumato-id",
      spellcheck: "false",
      autocomplete: "off",
      maxlength: 22,
    });
    const id = () => /** @type {HTMLInputElement} */ (input).value.trim();
    const valid = (/** @type {(id: string) => any} */ action) => () =>
      /^[\w-]{22}$/.test(id()) ? action(id()) : this.say_status("receipt_wrong");
    const buttons = make(
      "div",
      { class: "buttons" },
      this.button(
        "stored",
        valid((text) => this.ask(text)),
      ),
      this.button("withdraw", (event) =>
        valid((text) => this.confirm(event, "withdraw_sure", () => this.withdraw(text)))(),
      ),
    );
    return this.fold(
      "receipt_have",
      make("label", { for: "sfumato-id" }, this.say("receipt_id")),
      input,
      buttons,
    );
  }

  // --- the names of things

  /** What a column is called. @param {any} attribute */
  title(attribute) {
    return this.tell(this.survey.campaign.questions?.[attribute.name]?.text) || attribute.name;
  }

  /** What a value is called. @param {any} attribute @param {any} code */
  label(attribute, code) {
    if (attribute.type === "items" && Array.isArray(code))
      return (
        code.map((item) => this.name(attribute, attribute.values[item])).join(", ") ||
        this.say("nothing")
      );
    if (!Number.isInteger(code)) return undefined;
    if (attribute.type === "numeric") {
      const { size } = this.survey.program.inputs[this.survey.attributes.indexOf(attribute)];
      const step = attribute.step ?? (attribute.max - attribute.min) / (size - 1);
      return this.number(attribute.min + code * step, 9);
    }
    if (attribute.type === "bins") return this.range(attribute.edges, code);
    return this.name(attribute, attribute.values[code]);
  }

  /** @param {number[]} edges @param {number} code */
  range(edges, code) {
    const [low, high] = [edges[code], edges[code + 1]].map((edge) => this.number(edge, 9));
    return this.say(code === edges.length - 2 ? "range_closed" : "range", { low, high });
  }

  /** @param {any} attribute @param {string} value */
  name(attribute, value) {
    const told = this.tell(this.survey.campaign.questions?.[attribute.name]?.values?.[value]);
    if (told) return told;
    if (value === "no answer") return this.say("no_answer");
    const [, low, high, end] = /^\[(-?[\d.]+),(-?[\d.]+)([\])])$/.exec(value) ?? [];
    if (end) return this.say(end === "]" ? "range_closed" : "range", { low, high });
    return value;
  }
}

/** One question of the form. */
class Field {
  /** @param {Form} form @param {number} place */
  constructor(form, place) {
    this.form = form;
    this.attribute = form.survey.attributes[place];
    this.id = `sfumato-${place}`;
    this.title = form.title(this.attribute);
    this.problem = make("p", { class: "problem", id: `${this.id}-problem`, hidden: true });
    /** @type {HTMLElement[]} */
    this.inputs = [];
    const { type, values, edges } = this.attribute;
    const size = (values ?? edges ?? []).length;
    const single = type === "numeric" || (type !== "items" && size > MANY);
    const shown = !single ? this.choices() : type === "numeric" ? this.number() : this.list();
    const open = form.survey.program.sentAsIs.some(([i, what]) => i === place && what === "value");
    const note = open ? make("p", { class: "told" }, form.say("field_open")) : null;
    const { text } = form.survey.campaign.questions?.[this.attribute.name] ?? {};
    const lang = form.tongue(text);
    const described = { id: this.id, tabindex: -1, "aria-describedby": this.problem.id };
    this.node = make(
      single ? "div" : "fieldset",
      { class: "field", ...(single ? {} : described) },
      make(
        single ? "label" : "legend",
        { for: single ? this.id : undefined, dir: "auto", lang },
        this.title,
      ),
      note,
      this.problem,
      shown,
    );
  }

  get codes() {
    const { values, edges } = this.attribute;
    return [...Array(values?.length ?? edges.length - 1).keys()];
  }

  /** Buttons of which one is chosen; of items, any number. */
  choices() {
    const many = this.attribute.type === "items";
    const named = this.form.survey.campaign.questions?.[this.attribute.name]?.values ?? {};
    const labels = this.codes.map((code) => {
      const lang = this.form.tongue(named[this.attribute.values?.[code]]);
      const input = make("input", {
        type: many ? "checkbox" : "radio",
        name: this.id,
        value: code,
      });
      this.inputs.push(input);
      return make(
        "label",
        { class: "choice" },
        input,
        make("span", { dir: "auto", lang }, this.form.label(this.attribute, many ? [code] : code)),
      );
    });
    return make(
      "div",
      { class: "choices" },
      many && labels.length > MANY ? this.search(labels) : null,
      ...labels,
    );
  }

  /** Hides the items that do not hold what is typed. @param {HTMLElement[]} labels */
  search(labels) {
    const input = make("input", {
      type: "search",
      "aria-label": this.form.say("search"),
      placeholder: this.form.say("search"),
    });
    input.addEventListener("input", () => {
      const typed = /** @type {HTMLInputElement} */ (input).value.toLocaleLowerCase();
      for (const label of labels)
        label.hidden = !label.textContent?.toLocaleLowerCase().includes(typed);
    });
    return input;
  }

  /** A list of many values. */
  list() {
    const options = this.codes.map((code) =>
      make("option", { value: code }, this.form.label(this.attribute, code)),
    );
    return this.single(
      make(
        "select",
        { id: this.id },
        make("option", { value: "" }, this.form.say("choose")),
        ...options,
      ),
    );
  }

  number() {
    const { min, max, step } = this.attribute;
    const steps = this.steps;
    const between = this.form.say("between", {
      low: this.form.number(min, 9),
      high: this.form.number(max, 9),
    });
    const hint = make(
      "p",
      { class: "note", id: `${this.id}-hint` },
      steps ? `${between}; ${steps}` : between,
    );
    const input = make("input", {
      id: this.id,
      type: "number",
      inputmode: "decimal",
      min,
      max,
      step: step ?? (this.whole ? 1 : "any"),
      autocomplete: "off",
    });
    return make("div", {}, hint, this.single(input, hint.id));
  }

  /** Whether whole numbers alone are taken. */
  get whole() {
    const { min, max, step } = this.attribute;
    return Number.isInteger(min) && Number.isInteger(step ?? max) && (step ?? 1) === 1;
  }

  /** Which numbers of its range are taken, in words; empty where all are. */
  get steps() {
    const { min, step } = this.attribute;
    if (this.whole) return this.form.say("whole_numbers");
    if (!step) return "";
    return this.form.say("in_steps", {
      step: this.form.number(step, 9),
      low: this.form.number(min, 9),
    });
  }

  /** What is wrong with an answer, in words. */
  get complaint() {
    if (this.attribute.type !== "numeric") return this.form.say("wrong_choice");
    const { validity } = /** @type {HTMLInputElement} */ (this.inputs[0]);
    return validity.stepMismatch
      ? this.form.say("wrong_step", { steps: this.steps })
      : this.form.say("wrong_number");
  }

  /** @param {HTMLElement} input @param {string} [hint] */
  single(input, hint = "") {
    input.setAttribute("aria-describedby", `${this.problem.id} ${hint}`.trim());
    this.inputs.push(input);
    return input;
  }

  /** The answer as the survey takes it; undefined where there is none. */
  get value() {
    const inputs = /** @type {HTMLInputElement[]} */ (this.inputs);
    const { type, values, edges } = this.attribute;
    const checked = inputs.filter((input) => input.checked).map((input) => Number(input.value));
    if (type === "items") return checked.map((code) => values[code]);
    const single = inputs.length === 1 && inputs[0].type !== "radio";
    const text = single ? inputs[0].value : checked.join();
    if (text === "") return undefined;
    return type === "numeric" ? Number(text) : values ? values[Number(text)] : edges[Number(text)];
  }

  /** Whether there is an answer that fits; says what is wrong where there is none. */
  check() {
    const input = /** @type {HTMLInputElement} */ (this.inputs[0]);
    const good =
      this.value !== undefined && (this.attribute.type !== "numeric" || input.validity.valid);
    this.problem.hidden = good;
    this.problem.textContent = good ? "" : this.complaint;
    for (const each of this.inputs) each.toggleAttribute("aria-invalid", !good);
    if (!good) for (const each of this.inputs) each.setAttribute("aria-invalid", "true");
    return good;
  }

  /** @param {Event} event */
  focus(event) {
    event.preventDefault();
    this.inputs[0].focus();
  }
}
