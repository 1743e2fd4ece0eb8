// @ts-check
/** Draws: exact integers from random bytes, one at a time, as the Python package takes them. */

const WORD = 2 ** 32;
const BIT = 2 ** 16;

/** Exact integers from random bytes, little-endian, one at a time. */
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
