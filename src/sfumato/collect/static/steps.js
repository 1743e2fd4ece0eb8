// @ts-check
/**
 * The steps of a program, run exactly: what a respondent's device does to one record, in integers.
 * From the same integers follows, as an exact fraction, the most that a report can give away
 * (gamma). The Python package holds the same steps (mechanisms/steps): given the same bytes, both
 * make the same report.
 *
 * @typedef {[bigint, bigint]} Fraction  numerator and denominator; [1, 0] is infinite
 * @typedef {{size: number, basket: boolean, shows?: "set" | "value" | "size", count?: number}} Column
 *   a code below size, or a set of them, of exactly count. In a report: what is seen there, an
 *   answer that may equal the true one, a set that may contain it, or what is sent as it is, the
 *   value of the step's column or the size of its basket
 * @typedef {{step: string, columns: number[], reports: number[], sizes: number[], size: number,
 *   items: number, scale: number, total: any, keep: any, mean: bigint, reach: bigint, weights: any,
 *   ones: number[], zeros: number[], cutoff: number, insert: number, answers: number,
 *   map?: number[], starts?: number[][], a: number, b: number, candidates: number[][], cap: number, tiers?: number[], buckets: number,
 *   pool: string, seeds: number, values: number, length: number, round?: number, zero?: number,
 *   chosen: number,
 *   symbols: number, own: number[][], questions: Step[]}} Step
 * @typedef {{fields: string, inputs: (s: Step) => Column[], outputs: (s: Step) => Column[],
 *   fits: (s: Step) => any, gamma: (s: Step) => Fraction, work?: (s: Step) => number,
 *   run: (s: Step, v: any[], draws: Draws) => any[],
 *   share: (s: Step, v: any[]) => number}} Kind
 */

/** @typedef {import("./program.js").Draws} Draws */

const WORD = 2 ** 32;
const BIT = 2 ** 16;
/** Turns of loops that a program may ask of a device before it has answered. */
export const MOST_WORK = 2 ** 22;
const FLIP_WORK = 2 ** 7; // an item's factor of gamma makes the whole fraction longer
const QUESTION_WORK = 2 ** 7; // to read and check one more question
const LONGEST_POOL = 128; // letters that are hashed for every item

// --- exact fractions, sums and lists

/** @param {number | bigint} n @param {number | bigint} [d] @returns {Fraction} */
export const fraction = (n, d = 1) => (d ? [BigInt(n), BigInt(d)] : n ? [1n, 0n] : [0n, 1n]);
/** @param {Fraction} x @param {Fraction} y @returns {Fraction} */
export const times = (x, y) => [x[0] * y[0], x[1] * y[1]];
/** @param {Fraction} x @param {Fraction} y @returns {Fraction} */
const plus = (x, y) => [x[0] * y[1] + y[0] * x[1], x[1] * y[1]];
/** Whether x is larger than y. @param {Fraction} x @param {Fraction} y */
export const above = (x, y) => x[0] * y[1] > y[0] * x[1];
/** @param {Fraction[]} list */
export const largest = (list) => list.reduce((x, y) => (above(y, x) ? y : x));
/** The natural logarithm: nothing cancels near 1. @param {Fraction} fraction */
export const log = ([n, d]) => {
  const halvings = Math.max(0, n.toString(2).length - d.toString(2).length - 1);
  d <<= BigInt(halvings);
  return halvings * Math.LN2 + Math.log1p(Number(((n - d) << 1000n) / d) / 2 ** 1000);
};
/** @param {number[]} list */
export const sum = (list) => list.reduce((x, y) => x + y, 0);
/** How many numbers stand in some lists. @param {number[][]} [lists] */
const entries = (lists = []) => sum(lists.map((list) => list.length));
/** @param {number[]} list */
export const product = (list) => list.reduce((x, y) => x * y, 1);
/** @param {number} count */
export const range = (count) => [...Array(count).keys()];
/** @param {number} x @param {number} y */
const divide = (x, y) => Math.floor(x / y);

