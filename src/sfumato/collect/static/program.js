// @ts-check
/**
 * A program: the steps that a campaign brings, every integer of them checked before anything is
 * asked. What this page does not understand, it does not run.
 *
 * @typedef {import("./steps.js").Column} Column
 * @typedef {import("./steps.js").Step} Step
 */
import {
  KINDS,
  MOST_WORK,
  OMEGA,
  above,
  fraction,
  log,
  product,
  range,
  sentAsIs,
  sum,
  times,
  worked,
} from "./steps.js";

export { above };

const WORD = 2 ** 32;
const BIT = 2 ** 16;

/** Exact integers from random bytes, little-endian, one at a time, as the Python package takes them.
 */
export class Draws {
  /** @param {() => Uint8Array<ArrayBuffer>} [refill] where bytes come from: the operating system */
  constructor(refill = () => crypto.getRandomValues(new Uint8Array(1024))) {
    this.refill = refill;
    this.buffer = new Uint8Array();
    this.place = 0;
  }

  /** A uniform word of 2 or 4 bytes. @param {number} bytes */
  word(bytes) {
    let word = 0;
    for (let i = 0; i < bytes; i++) {
      if (this.place === this.buffer.length) [this.buffer, this.place] = [this.refill(), 0];
      word += this.buffer[this.place++] * 256 ** i;
    }
    return word;
  }

  /** A uniform word of 8 bytes. */
  long() {
    return BigInt(this.word(4)) + (BigInt(this.word(4)) << 32n);
  }

  /** Uniform on 0..n-1, n up to 2^53: Lemire's multiplication, or masked words drawn again.
   * @param {number} n @returns {number} */
  below(n) {
    if (!(n >= 1 && n <= 2 ** 53)) throw new RangeError(`nothing is below ${n}`);
    if (n > WORD) return Number(this.belowLong(BigInt(n)));
    for (;;) {
      const word = this.word(n > 256 ? 4 : 2);
      if (n > 2 ** 24) {
        const masked = word % 2 ** (32 - Math.clz32(n - 1));
        if (masked < n) return masked;
      } else {
        const base = n > 256 ? WORD : BIT;
        const low = (Math.imul(word, n) >>> 0) % base;
        if (low >= base % n) return Math.round((word * n - low) / base);
      }
    }
  }

  /** Uniform on 0..n-1, n up to 2^64. @param {bigint} n */
  belowLong(n) {
    if (n <= WORD) return BigInt(this.below(Number(n)));
    for (;;) {
      const word = BigInt.asUintN((n - 1n).toString(2).length, this.long());
      if (word < n) return word;
    }
  }

  /** True with probability threshold / 256^bytes; what is certain draws nothing.
   * @param {number} threshold @param {number} bytes */
  chance(threshold, bytes) {
    return threshold >= 256 ** bytes || this.word(bytes) < threshold;
  }

  /** A place by weights of sum 2^32. @param {number[]} weights */
  pick(weights) {
    let left = this.word(4);
    return weights.findIndex((weight) => (left -= weight) < 0);
  }

  /** Some of a list, in the order drawn. @param {number[]} list @param {number} count */
  some(list, count) {
    const left = [...list];
    for (let i = 0; i < count; i++) {
      const j = i + this.below(left.length - i);
      [left[i], left[j]] = [left[j], left[i]];
    }
    return left.slice(0, count);
  }
}

/** What went wrong: `kind` for programs, the message for people, `facts` the figures behind it. */
export class SfumatoError extends Error {
  /** @param {string} kind @param {string} message @param {Record<string, any>} [facts] */
  constructor(kind, message, facts = {}) {
    super(message);
    this.kind = kind;
    this.facts = facts;
  }
}

/** @param {any} held @param {string} what @returns {asserts held} */
function check(held, what) {
  if (!held)
    throw new SfumatoError(
      "program",
      `this page does not understand the program of steps: ${what}`,
    );
}
/** @param {any} value */
const whole = (value) => Number.isSafeInteger(value) && value >= 0;
/** Readers of a field, by the marks behind its name; undefined is refused.
 * @type {Record<string, (value: any) => any>} */