// --- what steps have in common

/** @param {number[]} sizes @returns {Column[]} */
const codes = (...sizes) => sizes.map((size) => ({ size, basket: false }));
/** @param {number} size @returns {Column[]} */
const set = (size) => [{ size, basket: true }];
/** @param {Step} s */
const cells = (s) => product(s.sizes);
/** @param {Step} s */
const bigCells = (s) => s.sizes.reduce((n, size) => n * BigInt(size), 1n);
/** @param {Step} s @param {number[]} v */
const joint = (s, v) => v.reduce((cell, code, i) => cell * s.sizes[i] + code, 0);
/** @param {Step} s @param {number} cell */
export const split = (s, cell) =>
  s.sizes.map((size, i) => divide(cell, product(s.sizes.slice(i + 1))) % size);
/** @param {Step} s @param {Draws} draws */
const anew = (s, draws) => s.sizes.map((size) => draws.below(size));
/** One of `count` own symbols with weight a each, any other with weight b. @param {Step} s
 * @param {number} count @param {(i: number) => number} own @param {Draws} draws */
const lifted = (s, count, own, draws) => {
  const drawn = draws.below(omega(s));
  const rest = drawn - count * (s.a - s.b);
  return rest < 0 ? own(divide(drawn, s.a - s.b)) : divide(rest, s.b);
};
/** What is seen of a column that is drawn, or sent as it is. @param {Column[]} columns
 * @param {Column["shows"]} shows */
const showing = (columns, shows) => columns.map((column) => ({ ...column, shows }));
const records = {
  inputs: (/** @type {Step} */ s) => codes(...s.sizes),
  outputs: (/** @type {Step} */ s) => codes(...s.sizes),
  work: (/** @type {Step} */ s) => s.sizes.length ** 2,
};
/** How many cells each column has: runs of its codes where they have starts. @param {Step} s */
export const runs = (s) => s.starts?.map((row) => row.length) ?? s.sizes;
/** @param {number[]} row @param {number} code */
const upTo = (row, code) => row.filter((start) => start <= code).length;
/** @param {Step} s */
const started = (s) =>
  !s.starts ||
  (s.starts.length === s.sizes.length &&
    s.starts.every(
      (row, i) =>
        row[0] === 0 && row.every((start, j) => start < s.sizes[i] && !(start <= row[j - 1])),
    ));
/** The true answer: the cell of the columns, or what a public map makes of it.
 * @param {Step} s @param {number[]} v */
const truth = (s, v) => {
  const inside = s.starts?.map((row, i) => upTo(row, v[i]) - 1) ?? v;
  const cell = joint({ ...s, sizes: runs(s) }, inside);
  return s.map ? s.map[cell] : cell;
};
/** The answers that can be true. @param {Step} s */
const possible = (s) => (s.map ? [...new Set(s.map)] : range(s.answers));
/** @param {Step} s */
const answerWork = (s) =>
  s.sizes.length ** 2 + product(runs(s)) + (s.map?.length ?? 0) + entries(s.starts);
/** @param {Step} s */
const mapped = (s) =>
  started(s) &&
  (s.map
    ? s.map.length === product(runs(s)) && s.map.every((i) => i < s.answers)
    : product(runs(s)) === s.answers);
/** The basket of a step, or its record as a basket of one item a column. */
const baskets = {
  inputs: (/** @type {Step} */ s) => (s.sizes ? codes(...s.sizes) : set(s.items)),
  universe: (/** @type {Step} */ s) => (s.sizes ? sum(s.sizes) : s.items),
  held: (/** @type {Step} */ s, /** @type {any[]} */ v) =>
    s.sizes ? v.map((code, i) => sum(s.sizes.slice(0, i)) + code) : v[0],
  work: (/** @type {Step} */ s) => baskets.universe(s) + (s.sizes?.length ?? 0) ** 2,
};
/** The candidates that a basket holds. @param {Step} s @param {number[]} basket */
const owned = (s, basket) => {
  const own = new Set(basket);
  return range(s.candidates.length).filter((i) => s.candidates[i].every((item) => own.has(item)));
};
/** Whether the candidates are different sets of the items. @param {Step} s */
const candidatesFit = (s) =>
  s.candidates.length &&
  new Set(s.candidates.map(String)).size === s.candidates.length &&
  s.candidates.every(
    (list) => list.length && list.every((item, i) => item < s.items && !(item <= list[i - 1])),
  );