const READ = {
  "": (value) => (whole(value) ? value : undefined),
  "+": (value) => (Array.isArray(value) && value.every(whole) ? value : undefined),
  "++": (value) => (Array.isArray(value) && value.every(READ["+"]) ? value : undefined),
  "#": (value) =>
    /^\d{1,20}$/.test(value) && typeof value === "string" ? BigInt(value) : undefined,
  $: (value) => (typeof value === "string" ? value : undefined),
  "@": (value) =>
    Array.isArray(value) && value.every((part) => part?.step !== "deal")
      ? value.map(readStep)
      : undefined,
};

/** A step, every field of it checked. @param {any} data @returns {Step} */
function readStep(data) {
  const name = data?.step;
  check(typeof name === "string" && Object.hasOwn(KINDS, name), `step ${name}`);
  const kind = KINDS[name];
  const left = new Map(Object.entries(data));
  left.delete("step");
  /** @type {any} */
  const step = { step: name };
  for (const field of `columns+ reports+ ${kind.fields}`.split(" ")) {
    const [, key, marks, optional] = /** @type {string[]} */ (field.match(/^(\w+)(\W*?)(\??)$/));
    if (optional && !left.has(key)) continue;
    step[key] = READ[marks](left.get(key));
    check(step[key] !== undefined, `${name}.${key}`);
    left.delete(key);
  }
  check(!left.size, `${name}.${[...left.keys()][0]}`);
  check(worked(step) <= MOST_WORK, `too much work in ${name}`);
  const omega = OMEGA[name];
  const weighed = !omega || (step.a >= step.b && step.b > 0 && omega(step) < 2 ** 53);
  check(weighed && kind.fits(step), `the integers of ${name}`);
  check(fitting(step.columns, kind.inputs(step)), `${name}.columns`);
  check(fitting(step.reports, kind.outputs(step)), `${name}.reports`);
  return step;
}
/** @param {number[]} places @param {Column[]} columns */
function fitting(places, columns) {
  return (
    columns.length === places.length &&
    new Set(places).size === places.length &&
    columns.every((column) => column?.size > 0)
  );
}
/** What each column may hold; each stands in one step. @param {Step[]} steps
 * @param {"columns" | "reports"} places @param {"inputs" | "outputs"} shapes */
function laidOut(steps, places, shapes) {
  /** @type {Column[]} */
  const columns = [];
  for (const step of steps)
    KINDS[step.step][shapes](step).forEach((column, i) => {
      check(!columns[step[places][i]], `column ${step[places][i]} stands twice`);
      columns[step[places][i]] = column;
    });
  const found = Object.keys(columns);
  check(found.length && found.every((place, i) => place === `${i}`), "a column is left out");
  return columns;
}

/** The least number of so many figures that is not below one from 1 on.
 * @param {import("./steps.js").Fraction} exact @param {number} figures */
function upwards([n, d], figures) {
  const power = BigInt(figures - `${n / d}`.length);
  const [up, down] = power < 0 ? [1n, 10n ** -power] : [10n ** power, 1n];
  return Number(((n * up + d * down - 1n) / (d * down)) * down) / Number(up);
}
/** A number to four figures: up, or down what is left; a float may be off in its last digits.
 * @param {number} value @param {boolean} [down] */
export function rounded(value, down) {
  const unit = 10 ** (3 - Math.floor(Math.log10(value || 1)));
  return down
    ? Math.floor(value * (1 + 2 ** -47) * unit) / unit
    : Math.ceil(value * (1 - 2 ** -48) * unit) / unit;
}
/** What a gamma amounts to, rounded up as the Python package does: the epsilon that it costs, and
 * what is read of it, with the per cent that a suspicion of 5 % may become.
 * @param {import("./steps.js").Fraction} gamma */