/** Whether the tiers ascend from the one above the cap. @param {Step} s */
const tiersFit = (s) =>
  !s.tiers ||
  (s.cap > 1 && s.tiers[0] === s.cap + 1 && s.tiers.every((low, i, all) => !(low <= all[i - 1])));
/** How many symbols there are beside "none": candidates, and tiers. @param {Step} s */
const symbols = (s) => s.candidates.length + (s.tiers?.length ?? 0);
/** The own symbols of a basket that holds these, at most the cap: of more than that some by chance,
 * behind the tier of how many they are where there are tiers.
 * @param {Step} s @param {number[]} held @param {number} many @param {Draws} draws */
const capped = (s, held, many, draws) => {
  if (held.length <= s.cap) return held;
  if (!s.tiers) return draws.some(held, s.cap);
  return [many + upTo(s.tiers, held.length) - 1, ...draws.some(held, s.cap - 1)];
};

// --- bits flipped each on its own

/** @param {number[]} list @param {number} i */
const nth = (list, i) => (list.length > 1 ? list[i] : list[0]);
/** @param {Step} s @param {number} items */
const keepsFit = (s, items) =>
  [s.ones, s.zeros].every(
    (keeps) => [1, items].includes(keeps.length) && keeps.every((keep) => keep <= BIT),
  );
/** @param {Step} s @param {number[]} held @param {number} items @param {Draws} draws */
const flipped = (s, held, items, draws) => {
  const own = new Set(held);
  return range(items).filter(
    (i) => draws.chance(BIT - nth(own.has(i) ? s.ones : s.zeros, i), 2) !== own.has(i),
  );
};
/** @param {Step} s @param {number[]} held @param {number} items */
const unflipped = (s, held, items) => {
  const own = new Set(held);
  return product(range(items).map((i) => nth(own.has(i) ? s.ones : s.zeros, i) / BIT));
};
/** How much likelier a report bit can be under a one than under a zero, and the reverse.
 * @param {Step} s @param {number} i */
const odds = (s, i) => {
  const [one, zero] = [nth(s.ones, i), nth(s.zeros, i)];
  return [
    largest([fraction(one, BIT - zero), fraction(BIT - one, zero)]),
    largest([fraction(BIT - zero, one), fraction(zero, BIT - one)]),
  ];
};
/** What two values of one column can differ by. @param {Step} s @param {number[]} items */
const exchange = (s, items) => {
  const list = items.map((i) => odds(s, i));
  const [ups, downs] = [0, 1].map((side) =>
    [...list.keys()].sort((i, j) => (above(list[i][side], list[j][side]) ? -1 : 1)).slice(0, 2),
  );
  const pairs = ups.flatMap((i) =>
    downs.map((j) => (i === j ? fraction(1) : times(list[i][0], list[j][1]))),
  );
  return largest(pairs);
};

// --- cut-and-paste

/** How much likelier a report that shows `overlap` of the items is than by pasting alone: the sum
 * over j kept of P(j)·C(overlap, j)/C(size, j)·(2^16 / insert)^j, by Horner's rule.
 * @param {Step} s @param {number} size @param {number} overlap @returns {Fraction} */