export function stated([n, d]) {
  const cost = log([n, d]) * (1 + 2 ** -50);
  const after = fraction(100n * n, n + 19n * d);
  return {
    cost,
    gamma: upwards([n, d], 6),
    epsilon: rounded(cost),
    posterior: upwards(after, after[0] < 99n * after[1] ? 3 : 6),
  };
}

/** Steps that read each column of a record once and write each column of its report once. */
export class Program {
  /** @param {any} data as the server sends it */
  constructor(data) {
    check(data?.version === 1 && Array.isArray(data.steps), `version ${data?.version}`);
    check(Object.keys(data).length === 2, "more than a version and steps");
    /** @type {Step[]} */
    this.steps = data.steps.map(readStep);
    const deals = this.steps.filter((step) => step.step === "deal");
    check(deals.length < 2, "two questions dealt");
    check(sum(this.steps.map(worked)) <= MOST_WORK, "too much work");
    /** @type {Step | undefined} the step that deals a question */
    this.deal = deals[0];
    this.inputs = laidOut(this.steps, "columns", "inputs");
    this.outputs = laidOut(this.steps, "reports", "outputs");
    /** Columns of the record of which something is sent as it is: "value", or "size". */
    this.sentAsIs = [
      ...new Map(this.steps.flatMap(sentAsIs).map((sent) => [`${sent}`, sent])).values(),
    ].sort(([x], [y]) => x - y);
    /** The most characters that the values of a report take in JSON. */
    this.longest =
      1 +
      sum(
        this.outputs.map(({ size, basket }) =>
          basket ? JSON.stringify(range(size)).length + 1 : `${size - 1}`.length + 1,
        ),
      );
  }

  /** The most that a report can be likelier under one record than under another, for an observer
   * who may know what is named, columns with "value" or "size": infinite where anything else is
   * sent as it is. @param {[number, string][]} [named] */
  gammaBeside(named = []) {
    const known = this.sentAsIs.every(([column, sent]) =>
      named.some(([place, what]) => place === column && (what === sent || what === "value")),
    );
    if (!known) return fraction(1, 0);
    return this.steps.map((step) => KINDS[step.step].gamma(step)).reduce(times);
  }

  /** What is done, once a question is dealt. @param {number} [question] */
  actions(question = -1) {
    const steps = this.steps.map((step) => (step === this.deal ? step.questions[question] : step));
    check(!steps.includes(/** @type {any} */ (undefined)), `question ${question}`);
    return steps;
  }

  /** The columns that are asked. @param {number} [question] */
  asked(question) {
    return this.actions(question)
      .flatMap((step) => step.columns)
      .sort((x, y) => x - y);
  }

  /** Which question to ask, by chance: no answer moves it. @param {Draws} draws */
  question(draws) {
    return this.deal && draws.pick(this.deal.weights);
  }

  /** The report of a record of codes, lists of codes for baskets.
   * @param {any[]} record @param {Draws} draws @param {number} [question] as it was dealt */
  randomise(record, draws, question = this.question(draws)) {
    /** @type {any[]} */
    const report = this.outputs.map((column) => (column.basket ? [] : 0));
    if (this.deal) report[this.deal.reports[0]] = question;
    for (const step of this.actions(question)) {
      const drawn = KINDS[step.step].run(step, this.values(record, step), draws);
      step.reports.forEach((column, i) => (report[column] = drawn[i]));
    }
    return report;
  }

  /** How likely it is that all that is sent is true.
   * @param {any[]} record @param {number} [question] */
  share(record, question) {
    return product(
      this.actions(question).map((step) => KINDS[step.step].share(step, this.values(record, step))),
    );
  }

  /** @param {any[]} record @param {Step} step */
  values(record, step) {
    return step.columns.map((place) => {
      const { size, basket } = this.inputs[place];
      const value = record[place];
      const inside = (/** @type {any} */ code) => whole(code) && code < size;
      if (basket ? !Array.isArray(value) || !value.every(inside) : !inside(value))
        throw new SfumatoError("answer", "an answer is missing or not one of the choices", {
          place,
        });
      return basket ? [...new Set(value)].sort((x, y) => x - y) : value;
    });
  }
}