const boost = (s, size, overlap) => {
  const weight = (/** @type {number} */ j) => BigInt(j < size ? 1 : s.cutoff - size + 1);
  const most = Math.min(s.cutoff, overlap);
  let [n, d] = [weight(most), 1n];
  for (let j = most - 1; j >= 0; j--) {
    d *= BigInt(size - j) * BigInt(s.insert);
    n = weight(j) * d + n * BigInt(overlap - j) * BigInt(BIT);
  }
  return [n, d * BigInt(s.cutoff + 1)];
};
/** The largest ratio of two baskets of m and n items, some of them shared. @param {number} m
 * @param {number} n @param {number} shared @param {(size: number, overlap: number) => Fraction} by */
const cutRatio = (m, n, shared, by) =>
  largest(
    range(shared + 1).map((o) => {
      const below = by(n, o);
      return times(by(m, m - shared + o), [below[1], below[0]]);
    }),
  );

// --- the public hash of items into buckets, which carries no privacy

/** MurmurHash3, 32 bits, seed 0. @param {string} text */
const murmur = (text) => {
  let h = 0;
  for (let i = 0; i < text.length; i += 4) {
    let block = 0;
    for (let j = 0; j < 4; j++) block |= (text.charCodeAt(i + j) & 255) << (8 * j);
    block = Math.imul(block, 0xcc9e2d51);
    h ^= Math.imul((block << 15) | (block >>> 17), 0x1b873593);
    if (i + 4 <= text.length) h = Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64;
  }
  h ^= text.length;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
};
/** The bucket of an item: a polynomial over GF(2^31 - 1) that the seed names.
 * @param {Step} s @param {number} seed @param {number} item */
export const bucket = (s, seed, item) => {
  let value = 0n;
  for (let i = s.cap; i >= 0; i--)
    value = (value * BigInt(item) + BigInt(murmur(`${s.pool}/${seed}/${i}`))) % 0x7fffffffn;
  return Number(value) % s.buckets;
};

/** 1 where zero has a report of its own, which is then the last. @param {Step} s */
const zero = (s) => s.zero ?? 0;
/** @param {Step} s */
const last = (s) => s.values + s.length - 2 + zero(s);

/** The weights in all, where each report has weight a or b.
 * @type {Record<string, (s: Step) => number>} */
export const OMEGA = {
  kary: (s) => s.a + s.b * (s.answers - 1),
  own: (s) => (s.own[0]?.length ?? 0) * (s.a - s.b) + s.symbols * s.b,
  symbol: (s) => s.cap * s.a + symbols(s) * s.b,
  collide: (s) => s.cap * s.a + (s.buckets - s.cap) * s.b,
  window: (s) => s.length * s.a + (s.values - 1 + zero(s) * s.length) * s.b,
  subset: (s) => s.chosen * s.a + (s.answers - s.chosen) * s.b,
};
/** @param {Step} s */
const omega = (s) => OMEGA[s.step](s);

/**
 * The steps. `fields` names their integers: + a list, ++ lists of lists, # up to 64 bits as digits,
 * $ a word, ? may be missing. What does not fit together is refused, so that gamma is what the
 * integers amount to, whatever the server says of them.
 * @type {Record<string, Kind>}
 */
export const KINDS = {
  public: {
    fields: "size? items?",
    inputs: (s) => (s.items ? set(s.items) : codes(s.size)),
    outputs: (s) => showing(KINDS.public.inputs(s), "value"),
    work: (s) => s.items || 1,
    fits: (s) => (s.size === undefined) !== (s.items === undefined),
    gamma: () => fraction(1),
    run: (s, v) => v,
    share: () => 1,
  },
  diagonal: {
    ...records,
    fields: "sizes+ scale total",
    fits: (s) => s.scale && s.scale * cells(s) <= s.total && s.total <= WORD,
    gamma: (s) => fraction(cells(s) > 1 ? s.total - s.scale * (cells(s) - 1) : s.scale, s.scale),
    run(s, v, draws) {
      const drawn = divide(draws.below(s.total), s.scale);
      return drawn < cells(s) ? split(s, drawn) : v;
    },
    share: (s) => 1 - (s.scale * (cells(s) - 1)) / s.total,
  },
  diagonal64: {
    ...records,
    fields: "sizes+ keep#",
    fits: (s) => s.keep && s.keep < 1n << 64n,
    gamma: (s) =>
      plus(fraction(1), fraction(cells(s) > 1 ? s.keep * bigCells(s) : 0, (1n << 64n) - s.keep)),
    run(s, v, draws) {
      const kept = draws.long() < s.keep;
      const drawn = anew(s, draws);
      return kept ? v : drawn;
    },
    share: (s) => Number(s.keep) / 2 ** 64 + (1 - Number(s.keep) / 2 ** 64) / cells(s),
  },
  spread: {
    ...records,
    fields: "sizes+ mean# total# reach#",
    fits: (s) =>
      cells(s) > 1 &&
      s.mean &&
      s.mean < s.total &&
      s.total <= 1n << 62n &&
      s.reach <= s.mean &&
      s.mean + s.reach <= s.total,
    gamma(s) {
      const [stay, move] = [s.mean * (bigCells(s) - 1n), s.total - s.mean];
      return largest([fraction(stay, move), fraction(move, stay)]);
    },
    run(s, v, draws) {
      const stay = draws.belowLong(2n * s.reach + 1n) + s.mean - s.reach;
      if (draws.belowLong(s.total) < stay) return v;
      for (;;) {
        const drawn = anew(s, draws);
        if (drawn.some((code, i) => code !== v[i])) return drawn;
      }
    },
    share: (s) => Number(s.mean) / Number(s.total),
  },
  retain: {
    fields: "size keep weights+?",
    inputs: (s) => codes(s.size),
    outputs: (s) => codes(s.size),
    work: (s) => 1 + (s.weights?.length ?? 0),
    fits: (s) =>
      s.keep <= WORD && (!s.weights || (s.weights.length === s.size && sum(s.weights) === WORD)),
    gamma(s) {
      const least = (/** @type {number[]} */ list) => list.reduce((x, y) => Math.min(x, y));
      const [n, d] = s.weights ? [least(s.weights), WORD] : [1, s.size];
      if (s.size === 1 || !s.keep) return fraction(1);
      return plus(
        fraction(BigInt(s.keep) * BigInt(d), BigInt(WORD - s.keep) * BigInt(n)),
        fraction(1),
      );
    },
    run: (s, v, draws) =>
      draws.chance(s.keep, 4) ? v : [s.weights ? draws.pick(s.weights) : draws.below(s.size)],
    share: (s, [v]) =>
      s.keep / WORD + (1 - s.keep / WORD) * (s.weights ? s.weights[v] / WORD : 1 / s.size),
  },
  table: {
    ...records,
    fields: "sizes+ weights++",
    work: (s) => records.work(s) + entries(s.weights),
    fits: (s) =>
      [
        cells(s),
        ...s.weights.map((/** @type {number[]} */ row) => sum(row) === WORD && row.length),
      ].every((length) => length === s.weights.length),
    gamma: (s) =>
      largest(
        s.weights.map((/** @type {any} */ _, /** @type {number} */ i) => {
          const law = s.weights.map((/** @type {number[]} */ row) => row[i]);
          return fraction(Math.max(...law), Math.min(...law));
        }),
      ),
    run: (s, v, draws) => split(s, draws.pick(s.weights[joint(s, v)])),
    share: (s, v) => s.weights[joint(s, v)][joint(s, v)] / WORD,
  },
  flip: {
    fields: "items? sizes+? ones+ zeros+",
    inputs: baskets.inputs,
    outputs: (s) => set(baskets.universe(s)),
    work: (s) => baskets.universe(s) * FLIP_WORK + baskets.work(s),
    fits: (s) => !s.sizes === (s.items !== undefined) && keepsFit(s, baskets.universe(s)),
    gamma(s) {
      const parts = s.sizes
        ? s.sizes.map((size, i) =>
            exchange(
              s,
              range(size).map((j) => sum(s.sizes.slice(0, i)) + j),
            ),
          )
        : range(s.items).map((i) => largest(odds(s, i)));
      return parts.reduce(times);
    },
    run: (s, v, draws) => [flipped(s, baskets.held(s, v), baskets.universe(s), draws)],
    share: (s, v) => unflipped(s, baskets.held(s, v), baskets.universe(s)),
  },
  cut: {
    fields: "items? sizes+? cutoff insert",
    inputs: baskets.inputs,
    outputs: (s) => [
      ...set(baskets.universe(s)),
      ...(s.sizes ? [] : showing(codes(s.items + 1), "size")),
    ],
    work(s) {
      const [count, fixed] = [s.sizes?.length ?? 0, s.sizes?.filter((size) => size === 1).length];
      const turns = s.sizes
        ? (Number(fixed) + 1) * (Math.min(s.cutoff, count) + 1) ** 3
        : s.items >= 2 * s.cutoff
          ? (s.cutoff + 1) ** 3
          : (s.items + 1) ** 4;
      return baskets.work(s) + turns;
    },
    fits: (s) => !s.sizes === (s.items !== undefined) && s.cutoff && s.insert && s.insert < BIT,
    gamma(s) {
      if (s.sizes) {
        const fixed = s.sizes.filter((size) => size === 1).length;
        return cutRatio(s.sizes.length, s.sizes.length, fixed, (m, o) => boost(s, m, o));
      }
      // Where two baskets of `cutoff` items need share none, one shows all that it keeps and the
      // other is as likely as by pasting alone.
      if (s.items >= 2 * s.cutoff) {
        const [n, d] = boost(s, s.cutoff, s.cutoff);
        return [n * BigInt(s.cutoff + 1), d];
      }
      const sizes = range(s.items + 1);
      const known = sizes.map((m) => range(m + 1).map((o) => boost(s, m, o)));
      return largest(
        sizes.flatMap((m) =>
          sizes.map((n) => cutRatio(m, n, Math.max(0, m + n - s.items), (i, o) => known[i][o])),
        ),
      );
    },
    run(s, v, draws) {
      const held = baskets.held(s, v);
      const kept = draws.some(held, Math.min(draws.below(s.cutoff + 1), held.length));
      const paste = { ...s, ones: [BIT], zeros: [BIT - s.insert] };
      const report = flipped(paste, kept, baskets.universe(s), draws);
      return s.sizes ? [report] : [report, held.length];
    },
    share(s, v) {
      const [size, rate] = [baskets.held(s, v).length, s.insert / BIT];
      const likelier = Math.exp(log(boost(s, size, size)));
      return rate ** size * (1 - rate) ** (baskets.universe(s) - size) * likelier;
    },
  },
  kary: {
    fields: "sizes+ answers map+? starts++? a b",
    inputs: records.inputs,
    outputs: (s) => codes(s.answers),
    work: answerWork,
    fits: mapped,
    gamma: (s) => fraction(s.a, possible(s).length > 1 ? s.b : s.a),
    run(s, v, draws) {
      const drawn = draws.below(omega(s)) - s.a;
      return [(truth(s, v) + (drawn < 0 ? 0 : 1 + divide(drawn, s.b))) % s.answers];
    },
    share: (s) => s.a / omega(s),
  },
  own: {
    fields: "sizes+ answers map+? starts++? symbols own++ a b",
    inputs: records.inputs,
    outputs: (s) => showing(codes(s.symbols), "set"),
    work: (s) => answerWork(s) + entries(s.own),
    fits: (s) =>
      mapped(s) &&
      s.own.length === s.answers &&
      s.own.every(
        (list) =>
          list.length &&
          list.length === s.own[0].length &&
          list.every((symbol, i) => symbol < s.symbols && !(symbol <= list[i - 1])),
      ),
    gamma: (s) =>
      fraction(s.a, new Set(possible(s).map((i) => String(s.own[i]))).size > 1 ? s.b : s.a),
    run(s, v, draws) {
      const own = s.own[truth(s, v)];
      return [lifted(s, own.length, (i) => own[i], draws)];
    },
    share: (s) => (s.own[0].length * s.a) / omega(s),
  },
  symbol: {
    fields: "items candidates++ cap a b tiers+?",
    inputs: (s) => set(s.items),
    outputs: (s) => showing(codes(symbols(s) + 1), "set"),
    work: (s) => s.cap + entries(s.candidates) + (s.tiers?.length ?? 0),
    fits: (s) => s.cap && candidatesFit(s) && tiersFit(s),
    gamma: (s) => fraction(s.a, s.b),
    run(s, [basket], draws) {
      const own = capped(s, owned(s, basket), s.candidates.length, draws);
      return [Math.min(lifted(s, own.length, (i) => own[i], draws), symbols(s))];
    },
    share(s, [basket]) {
      const held = owned(s, basket).length;
      const taken = Math.min(held, s.cap);
      const others = held - taken + Number(held > s.cap && !!s.tiers);
      return (held ? taken * s.a + others * s.b : s.cap * s.a) / omega(s);
    },
  },
  collide: {
    fields: "items buckets cap a b pool$ seeds candidates++? tiers+?",
    inputs: (s) => set(s.items),
    outputs: (s) => showing(codes(s.seeds, s.buckets), "set"),
    work: (s) =>
      ((s.candidates?.length ?? s.items) + s.cap) * (s.cap + 1) +
      entries(s.candidates) +
      (s.tiers?.length ?? 0),
    fits: (s) =>
      s.cap &&
      s.cap < s.buckets &&
      s.pool.length <= LONGEST_POOL &&
      !/[^\0-\x7f]/.test(s.pool) &&
      (!s.candidates || candidatesFit(s)) &&
      tiersFit(s),
    gamma: (s) => fraction(s.a, s.b),
    run(s, [basket], draws) {
      const seed = draws.below(s.seeds);
      const all = s.candidates ? owned(s, basket) : basket;
      const kept = capped(s, all, s.candidates?.length ?? s.items, draws);
      const own = new Set(kept.map((/** @type {number} */ symbol) => bucket(s, seed, symbol)));
      while (own.size < s.cap) own.add(draws.below(s.buckets));
      const places = [...own];
      return [seed, lifted(s, places.length, (i) => places[i], draws)];
    },
    share(s, [basket]) {
      const held = s.candidates ? owned(s, basket) : basket;
      return (Math.min(held.length, s.cap) * s.a) / omega(s);
    },
  },
  window: {
    fields: "values length a b round? zero?",
    inputs: (s) => codes(s.round ?? s.values + zero(s)),
    outputs: (s) => showing(codes(last(s) + 1), "set"),
    fits: (s) =>
      s.values &&
      s.length &&
      [undefined, 1].includes(s.zero) &&
      (s.round === undefined || (s.round > 1 + zero(s) && s.values > 1)) &&
      s.values * (s.round || 1) < 2 ** 53,
    gamma: (s) => fraction(s.a, s.values + zero(s) > 1 ? s.b : s.a),
    run(s, [v], draws) {
      let first = Math.max(0, v - zero(s));
      if (s.round) {
        const [place, steps] = [first * (s.values - 1), s.round - 1 - zero(s)];
        first = divide(place, steps) + Number(draws.below(steps) < place % steps);
      }
      if (s.zero && !v) first = last(s);
      return [Math.min(lifted(s, s.length, (i) => first + i, draws), last(s))];
    },
    share: (s) => (s.length * s.a) / omega(s),
  },
  subset: {
    fields: "sizes+ answers map+? starts++? chosen a b",
    inputs: records.inputs,
    outputs: (s) => [
      { ...set(s.answers)[0], count: s.chosen, ...(s.chosen > 1 ? { shows: "set" } : {}) },
    ],
    work: (s) => answerWork(s) + s.answers,
    fits: (s) =>
      mapped(s) && s.chosen && (s.chosen < s.answers || (s.chosen === 1 && s.answers === 1)),
    gamma: (s) => KINDS.kary.gamma(s),
    run(s, v, draws) {
      const yes = truth(s, v);
      const own = draws.below(omega(s)) < s.chosen * s.a ? [yes] : [];
      const others = range(s.answers).filter((answer) => answer !== yes);
      return [[...own, ...draws.some(others, s.chosen - own.length)].sort((x, y) => x - y)];
    },
    share: (s) => (s.chosen * s.a) / omega(s),
  },
  unary: {
    fields: "sizes+ answers map+? starts++? ones+ zeros+",
    inputs: records.inputs,
    outputs: (s) => set(s.answers),
    work: (s) => answerWork(s) + s.answers,
    fits: (s) => mapped(s) && keepsFit(s, s.answers),
    gamma: (s) => exchange(s, possible(s)),
    run: (s, v, draws) => [flipped(s, [truth(s, v)], s.answers, draws)],
    share: (s, v) => unflipped(s, [truth(s, v)], s.answers),
  },
  deal: {
    fields: "weights+ questions@",
    inputs: (s) => s.columns.map((column) => merged(s, "columns", "inputs", column)[0]),
    outputs: (s) => [
      ...codes(s.questions.length),
      ...s.reports.slice(1).map((column) => {
        const found = merged(s, "reports", "outputs", column);
        const size = found.reduce((most, each) => Math.max(most, each.size), 0);
        return { size, basket: found[0]?.basket };
      }),
    ],
    work: (s) =>
      (s.columns.length + s.reports.length + QUESTION_WORK) * s.questions.length +
      sum(s.questions.map((question) => worked(question))),
    fits: (s) =>
      s.weights.length === s.questions.length &&
      s.weights.every((/** @type {number} */ weight) => weight > 0) &&
      sum(s.weights) === WORD &&
      s.questions.every(
        (question) =>
          !["deal", "public"].includes(question.step) &&
          question.columns.every((column) => s.columns.includes(column)) &&
          question.reports.every((column) => s.reports.indexOf(column) > 0),
      ) &&
      s.columns.every((column) => alike(merged(s, "columns", "inputs", column), "size")) &&
      s.reports
        .slice(1)
        .every((column) => alike(merged(s, "reports", "outputs", column), "basket")),
    gamma: (s) => largest(s.questions.map((question) => KINDS[question.step].gamma(question))),
    run: (s, v) => v,
    share: () => 1,
  },
};

/** How many turns the loops of a step take at most. @param {Step} s */
export const worked = (s) => KINDS[s.step].work?.(s) ?? 1;
/** The columns of the record of which a step sends something as it is, and what.
 * @param {Step} s @returns {[number, string][]} */
export function sentAsIs(s) {
  if (s.questions) return s.questions.flatMap(sentAsIs);
  const shown = KINDS[s.step].outputs(s).map(({ shows }) => shows ?? "");
  const plain = shown.filter((what) => what === "value" || what === "size");
  return s.columns.flatMap((column) =>
    plain.map((what) => /** @type {[number, string]} */ ([column, what])),
  );
}

/** What the questions of a deal make of one column. @param {Step} s @param {"columns" | "reports"}
 * places @param {"inputs" | "outputs"} shapes @param {number} column */
function merged(s, places, shapes, column) {
  return s.questions.flatMap((question) =>
    KINDS[question.step][shapes](question).filter((_, i) => question[places][i] === column),
  );
}
/** @param {Column[]} list @param {"size" | "basket"} what */
function alike(list, what) {
  return list.length && list.every((c) => c[what] === list[0][what] && c.basket === list[0].basket);
}
